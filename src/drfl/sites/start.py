"""``python -m drfl.sites.start server|site FOLDER NAME``: a process of FLARE, hardened."""

from __future__ import annotations

import os
import runpy
import sys
import threading

from drfl.sites.hardening import ORG
from drfl.sites.processes import end
from drfl.sites.refusal import close_back_door

MODULES = {
    "server": ("nvflare.private.fed.app.server.server_train", "fed_server.json"),
    "site": ("nvflare.private.fed.app.client.client_train", "fed_client.json"),
}


def main() -> None:
    """Run FLARE's own program, without the shell script that would restart it."""
    kind, folder, name = sys.argv[1:]
    module, file = MODULES[kind]
    uid = [f"uid={name}"] if kind == "site" else []
    settings = ["secure_train=true", *uid, f"org={ORG}", "config_folder=config"]
    sys.argv = [module, "-m", folder, "-s", file, "--set", *settings]
    threading.Thread(target=_end_with_starter, daemon=True).start()
    close_back_door()
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
