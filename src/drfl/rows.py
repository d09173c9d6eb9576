r"""A client's data seen as a linear operator: the only owner of X and y.

Everything else works with scores :math:`z_i=\langle w,x_i\rangle+b` and weighted sums
:math:`\sum_i v_i x_i`. Whoever wants sparse, float32, larger-than-memory or standardised data
changes this file alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

Array = NDArray[np.float64]
Visit = Callable[[slice, Array], Array]

# A block of rows should stay in cache between X@w and X'v: about 3 MB of float64.
BLOCK_ELEMENTS = 400_000
# What is not a linear map makes about so many arrays of the size of its block, which all together
# should stay in cache too.
COPIES = 12
# Up to one row in so many is gathered; beyond, reading all rows in order is faster.
FEW = 8


class Rows:
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
        self.X = _as_matrix(X)
        self.n_rows, self.n_features = self.X.shape
        self.y = numbers("y", y)
        if self.y.shape != (self.n_rows,):
            raise ValueError(
                f"X has {self.n_rows} rows but y has shape {self.y.shape}: give one y per row"
            )
        if self.n_rows == 0:
            raise ValueError("X has no rows: a client needs at least one")
        self.p, self.total = _masses(weights, self.n_rows)
        self.shift = _column_vector("shift", shift, self.n_features)
        self.scale = _column_vector("scale", scale, self.n_features)
        if self.scale is not None and not (self.scale > 0).all():
            raise ValueError("scale must be positive in every column: drop constant columns")
        self._size = max(64, BLOCK_ELEMENTS // max(1, _width(self.X)))
        self._parts = _Parts(self._views())
        self._require_finite()

    def __getstate__(self) -> dict[str, Any]:
        # The blocks are views of X: a copy makes its own instead of holding the data twice.
        return self.__dict__ | {"_parts": self._parts.over([])}

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

    # ------------------------------------------------------------------ the linear operator
    def scores(self, w: Array, b: float = 0.0) -> Array:
        r""":math:`z_i=\langle w,x_i\rangle+b` for all rows: one pass."""
        u, offset = self._fold(w, b)
        z = np.empty(self.n_rows)
        for block, part in zip(self.blocks(), self._parts, strict=True):
            np.add(part @ u, offset, out=z[block])
        return z

    def combine(self, v: Array) -> tuple[Array, float]:
        r""":math:`\sum_i v_i x_i` and :math:`\sum_i v_i`: one pass."""
        g = np.zeros(self.n_features)
        for block, part in zip(self.blocks(), self._parts, strict=True):
            g += _transposed(part) @ v[block].astype(self.X.dtype, copy=False)
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
        for block, part in zip(self.blocks(), self._parts, strict=True):
            z = (part @ u).astype(np.float64, copy=False)
            z += offset
            v = visit(block, z)
            g += _transposed(part) @ v.astype(self.X.dtype, copy=False)
            total += float(v.sum())
        return self._unfold(g, total)

    def sweep_many(
        self, W: Array, b: Array, visit: Visit, *, every: int = 1
    ) -> tuple[Array, Array]:
        r"""Like `sweep`, for K models at once, in float64 whatever the data are.

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
        U = W if self.scale is None else W / self.scale
        offset = b if self.shift is None else b - U @ self.shift
        g, total = np.zeros(W.shape), np.zeros(len(W))
        pairs = zip(self.blocks(), self._parts, strict=True)
        for block, part in islice(pairs, every // 2, None, every):
            A = part.astype(np.float64, copy=False)
            z = _products(A, U)
            z += offset[:, None]
            v = visit(block, z)
            g += _transposed_products(A, v)
            total += v.sum(axis=1)
        sums = [self._unfold(g[k], float(total[k])) for k in range(len(W))]
        return np.array([pair[0] for pair in sums]).reshape(W.shape), total

    def combine_some(self, rows: NDArray[np.intp], v: Array) -> tuple[Array, float]:
        """Like `combine`, for a few rows: gathered in float64, unless a whole pass is cheaper."""
        if FEW * len(rows) > self.n_rows:
            full = np.zeros(self.n_rows)
            full[rows] = v
            return self.combine(full)
        g = np.zeros(self.n_features)
        for start in range(0, len(rows), self._size):
            some = slice(start, start + self._size)
            part = self._parts.clip(self.X[rows[some]]).astype(np.float64, copy=False)
            g += _transposed(part) @ v[some]
        return self._unfold(g, float(v.sum()))

    def group_sums(self, v: Array, groups: int) -> tuple[Array, Array]:
        r"""Weighted sums of each group, row i being in group ``i % groups``.

        Strided groups are views: no copy of X, no permutation, and sorted data are spread evenly.

        Returns
        -------
        tuple
            Arrays (groups, n) and (groups,).
        """
        g, total = np.zeros((groups, self.n_features)), np.zeros(groups)
        for block, part in zip(self.blocks(), self._parts, strict=True):
            vb = v[block].astype(self.X.dtype, copy=False)
            for k in range(groups):
                rows = slice((k - block.start) % groups, None, groups)
                g[k] += part[rows].T @ vb[rows]
                total[k] += float(vb[rows].sum())
        pairs = [self._unfold(g[k], total[k]) for k in range(groups)]
        return np.array([pair[0] for pair in pairs]).reshape(g.shape), total

    def moments(self) -> tuple[Array, Array]:
        """Mean and mean square of every column: one pass."""
        return self._moments(np.broadcast_to(self.mass(), (self.n_rows,)))

    def gram_diagonal(self, d: Array) -> Array:
        """The diagonal of `gram`, (n + 1,): one pass."""
        return np.append(self._moments(d)[1], float(d.sum()))

    def _moments(self, weights: Array) -> tuple[Array, Array]:
        """Weighted sums of every column and of its square."""
        first, second = np.zeros(self.n_features), np.zeros(self.n_features)
        for block, part in zip(self.blocks(), self._parts, strict=True):
            p = weights[block].astype(self.X.dtype, copy=False)
            first += _transposed(part) @ p
            second += (part * part).T @ p
        total = float(weights.sum())
        shift = np.zeros(self.n_features) if self.shift is None else self.shift
        scale = np.ones(self.n_features) if self.scale is None else self.scale
        second = second - 2.0 * shift * first + total * shift**2
        return (first - total * shift) / scale, second / scale**2

    def gram(self, d: Array) -> Array:
        r""":math:`\sum_i d_i (x_i,1)(x_i,1)^T` for :math:`d\ge0`, of shape (n+1, n+1)."""
        H = np.zeros((self.n_features + 1, self.n_features + 1))
        for block in self.blocks():
            rows = np.flatnonzero(d[block]) + block.start
            if len(rows):
                A = self._with_ones(rows)
                A *= np.sqrt(d[rows])[:, None]
                H += A.T @ A
        return H

    def take(self, rows: NDArray[np.intp] | slice) -> Array:
        """A few rows as a dense float64 array, scaled."""
        picked = self._parts.clip(self.X[rows])
        dense = picked.toarray() if _is_sparse(picked) else picked
        out = np.array(dense, dtype=np.float64)
        if self.shift is not None:
            out -= self.shift
        if self.scale is not None:
            out /= self.scale
        return out

    def column_range(self) -> tuple[Array, Array]:
        """The least and the largest entry of every column, scaled."""
        low, high = np.full(self.n_features, np.inf), np.full(self.n_features, -np.inf)
        for part in self._parts:
            least, most = part.min(axis=0), part.max(axis=0)
            np.minimum(low, least.toarray() if _is_sparse(least) else least, out=low)
            np.maximum(high, most.toarray() if _is_sparse(most) else most, out=high)
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
        if _is_sparse(self.X) and not ((low <= 0.0) & (high >= 0.0)).all():
            raise ValueError(
                "sparse rows can only be clipped to a box that contains 0: "
                "give dense rows, or a wider box"
            )
        rows = copy(self)
        rows.y = np.clip(self.y, y_low, y_high)
        rows._parts = _ClippedParts(self._parts, low, high)
        return rows

    def dense_blocks(self) -> Iterator[tuple[slice, Array]]:
        """Blocks of rows as dense float64 arrays, scaled: for what is not a linear map of X."""
        size = max(16, BLOCK_ELEMENTS // COPIES // max(1, self.n_features))
        for start in range(0, self.n_rows, size):
            block = slice(start, min(start + size, self.n_rows))
            yield block, self.take(block)

    # ------------------------------------------------------------------ internals
    def _views(self) -> list[Any]:
        return [_view(self.X, block) for block in self.blocks()]

    def _fold(self, w: Array, b: float) -> tuple[NDArray[Any], float]:
        u = w if self.scale is None else w / self.scale
        offset = b if self.shift is None else b - float(self.shift @ u)
        return np.ascontiguousarray(u, dtype=self.X.dtype), offset

    def _unfold(self, g: Array, total: float) -> tuple[Array, float]:
        if self.shift is not None:
            g = g - total * self.shift
        if self.scale is not None:
            g = g / self.scale
        return g, total

    def _with_ones(self, rows: NDArray[np.intp]) -> Array:
        return np.column_stack([self.take(rows), np.ones(len(rows))])

    def _require_finite(self) -> None:
        if not np.isfinite(self.y).all():
            bad = np.flatnonzero(~np.isfinite(self.y))
            raise ValueError(f"y has NaN or infinite values in {_rows(bad)}: drop or fill them")
        found = [_not_finite(part) for part in self._parts]
        rows = [
            np.unique(at) + block.start for block, (at, _) in zip(self.blocks(), found, strict=True)
        ]
        columns = np.concatenate([columns for _, columns in found])
        if len(columns):
            j = int(columns[0])
            raise ValueError(
                f"X has NaN or infinite values in {_rows(np.concatenate(rows))} "
                f"(column {self.names[j] if self.names else j!r} first): drop or fill them"
            )


class _Parts:
    """The blocks of X, as views."""

    def __init__(self, views: list[Any]) -> None:
        self.views = views

    def __iter__(self) -> Iterator[Any]:
        return iter(self.views)

    def clip(self, part: Any) -> Any:
        return part

    def over(self, views: list[Any]) -> _Parts:
        """The same of other views."""
        return _Parts(views)


class _ClippedParts(_Parts):
    """The blocks of X, clipped to a box when they are read."""

    def __init__(self, parts: _Parts, low: Array, high: Array) -> None:
        super().__init__(parts.views)
        self.inner, self.low, self.high = parts, low, high

    def __iter__(self) -> Iterator[Any]:
        return map(self.clip, self.views)

    def clip(self, part: Any) -> Any:
        part = self.inner.clip(part)
        low, high = self.low.astype(part.dtype), self.high.astype(part.dtype)
        if not _is_sparse(part):
            return np.clip(part, low, high)
        data = np.clip(part.data, low[part.indices], high[part.indices])
        return _assembled(sparse.csr_array, data, part.indices, part.indptr, part.shape)

    def over(self, views: list[Any]) -> _Parts:
        return _ClippedParts(self.inner.over(views), self.low, self.high)


# With one to three models a matrix product is slower than as many products with vectors.
FEW_MODELS = 3


def _products(A: Any, U: Array) -> Array:
    """Return U A', (K, m), rows contiguous."""
    if _is_sparse(A):
        return np.ascontiguousarray((A @ U.T).T)
    if len(U) > FEW_MODELS:
        return np.asarray(U @ A.T)
    return np.array([A @ u for u in U])


def _transposed_products(A: Any, v: Array) -> Array:
    """Return v A, (K, n)."""
    if _is_sparse(A):
        return np.asarray((_transposed(A) @ v.T).T)
    if len(v) > FEW_MODELS:
        return np.asarray(v @ A)
    return np.array([A.T @ vk for vk in v])


def feature_names(X: Any) -> tuple[str, ...] | None:
    """Column names of a DataFrame, or None."""
    columns = getattr(X, "columns", None)
    return None if columns is None else tuple(str(c) for c in columns)


def _is_sparse(X: Any) -> bool:
    return bool(sparse.issparse(X))


def numbers(name: str, values: Any) -> Array:
    """Real numbers as float64, not copied if they are; anything else is refused by name."""
    try:
        array = np.asarray(values)
    except ValueError:  # lists of unequal lengths
        raise ValueError(f"{name} is not an array: its rows have different lengths") from None
    try:
        if array.dtype.kind in "biufO":
            return array.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{name} has entries that are not numbers: code them as numbers first")


def _as_matrix(X: Any) -> Any:
    if _is_sparse(X):
        csr = sparse.csr_array(X) if X.format == "csr" else sparse.csr_array(X.tocsr())
        if csr.dtype not in (np.float64, np.float32):
            csr.data = numbers("X", csr.data)
        return csr
    if hasattr(X, "to_numpy"):
        X = _frame_values(X)
    if getattr(X, "dtype", None) != np.float32:
        X = numbers("X", X)
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions (rows, features), got shape {X.shape}")
    return np.asarray(X)


def _frame_values(frame: Any) -> Any:
    values = frame.to_numpy()
    if values.dtype == object:
        try:  # pandas.NA is no number; as NaN it is found and named later
            return frame.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            pass
    return values


def _masses(weights: ArrayLike | None, n_rows: int) -> tuple[Array | None, float]:
    if weights is None:
        return None, float(n_rows)
    array = numbers("sample_weight", weights)
    if array.shape != (n_rows,):
        raise ValueError(f"sample_weight has shape {array.shape}: give one weight per row")
    if not (np.isfinite(array).all() and (array >= 0).all() and array.any()):
        raise ValueError("sample_weight must be finite, nonnegative and not all zero")
    total = float(array.sum())
    return array / total, total


def _column_vector(name: str, value: ArrayLike | None, n: int) -> Array | None:
    if value is None:
        return None
    array = numbers(name, value)
    if array.shape != (n,) or not np.isfinite(array).all():
        raise ValueError(f"{name} must hold one finite number per column ({n} of them)")
    return array


def _width(X: Any) -> int:
    # A sparse row costs its stored entries (value and index), not its columns.
    return int(2 * X.nnz / max(1, X.shape[0])) + 1 if _is_sparse(X) else int(X.shape[1])


def _view(X: Any, block: slice) -> Any:
    """Rows of a block without a copy; slicing a CSR matrix would copy its entries."""
    if not _is_sparse(X):
        return X[block]
    start, stop = X.indptr[block.start], X.indptr[block.stop]
    indptr = X.indptr[block.start : block.stop + 1] - start
    shape = (block.stop - block.start, X.shape[1])
    return _assembled(sparse.csr_array, X.data[start:stop], X.indices[start:stop], indptr, shape)


def _transposed(part: Any) -> Any:
    if not _is_sparse(part):
        return part.T
    return _assembled(sparse.csc_array, part.data, part.indices, part.indptr, part.shape[::-1])


def _assembled(kind: Any, data: Any, indices: Any, indptr: Any, shape: tuple[int, int]) -> Any:
    """A sparse array of these very arrays: the constructor would copy what is a small view."""
    made = kind(shape, dtype=data.dtype)
    made.data, made.indices, made.indptr = data, indices, indptr
    return made


def _not_finite(part: Any) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns of NaN and infinite entries."""
    values = part.data if _is_sparse(part) else part
    # The sum is finite only if every entry is; the slow look runs only on a suspicion.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp)
    if not _is_sparse(part):
        rows, columns = np.nonzero(~np.isfinite(part))
        return rows, columns
    at = np.flatnonzero(~np.isfinite(values))
    return np.searchsorted(part.indptr, at, side="right") - 1, part.indices[at]


def _rows(rows: NDArray[np.intp]) -> str:
    first = ", ".join(str(r) for r in rows[:3])
    return f"row {first}" if len(rows) == 1 else f"{len(rows)} rows (first: {first})"
