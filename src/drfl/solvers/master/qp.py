r"""Convex quadratic programs for the master: PIQP, dense or sparse by size, or `barrier`.

.. math:: \min_z\ \tfrac12 z^\top Pz + c^\top z \quad\text{s.t.}\quad Az\le b,\ z\ge l.

Nothing here has to be trusted: whatever multipliers come back, the certificate made from them is
valid, and whatever point comes back, it is only a proposal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import piqp
from numpy.typing import NDArray
from scipy import sparse

from drfl.arrays import Array
from drfl.solvers.master.barrier import BarrierRows, minimise
from drfl.solvers.master.blocks import Blocks

Ints = NDArray[np.intp]

# Above this many matrix entries the sparse solver wins if the matrix is mostly zeros.
DENSE_ENTRIES = 600_000
INFINITY = 1e30
RUNAWAY = 1e8
# Masters for which the general solver is too slow: so many leading variables, or so many clients,
LARGE, CROWD = 60, 500  # whose own variables are then eliminated
# A residual above so many times the accuracy, and above the least, is no solution.
TRUSTED, LEAST_TRUSTED = 1e3, 1e-7


class Builder:
    """Collects variables (with costs and lower bounds) and rows of ``A z <= b``."""

    def __init__(self) -> None:
        self.n_variables = self.n_rows = 0
        self._entries: list[tuple[Ints, Ints, Array | float]] = []
        self._right: list[Array] = []
        self._cost: list[Array] = []
        self._lower: list[Array] = []
        self._owner: list[Ints] = []
        self._bends: list[tuple[Array, Array]] = []

    def copy(self) -> Builder:
        """A builder that can grow without changing this one."""
        other = Builder()
        other.n_variables, other.n_rows = self.n_variables, self.n_rows
        for name in ("_entries", "_right", "_cost", "_lower", "_owner", "_bends"):
            setattr(other, name, list(getattr(self, name)))
        return other

    def variables(
        self,
        count: int,
        *,
        cost: Array | float = 0.0,
        lower: Array | float = -INFINITY,
        owner: Ints | int = -1,
    ) -> Ints:
        """Indices of ``count`` new variables, which belong to these clients (-1: to all)."""
        self.n_variables += count
        self._cost.append(np.broadcast_to(np.asarray(cost, dtype=np.float64), (count,)))
        self._lower.append(np.broadcast_to(np.asarray(lower, dtype=np.float64), (count,)))
        self._owner.append(np.broadcast_to(np.asarray(owner, dtype=np.intp), (count,)))
        return np.arange(self.n_variables - count, self.n_variables)

    def rows(self, right: Array) -> Ints:
        """Indices of new rows with these right-hand sides."""
        self.n_rows += len(right)
        self._right.append(right)
        return np.arange(self.n_rows - len(right), self.n_rows)

    def put(self, rows: Ints, columns: Ints, values: Array | float) -> None:
        """Add entries, each place once; the three are broadcast against each other."""
        self._entries.append((rows, columns, values))

    def bend(self, Q: Array, linear: Array) -> None:
        """Minimise ``z'Qz/2 + linear'z`` of the leading variables too; `cost` stays as it is."""
        self._bends.append((Q, linear))

    @property
    def cost(self) -> Array:
        """The linear cost c."""
        return np.concatenate(self._cost)

    @property
    def right(self) -> Array:
        """The right-hand sides b."""
        return np.concatenate(self._right)

    @property
    def lower(self) -> Array:
        """The lower bounds."""
        return np.concatenate(self._lower)

    @property
    def is_dense(self) -> bool:
        """Whether A is so small or so full that it is better held in full."""
        size = self.n_rows * self.n_variables
        filled = sum(np.broadcast(*entry).size for entry in self._entries)
        return size <= DENSE_ENTRIES or filled > 0.25 * size

    def sparse(self) -> sparse.csc_matrix:
        """A, compressed by columns."""
        return _compressed(self._entries, (self.n_rows, self.n_variables))

    def dense(self) -> Array:
        """A in full, in Fortran order as the solver wants it."""
        A = np.zeros((self.n_rows, self.n_variables), order="F")
        for rows, columns, values in self._entries:
            A[rows, columns] += values
        return A

    def solve(self, P: Array, eps: float, *, costs: bool = True, zoom: float = 1.0) -> QPSolution:
        """Minimise; P is the leading dense block of the quadratic term (the rest is 0).

        With ``zoom`` all rows are multiplied by it, and all but the leading variables are too.
        """
        P, cost = P.copy(), self.cost * costs
        for Q, linear in self._bends:
            P[: len(Q), : len(Q)] += Q
            cost[: len(Q)] += linear
        owner = np.concatenate(self._owner)
        crowded = int(owner.max(initial=-1)) >= CROWD
        if (len(P) > LARGE or crowded) and zoom == 1.0:
            own = self._by_barrier(P, cost, eps, owner if crowded else None)
            if own is not None and own.usable:
                return own
        zooms = np.where(np.arange(self.n_variables) < len(P), zoom, 1.0)
        free = self.lower <= -INFINITY
        lower = np.where(free, -INFINITY, self.lower * (zoom / zooms))
        dense = self.is_dense
        for form in (dense, not dense):  # if it fails: other elimination order, other rounding
            A = self.dense() * zooms if form else self.sparse() @ sparse.diags(zooms)
            solution = _piqp(P, cost, A, zoom * self.right, lower, eps)
            if solution.usable:
                break
        return solution

    def _by_barrier(
        self, P: Array, cost: Array, eps: float, owner: Ints | None
    ) -> QPSolution | None:
        """By the method for few full rows and many that are nearly empty; None: it is not for this.

        ``owner`` says whose variables are to be eliminated first; None: nobody's.
        """
        full = [entry for entry in self._entries if self._is_full(entry, len(P))]
        first = np.concatenate([rows[:, 0] for rows, _, _ in full] or [np.zeros(0, np.intp)])
        G, start = np.zeros((len(first), len(P))), 0
        for rows, columns, values in full:
            G[start : start + len(rows), columns[0]] = values
            start += len(rows)
        bounded = np.flatnonzero(self.lower > -INFINITY)
        others = np.ones(self.n_rows, np.bool_)
        others[first] = False
        order = np.concatenate([first, np.flatnonzero(others)])
        A = _compressed(
            [entry for entry in self._entries if not self._is_full(entry, len(P))],
            (self.n_rows, self.n_variables),
        )
        ones = np.full(len(bounded), -1.0)
        L = sparse.csr_matrix(
            (ones, (np.arange(len(bounded)), bounded)), shape=(len(bounded), self.n_variables)
        )
        rest = sparse.vstack([A.tocsr()[order], L]).tocsr()
        right = np.concatenate([self.right[order], -self.lower[bounded]])
        blocks = None if owner is None else Blocks.of(owner, rest, len(G))
        if blocks is None and len(P) <= LARGE:
            return None
        found = minimise(P, cost, BarrierRows(G, rest, right, blocks), eps)
        multipliers = np.zeros(self.n_rows)
        multipliers[order] = found.y[: self.n_rows]
        near = found.residual <= max(TRUSTED * eps, LEAST_TRUSTED)
        usable = near and np.abs(found.z).max(initial=0.0) < RUNAWAY
        return QPSolution(found.z, multipliers, bool(usable))

    @staticmethod
    def _is_full(entry: tuple[Ints, Ints, Array | float], leading: int) -> bool:
        """Whether these are whole rows of the leading variables."""
        rows, columns, _ = entry
        shapes = rows.ndim == columns.ndim == 2 and rows.shape[1] == columns.shape[0] == 1
        return bool(shapes and columns.size > 1 and columns.max() < leading)


@dataclass(frozen=True)
class QPSolution:
    """A point, the multipliers of the rows, and whether it can be used."""

    z: Array
    multipliers: Array
    usable: bool


def _compressed(
    entries: Sequence[tuple[Ints, Ints, Array | float]], shape: tuple[int, int]
) -> sparse.csc_matrix:
    parts = [np.broadcast_arrays(*entry) for entry in entries]
    rows, columns, values = (np.concatenate([p[k].ravel() for p in parts]) for k in range(3))
    return sparse.csc_matrix((values, (rows, columns)), shape=shape)


def piqp_solver(eps: float, *, dense: bool) -> Any:
    """PIQP with one precision for everything."""
    solver = piqp.DenseSolver() if dense else piqp.SparseSolver()
    settings = solver.settings
    settings.eps_abs = settings.eps_rel = eps
    settings.eps_duality_gap_abs = settings.eps_duality_gap_rel = eps
    settings.max_iter = 100
    return solver


def _piqp(
    P: Array, c: Array, A: Array | sparse.csc_matrix, b: Array, lower: Array, eps: float
) -> QPSolution:
    dense = isinstance(A, np.ndarray)
    solver = piqp_solver(eps, dense=dense)
    n, k = len(c), len(P)
    free, upper = np.full(len(b), -INFINITY), np.full(n, INFINITY)
    if dense:
        quadratic = np.zeros((n, n), order="F")
        quadratic[:k, :k] = P
        solver.setup(quadratic, c, None, None, A, free, b, lower, upper)
    else:
        block = sparse.coo_matrix(P)
        embedded = sparse.csc_matrix((block.data, (block.row, block.col)), shape=(n, n))
        solver.setup(embedded, c, None, None, A, free, b, lower, upper)
    solver.solve()
    z = np.array(solver.result.x)
    multipliers = np.nan_to_num(np.maximum(solver.result.z_u, 0.0), nan=0.0, posinf=0.0)
    usable = bool(np.isfinite(z).all() and np.abs(z).max(initial=0.0) < RUNAWAY)
    return QPSolution(z, multipliers, usable)
