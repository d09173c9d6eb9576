"""A process of FLARE and all that descend from it: one at a time, and none left behind."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

GRACE = 6.0
"""Seconds that a process has to end by itself."""


class Lock:
    """One instance at a time, also across a crash of the one who started it.

    Parameters
    ----------
    path : Path
        The file; it names the process that holds it.
    what : str
        For the sentence.
    """

    def __init__(self, path: Path, what: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file: IO[bytes] = path.open("a+b")
        if not _locked(self.file):
            self.file.seek(0)
            pid = self.file.read(20).decode("ascii", "replace").strip()
            self.file.close()
            raise ValueError(f"{what} is in use by process {pid}: stop that one first")
        self.file.truncate(0)
        self.file.write(str(os.getpid()).encode())
        self.file.flush()

    def release(self) -> None:
        """Let others in, once all processes that inherited it have ended."""
        self.file.close()


def _locked(file: IO[bytes]) -> bool:
    try:
        if os.name == "posix":
            import fcntl

            # The lock goes with the open file, which the started process inherits.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else:
            import msvcrt

            file.seek(1_000_000)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except OSError:
        return False
    return True


class Flare:
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


class Tail:
    """What others append to a file from now on.

    Parameters
    ----------
    path : Path
        The file; it may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = path.stat().st_size if path.exists() else 0

    def lines(self) -> list[str]:
        """The lines that are new and complete."""
        if not self.path.exists() or self.path.stat().st_size <= self._read:
            return []
        with self.path.open("rb") as file:
            file.seek(self._read)
            whole, _, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + 1 if whole else 0
        return whole.decode("utf-8", "replace").splitlines()


def _require_plain(folder: Path) -> None:
    """FLARE writes a command line without quotes and takes it apart again."""
    for path in (str(folder), sys.executable):
        if shlex.split(path, comments=True) != [path]:
            raise ValueError(
                f"FLARE cannot work with the path {path!r}: take one without spaces, quotes, "
                "# and backslashes"
            )


def end(found: list[Any]) -> None:
    """Ask processes to end, then make them."""
    import psutil

    for process in found:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(found, timeout=GRACE)
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(alive, timeout=GRACE)


def wait_until(condition: Any, seconds: float, pause: float = 0.2) -> bool:
    """Whether a condition holds within some time."""
    last = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > last:
            return False
        time.sleep(pause)
    return True
