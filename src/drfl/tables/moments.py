r"""Counts, sums and sums of squares of columns: at a client, and added up.

The squares are taken about the client's own mean, so that no digits are lost where the mean is
large:

.. math:: M = \sum_s M_s + n_s(\mu_s-\mu)^2,\qquad \mu=\frac{\sum_s n_s\mu_s}{\sum_s n_s}.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array

BLOCK = 500_000
CONSTANT = 1e-13  # a deviation that is smaller than this, relative to the mean, is rounding


@dataclass(frozen=True)
class Moments:
    """Of k columns: how many values, their sums, and the sums of squares about the mean (k,)."""

    count: Array
    sum: Array
    squares: Array

    @property
    def mean(self) -> Array:
        """0 where there are no values."""
        return self.sum / np.maximum(self.count, 1.0)

    @property
    def deviation(self) -> Array:
        """0 where a column is constant."""
        deviation = np.sqrt(self.squares / np.maximum(self.count, 1.0))
        return np.where(deviation <= CONSTANT * np.abs(self.mean), 0.0, deviation)


def moments_of(numbers: Any, keep: NDArray[np.bool_] | None) -> Moments:
    """Of the columns of an array or CSR array (N, k), missing values (NaN) left out."""
    if not isinstance(numbers, np.ndarray):
        return _of_sparse(numbers if keep is None else numbers[np.flatnonzero(keep)])
    k = numbers.shape[1]
    count, total, squares = np.zeros(k), np.zeros(k), np.zeros(k)
    for block in _blocks(numbers, keep):
        count += (~np.isnan(block)).sum(axis=0)
        total += np.nansum(block, axis=0)
    mean = total / np.maximum(count, 1.0)
    for block in _blocks(numbers, keep):
        squares += np.nansum(np.square(block - mean), axis=0)
    return Moments(count, total, squares)


def added(parts: Sequence[Moments]) -> Moments:
    """Of all clients together.

    Examples
    --------
    >>> one, two = (moments_of(np.array(x)[:, None], None) for x in ([1.0, 2.0], [6.0]))
    >>> added([one, two]).squares.tolist()
    [14.0]
    """
    count = np.sum([part.count for part in parts], axis=0)
    total = np.sum([part.sum for part in parts], axis=0)
    mean = total / np.maximum(count, 1.0)
    squares = np.sum([p.squares + p.count * np.square(p.mean - mean) for p in parts], axis=0)
    return Moments(count, total, squares)


def _of_sparse(csr: Any) -> Moments:
    n, k = csr.shape
    total = np.asarray(csr.sum(axis=0), dtype=np.float64).reshape(k)
    second = np.zeros(k)
    np.add.at(second, csr.indices, np.square(csr.data))
    squares = np.maximum(second - np.square(total) / n, 0.0)
    squares[squares <= CONSTANT * second] = 0.0
    return Moments(np.full(k, float(n)), total, squares)


def _blocks(numbers: Array, keep: NDArray[np.bool_] | None) -> Iterator[Array]:
    step = max(1, BLOCK // max(1, numbers.shape[1]))
    for start in range(0, len(numbers), step):
        block = numbers[start : start + step]
        yield block if keep is None else block[keep[start : start + step]]
