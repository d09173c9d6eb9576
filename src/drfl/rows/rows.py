"""Rows: the linear operator, and what is not a linear map of X.

Whoever wants sparse, float32, larger-than-memory or standardised data changes this package alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from drfl.arrays import Array
from drfl.curves import Curves
from drfl.rows.operator import Operator, block_rows
from drfl.rows.parts import (
    ClippedParts,
    RampedParts,
    assembled,
    is_sparse,
    pair_products,
    pairs_of,
    transposed,
    width_of,
)

# What is not a linear map makes about so many arrays of the size of its block, which all together
# should stay in cache too.
COPIES = 12
PAIRS = 8  # products of two entries of a row are kept if they are no more for every entry


class Rows(Operator):
    r"""Rows :math:`(x_i, y_i)` with masses :math:`p_i` that sum to 1.

    Parameters
    ----------
    X : array, scipy sparse matrix or DataFrame of shape (N, n)
        Dense float64 or float32 in any order (also memory-mapped) is used in place, never copied.
    y : array of shape (N,)
        Labels -1/+1 or targets.
    weights : array of shape (N,), optional
        Nonnegative; :math:`p_i` is proportional to them. Equal by default.
    shift, scale : arrays of shape (n,), optional
        The rows are :math:`(x-\mathrm{shift})/\mathrm{scale}`; folded into w, X is not rewritten.
    """

    def moments(self) -> tuple[Array, Array]:
        """Mean and mean square of every column: one pass."""
        return self._moments(np.broadcast_to(self.mass(), (self.n_rows,)))

    def gram_diagonal(self, d: Array) -> Array:
        """The diagonal of `gram`, (n + 1,): one pass."""
        return np.append(self._moments(d)[1], float(d.sum()))

    def _moments(self, weights: Array) -> tuple[Array, Array]:
        """Weighted sums of every column and of its square."""
        if self.shift is not None and not is_sparse(self.X):
            return self._centred_moments(self.shift, weights)
        first, second = np.zeros(self.n_features), np.zeros(self.n_features)
        squares = np.empty((0, self.n_features), dtype=self.X.dtype)
        for block, part in zip(self.blocks(), self._parts, strict=True):
            p = np.ascontiguousarray(weights[block], dtype=self.X.dtype)  # for BLAS
            first += transposed(part) @ p
            if is_sparse(part):
                second += (part * part).T @ p
                continue
            # A fresh array for every block would cost several times the products.
            squares = squares if len(squares) else np.empty_like(part)
            second += p @ np.multiply(part, part, out=squares[: len(part)])
        total = float(weights.sum())
        shift = np.zeros(self.n_features) if self.shift is None else self.shift
        scale = np.ones(self.n_features) if self.scale is None else self.scale
        second = np.maximum(second - 2.0 * shift * first + total * shift**2, 0.0)
        return (first - total * shift) / scale, second / scale**2

    def _centred_moments(self, shift: Array, weights: Array) -> tuple[Array, Array]:
        """The same of dense rows, less the shift first: far from 0 it would cancel all digits."""
        first, second = np.zeros(self.n_features), np.zeros(self.n_features)
        apart = np.empty((min(self._size, self.n_rows), self.n_features))
        for block, part in zip(self.blocks(), self._parts, strict=True):
            p, some = weights[block], apart[: len(part)]
            np.subtract(part, shift, out=some)
            first += p @ some
            second += p @ np.multiply(some, some, out=some)
        scale = 1.0 if self.scale is None else self.scale
        return first / scale, second / scale**2

    def gram(self, d: Array, *, every: int = 1) -> Array:
        r""":math:`\sum_i d_i (x_i,1)(x_i,1)^T` for :math:`d\ge0`, of shape (n+1, n+1).

        With ``every`` > 1 an estimate: only every so many blocks are read, spread over the rows.
        """
        n = self.n_features
        thin = self._thin_parts
        if thin is not None:
            return self._thin_gram(thin, d, every)
        H = np.zeros((n + 1, n + 1))
        in_place = not is_sparse(self.X) and self.shift is None and self.scale is None
        A = np.empty((min(self._size, self.n_rows) if in_place else 0, n + 1))
        seen = 0
        pairs = zip(self.blocks(), self._parts, strict=True)
        for block, part in islice(pairs, 0, None, every):
            seen += len(d[block])
            rows = np.flatnonzero(d[block])
            if in_place and 2 * len(rows) > len(part):  # gathering rows would copy them twice
                root, B = np.sqrt(d[block]), A[: len(part)]
                np.multiply(part, root[:, None], out=B[:, :n])
                B[:, n] = root
            else:
                B = self._with_ones(rows + block.start)
                B *= np.sqrt(d[rows + block.start])[:, None]
            H += B.T @ B
        return H if seen == self.n_rows else H * (self.n_rows / seen)

    def _thin_gram(self, thin: list[Any], d: Array, every: int) -> Array:
        """`gram` by the entries that are not 0."""
        n = self.n_features
        H, first, seen, total = np.zeros((n, n)), np.zeros(n), 0, 0.0
        blocks = zip(self.blocks(), thin, self._pairs or thin, strict=True)
        for block, part, pairs in islice(blocks, 0, None, every):
            weights = d[block]
            seen, total = seen + len(weights), total + float(weights.sum())
            if pairs is part:
                roots = np.repeat(np.sqrt(weights), np.diff(part.indptr))
                B = assembled(
                    sparse.csr_array, part.data * roots, part.indices, part.indptr, part.shape
                )
                H += sparse.triu(transposed(B) @ B).toarray()
            else:
                H += (pairs @ weights).reshape(n, n)
            first += transposed(part) @ weights
        H += np.triu(H, 1).T
        full = self._bordered(H, first, total)
        return full if seen == self.n_rows else full * (self.n_rows / seen)

    @cached_property
    def _pairs(self) -> list[Any] | None:
        """The products of all pairs of entries of a row, by block; None: they are too many."""
        thin = self._thin_parts or []
        stored, pairs = sum(part.nnz for part in thin), sum(map(pairs_of, thin))
        return [pair_products(part) for part in thin] if pairs <= PAIRS * stored else None

    def gram_of(self, columns: NDArray[np.int64], d: Array) -> Array:
        """`gram` of some columns alone, (k + 1, k + 1): nothing of columns times columns else."""
        k = len(columns)
        H, first = np.zeros((k, k)), np.zeros(k)
        for block, part in zip(self.blocks(), self._parts, strict=True):
            some, weights = part[:, columns], d[block]
            if is_sparse(some):
                B = some.multiply(np.sqrt(weights)[:, None]).tocsr().astype(np.float64)
                H += (B.T @ B).toarray()
            else:  # far from 0 the shift would cancel all digits of the sums
                some = some if self.shift is None else some - self.shift[columns]
                B = some * np.sqrt(weights)[:, None]
                H += B.T @ B
            first += some.T @ weights
        return self._bordered(H, first, float(d.sum()), columns, shifted=not is_sparse(self.X))

    def _bordered(
        self,
        H: Array,
        first: Array,
        total: float,
        columns: NDArray[np.int64] | slice = slice(None),
        *,
        shifted: bool = False,
    ) -> Array:
        """Scaled columns and the ones, from sums of products and of columns, perhaps shifted."""
        if self.shift is not None and not shifted:
            shift = self.shift[columns]
            cross = np.outer(shift, first)
            H = H + total * np.outer(shift, shift) - cross - cross.T
            first = first - total * shift
        if self.scale is not None:
            scale = self.scale[columns]
            H, first = H / np.outer(scale, scale), first / scale
        out = np.empty((len(first) + 1, len(first) + 1))
        out[:-1, :-1], out[:-1, -1], out[-1, :-1], out[-1, -1] = H, first, first, total
        return out

    def take(self, rows: NDArray[np.intp] | slice) -> Array:
        """A few rows as a dense float64 array, scaled."""
        picked = self._parts.made(self.X[rows])
        dense = picked.toarray() if is_sparse(picked) else picked
        out = np.array(dense, dtype=np.float64)
        if self.shift is not None:
            out -= self.shift
        if self.scale is not None:
            out /= self.scale
        return out

    def every(self, step: int) -> Rows:
        """Every so many rows, evenly spread, as rows of their own: a sample in memory.

        One row at least, and where none of these weighs anything the heaviest.
        """
        rows = slice(min(step // 2, (self.n_rows - 1) // 2), None, step)
        if self.p is not None and not self.p[rows].any():
            return self.some(np.array([self.p.argmax()]))
        return self.some(rows)

    def some(self, some: slice | NDArray[np.intp]) -> Rows:
        """A few rows as rows of their own, in memory; their masses are their shares of all."""
        X = self._parts.made(self.X[some])
        X = X if is_sparse(X) else np.ascontiguousarray(X)
        weights = None if self.p is None else self.p[some]
        return Rows(X, self.y[some], weights=weights, shift=self.shift, scale=self.scale)

    def column_range(self) -> tuple[Array, Array]:
        """The least and the largest entry of every column, scaled."""
        low, high = np.full(self.n_features, np.inf), np.full(self.n_features, -np.inf)
        for part in self._parts:
            least, most = part.min(axis=0), part.max(axis=0)
            np.minimum(low, least.toarray() if is_sparse(least) else least, out=low)
            np.maximum(high, most.toarray() if is_sparse(most) else most, out=high)
        return self._unfold(low, 1.0)[0], self._unfold(high, 1.0)[0]

    def clipped(
        self, low: Array, high: Array, y_low: float = -np.inf, y_high: float = np.inf
    ) -> Rows:
        """The same rows moved to the nearest point of a box, block by block when they are read.

        Parameters
        ----------
        low, high : arrays of shape (n,)
            Bounds of the scaled columns.
        y_low, y_high : float
            Bounds of y.
        """
        scale = 1.0 if self.scale is None else self.scale
        shift = 0.0 if self.shift is None else self.shift
        low, high = low * scale + shift, high * scale + shift
        if is_sparse(self.X) and not ((low <= 0.0) & (high >= 0.0)).all():
            raise ValueError(
                "sparse rows can only be clipped to a box that contains 0: "
                "give dense rows, or a wider box"
            )
        rows = copy(self)
        rows.y = np.clip(self.y, y_low, y_high)
        rows._parts = ClippedParts(self._parts, low, high)
        return rows

    def ramped(self, curves: Curves) -> Rows:
        """The same rows with the ramps of their columns for features, made block by block."""
        if curves.n != self.n_features:
            raise ValueError(f"curves of {curves.n} columns do not fit {self.n_features} columns")
        rows, n = copy(self), self.n_features
        shift = np.zeros(n) if self.shift is None else self.shift
        scale = np.ones(n) if self.scale is None else self.scale
        more = curves.n_slopes / max(n, 1)
        rows.n_features, rows.names = curves.n_slopes, None
        rows._size = block_rows(int(more * width_of(self.X)) + 1, 64)
        rows._parts = parts = RampedParts(self._parts.over(rows._views()), curves, shift, scale)
        rows.shift = -parts.zero if is_sparse(self.X) else None
        rows.scale = None
        return rows

    @property
    def ramps(self) -> Array | None:
        """What the ramps are, as numbers; None: there are none."""
        return self._parts.where if isinstance(self._parts, RampedParts) else None

    def dense_blocks(self) -> Iterator[tuple[slice, Array]]:
        """Blocks of rows as dense float64 arrays, scaled: for what is not a linear map of X."""
        size = block_rows(COPIES * self.n_features, 16)
        for start in range(0, self.n_rows, size):
            block = slice(start, min(start + size, self.n_rows))
            yield block, self.take(block)

    def _with_ones(self, rows: NDArray[np.intp]) -> Array:
        return np.column_stack([self.take(rows), np.ones(len(rows))])
