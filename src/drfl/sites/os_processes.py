"""Processes that are started: one at a time, none left behind, and what they write down."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

GRACE = 6.0  # seconds that a process has to end by itself


class Lock:
    """One instance of something at a time, also across a crash of the one who started it.

    The file names the process that holds it.
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


class Tail:
    """What others append to a file from now on; it may not exist yet."""

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
