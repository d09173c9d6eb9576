"""The rows of a fit: who holds which, with which weight.

There is one order for equal data: what is fitted depends on the distribution of the rows alone.
An optimum need not be unique, and even where it is, sums in another order end in other digits. So
the rows of every client are put in an order of their own, and equal rows are merged into one of
their total weight: rows in another order, and rows repeated instead of weighted, then give the same
model to the last digit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, column_or_1d

from drfl.arrays import Array
from drfl.client import Client
from drfl.inspection import column_ends
from drfl.rows.parts import is_sparse

Index = NDArray[np.intp]
Keys = NDArray[np.uint64]

BLOCK = 400_000  # entries that are looked at together
TELLING = 2  # columns by which the rows of a fit are put in order


def canonical_order(
    X: Any, y: Array, weight: Array, member: Index, columns: int | None = None
) -> tuple[Index, Array]:
    """Which rows to take, in which order, with which weights.

    Parameters
    ----------
    X : array or CSR matrix of shape (N, n)
        The rows.
    y, weight : arrays of shape (N,)
        Their labels or targets, and their weights.
    member : array of shape (N,)
        The number of the client of each row.
    columns : int, optional
        By how many columns rows are put in order, unless they are alike in these; all by default.

    Returns
    -------
    tuple
        Indices of one row of every set of equal ones, client after client, and their total weights.
    """
    keys = row_keys(few_columns(X, columns), y)
    top = (keys >> np.uint64(32)).astype(np.uint32)
    order = _by_halves(top, member)
    equal = _beside(top, order)
    equal = equal & _beside(member, order) if equal.any() else equal
    firsts = np.flatnonzero(equal)
    if not len(firsts):
        return order, weight[order]
    # The rest of the key tells these apart, then all columns; equal rows are ordered by weight.
    at = np.union1d(firsts, firsts + 1)
    alike = order[at]
    others = row_keys(X[alike], y[alike])
    within = np.lexsort((weight[alike], others, keys[alike], member[alike]))
    order[at], others = alike[within], others[within]
    # Equal keys are almost surely equal rows; that is checked before anything is merged.
    one, other, place = order[firsts], order[firsts + 1], np.searchsorted(at, firsts)
    same = (keys[one] == keys[other]) & (others[place] == others[place + 1])
    same[same] = _equal_rows(X, y, one[same], other[same])
    if not same.any():
        return order, weight[order]
    equal[firsts] = same
    starts = np.flatnonzero(np.append(True, ~equal))
    return order[starts], np.add.reduceat(weight[order], starts)


def few_columns(X: Any, columns: int | None) -> Any:
    """So many columns, which tell nearly all rows apart."""
    if columns is None or X.shape[1] <= columns:
        return X
    step = X.shape[1] // columns
    return X[:, : columns * step : step]


def _beside(values: NDArray[Any], order: Index) -> NDArray[np.bool_]:
    """Whether each but the last has the value of the next one."""
    ordered = values[order]
    return np.asarray(ordered[:-1] == ordered[1:])


def _by_halves(top: NDArray[np.uint32], member: Index) -> Index:
    """The order by client and a number of 32 bits: numbers of 16 bits are sorted in two passes."""
    order = np.argsort(top.astype(np.uint16), kind="stable")
    order = order[np.argsort((top >> np.uint32(16)).astype(np.uint16)[order], kind="stable")]
    if not member.any():
        return order
    return np.asarray(order[np.argsort(member[order], kind="stable")])


def row_keys(X: Any, y: Array) -> Keys:
    r"""A whole number for every row, the same wherever the row stands.

    :math:`\sum_j c_j v_{ij}\bmod2^{64}` with odd constants :math:`c_j` and the bits
    :math:`v_{ij}` of the entries: sums of whole numbers do not depend on their order. An entry 0
    adds nothing, so that sparse rows need their stored entries only.
    """
    constants = _odd_numbers(X.shape[1] + 1)
    keys = _bits(y) * constants[-1]
    if is_sparse(X):
        sums = np.zeros(X.nnz + 1, dtype=np.uint64)
        np.cumsum(_bits(X.data) * constants[X.indices], out=sums[1:])
        return np.asarray(keys + sums[X.indptr[1:]] - sums[X.indptr[:-1]])
    if X.shape[1] <= TELLING:  # a product of whole numbers takes its time
        for j in range(X.shape[1]):
            keys += _bits(X[:, j]) * constants[j]
        return np.asarray(keys)
    step = max(1, BLOCK // X.shape[1])
    for start in range(0, len(X), step):
        block = slice(start, start + step)
        keys[block] += _bits(X[block]) @ constants[:-1]
    return np.asarray(keys)


@lru_cache(maxsize=32)
def _odd_numbers(size: int) -> Keys:
    """So many of them; nobody changes them."""
    rng = np.random.default_rng(0)
    return np.asarray(rng.integers(1 << 63, size=size, dtype=np.uint64) * np.uint64(2) + 1)


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


ALL = "all"
"""The name of the client that holds every row, if no clients are named."""


@dataclass(frozen=True)
class ClientTable:
    """Rows, their clients and their weights.

    Attributes
    ----------
    X : array or CSR array of shape (N, n)
        The rows.
    y : array of shape (N,)
        Classes as the user names them, or targets.
    weight : array of shape (N,)
        Weights of the rows, at least 0.
    member : array of shape (N,)
        The number of each row's client.
    names : array of shape (S,)
        The clients, sorted, as the user names them.
    """

    X: Any
    y: NDArray[Any]
    weight: Array
    member: Index
    names: NDArray[Any]

    @classmethod
    def of(cls, X: Any, y: NDArray[Any], clients: Any, sample_weight: Any) -> ClientTable:
        """The rows of X and y, which are validated already."""
        names, member = named_clients(clients, X)
        return cls(_summed(X), y, _weights(sample_weight, X), member, names)

    @property
    def labels(self) -> list[str]:
        """The names of the clients as strings, as messages and results need them."""
        return [str(name) for name in self.names]

    @cached_property
    def totals(self) -> Array:
        """N_s (S,): the total weight of every client's rows."""
        return np.bincount(self.member, self.weight, len(self.names)).astype(np.float64)

    @cached_property
    def ends(self) -> tuple[Array, Array]:
        """The least and the largest value of every column (n,)."""
        return column_ends(self.X)

    def present(self) -> ClientTable:
        """The rows with a positive weight: others count as absent, and so do their clients."""
        if self.weight.all():
            return self
        kept = np.flatnonzero(self.weight)
        clients, member = np.unique(self.member[kept], return_inverse=True)
        X, y, weight = self.X[kept], self.y[kept], self.weight[kept]
        return ClientTable(X, y, weight, member, self.names[clients])

    def coded(self, codes: Array, factor: Array | None = None) -> ClientTable:
        """The same rows with numbers for y, their weights multiplied."""
        weight = self.weight if factor is None else self.weight * factor
        return replace(self, y=codes, weight=weight)

    def canonical(self, columns: int | None = None) -> ClientTable:
        """Equal rows merged, in an order that depends on the rows alone; y must be numbers.

        The order by a few ``columns`` is cheaper, for who needs any order and no certain one.
        """
        rows, weight = canonical_order(self.X, self.y, self.weight, self.member, columns)
        X = self.X[rows] if is_sparse(self.X) else np.take(self.X, rows, axis=0)  # half the time
        return ClientTable(X, self.y[rows], weight, self.member[rows], self.names)

    def pooled(self, q: Array) -> ClientTable:
        """One client that holds the mixture of all, client s with the mass q_s."""
        share = q * self.totals.sum() / self.totals
        one = np.zeros_like(self.member)
        return replace(
            self, weight=self.weight * share[self.member], member=one, names=np.array([ALL])
        )

    def clients(self, target: Array) -> Iterator[Client]:
        """A client for every name, with its rows and its part of a target (N,)."""
        for label, rows in zip(self.labels, self._parts(), strict=True):
            weight = self.weight[rows]
            ones = bool((weight == 1.0).all())  # rows without weights are the cheaper ones
            yield Client(label, self.X[rows], target[rows], sample_weight=None if ones else weight)

    def _parts(self) -> Iterator[slice | Index]:
        """Which rows are those of every client; views instead of copies where they can be."""
        if len(self.names) == 1:
            yield slice(None)
            return
        order = np.argsort(self.member, kind="stable")
        ends = np.cumsum(np.bincount(self.member, minlength=len(self.names)))
        for at in np.split(order, ends[:-1]):
            together = at[-1] - at[0] == len(at) - 1
            yield slice(at[0], at[-1] + 1) if together else at


def named_clients(clients: Any, X: Any) -> tuple[NDArray[Any], Index]:
    """The different names, sorted, and the number of each row's name; `ALL` without clients."""
    if clients is None:
        return np.array([ALL]), np.zeros(X.shape[0], dtype=np.intp)
    _refuse_alike(clients)
    given = column_or_1d(clients)
    check_consistent_length(X, given)
    missing = [k for k, name in enumerate(given.tolist()) if _is_missing(name)]
    if missing:
        raise ValueError(f"clients has no name in row {missing[0]}: name the client of every row")
    try:
        names, member = np.unique(given, return_inverse=True)
    except TypeError:
        raise TypeError("clients mixes names of different types: use strings alone") from None
    return names, member


def _refuse_alike(clients: Any) -> None:
    """Refuse names such as 1 and "1", which NumPy takes for the same."""
    if isinstance(clients, list | tuple):
        kinds = {isinstance(name, str) for name in clients if not _is_missing(name)}
        if len(kinds) > 1:
            raise TypeError("clients mixes names of different types: use strings alone")


def _is_missing(name: Any) -> bool:
    """None, NaN, or what pandas has for them."""
    return name is None or type(name).__name__ in ("NAType", "NaTType") or name != name


def _weights(sample_weight: Any, X: Any) -> Array:
    if sample_weight is None:
        return np.ones(X.shape[0])
    weight: Array = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weight < 0.0).any():
        raise ValueError(f"sample_weight must not be negative, got {weight.min():g}")
    if not weight.any():
        raise ValueError("every sample_weight is zero: at least one row needs a positive weight")
    return weight


def _summed(X: Any) -> Any:
    """X with at most one stored entry per place, in the order of the columns."""
    if not is_sparse(X):
        return X
    csr = sparse.csr_array(X)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr
