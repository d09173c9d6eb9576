r"""Data as a linear operator: scores in, weighted sums out.

Everything else works with scores :math:`z_i=\langle w,x_i\rangle+b` and weighted sums
:math:`\sum_i v_i x_i`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from drfl.arrays import Array
from drfl.rows.intake import (
    as_matrix,
    column_vector,
    feature_names,
    masses_of,
    numbers,
    require_finite,
    require_finite_target,
)
from drfl.rows.parts import (
    Parts,
    grouped_sums,
    is_sparse,
    products,
    transposed,
    transposed_products,
    view_of,
    width_of,
)

Visit = Callable[[slice, Array], Array]

# A block of rows should stay in cache between X@w and X'v: about 3 MB of float64.
BLOCK_ELEMENTS = 400_000
CACHED = ("_thin_parts", "_pairs")  # by `Rows`, made of the blocks
# With so many columns, and no more than this share of entries other than 0, products go by these.
MANY, THIN = 100, 0.05
FAR = 100.0  # standard units of a column's mean from 0
# Up to one row in so many is gathered; beyond, reading all rows in order is faster.
FEW = 8


def block_rows(width: int, least: int) -> int:
    """How many rows of so many numbers make a block."""
    return max(least, BLOCK_ELEMENTS // max(1, width))


def exact(part: Any) -> Any:
    """A block in float64, whatever the data are: rounded products are no proof of anything."""
    return part.astype(np.float64, copy=False)


class Operator:
    """See `Rows`, which adds what is not a linear map."""

    def __init__(
        self,
        X: Any,
        y: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        shift: ArrayLike | None = None,
        scale: ArrayLike | None = None,
    ) -> None:
        self.names = feature_names(X)
        self.X = as_matrix(X)
        self.n_rows, self.n_features = self.X.shape
        self.y = numbers("y", y)
        if self.y.shape != (self.n_rows,):
            raise ValueError(
                f"X has {self.n_rows} rows but y has shape {self.y.shape}: give one y per row"
            )
        if self.n_rows == 0:
            raise ValueError("X has no rows: a client needs at least one")
        self.p, self.total = masses_of(weights, self.n_rows)
        self.shift = column_vector("shift", shift, self.n_features)
        self.scale = column_vector("scale", scale, self.n_features)
        if self.scale is not None and not (self.scale > 0).all():
            raise ValueError("scale must be positive in every column: drop constant columns")
        self._size = block_rows(width_of(self.X), 64)
        self._parts = Parts(self._views())
        require_finite_target(self.y)
        require_finite(self._parts, [block.start for block in self.blocks()], self.names)

    def __getstate__(self) -> dict[str, Any]:
        # The blocks are views of X: a copy makes its own instead of holding the data twice, and may
        # be clipped or ramped, so that sparse ones made of dense blocks are not its own either.
        kept = {name: value for name, value in self.__dict__.items() if name not in CACHED}
        return kept | {"_parts": self._parts.over([])}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._parts = self._parts.over(self._views())

    def blocks(self) -> Iterator[slice]:
        """Slices of rows that fit in cache, in order."""
        for start in range(0, self.n_rows, self._size):
            yield slice(start, min(start + self._size, self.n_rows))

    def mass(self, block: slice = slice(None)) -> Array | float:
        """The masses of a block; one number when all rows weigh the same."""
        return 1.0 / self.n_rows if self.p is None else self.p[block]

    def masses(self, rows: NDArray[np.intp]) -> Array:
        """The masses of a few rows, as an array."""
        return np.full(len(rows), 1.0 / self.n_rows) if self.p is None else self.p[rows]

    def mean(self, values: Array, block: slice = slice(None)) -> float:
        r""":math:`\sum_i p_i\,\mathrm{values}_i` over a block."""
        if self.p is None:
            return float(values.sum() / self.n_rows)
        return float(self.p[block] @ values)

    @cached_property
    def _thin_parts(self) -> list[Any] | None:
        """The blocks as sparse ones, if nearly all entries are 0; None: products in full pay."""
        plain = type(self._parts) is Parts and self.n_features >= MANY
        shift = 0.0 if self.shift is None else self.shift
        scale = 1.0 if self.scale is None else self.scale
        # Further from 0 the mean would cancel too many digits.
        if not plain or np.any(np.abs(shift) > FAR * scale):
            return None
        if is_sparse(self.X):
            return self._parts.views if self.X.nnz <= THIN * self.n_rows * self.n_features else None
        some = self.X[:: max(1, self.n_rows // MANY)]
        if np.count_nonzero(some) > THIN * some.size:
            return None
        thin = [sparse.csr_array(part) for part in self._parts]
        stored = sum(part.nnz for part in thin)
        return thin if stored <= 2.0 * THIN * self.n_rows * self.n_features else None

    @property
    def is_thin(self) -> bool:
        """Whether products go by the entries that are not 0: there are few."""
        return self._thin_parts is not None

    @property
    def _factors(self) -> Iterable[Any]:
        """The blocks as they are multiplied."""
        return self._thin_parts or self._parts

    def _one_pass(self) -> Iterator[tuple[slice, Any]]:
        """The same with their rows, for one product: stored sparse rows are one block.

        To read them twice does not pay there, and every block would cost a sum of the columns.
        """
        if type(self._parts) is Parts and is_sparse(self.X) and self.X.dtype == np.float64:
            return iter([(slice(0, self.n_rows), self.X)])
        return zip(self.blocks(), self._factors, strict=True)

    # ------------------------------------------------------------------ the linear operator
    def scores(self, w: Array, b: float = 0.0) -> Array:
        r""":math:`z_i=\langle w,x_i\rangle+b` for all rows: one pass."""
        u, offset = self._fold(w, b)
        z = np.empty(self.n_rows)
        for block, part in self._one_pass():
            np.add(exact(part) @ u, offset, out=z[block])
        return z

    def combine(self, v: Array) -> tuple[Array, float]:
        r""":math:`\sum_i v_i x_i` and :math:`\sum_i v_i`: one pass."""
        g = np.zeros(self.n_features)
        for block, part in self._one_pass():
            g += transposed(exact(part)) @ v[block]
        return self._unfold(g, float(v.sum()))

    def sweep(self, w: Array, b: float, visit: Visit) -> tuple[Array, float]:
        r"""Scores in, weighted sums out, block by block: X is read from memory once.

        ``visit(block, z)`` gets the scores of a block (its own array, free to overwrite) and
        returns the weights v of the block's rows.

        Returns
        -------
        tuple
            :math:`\sum_i v_i x_i` and :math:`\sum_i v_i`.
        """
        u, offset = self._fold(w, b)
        g, total = np.zeros(self.n_features), 0.0
        for block, part in zip(self.blocks(), self._factors, strict=True):
            A = exact(part)
            z = A @ u
            z += offset
            v = visit(block, z)
            g += transposed(A) @ v
            total += float(v.sum())
        return self._unfold(g, total)

    def sweep_many(
        self, W: Array, b: Array, visit: Visit, *, every: int = 1
    ) -> tuple[Array, Array]:
        r"""Like `sweep`, for K models at once.

        Parameters
        ----------
        W, b : arrays of shape (K, n) and (K,)
            The models.
        visit : callable
            Gets the scores of a block, (K, m), and returns the weights of its rows, (K, m).
        every : int
            Only every so many blocks are read: a sample, spread over the rows.

        Returns
        -------
        tuple
            Weighted sums of the rows (K, n), and of the weights (K,).
        """
        U, offset = self._fold_many(W, b)
        g, total = np.zeros(W.shape), np.zeros(len(W))
        pairs = zip(self.blocks(), self._factors, strict=True)
        for block, part in islice(pairs, every // 2, None, every):
            A = exact(part)
            z = products(A, U)
            z += offset
            v = visit(block, z)
            g += transposed_products(A, v)
            total += v.sum(axis=1)
        sums = [self._unfold(g[k], float(total[k])) for k in range(len(W))]
        return np.array([pair[0] for pair in sums]).reshape(W.shape), total

    def scores_many(self, W: Array, b: Array) -> Array:
        """The scores of K models, (K, N): one pass."""
        U, offset = self._fold_many(W, b)
        z = np.empty((len(W), self.n_rows))
        for block, part in self._one_pass():
            np.add(products(exact(part), U), offset, out=z[:, block])
        return z

    def combine_many(self, v: Array, groups: int = 1) -> tuple[Array, Array]:
        """Weighted sums for K weights of every row, v (K, N), by group of rows as `group_sums`.

        Returns
        -------
        tuple
            Arrays (K, groups, n) and (K, groups).
        """
        g, total = np.zeros((len(v), groups, self.n_features)), np.zeros((len(v), groups))
        for block, part in self._one_pass():
            A, weights = exact(part), v[:, block]
            for k in range(groups):
                rows = slice((k - block.start) % groups, None, groups)
                g[:, k] += transposed_products(A[rows] if groups > 1 else A, weights[:, rows])
                total[:, k] += weights[:, rows].sum(axis=1)
        if self.shift is not None:
            g -= total[:, :, None] * self.shift
        return (g if self.scale is None else g / self.scale), total

    def combine_some(self, rows: NDArray[np.intp], v: Array) -> tuple[Array, float]:
        """Like `combine`, for a few rows: gathered in float64, unless a whole pass is cheaper."""
        if FEW * len(rows) > self.n_rows:
            full = np.zeros(self.n_rows)
            full[rows] = v
            return self.combine(full)
        g = np.zeros(self.n_features)
        for start in range(0, len(rows), self._size):
            some = slice(start, start + self._size)
            part = exact(self._parts.made(self.X[rows[some]]))
            g += transposed(part) @ v[some]
        return self._unfold(g, float(v.sum()))

    def group_sums(self, v: Array, groups: int) -> tuple[Array, Array]:
        r"""Weighted sums of each group, row i being in group ``i % groups``.

        Strided groups of dense rows are views: no copy, no permutation, and sorted data are spread
        evenly.

        Returns
        -------
        tuple
            Arrays (groups, n) and (groups,).
        """
        g, total = np.zeros((groups, self.n_features)), np.zeros(groups)
        for block, part in zip(self.blocks(), self._factors, strict=True):
            A, vb = exact(part), v[block]
            slices = [slice((k - block.start) % groups, None, groups) for k in range(groups)]
            total += [vb[rows].sum() for rows in slices]
            if is_sparse(A) and groups > 1:  # slices of such rows would be copies
                g += grouped_sums(A, vb, groups, block.start)
            else:
                g += [A[rows].T @ vb[rows] for rows in slices]
        pairs = [self._unfold(g[k], total[k]) for k in range(groups)]
        return np.array([pair[0] for pair in pairs]).reshape(g.shape), total

    def _views(self) -> list[Any]:
        return [view_of(self.X, block) for block in self.blocks()]

    def _fold(self, w: Array, b: float) -> tuple[Array, float]:
        u = w if self.scale is None else w / self.scale
        offset = b if self.shift is None else b - float(self.shift @ u)
        return np.ascontiguousarray(u, dtype=np.float64), offset

    def _fold_many(self, W: Array, b: Array) -> tuple[Array, Array]:
        U = W if self.scale is None else W / self.scale
        return U, (b if self.shift is None else b - U @ self.shift)[:, None]

    def _unfold(self, g: Array, total: float) -> tuple[Array, float]:
        if self.shift is not None:
            g = g - total * self.shift
        if self.scale is not None:
            g = g / self.scale
        return g, total
