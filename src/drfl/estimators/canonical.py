r"""One order for equal data: what is fitted depends on the distribution of the rows alone.

An optimum need not be unique, and even where it is, sums in another order end in other digits. So
the rows of every client are put in an order of their own, and equal rows are merged into one of
their total weight: rows in another order, and rows repeated instead of weighted, then give the same
model to the last digit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from drfl.arrays import Array

Index = NDArray[np.intp]
Keys = NDArray[np.uint64]

BLOCK = 400_000  # entries that are looked at together


def canonical_order(X: Any, y: Array, weight: Array, member: Index) -> tuple[Index, Array]:
    """Which rows to take, in which order, with which weights.

    Parameters
    ----------
    X : array or CSR matrix of shape (N, n)
        The rows.
    y, weight : arrays of shape (N,)
        Their labels or targets, and their weights.
    member : array of shape (N,)
        The number of the client of each row.

    Returns
    -------
    tuple
        Indices of one row of every set of equal ones, client after client, and their total weights.
    """
    keys = row_keys(X, y)
    order = np.lexsort((weight, keys, member))
    first, second = order[:-1], order[1:]
    equal = (keys[first] == keys[second]) & (member[first] == member[second])
    # Equal keys are almost surely equal rows; that is checked before anything is merged.
    at = np.flatnonzero(equal)
    equal[at] = _equal_rows(X, y, first[at], second[at])
    starts = np.flatnonzero(np.concatenate([[True], ~equal]))
    return order[starts], np.add.reduceat(weight[order], starts)


def row_keys(X: Any, y: Array) -> Keys:
    r"""A whole number for every row, the same wherever the row stands.

    :math:`\sum_j c_j v_{ij}\bmod2^{64}` with odd constants :math:`c_j` and the bits
    :math:`v_{ij}` of the entries: sums of whole numbers do not depend on their order. An entry 0
    adds nothing, so that sparse rows need their stored entries only.
    """
    rng = np.random.default_rng(0)
    constants = rng.integers(1 << 63, size=X.shape[1] + 1, dtype=np.uint64) * np.uint64(2) + 1
    keys = _bits(y) * constants[-1]
    if is_sparse(X):
        sums = np.zeros(X.nnz + 1, dtype=np.uint64)
        np.cumsum(_bits(X.data) * constants[X.indices], out=sums[1:])
        return np.asarray(keys + sums[X.indptr[1:]] - sums[X.indptr[:-1]])
    step = max(1, BLOCK // X.shape[1])
    for start in range(0, len(X), step):
        block = slice(start, start + step)
        keys[block] += _bits(X[block]) @ constants[:-1]
    return np.asarray(keys)


def is_sparse(X: Any) -> bool:
    """Whether X is a sparse matrix or array."""
    return bool(sparse.issparse(X))


def _bits(values: NDArray[Any]) -> Keys:
    # Adding 0 turns -0 into 0. Simple numbers such as 1.0 have bits in their upper half only, which
    # a product modulo 2^64 would mostly lose: the upper half is folded into the lower.
    bits = np.ascontiguousarray(values.astype(np.float64) + 0.0).view(np.uint64)
    return np.asarray(bits ^ (bits >> np.uint64(32)))


def _equal_rows(X: Any, y: Array, one: Index, other: Index) -> NDArray[np.bool_]:
    same = y[one] == y[other]
    if is_sparse(X):
        difference = sparse.csr_array(X[one] - X[other])
        difference.eliminate_zeros()
        return np.asarray(same & (np.diff(difference.indptr) == 0))
    return np.asarray(same & (X[one] == X[other]).all(axis=1))
