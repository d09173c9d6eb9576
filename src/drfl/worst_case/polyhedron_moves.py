r"""Moves inside a polyhedron :math:`\{Cx\le d\}`: a small program per row, solved in batches.

There is no closed form, but all rows with the same sign share everything except the right-hand
side, the row's slack :math:`d-Cx_i`. So do their optimal bases: see `VertexMoves`.

These are many linear programs that differ in the right-hand side only:

.. math:: \max\ \langle c,v\rangle \quad\text{s.t.}\quad Mv\le r_i,\ v\ge0.

An optimal basis (tight rows K, free columns J) of one program prices the constraints with
:math:`\pi=M_{KJ}^{-T}c_J`, which do not depend on :math:`r_i`: it is optimal for every i whose
:math:`v_J=M_{KJ}^{-1}r_{iK}` is feasible. So a few programs are solved, and their bases are tried
on all the others, also later when c has changed.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.supports import Polyhedron
from drfl.uncertainty import Ball
from drfl.worst_case.moves import Escape, PieceMoves, Step

Index = NDArray[np.intp]

TOLERANCE = 1e-10
# Rows solved per round, first and at most: few if they share bases, many if they do not.
FIRST_BATCH, LARGEST_BATCH = 2, 128


class Maximum(NamedTuple):
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

    def _new_bases(self, solved: Maximum) -> list[Basis]:
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


def maximise(c: Array, M: Array, right: Array) -> Maximum:
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
    return Maximum(
        np.maximum(found.x.reshape(m, -1), 0.0),
        -found.ineqlin.marginals.reshape(m, -1),
        found.lower.marginals.reshape(m, -1),
    )


class PolyhedronMoves(PieceMoves):
    """What polyhedra share: the columns that move, the slacks, rows split by sign."""

    clearance: ClassVar[float]

    def __init__(self, loss: Loss, ball: Ball, w: Array) -> None:
        super().__init__(loss, ball, w)
        assert isinstance(ball.support, Polyhedron)
        self.polyhedron = ball.support
        # A target that never moves is a constant of its row: its column is in the slack alone.
        self.C = self.polyhedron.C if self.targets_move else self.polyhedron.C[:, : len(w)]
        self.rise = np.append(w, -1.0) if self.targets_move else w

    def best_step(self, x: Array, y: Array, sigma: Array, size: float, lam: float) -> Step:
        slack = np.maximum(self.polyhedron.slack(x, y), 0.0)
        moved = np.zeros((len(x), self.C.shape[1]))
        for sign in (-1.0, 1.0):
            rows = np.flatnonzero(sigma == sign)
            if len(rows):
                moved[rows] = self.directed(slack[rows], size * sign * self.rise, lam)
        n = len(self.w)
        return moved[:, :n], moved[:, n] if self.targets_move else np.zeros(len(x))

    def escape(self, sigma: float) -> Escape:
        n, reach = len(self.w), self.reach
        if reach > 0.0:
            way = self.way_out(sigma / reach * self.rise)
            rate = float(sigma * self.rise @ way)
            if rate > 1e-9 * reach:  # less is what solvers find where there is no way out
                return Escape(rate, way[:n], float(way[n]) if self.targets_move else 0.0)
        return Escape(0.0, np.zeros(n), 0.0)

    def first_price(self, floor: float, top: float) -> float:
        # At the floor itself the best places may be at infinity, and at 0 all lengths are free.
        return max(floor * (1.0 + self.clearance), self.clearance * top)

    @abstractmethod
    def directed(self, slack: Array, g: Array, lam: float) -> Array:
        r"""The maximisers of :math:`\langle g,d\rangle-\lambda\|d\|` with :math:`Cd\le` slack."""

    @abstractmethod
    def way_out(self, g: Array) -> Array:
        r"""The maximiser of :math:`\langle g,d\rangle` with :math:`Cd\le0,\ \|d\|\le1`."""


class VertexMoves(PolyhedronMoves):
    r"""Norms that are linear programs, such as l1 and linf.

    With d split into positive and negative parts :math:`v\ge0` (and what the norm's own program
    adds) a row's program is :math:`\max\langle c,v\rangle` subject to :math:`Mv\le` its slack.
    """

    accuracy = 1e-11
    clearance = 1e-9

    def __init__(self, loss: Loss, ball: Ball, w: Array) -> None:
        super().__init__(loss, ball, w)
        k, columns = self.C.shape
        n = len(w)
        length = ball.norm.length_program(n)
        (rows, extra), more = length.B.shape, columns - n
        sides = np.hstack([self.C, -self.C, np.zeros((k, extra))])
        A = np.hstack([length.A, np.zeros((rows, more))])
        self.M = np.vstack([sides, np.hstack([A, A, -length.B])])
        price = np.append(length.c, np.full(more, ball.label_cost))  # of each column of d
        self.price = np.concatenate([price, price, length.r])
        self.vertices = Vertices(self.M)

    def directed(self, slack: Array, g: Array, lam: float) -> Array:
        right = np.zeros((len(slack), len(self.M)))
        right[:, : slack.shape[1]] = slack
        return self._joined(self.vertices.maximise(self._rise(g) - lam * self.price, right))

    def way_out(self, g: Array) -> Array:
        M = np.vstack([self.M, self.price])
        right = np.append(np.zeros(len(self.M)), 1.0)
        return np.asarray(self._joined(maximise(self._rise(g), M, right[None, :]).v)[0])

    def _rise(self, g: Array) -> Array:
        return np.concatenate([g, -g, np.zeros(self.M.shape[1] - 2 * len(g))])

    def _joined(self, v: Array) -> Array:
        columns = self.C.shape[1]
        return np.asarray(v[:, :columns] - v[:, columns : 2 * columns])


class ConeMoves(PolyhedronMoves):
    """The norm l2: second-order cone programs, by Clarabel (the extra ``oracle``)."""

    accuracy = 1e-9
    clearance = 1e-7
    batch = 200

    def directed(self, slack: Array, g: Array, lam: float) -> Array:
        # Per row: d, its length, and the length of the target's move.
        A, b, cones = self._row()
        cost = np.concatenate([-g, self._prices(lam)])
        out = np.empty((len(slack), len(g)))
        for start in range(0, len(slack), self.batch):
            part = slack[start : start + self.batch]
            right = np.tile(b, (len(part), 1))
            right[:, : part.shape[1]] = part
            found = _solve_cones(cost, A, right, cones)
            out[start : start + len(part)] = found[:, : len(g)]
        return out

    def way_out(self, g: Array) -> Array:
        A, b, cones = self._row(longest=1.0)
        cost = np.concatenate([-g, np.zeros(A.shape[1] - len(g))])
        return np.asarray(_solve_cones(cost, A, b[None, :], cones)[0, : len(g)])

    def _prices(self, lam: float) -> Array:
        kappa = self.ball.label_cost
        return lam * np.array([1.0, kappa]) if self.targets_move else np.array([lam])

    def _row(self, longest: float | None = None) -> tuple[Array, Array, list[tuple[str, int]]]:
        """A v + s = b, s in cones, for one row: the sides, the target's length, the ball."""
        k, columns = self.C.shape
        n, lengths = len(self.w), 1 + self.targets_move
        sides = np.hstack([self.C, np.zeros((k, lengths))])
        linear = [sides]
        if self.targets_move:
            target = np.zeros((2, columns + lengths))
            target[:, n] = 1.0, -1.0
            target[:, -1] = -1.0
            linear.append(target)
        if longest is not None:
            linear.append(np.concatenate([np.zeros(columns), self._prices(1.0)])[None, :])
        cone = np.zeros((n + 1, columns + lengths))
        cone[0, columns] = -1.0
        cone[1:, :n] = -np.eye(n)
        A = np.vstack([*linear, cone])
        b = np.zeros(len(A))
        if longest is not None:
            b[len(A) - n - 2] = longest
        return A, b, [("linear", len(A) - n - 1), ("second order", n + 1)]


# The second is for prices near the floor, where the best places are far away.
CONE_TOLERANCES = (1e-11, 1e-8)


def _solve_cones(cost: Array, A: Array, right: Array, cones: list[tuple[str, int]]) -> Array:
    """Minimise the sum of all rows' costs: one program with a block per row."""
    try:
        import clarabel
    except ImportError:
        raise ImportError(
            "a polyhedron with the l2 norm needs Clarabel: pip install 'drfl[oracle]'"
        ) from None
    kinds = {"linear": clarabel.NonnegativeConeT, "second order": clarabel.SecondOrderConeT}
    m, columns = len(right), A.shape[1]
    unit = float(right.max(initial=0.0)) or 1.0
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    for tolerance in CONE_TOLERANCES:
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        found = clarabel.DefaultSolver(
            sparse.csc_matrix((m * columns, m * columns)),
            np.tile(cost / np.abs(cost).max(), m),
            sparse.csc_matrix(sparse.kron(sparse.eye(m), A)),
            right.ravel() / unit,
            [kinds[kind](size) for kind, size in cones] * m,
            settings,
        ).solve()
        if str(found.status) in ("Solved", "AlmostSolved"):
            return unit * np.array(found.x).reshape(m, columns)
    raise RuntimeError(f"Clarabel failed on a batch of {m} rows: {found.status}")
