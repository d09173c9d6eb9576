"""The rows of a fit: who holds which, with which weight."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, column_or_1d

from drfl.arrays import Array
from drfl.client import Client
from drfl.estimators.canonical import Index, canonical_order, is_sparse

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
        names, member = np.array([ALL]), np.zeros(X.shape[0], dtype=np.intp)
        if clients is not None:
            names, member = _named(clients, X)
        return cls(_summed(X), y, _weights(sample_weight, X), member, names)

    @property
    def labels(self) -> list[str]:
        """The names of the clients as strings, as messages and results need them."""
        return [str(name) for name in self.names]

    @property
    def totals(self) -> Array:
        """N_s (S,): the total weight of every client's rows."""
        return np.bincount(self.member, self.weight, len(self.names)).astype(np.float64)

    def present(self) -> ClientTable:
        """The rows with a positive weight: others count as absent, and so do their clients."""
        if self.weight.all():
            return self
        kept = np.flatnonzero(self.weight)
        clients, member = np.unique(self.member[kept], return_inverse=True)
        X, y, weight = self.X[kept], self.y[kept], self.weight[kept]
        return ClientTable(X, y, weight, member, self.names[clients])

    def coded(self, codes: Array, factor: Array) -> ClientTable:
        """The same rows with numbers for y, their weights multiplied."""
        return replace(self, y=codes, weight=self.weight * factor)

    def canonical(self) -> ClientTable:
        """Equal rows merged, in an order that depends on the rows alone; y must be numbers."""
        rows, weight = canonical_order(self.X, self.y, self.weight, self.member)
        return ClientTable(self.X[rows], self.y[rows], weight, self.member[rows], self.names)

    def pooled(self, q: Array) -> ClientTable:
        """One client that holds the mixture of all, client s with the mass q_s."""
        share = q * self.totals.sum() / self.totals
        one = np.zeros_like(self.member)
        return replace(
            self, weight=self.weight * share[self.member], member=one, names=np.array([ALL])
        )

    def clients(self, target: Array) -> Iterator[Client]:
        """A client for every name, with its rows and its part of a target (N,)."""
        order = np.argsort(self.member, kind="stable")
        ends = np.cumsum(np.bincount(self.member, minlength=len(self.names)))
        for label, at in zip(self.labels, np.split(order, ends[:-1]), strict=True):
            together = at[-1] - at[0] == len(at) - 1
            rows = slice(at[0], at[-1] + 1) if together else at  # views instead of copies
            weight = self.weight[rows]
            ones = bool((weight == 1.0).all())  # rows without weights are the cheaper ones
            yield Client(label, self.X[rows], target[rows], sample_weight=None if ones else weight)


def _named(clients: Any, X: Any) -> tuple[NDArray[Any], Index]:
    """The different names, sorted, and the number of each row's name."""
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


def _is_missing(name: Any) -> bool:
    """None, NaN, or what pandas has for them."""
    return name is None or type(name).__name__ in ("NAType", "NaTType") or name != name


def _weights(sample_weight: Any, X: Any) -> Array:
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
