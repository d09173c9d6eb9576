"""Arrays that grow by blocks of rows: in memory, or in a temporary file if they are large."""

from __future__ import annotations

import mmap
import tempfile
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

IN_MEMORY = 64_000_000
"""Bytes of an array up to which it is kept in memory."""


class Growing:
    """An array (N, width), or (N,) if the width is None, whose N becomes known at its end.

    Parameters
    ----------
    dtype : dtype
        Of the entries.
    width : int or None
        The length of a row.
    """

    def __init__(self, dtype: DTypeLike, width: int | None = None) -> None:
        self.dtype, self.width = np.dtype(dtype), width
        self._blocks: list[NDArray[Any]] = []
        self._bytes = 0
        self._file: BinaryIO | None = None

    def append(self, block: NDArray[Any]) -> None:
        """Add rows."""
        block = np.ascontiguousarray(block, dtype=self.dtype)
        self._bytes += block.nbytes
        if self._file is None and self._bytes > IN_MEMORY:
            # It has no name, so that nothing is left behind, however the process ends.
            self._file = tempfile.TemporaryFile(prefix="drfl-")  # noqa: SIM115
            for early in self._blocks:
                early.tofile(self._file)
            self._blocks.clear()
        if self._file is None:
            self._blocks.append(block)
        else:
            block.tofile(self._file)

    def finish(self) -> NDArray[Any]:
        """The whole array; nothing may be added afterwards."""
        shape = (-1,) if self.width is None else (-1, self.width)
        if self.width == 0:
            return np.zeros((sum(len(block) for block in self._blocks), 0), dtype=self.dtype)
        if self._file is not None:
            self._file.flush()
            numbers = mapped(self._file, self.dtype).reshape(shape)
            self._file.close()  # the map keeps what it needs
            return numbers
        if not self._blocks:
            return np.zeros((0, *shape[1:]), dtype=self.dtype)
        return np.concatenate(self._blocks).reshape(shape)


def mapped(file: BinaryIO, dtype: DTypeLike) -> NDArray[Any]:
    """The numbers in a file, read when they are used."""
    numbers = np.memmap(file, dtype=dtype, mode="r")
    if hasattr(mmap, "MADV_SEQUENTIAL"):  # rows are read in order: the system may read ahead more
        pages: mmap.mmap = getattr(numbers, "_mmap")  # noqa: B009  (NumPy does not declare it)
        pages.madvise(mmap.MADV_SEQUENTIAL)
    return numbers
