"""The two commands that run until they are told to end: the server, and a site."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from drfl.sites.config import SITE, SiteSettings, site_settings
from drfl.sites.flare.handshake import UnreachableError, answers, check_own, shake_hands
from drfl.sites.flare.startup_files import OUTCOME_WAIT
from drfl.sites.os_processes import Lock, Tail, end, wait_until
from drfl.sites.setup.kit import Kit
from drfl.sites.setup.provision import ProjectFolder
from drfl.sites.site_log import refusal_line
from drfl.training.progress import Listener
from drfl.training.settings import read_toml, toml_value


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


SHUT_DOWN = "shutdown.fl"
"""FLARE leaves this file when it was shut down by the coordinator."""

STARTING = 60.0
Ask = Callable[[dict[str, Any]], bool]


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


def require_meant(settings: SiteSettings, path: Path, without_guard: bool) -> None:
    """That nothing controls what is disclosed must be said twice: in the settings, and here."""
    if settings.is_exact != without_guard:
        raise ValueError(
            f"{path} says guard = 0: what leaves would be exact; if that is meant, join "
            "with --without-guard"
            if settings.is_exact
            else f"--without-guard is for guard = 0, and {path} has a guard: change one"
        )


def own_settings(kit: Kit, data: Path | None) -> tuple[SiteSettings, Path]:
    """The site's settings, and the file that the processes of jobs read them from."""
    if not kit.settings.exists():
        kit.settings.write_text(_template(), encoding="utf-8")
    given = read_toml(kit.settings, "it was there a moment ago")
    if data is not None:
        given["data"] = str(data.resolve())
    settings = site_settings(given, kit.settings, kit.name, kit.state)
    if "data" in given:
        given["data"] = str(settings.data.resolve())
    path = kit.state.resolve() / "site.toml"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lines = [f"{name} = {toml_value(value)}" for name, value in given.items()]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return settings, path


def _template() -> str:
    """The settings of a site as they are if nobody changes them."""
    lines = ["# What this site decides for itself. It is never sent to anyone.", ""]
    for name, field in SITE.items():
        if name == "columns":
            lines += [f"# [columns]  # {field.help}", '# age = "AGE_YEARS"']
        elif field.default is None:
            lines.append(f"# {name} =  # {field.help}")
        else:
            lines.append(f"# {name} = {toml_value(field.default)}  # {field.help}")
    return "\n".join(lines) + "\n"


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


def attend(
    running: Callable[[], bool], settings: SiteSettings, listener: Listener, ask: Ask
) -> None:
    """Show the people here what concerns them, until it ends."""
    troubles, refusals = Tail(settings.state / "errors.log"), Tail(settings.refused)
    while running():
        for line in troubles.lines():
            # A traceback is for the file; its first line is a sentence.
            if line[:2] == "20":
                listener.warn(line)
        for line in refusals.lines():
            listener.warn(refusal_line(json.loads(line)))
        for question in sorted(settings.approvals.glob("*.asked.json")):
            answer = question.with_name(question.name.removesuffix(".asked.json") + ".answer")
            if not answer.exists():
                shown = json.loads(question.read_text(encoding="utf-8"))
                answer.write_text("yes" if ask(shown) else "no", encoding="utf-8")
        time.sleep(0.3)


def forget(folder: Path) -> None:
    """Each kind of message is asked about anew."""
    for pattern in ("*.asked.json", "*.answer"):
        for old in folder.glob(pattern):
            old.unlink()
