r"""Entries beside weights: a column that few rows rule tells of them whatever the weights are.

An answer is :math:`\sum_i\nu_ix_{ij}`. Even if :math:`\nu` is spread over many rows, a column that
is 0 but for one person is that person's entry. With :math:`t_{ij}=(\nu_i(x_{ij}-c_j))^2`, a column
is *ruled* by fewer than k rows if k - 1 rows hold more than (k - 1)/k of its sum, or one row more
than half: for all rows alike (then it is refused), and in every answer (then another is sought). A
column of two values, such as 0 and 1, is a count: none of its cells, by class, may hold 1 to k - 1
rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from drfl._registry import listed
from drfl.arrays import Array

HALF = 0.5
USUAL = 0.1


def require_many(X: Array, y: Array, k: int, names: Sequence[object] | None = None) -> int:
    """Refuse columns that fewer than k rows rule; the size of the smallest cell of a count, or 0.

    Parameters
    ----------
    X : (N, n)
        The columns; NaN where there is no value.
    y : (N,)
        Labels -1 and +1, by which counts are told; other numbers are a column like others.
    k : int
        Of the guard.
    names : sequence, optional
        Of the columns, for the sentence.
    """
    called = list(names or range(X.shape[1]))
    labels = np.zeros(len(y))
    if set(np.unique(y).tolist()) <= {-1.0, 1.0}:
        labels = y
    else:
        X, called = np.column_stack([X, y]), [*called, "the target"]
    found = [called[j] for j in np.flatnonzero(ruled(deviations(X), k)).tolist()]
    if found:
        raise ValueError(
            f"{_columns(found)} ruled by fewer than k = {k} rows, whose entries sums would tell: "
            "leave out, or bound, what is named"
        )
    cells = [cells_of(column, labels) for column in X.T]
    found = [called[j] for j, counts in enumerate(cells) if counts and min(counts) < k]
    if found:
        raise ValueError(
            f"{_columns(found)} of two values, one of which fewer than k = {k} rows of a class "
            "hold: leave out, or merge, what is named"
        )
    return min((min(counts) for counts in cells if counts), default=0)


def deviations(X: Array) -> Array:
    """Squared deviations from the mean, 0 at gaps, in units in which the squares are numbers."""
    known = np.isfinite(X)
    mean = np.divide(np.where(known, X, 0.0).sum(axis=0), np.maximum(known.sum(axis=0), 1))
    distance = np.where(known, X - mean, 0.0)
    return np.asarray(np.square(distance / _largest(distance)))


def _largest(columns: Array) -> Array:
    """The largest entries by size, 1 for columns of zeros."""
    size = np.abs(columns).max(axis=0)
    return np.asarray(np.where(size > 0.0, size, 1.0))


def _columns(found: Sequence[object]) -> str:
    return f"column {found[0]!r} is" if len(found) == 1 else f"columns {listed(found)} are"


def cells_of(column: Array, labels: Array) -> list[int]:
    """How many rows are in each cell of a column of two values, by class; empty cells left out.

    Examples
    --------
    >>> cells_of(np.array([0.0, 1.0, np.nan, 1.0, 0.0]), np.array([1.0, 1.0, 1.0, 1.0, -1.0]))
    [1, 1, 2]
    """
    known = np.isfinite(column)
    column, labels = column[known], labels[known]
    low, high = column.min(initial=np.inf), column.max(initial=-np.inf)
    if low >= high or not ((column == low) | (column == high)).all():
        return []
    codes = 2 * np.searchsorted(np.unique(labels), labels) + (column == high)
    counts = np.bincount(codes)
    return sorted(counts[counts > 0].tolist())


def ruled(terms: Array, k: int) -> NDArray[np.bool_]:
    """Which columns of squared terms (N, n) fewer than k rows rule; none of those that are 0."""
    total = terms.sum(axis=0)
    largest = np.partition(terms, len(terms) - (k - 1), axis=0)[len(terms) - (k - 1) :]
    few = largest.sum(axis=0) > (1.0 - 1.0 / k) * total
    return np.asarray((few | (largest.max(axis=0) > HALF * total)) & (total > 0.0))


def _usual(column: Array) -> float:
    """The value that most rows hold, such as one that stands for all gaps; NaN if few do."""
    values, counts = np.unique(column, return_counts=True)
    most = int(np.argmax(counts))
    return float(values[most]) if counts[most] > USUAL * len(column) else np.nan


class Centres:
    """From where entries of columns (N, d) count: the mean, what many rows hold, either of two."""

    def __init__(self, A: Array, k: int) -> None:
        low, high = A.min(axis=0), A.max(axis=0)
        two = ((low == A) | (high == A)).all(axis=0)
        mean = A.mean(axis=0)
        usual = np.array([_usual(column) for column in A.T])
        self._A, self.k = A, k
        self._from = [mean, np.where(two, low, mean), np.where(two, high, mean)]
        if not np.isnan(usual[~two]).all():
            self._from.append(np.where(np.isnan(usual) | two, mean, usual))
        self._varies = low < high
        self._size = np.where(self._varies, high - low, 1.0)

    def many(self, weights: Array) -> bool:
        """Whether no column of an answer with these weights is ruled by fewer than k rows."""
        # Sizes of columns and weights play no role: squares of tiny numbers are 0.
        A, size = self._A[:, self._varies], self._size[self._varies]
        square = np.square(weights / _largest(weights))[:, None]
        return not any(
            ruled(square * np.square((A - centre[self._varies]) / size), self.k).any()
            for centre in self._from
        )
