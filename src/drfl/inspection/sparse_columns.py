"""Which columns of sparse rows to look at one by one, found by sums over their stored entries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.inspection.column import CODED, DISTINCT, FAR, FULL

SHORTEST = 99.0
"""Among counts, which sparse rows often are, 7, 8 and 9 are no codes; below 0 they are."""
FIRST = 0.1
"""What sums take for far, of what is told as far: they know the middle only about."""


def worth_a_look(csr: Any, y: Array) -> list[int]:
    """Positions of columns in which something may be seen; in all others there is nothing.

    These are the columns that many rows store, that may tell the target, or whose largest or least
    entry is a code or far from the geometric mean of the entries' sizes.

    Parameters
    ----------
    csr : CSR array of shape (N, n)
        The rows.
    y : array of shape (N,)
        Codes of classes, or targets.
    """
    stored = csr.data != 0.0
    column, entry = csr.indices[stored], csr.data[stored].astype(np.float64)
    row = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))[stored]
    count = _sums(column, csr.shape[1])
    size = np.log10(np.abs(entry))
    largest = np.full(csr.shape[1], -np.inf)
    np.maximum.at(largest, column, size)
    far = largest - _sums(column, csr.shape[1], size) / np.maximum(count, 1.0)
    seen = (count >= FULL * csr.shape[0]) | (far >= np.log10(FIRST * FAR))
    seen |= _may_tell(row, column, entry, y, csr.shape)
    code = np.isin(np.abs(entry), list(CODED)) & ((entry < 0.0) | (entry >= SHORTEST))
    seen[column[code]] = True
    found: list[int] = np.flatnonzero(seen & (count > 0.0)).tolist()
    return found


def _sums(column: NDArray[np.integer[Any]], n: int, weight: Array | None = None) -> Array:
    return np.bincount(column, weight, n).astype(np.float64)


def _may_tell(
    row: NDArray[np.intp],
    column: NDArray[np.integer[Any]],
    entry: Array,
    y: Array,
    shape: tuple[int, int],
) -> NDArray[np.bool_]:
    """Whether a column may tell the target: its zeros are of one class, or it lies on a line."""
    values, at, rows = np.unique(y, return_inverse=True, return_counts=True)
    if len(values) < DISTINCT:
        zeros = np.array(
            [rows[c] - _sums(column[at[row] == c], shape[1]) for c in range(len(values))]
        )
        return np.asarray((zeros > 0.0).sum(axis=0) <= 1)
    centred = y - y.mean()
    mean = _sums(column, shape[1], entry) / shape[0]
    variance = _sums(column, shape[1], np.square(entry)) / shape[0] - np.square(mean)
    product = _sums(column, shape[1], entry * centred[row]) / shape[0]
    return np.asarray(np.square(product) > (1.0 - 1e-6) * variance * np.square(centred).mean())
