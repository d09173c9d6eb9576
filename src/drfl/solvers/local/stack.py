r"""Rows of all clients in one matrix, in units in which features are about 1.

A row is :math:`z_i=\langle A_i,x\rangle-o_i` of x = (w, b): margins in classification, where A has
the labels as a factor, residuals in regression, where o is the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from drfl.arrays import Array
from drfl.rows import Rows

Ints = NDArray[np.intp]
# Sparse rows stay sparse if at most this share of their entries is stored.
SPARSE = 0.1
# Up to so many entries one call is worth more than a better order of the sums.
SMALL = 20_000
# A matrix of so many rows is scaled at once, so that it stays in cache.
BLOCK = 2048


@dataclass(frozen=True)
class RowStack:
    """Some rows of every client, those of a client together.

    Attributes
    ----------
    A : array or sparse array of shape (M, d)
        The rows in units of ``unit``, times their label in classification.
    offset : (M,)
        What is subtracted: the targets in regression.
    mass : (M,)
        The rows' masses in their client.
    starts : (S + 1,)
        Where the rows of a client begin.
    """

    A: Any
    offset: Array
    mass: Array
    starts: Ints

    @property
    def n_clients(self) -> int:
        """S."""
        return len(self.starts) - 1

    @property
    def sizes(self) -> Ints:
        """Rows of every client."""
        return np.diff(self.starts)

    @cached_property
    def client(self) -> Ints:
        """Whose row it is."""
        return np.repeat(np.arange(self.n_clients), self.sizes)

    @cached_property
    def _filled(self) -> Ints:
        """Clients with rows: sums of none are 0."""
        return np.flatnonzero(self.sizes)

    @cached_property
    def _begins(self) -> Ints:
        """Where their rows begin."""
        return self.starts[self._filled]

    def spread(self, values: Array) -> Array:
        """Each client's value for each of its rows."""
        if len(values) == 1:
            return np.broadcast_to(values, (len(self.mass),))
        return np.asarray(values[self.client])

    def sums(self, values: Array) -> Array:
        """Sums over the rows of every client, (S,)."""
        if self.n_clients == 1:
            return np.array([values.sum()])
        if len(self._filled) == self.n_clients:
            return np.add.reduceat(values, self._begins)
        total = np.zeros(self.n_clients)
        if len(self._filled):
            total[self._filled] = np.add.reduceat(values, self._begins)
        return total

    def margins(self, x: Array) -> Array:
        """z at x."""
        return np.asarray(self.A @ x) - self.offset

    def products(self, v: Array) -> Array:
        """A'v."""
        return np.asarray(self.A.T @ v)

    def client_products(self, v: Array) -> Array:
        """A'v of every client, (S, d)."""
        if isinstance(self.A, np.ndarray) and self.A.size <= SMALL and len(self._filled):
            out = np.zeros((self.n_clients, self.A.shape[1]))
            out[self._filled] = np.add.reduceat(self.A * v[:, None], self._begins, axis=0)
            return out
        slices = [slice(*self.starts[s : s + 2]) for s in range(self.n_clients)]
        return np.array([np.asarray(self.A[part].T @ v[part]) for part in slices])

    def gram(self, h: Array) -> Array:
        """A' diag(h) A for h >= 0."""
        if not isinstance(self.A, np.ndarray):
            return np.asarray((self.A.T @ (self.A * h[:, None])).toarray())
        root = np.sqrt(h)
        G = np.zeros((self.A.shape[1],) * 2)
        for start in range(0, len(h), BLOCK):
            part = slice(start, start + BLOCK)
            B = self.A[part] * root[part, None]
            G += B.T @ B
        return G


def stack(
    clients: Sequence[Rows],
    chosen: Sequence[Ints],
    factors: Sequence[float],
    *,
    unit: float,
    margin: bool,
    intercept: bool,
) -> RowStack:
    """The chosen rows of every client, their masses times the client's factor."""
    parts, offsets, masses = [], [], []
    for rows, some, factor in zip(clients, chosen, factors, strict=True):
        y = rows.y[some]
        parts.append(_matrix(rows, some, unit, y if margin else None, intercept))
        offsets.append(np.zeros(len(some)) if margin else y)
        masses.append(factor * rows.masses(some))
    if all(isinstance(part, np.ndarray) for part in parts):
        A = parts[0] if len(parts) == 1 else np.vstack(parts)
    else:
        A = sparse.csr_array(sparse.vstack(parts, format="csr"))
    starts = np.concatenate([[0], np.cumsum([len(part) for part in masses])])
    return RowStack(A, np.concatenate(offsets), np.concatenate(masses), starts.astype(np.intp))


def _matrix(rows: Rows, some: Ints, unit: float, labels: Array | None, intercept: bool) -> Any:
    ones = np.ones((len(some), 1)) if labels is None else labels[:, None]
    X = rows.X
    if _is_thin(rows):
        picked = X[some].astype(np.float64)
        scale = unit if rows.scale is None else unit * rows.scale
        picked = sparse.csr_array(picked * (1.0 / np.broadcast_to(scale, (X.shape[1],)))[None, :])
        if labels is not None:
            picked = sparse.csr_array(picked * labels[:, None])
        last: Any = sparse.csr_array(ones)
        return sparse.csr_array(sparse.hstack([picked, last])) if intercept else picked
    A = np.empty((len(some), rows.n_features + intercept))
    for start in range(0, len(some), BLOCK):
        part = slice(start, start + BLOCK)
        np.multiply(rows.take(some[part]), ones[part] / unit, out=A[part, : rows.n_features])
    if intercept:
        A[:, -1:] = ones
    return A


def _is_thin(rows: Rows) -> bool:
    """Whether rows are better left sparse."""
    X: Any = rows.X
    if isinstance(X, np.ndarray) or rows.shift is not None:
        return False
    return bool(X.nnz <= SPARSE * X.shape[0] * X.shape[1])
