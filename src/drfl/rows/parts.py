"""Blocks of rows, dense or sparse: views where possible, never a copy of the data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from drfl.arrays import Array
from drfl.curves import Curves

# With one to three models a matrix product is slower than as many products with vectors.
FEW_MODELS = 3


class Parts:
    """The blocks of X, as views."""

    def __init__(self, views: list[Any]) -> None:
        self.views = views

    def __iter__(self) -> Iterator[Any]:
        return map(self.made, self.views)

    def made(self, part: Any) -> Any:
        """What rows of X are read as."""
        return part

    def over(self, views: list[Any]) -> Parts:
        """The same of other views."""
        return Parts(views)


class ClippedParts(Parts):
    """The blocks of X, clipped to a box when they are read."""

    def __init__(self, parts: Parts, low: Array, high: Array) -> None:
        super().__init__(parts.views)
        self.inner, self.low, self.high = parts, low, high

    def made(self, part: Any) -> Any:
        part = self.inner.made(part)
        low, high = self.low.astype(part.dtype), self.high.astype(part.dtype)
        if not is_sparse(part):
            return np.clip(part, low, high)
        data = np.clip(part.data, low[part.indices], high[part.indices])
        return assembled(sparse.csr_array, data, part.indices, part.indptr, part.shape)

    def over(self, views: list[Any]) -> Parts:
        return ClippedParts(self.inner.over(views), self.low, self.high)


class RampedParts(Parts):
    """The blocks of X as ramps of their scaled columns, made when they are read.

    Of a sparse block only the stored entries become ramps, less what an entry 0 becomes.
    """

    def __init__(self, parts: Parts, curves: Curves, shift: Array, scale: Array) -> None:
        super().__init__(parts.views)
        self.inner, self.curves, self.shift, self.scale = parts, curves, shift, scale

    def made(self, part: Any) -> Any:
        part = self.inner.made(part)
        if is_sparse(part):
            return self._sparse(part)
        return self.curves.expand(((part - self.shift) / self.scale).astype(part.dtype, copy=False))

    def _sparse(self, part: Any) -> Any:
        j, curves = part.indices, self.curves
        count = curves.sizes[j]
        ends = np.cumsum(count)
        first = np.concatenate([[0], np.cumsum(curves.sizes)[:-1]])
        which = np.arange(int(count.sum())) - np.repeat(ends - count, count)
        which += np.repeat(first[j], count)
        x = np.repeat((part.data - self.shift[j]) / self.scale[j], count)
        data = (curves.ramps(x, which) - self.zero[which]).astype(part.dtype, copy=False)
        indptr = np.concatenate([[0], ends])[part.indptr]
        shape = (part.shape[0], curves.n_slopes)
        return assembled(sparse.csr_array, data, which, indptr, shape)

    @property
    def zero(self) -> Array:
        """What a row of zeros becomes (n',)."""
        return np.asarray(self.curves.expand((-self.shift / self.scale)[None])[0])

    @property
    def where(self) -> Array:
        """Of every ramp where it rises and is 0, and the shift and scale of its column (5, n')."""
        column = self.curves.column
        return np.stack([*self.curves.pieces, self.shift[column], self.scale[column]])

    def over(self, views: list[Any]) -> Parts:
        return RampedParts(self.inner.over(views), self.curves, self.shift, self.scale)


def products(A: Any, U: Array) -> Array:
    """Return U A', (K, m), rows contiguous."""
    if 0 < len(U) <= FEW_MODELS:
        return np.array([A @ u for u in U])
    if is_sparse(A):
        return np.ascontiguousarray((A @ U.T).T)
    return np.asarray(U @ A.T)


def transposed_products(A: Any, v: Array) -> Array:
    """Return v A, (K, n)."""
    if 0 < len(v) <= FEW_MODELS:
        return np.array([transposed(A) @ vk for vk in v])
    if is_sparse(A):
        return np.asarray((transposed(A) @ v.T).T)
    return np.asarray(v @ A)


def grouped_sums(A: Any, v: Array, groups: int, first: int) -> Array:
    """Sums of v A by group (groups, n), for sparse A whose row i is in group (i + first) % G."""
    n, stored = A.shape[1], np.diff(A.indptr)
    row = ((np.arange(len(v)) + first) % groups) * n  # where that of its group begins
    weights = np.repeat(v, stored) * A.data
    sums = np.bincount(np.repeat(row, stored) + A.indices, weights, groups * n)
    return np.asarray(sums, dtype=np.float64).reshape(groups, n)


def pair_products(part: Any) -> Any:
    r"""The products :math:`x_{ij}x_{ik}`, one column for every row of a sparse block.

    A matrix (n n, m): of row i it holds the products of its stored entries with j <= k at j n + k.
    So ``pair_products(part) @ d`` is the upper triangle of :math:`\sum_id_ix_ix_i^\top`.
    """
    n = part.shape[1]
    stored = np.diff(part.indptr)
    later = np.repeat(part.indptr[1:], stored) - np.arange(part.nnz)  # of an entry's row, with it
    ends = np.cumsum(later)
    first = np.repeat(np.arange(part.nnz), later)
    second = first + np.arange(len(first)) - np.repeat(ends - later, later)
    j, k = part.indices[first].astype(np.int64), part.indices[second]
    values = part.data[first].astype(np.float64) * part.data[second]
    kind = sparse.get_index_dtype(maxval=max(n * n, len(first)))
    where = (np.minimum(j, k) * n + np.maximum(j, k)).astype(kind)
    indptr = np.concatenate([[0], ends])[part.indptr].astype(kind)
    return assembled(sparse.csc_array, values, where, indptr, (n * n, part.shape[0]))


def pairs_of(part: Any) -> int:
    """How many products `pair_products` holds."""
    stored = np.diff(part.indptr).astype(np.int64)
    return int((stored * (stored + 1)).sum() // 2)


def is_sparse(X: Any) -> bool:
    """Whether X is a scipy sparse matrix or array."""
    return bool(sparse.issparse(X))


def width_of(X: Any) -> int:
    """How many numbers a row holds."""
    # A sparse row costs its stored entries (value and index), not its columns.
    return int(2 * X.nnz / max(1, X.shape[0])) + 1 if is_sparse(X) else int(X.shape[1])


def view_of(X: Any, block: slice) -> Any:
    """Rows of a block without a copy; slicing a CSR matrix would copy its entries."""
    if not is_sparse(X):
        return X[block]
    start, stop = X.indptr[block.start], X.indptr[block.stop]
    indptr = X.indptr[block.start : block.stop + 1] - start
    shape = (block.stop - block.start, X.shape[1])
    return assembled(sparse.csr_array, X.data[start:stop], X.indices[start:stop], indptr, shape)


def transposed(part: Any) -> Any:
    """The transposed block, a view."""
    if not is_sparse(part):
        return part.T
    return assembled(sparse.csc_array, part.data, part.indices, part.indptr, part.shape[::-1])


def assembled(kind: Any, data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> Any:
    """A sparse array of these very arrays: the constructor would copy what is a small view."""
    made = kind(shape, dtype=data.dtype)
    made.data, made.indices, made.indptr = data, indices, indptr
    return made
