"""A file that only grows: every entry is on the disk before anyone hears of it.

An entry is a message in the codec of `drfl.wire`, after its length and its digest. An entry that
was cut off by a crash has not been answered to anyone; it is dropped when the file is read.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from drfl.wire import Message, decode, encode

LENGTH, DIGEST = 8, 32


class SpentError(Exception):
    """Raised when a budget of the ledger is used up."""


class Journal:
    """Entries in a file, or in memory if there is no path.

    Parameters
    ----------
    path : Path or None
        The file; readable by its owner alone, as it holds the weights of rows.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._end = 0  # how much of the file has been read

    @property
    def exists(self) -> bool:
        """Whether there is something to read."""
        return self.path is not None and self.path.exists() and self.path.stat().st_size > 0

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else writes meanwhile: two trainings on one ledger wait for each other."""
        if self.path is None:
            yield
            return
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = self.path.with_name(self.path.name + ".lock")
        with beside.open("ab") as lock:
            _lock(lock)
            yield  # closing the file unlocks it

    def unread(self) -> Iterator[Message]:
        """Entries since the last call, also those of others; drops what a crash cut off."""
        if not self.exists:
            return
        assert self.path is not None
        with self.path.open("r+b") as file:
            # A length below 2^56 begins with 0; text, say, does not, and must not be cut off.
            if file.read(1) != b"\0":
                raise ValueError(
                    f"{self.path} is not a ledger: give a path that is free, or a ledger"
                )
            file.seek(self._end)
            while (message := _entry(file)) is not None:
                self._end = file.tell()
                yield message
            file.truncate(self._end)

    def peek(self) -> list[Message]:
        """All entries so far; nothing is changed."""
        assert self.path is not None
        with self.path.open("rb") as file:
            return list(iter(lambda: _entry(file), None))

    def append(self, message: Message) -> None:
        """Write an entry; it is on the disk when this returns."""
        if self.path is None:
            return
        body = encode(message)
        is_new = not self.path.exists()
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(self.path, flags, 0o600), "ab") as file:
            file.write(len(body).to_bytes(LENGTH, "big") + hashlib.sha256(body).digest() + body)
            file.flush()
            os.fsync(file.fileno())
            self._end = file.tell()
        if is_new:
            _sync_folder(self.path.parent)


def _entry(file: BinaryIO) -> Message | None:
    head = file.read(LENGTH + DIGEST)
    if len(head) < LENGTH + DIGEST:
        return None
    size = int.from_bytes(head[:LENGTH], "big")
    # A file that is no journal may state any length: compare before room is made for it.
    if size > os.fstat(file.fileno()).st_size - file.tell():
        return None
    body = file.read(size)
    if hashlib.sha256(body).digest() != head[LENGTH:]:
        raise ValueError(
            f"{file.name} is damaged: restore it from a copy, a ledger must not lose entries"
        )
    return decode(body)


def _sync_folder(folder: Path) -> None:
    """A new file's name has to be on the disk as well; not every system can do it."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _lock(file: BinaryIO) -> None:
    if os.name == "posix":
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)
    else:
        import msvcrt

        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined]
