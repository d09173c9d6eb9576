"""Clients on their way to another process: sent once, at its start.

Messages never go this way; `drfl.wire` carries them. Arrays travel beside the pickle, uncopied.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.typing import NDArray

Frame = bytes | memoryview


def pack(thing: object) -> list[Frame]:
    """Frames for `unpack`; they share the memory of contiguous arrays."""
    buffers: list[pickle.PickleBuffer] = []
    stream = io.BytesIO()
    # pickle calls buffer_callback for its effect and keeps the buffer out of the stream on None.
    _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(thing)
    return [stream.getvalue(), *(buffer.raw() for buffer in buffers)]


def unpack(frames: Sequence[Frame]) -> Any:
    """What was packed; its arrays are read-only."""
    return pickle.loads(frames[0], buffers=frames[1:])


class _Pickler(pickle.Pickler):
    """Opens files again instead of copying them, and keeps the gaps of matrices."""

    def reducer_override(self, thing: Any) -> Any:
        if not isinstance(thing, np.ndarray) or thing.dtype.hasobject:
            return NotImplemented
        where = _where_mapped(thing)
        if where is not None:
            return _reopen, where
        if thing.ndim == 2 and not thing.flags.forc:
            return _spread, _without_gaps(thing)
        return NotImplemented


_Where = tuple[str, str, int, int, int, tuple[int, ...], tuple[int, ...]]


def _where_mapped(array: NDArray[Any]) -> _Where | None:
    """Where in which file the entries of a memory map are; None if they are not in a file."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    # Only the map itself knows its place in the file: NumPy hands its offset down to slices. A
    # copy-on-write map may hold other numbers than its file.
    if not (isinstance(root, np.memmap) and isinstance(root.base, mmap)) or root.mode == "c":
        return None
    if array.size == 0 or root.filename is None or not Path(root.filename).exists():
        return None
    low, high = byte_bounds(array)
    start = root.offset + low - byte_bounds(root)[0]
    first = array.__array_interface__["data"][0] - low
    file, dtype = str(root.filename), array.dtype.str
    return file, dtype, start, high - low, first, array.shape, array.strides


def _reopen(
    file: str,
    dtype: str,
    start: int,
    length: int,
    first: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
) -> NDArray[Any]:
    """The same entries of the same file, read-only.

    ``first`` is the place of entry (0, 0) within the ``length`` bytes from ``start`` on; it is not
    0 where a stride is negative.
    """
    window = np.memmap(file, np.uint8, "r", offset=start, shape=(length,))
    return np.ndarray(shape, dtype, window, first, strides)


_Gaps = tuple[NDArray[Any], int, int, tuple[slice, slice], bool]


def _without_gaps(matrix: NDArray[Any]) -> _Gaps:
    """The entries of a matrix that is a part of a larger one, and what `_spread` must know."""
    by_column = abs(matrix.strides[0]) < abs(matrix.strides[1])
    A = matrix.T if by_column else matrix
    down, across = (-1 if stride < 0 else 1 for stride in A.strides)
    flips = slice(None, None, down), slice(None, None, across)
    outer, inner = abs(A.strides[0]), abs(A.strides[1])
    step = 1 if inner == A.itemsize else 2
    gap = 0 if outer == inner * A.shape[1] else 1
    return np.ascontiguousarray(A[flips]), step, gap, flips, by_column


def _spread(
    compact: NDArray[Any], step: int, gap: int, flips: tuple[slice, slice], by_column: bool
) -> NDArray[Any]:
    """A matrix with gaps where the original had some, if only small ones.

    BLAS adds the entries of a matrix without gaps in another order, if the matrix is narrow, and
    NumPy does not give every matrix to BLAS: the last digits would differ.
    """
    rows, columns = compact.shape
    room = np.empty((rows, step * columns + gap), compact.dtype)
    A = room[:, : step * columns : step]
    A[...] = compact
    A = A[flips]
    return A.T if by_column else A
