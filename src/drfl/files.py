"""Files on the disk that are there as a whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

PRIVATE = 0o600
"""The mode of a file that only its owner reads."""


def write_text(path: Path, text: str, *, mode: int | None = None) -> None:
    """Replace a file by a text, at once or not at all."""
    with replacing(path, mode=mode) as file:
        file.write(text)


def write_json(path: Path, value: Any, *, indent: int | None = 1, mode: int | None = None) -> None:
    """Replace a file by a value as strict JSON: a number that JSON lacks is refused."""
    write_text(path, json.dumps(value, indent=indent, allow_nan=False) + "\n", mode=mode)


def write_bytes(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Replace a file by bytes, at once or not at all."""
    with _replaced(path, mode) as descriptor, open(descriptor, "wb", closefd=False) as file:
        file.write(data)


@contextmanager
def replacing(path: Path, *, mode: int | None = None) -> Iterator[TextIO]:
    """A text file to write to; it takes the place of another when all is written, or never.

    Parameters
    ----------
    path : Path
        Its folder is made if it is not there.
    mode : int or None
        Who may read it, from the first byte on; None: as the system's mask says.
    """
    with (
        _replaced(path, mode) as descriptor,
        open(descriptor, "w", encoding="utf-8", newline="\n", closefd=False) as file,
    ):
        yield file


@contextmanager
def _replaced(path: Path, mode: int | None) -> Iterator[int]:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    partial.unlink(missing_ok=True)  # a mode is that of a new file
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(partial, flags, 0o666 if mode is None else mode)
    try:
        try:
            yield descriptor
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
