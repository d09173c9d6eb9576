"""``python -m drfl.sites.flare.start server|site|job ...``: a process of FLARE, hardened."""

from __future__ import annotations

import os
import runpy
import sys
import threading
from pathlib import Path

from drfl.sites.flare.doors import at_job, at_server, at_site, keep_doors, keep_requests
from drfl.sites.flare.validator import close_back_door
from drfl.sites.os_processes import end
from drfl.sites.setup.certificates import ORG
from drfl.sites.site_log import Refusals

MODULES = {
    "server": ("nvflare.private.fed.app.server.server_train", "fed_server.json"),
    "site": ("nvflare.private.fed.app.client.client_train", "fed_client.json"),
    "job": ("nvflare.private.fed.app.client.worker_process", ""),
}
RULES = {"server": at_server, "site": at_site, "job": at_job}

REFUSED = "DRFL_SITES_REFUSED"
"""The environment variable with the path of the file that says what was refused."""


def main() -> None:
    """Run FLARE's own program, without the shell script that would restart it."""
    kind, *arguments = sys.argv[1:]
    module, file = MODULES[kind]
    if kind != "job":
        folder, name = arguments
        uid = [f"uid={name}"] if kind == "site" else []
        settings = ["secure_train=true", *uid, f"org={ORG}", "config_folder=config"]
        arguments = ["-m", folder, "-s", file, "--set", *settings]
        threading.Thread(target=_end_with_starter, daemon=True).start()
    sys.argv = [module, *arguments]
    close_back_door()
    refusals = Refusals(Path(os.environ[REFUSED]))
    keep_doors(RULES[kind], refusals.write)
    keep_requests(refusals.write)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _end_with_starter() -> None:
    """Whoever has started this holds the other end of a pipe; it closes when they are gone."""
    import psutil

    while os.read(0, 1):
        pass
    end(psutil.Process().children(recursive=True))
    os._exit(1)


if __name__ == "__main__":
    main()
