"""The two commands that run until they are told to end: the server, and a site."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drfl.sites.config import own_settings, require_meant
from drfl.sites.flare.handshake import UnreachableError, answers, check_own, shake_hands
from drfl.sites.flare.startup_files import OUTCOME_WAIT
from drfl.sites.os_processes import Lock, Tail, end, wait_until
from drfl.sites.setup.kit import Kit
from drfl.sites.setup.provision import ProjectFolder
from drfl.sites.site_log import Ask, attend, forget, refusal_line
from drfl.training.progress import Listener


class FlareProcess:
    """A server or a site of FLARE, with the processes of its jobs.

    ``kind`` is "server" or "site"; FLARE works in the folder; ``environment`` is what the processes
    of its jobs need to know, and ``lock`` is held by no other instance.
    """

    def __init__(
        self, kind: str, folder: Path, name: str, environment: Mapping[str, str], lock: Lock
    ) -> None:
        _require_plain(folder.resolve())
        self.lock = lock
        self.log, console = folder / "log.txt", folder / "console.txt"
        self.start = self.log.stat().st_size if self.log.exists() else 0
        self._known: dict[int, Any] = {}
        with console.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    "-u",
                    "-m",
                    "drfl.sites.flare.start",
                    kind,
                    str(folder.resolve()),
                    name,
                ],
                # It ends when this closes, that is, also when this process is killed.
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                # Ctrl-C is for this process, which then ends the others in order.
                start_new_session=True,
                pass_fds=(lock.file.fileno(),) if os.name == "posix" else (),
            )

    def running(self) -> bool:
        """Whether it runs; call it often, it looks for new processes of jobs."""
        import psutil

        try:
            for child in psutil.Process(self.process.pid).children(recursive=True):
                self._known[child.pid] = child
        except psutil.Error:
            pass
        return self.process.poll() is None

    def said(self, words: str) -> bool:
        """Whether it has written this since it was started."""
        if not self.log.exists():
            return False
        with self.log.open("rb") as log:
            log.seek(self.start)
            return words.encode() in log.read()

    def stop(self) -> None:
        """End it and everything that it has started."""
        import psutil

        self.running()
        try:
            mine = [psutil.Process(self.process.pid)]
        except psutil.NoSuchProcess:
            mine = []
        end([*mine, *self._known.values()])
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.lock.release()


def _require_plain(folder: Path) -> None:
    """FLARE writes a command line without quotes and takes it apart again."""
    for path in (str(folder), sys.executable):
        if shlex.split(path, comments=True) != [path]:
            raise ValueError(
                f"FLARE cannot work with the path {path!r}: take one without spaces, quotes, "
                "# and backslashes"
            )


SHUT_DOWN = "shutdown.fl"  # FLARE leaves this file when it was shut down by the coordinator

STARTING = 60.0


def serve(layout: ProjectFolder, listener: Listener) -> bool:
    """Run the server; whether it ended because it was told to."""
    project = layout.project
    lock = Lock(layout.folder / "server.lock", f"the server of {layout.folder}")
    _require_free(project["host"], project["port"])
    layout.harden()
    environment = {
        "DRFL_SITES_STATE": str(layout.checkpoints.resolve()),
        "DRFL_SITES_REFUSED": str(layout.refused.resolve()),
        "NVFLARE_SECURE_LOGGING": "true",
        "NVFLARE_CLIENT_OUTCOME_WAIT_TIMEOUT": str(OUTCOME_WAIT),
    }
    flare = FlareProcess("server", layout.server, project["host"], environment, lock)
    try:
        startup = layout.coordinator / "startup"

        def up() -> bool:
            return not flare.running() or answers(startup, project["host"], project["port"], 2.0)

        wait_until(up, STARTING)
        if flare.running():
            listener.say(f"serving {project['project']} at {project['host']}:{project['port']}")
        refusals = Tail(layout.refused)
        while flare.running():
            for line in refusals.lines():
                listener.warn(refusal_line(json.loads(line)))
            time.sleep(0.5)
        return (layout.server / SHUT_DOWN).exists()
    finally:
        flare.stop()


def _require_free(host: str, port: int) -> None:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("localhost" if host == "localhost" else "", port))
        except OSError:
            raise ValueError(f"port {port} is in use: stop what uses it, or take another") from None


def join(
    kit: Kit,
    data: Path | None,
    listener: Listener,
    ask: Ask,
    *,
    wait: float = 60.0,
    without_guard: bool = False,
) -> bool:
    """Take part until told to end; whether it ended because it was told to.

    Without ``data`` the file is that of the site's settings. ``ask`` shows a message to a person,
    who says whether such messages may leave. The server has ``wait`` seconds to answer. That
    nothing controls what is disclosed must be said here too, not in the settings alone.
    """
    settings, path = own_settings(kit, data)
    require_meant(settings, kit.settings, without_guard)
    lock = Lock(kit.state / "lock", f"the kit {kit.folder}")
    kit.harden()
    days = check_own(kit.startup)
    kit.check()
    _greet(kit, listener, wait)
    forget(settings.approvals)
    environment = {
        "DRFL_SITE_SETTINGS": str(path),
        "DRFL_SITES_REFUSED": str(settings.refused.resolve()),
        "NVFLARE_SECURE_LOGGING": "true",
    }
    flare = FlareProcess("site", kit.flare, kit.name, environment, lock)
    try:
        registered = f"Successfully registered client:{kit.name}"
        wait_until(lambda: not flare.running() or flare.said(registered), STARTING)
        if not flare.said(registered):
            listener.warn(f"the server has not let this site in yet: see {flare.log}")
        else:
            listener.say(
                f"{kit.name} has joined {kit.project} at {kit.host}:{kit.port}; its certificate "
                f"lasts {days:.0f} days",
                *settings.describe(),
                f"what leaves is written to {settings.ledger}; Ctrl-C ends it",
            )
        attend(flare.running, settings, listener, ask)
        return (kit.flare / SHUT_DOWN).exists()
    finally:
        flare.stop()


def _greet(kit: Kit, listener: Listener, wait: float) -> None:
    """Shake hands with a server that may still be starting."""
    last, said = time.monotonic() + wait, False
    while True:
        try:
            return shake_hands(kit.startup, kit.host, kit.port)
        except UnreachableError as error:
            if time.monotonic() > last:
                raise
            if not said:
                listener.say(f"{error} Trying for {wait:g} s.")
                said = True
            time.sleep(min(1.0, wait))
