r"""Convex quadratic programs for the master: PIQP, dense or sparse by size.

.. math:: \min_z\ \tfrac12 z^\top Pz + c^\top z \quad\text{s.t.}\quad Az\le b,\ z\ge l.

Nothing here has to be trusted: whatever multipliers come back, the certificate made from them is
valid, and whatever point comes back, it is only a proposal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import piqp
from numpy.typing import NDArray
from scipy import sparse

from drfl.losses import Array

Ints = NDArray[np.intp]

# Above this many matrix entries the sparse solver wins if the matrix is mostly zeros.
DENSE_ENTRIES = 600_000
INFINITY = 1e30
RUNAWAY = 1e8


class Builder:
    """Collects variables (with costs and lower bounds) and rows of ``A z <= b``."""

    def __init__(self) -> None:
        self.n_variables = self.n_rows = 0
        self._rows: list[Ints] = []
        self._columns: list[Ints] = []
        self._values: list[Array] = []
        self._right: list[Array] = []
        self._cost: list[Array] = []
        self._lower: list[Array] = []
        self._bends: list[tuple[Array, Array]] = []

    def copy(self) -> Builder:
        """A builder that can grow without changing this one."""
        other = Builder()
        other.n_variables, other.n_rows = self.n_variables, self.n_rows
        for name in ("_rows", "_columns", "_values", "_right", "_cost", "_lower", "_bends"):
            setattr(other, name, list(getattr(self, name)))
        return other

    def variables(
        self, count: int, *, cost: Array | float = 0.0, lower: Array | float = -INFINITY
    ) -> Ints:
        """Indices of ``count`` new variables."""
        self.n_variables += count
        self._cost.append(np.broadcast_to(np.asarray(cost, dtype=np.float64), (count,)))
        self._lower.append(np.broadcast_to(np.asarray(lower, dtype=np.float64), (count,)))
        return np.arange(self.n_variables - count, self.n_variables)

    def rows(self, right: Array) -> Ints:
        """Indices of new rows with these right-hand sides."""
        self.n_rows += len(right)
        self._right.append(right)
        return np.arange(self.n_rows - len(right), self.n_rows)

    def put(self, rows: Ints, columns: Ints, values: Array | float) -> None:
        """Add entries; the three are broadcast against each other."""
        r, c, v = np.broadcast_arrays(rows, columns, np.asarray(values, dtype=np.float64))
        self._rows.append(r.ravel())
        self._columns.append(c.ravel())
        self._values.append(v.ravel())

    def bend(self, Q: Array, linear: Array) -> None:
        """Minimise ``z'Qz/2 + linear'z`` of the leading variables too; `cost` stays as it is."""
        self._bends.append((Q, linear))

    @property
    def cost(self) -> Array:
        """The linear cost c."""
        return np.concatenate(self._cost)

    def constraints(self) -> tuple[sparse.csc_array, Array, Array]:
        """A, b and the lower bounds."""
        entries = (
            np.concatenate(self._values),
            (np.concatenate(self._rows), np.concatenate(self._columns)),
        )
        A = sparse.csc_array(sparse.coo_array(entries, shape=(self.n_rows, self.n_variables)))
        return A, np.concatenate(self._right), np.concatenate(self._lower)

    def solve(self, P: Array, eps: float, *, costs: bool = True) -> QPSolution:
        """Minimise; P is the leading dense block of the quadratic term (the rest is 0)."""
        P, cost = P.copy(), self.cost * costs
        for Q, linear in self._bends:
            P[: len(Q), : len(Q)] += Q
            cost[: len(Q)] += linear
        A, right, lower = self.constraints()
        size = self.n_rows * self.n_variables
        dense = size <= DENSE_ENTRIES or A.nnz > 0.25 * size
        solution = _piqp(P, cost, A, right, lower, eps, dense=dense)
        if not solution.usable:  # other elimination order, other rounding
            solution = _piqp(P, cost, A, right, lower, eps, dense=not dense)
        return solution


@dataclass(frozen=True)
class QPSolution:
    """A point, the multipliers of the rows, and whether it can be used."""

    z: Array
    multipliers: Array
    usable: bool


def _piqp(
    P: Array, c: Array, A: sparse.csc_array, b: Array, lower: Array, eps: float, *, dense: bool
) -> QPSolution:
    solver = piqp.DenseSolver() if dense else piqp.SparseSolver()
    settings = solver.settings
    settings.eps_abs = settings.eps_rel = eps
    settings.eps_duality_gap_abs = settings.eps_duality_gap_rel = eps
    settings.max_iter = 100
    n, k = len(c), len(P)
    free, upper = np.full(len(b), -INFINITY), np.full(n, INFINITY)
    if dense:
        quadratic = np.zeros((n, n), order="F")
        quadratic[:k, :k] = P
        matrix = np.asfortranarray(A.toarray())
        solver.setup(quadratic, c, None, None, matrix, free, b, lower, upper)
    else:
        block = sparse.coo_matrix(P)
        embedded = sparse.csc_matrix((block.data, (block.row, block.col)), shape=(n, n))
        solver.setup(embedded, c, None, None, sparse.csc_matrix(A), free, b, lower, upper)
    solver.solve()
    z = np.array(solver.result.x)
    multipliers = np.nan_to_num(np.maximum(solver.result.z_u, 0.0), nan=0.0, posinf=0.0)
    usable = bool(np.isfinite(z).all() and np.abs(z).max(initial=0.0) < RUNAWAY)
    return QPSolution(z, multipliers, usable)
