"""Which columns of an array to look at one by one, found by their ends and a few of their rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.inspection.column import CODED, DENSE, DISTINCT, ENOUGH, FAR, FEW

SCREENED, LEAST, MOST = 40_000, 200, 1_000
"""Entries that decide which columns are looked at; rows, at least and at most."""


def suspects(X: Array, y: Array, first: Array, ends: Array) -> NDArray[np.bool_]:
    """In which columns (n,) `look`, `is_id` or `is_numbering` can find anything.

    What they find shows in the ends of a column, or in any few of its rows: such columns are few,
    and a look at each of thousands would take longer than the fit.

    Parameters
    ----------
    X, y : arrays of shape (N, n) and (N,)
        Numbers, and the target beside.
    first : array of shape (N_s, n)
        The rows of one client, whose numbers could be a numbering.
    ends : array of shape (2, n)
        The least and the largest values of all rows, of which X may be a sample.
    """
    few, target = _spread(X), y[:: _stride(X)]
    ordered = np.sort(few, axis=0)
    levels = 1 + (np.diff(ordered, axis=0) > 0.0).sum(axis=0)
    # Sums down few columns are slow, those along them are not.
    columns = X.T if X.shape[1] > LEAST else np.ascontiguousarray(X.T)
    low, high = columns.min(axis=1), columns.max(axis=1)
    held = [np.count_nonzero(end[:, None] == columns, axis=1) >= FEW for end in (low, high)]
    usual = [np.isin(np.abs(end), [*CODED, 0.0]) | (end == -1.0) for end in (low, high)]
    # A tenth of FAR: the middle of few rows is not quite that of all.
    k = len(few)
    inner = ordered[-(-3 * k // 5) - 1] - ordered[2 * k // 5]
    far = ends[1] - ends[0] >= 0.1 * FAR * inner
    own = ordered if len(first) == len(X) else np.sort(_spread(first), axis=0)
    numbered = _may_number(own, len(first))
    tell = (levels < DISTINCT) | _may_tell(few, target)
    return np.asarray(np.any([*held, *usual, far, numbered, tell], axis=0))


def _spread(X: Array) -> Array:
    """A few rows from everywhere."""
    return X[:: _stride(X)]


def _stride(X: Array) -> int:
    return max(1, len(X) // int(np.clip(SCREENED // X.shape[1], LEAST, MOST)))


def _may_number(ordered: Array, rows: int) -> NDArray[np.bool_]:
    """Whether some rows of so many, every column sorted, may be of an id or a numbering."""
    if rows < ENOUGH:
        return np.zeros(ordered.shape[1], np.bool_)
    least = np.diff(ordered, axis=0).min(axis=0)
    dense = ordered[-1] - ordered[0] <= 1.01 * DENSE * rows * least
    whole = (ordered == np.round(ordered)).all(axis=0)
    return np.asarray((least > 0.0) & (dense | whole))


def _may_tell(X: Array, y: Array) -> NDArray[np.bool_]:
    """Whether columns of some rows may tell the target, by a threshold or a line."""
    classes = np.unique(y)
    if len(classes) == 2:
        one, other = X[y == classes[0]], X[y == classes[1]]
        below, above = one.max(axis=0) < other.min(axis=0), other.max(axis=0) < one.min(axis=0)
        return np.asarray(below | above)
    centred, target = X - X.mean(axis=0), y - y.mean()
    size = np.sqrt(np.square(centred).sum(axis=0) * (target @ target))
    return np.asarray(np.abs(target @ centred) >= 0.999 * size)
