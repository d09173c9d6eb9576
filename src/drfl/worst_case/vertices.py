r"""Many linear programs that differ in the right-hand side only.

.. math:: \max\ \langle c,v\rangle \quad\text{s.t.}\quad Mv\le r_i,\ v\ge0.

An optimal basis (tight rows K, free columns J) of one program prices the constraints with
:math:`\pi=M_{KJ}^{-T}c_J`, which do not depend on :math:`r_i`: it is optimal for every i whose
:math:`v_J=M_{KJ}^{-1}r_{iK}` is feasible. So a few programs are solved, and their bases are tried
on all the others, also later when c has changed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from drfl.arrays import Array

Index = NDArray[np.intp]

TOLERANCE = 1e-10
# Rows solved per round, first and at most: few if they share bases, many if they do not.
FIRST_BATCH, LARGEST_BATCH = 2, 128


class Solved(NamedTuple):
    """Solutions v, with the prices of the constraints and the reduced costs, a row per program."""

    v: Array
    price: Array
    reduced: Array


class Basis(NamedTuple):
    """Tight rows K, free columns J and the inverse of M_KJ."""

    K: Index
    J: Index
    inverse: Array


class Vertices:
    """A growing collection of bases for one matrix M."""

    def __init__(self, M: Array) -> None:
        self.M = M
        self.bases: list[Basis] = []

    def maximise(self, c: Array, right: Array) -> Array:
        """Maximisers v, (m, columns), for the right-hand sides (m, rows) >= 0."""
        unit = float(right.max(initial=0.0))
        if unit == 0.0 or not c.any():
            return np.zeros((len(right), self.M.shape[1]))
        # In units of 1 the solver's tolerances are relative.
        return unit * self._maximise(c / float(np.abs(c).max()), right / unit)

    def _maximise(self, c: Array, right: Array) -> Array:
        v = np.zeros((len(right), self.M.shape[1]))
        left = np.arange(len(right))
        for basis in self.bases:
            left = self._try(basis, c, right, v, left)
        size = FIRST_BATCH
        while len(left):
            batch, left = left[:size], left[size:]
            size = min(2 * size, LARGEST_BATCH)
            solved = maximise(c, self.M, right[batch])
            v[batch] = solved.v
            for basis in self._new_bases(solved):
                self.bases.append(basis)
                left = self._try(basis, c, right, v, left)
        return v

    def _try(self, basis: Basis, c: Array, right: Array, v: Array, left: Index) -> Index:
        """Solve the programs for which the basis is optimal; return the others."""
        if not len(left):
            return left
        K, J, inverse = basis
        price = inverse.T @ c[J]
        if (price < -TOLERANCE).any() or (c - price @ self.M[K] > TOLERANCE).any():
            return left
        r = right[left]
        free = r[:, K] @ inverse.T
        ok = (free >= -TOLERANCE).all(axis=1)
        ok &= (free @ self.M[:, J].T <= r + TOLERANCE).all(axis=1)
        v[np.ix_(left[ok], J)] = np.maximum(free[ok], 0.0)
        return np.asarray(left[~ok])

    def _new_bases(self, solved: Solved) -> list[Basis]:
        """The bases that can be read off solutions; none where a program is degenerate."""
        found: dict[tuple[bytes, bytes], Basis] = {}
        for price, reduced in zip(solved.price, solved.reduced, strict=True):
            K, J = np.flatnonzero(price > TOLERANCE), np.flatnonzero(reduced < TOLERANCE)
            key = K.tobytes(), J.tobytes()
            if len(K) != len(J) or key in found:
                continue
            square = self.M[np.ix_(K, J)]
            if len(K) == 0 or np.linalg.cond(square) < 1e10:
                found[key] = Basis(K, J, np.asarray(np.linalg.inv(square), dtype=np.float64))
        return list(found.values())


def maximise(c: Array, M: Array, right: Array) -> Solved:
    """Solve all programs as one with a block for each."""
    from scipy.optimize import linprog  # slow to import; only polyhedra need it

    m = len(right)
    blocks: Any = sparse.kron(sparse.eye_array(m), M, format="csr")
    found = linprog(
        np.tile(-c, m),
        A_ub=blocks,
        b_ub=right.ravel(),
        bounds=(0, None),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if found.status != 0 or found.x is None:
        raise RuntimeError(f"HiGHS failed on a batch of {m} rows: {found.message}")
    return Solved(
        np.maximum(found.x.reshape(m, -1), 0.0),
        -found.ineqlin.marginals.reshape(m, -1),
        found.lower.marginals.reshape(m, -1),
    )
