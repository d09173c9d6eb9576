"""A process of FLARE and all that descend from it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drfl.sites.processes import Lock, end


class FlareProcess:
    """A server or a site of FLARE, with the processes of its jobs.

    Parameters
    ----------
    kind : str
        "server" or "site".
    folder : Path
        That FLARE works in.
    name : str
        Of the participant.
    environment : mapping of str to str
        What the processes of its jobs need to know.
    lock : Lock
        That no other instance can hold.
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
