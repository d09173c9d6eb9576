"""The epigraph of a client's worst-case loss on any support, by the gains of single rows."""

from __future__ import annotations

import numpy as np

from drfl.arrays import Array
from drfl.solvers.admm.epigraph import Frame, Touch
from drfl.worst_case.escape import Floor, find_floor
from drfl.worst_case.gains import GainOracle, make_moves
from drfl.worst_case.moves import Moves


class GainFrame(Frame):
    r""":math:`p\ge\varphi(x,\lambda)=\rho\lambda+\sum_ip_ia_i(x,\lambda)`, which is jointly convex.

    A tangent at one price is one pass over the rows and valid everywhere, since every place that
    it moves a row to is a point of the support. Where the support is unbounded the price has a
    floor :math:`\lambda_0(w)`, which is convex and cut as well. Extra
    variable: :math:`\lambda\ge0`, unless it is shared; then :math:`\rho=0` here.
    """

    oracle: GainOracle

    def __init__(self, oracle: GainOracle, dimension: int, *, shared: bool = False) -> None:
        super().__init__(oracle, dimension, int(not shared), shared=shared)
        self.lower[self.lam] = 0.0
        self.radius = 0.0 if shared else oracle.ball.radius
        self.A, self.b = np.zeros((1, self.size)), np.zeros(1)  # losses are nonnegative
        self.A[0, [self.d, self.lam]] = -1.0, self.radius

    def start(self, x: Array) -> Array:
        if self.shared:
            return self.feasible(np.append(x, 0.0))
        return np.append(x, [0.0, self.oracle.loss.lipschitz * self._moves(x).reach])

    def feasible(self, y: Array) -> Array:
        if not self.shared:
            return y
        moves = self._moves(y)
        floor = find_floor(self.oracle, moves)
        y = y.copy()
        y[self.lam] = max(y[self.lam], self._first(moves, floor))
        return y

    def touch(self, y: Array) -> Touch:
        x, k, oracle = y[: self.d], self.d - self.shared, self.oracle
        moves = self._moves(x)
        floor = find_floor(oracle, moves)
        first = self._first(moves, floor)
        at = oracle._tangent(moves, self.split(x)[1], max(float(y[self.lam]), first))
        unpaid = oracle.ball.radius - self.radius  # a shared price is paid by the server
        slope, value = at.slope - unpaid, at.value - unpaid * at.lam
        g = np.append(at.gradient, at.intercept_gradient)[:k]
        rows = np.zeros((2 if floor.lam > 0.0 else 1, self.size))
        rows[0, :k], rows[0, self.d], rows[0, self.lam] = g, -1.0, slope
        right = np.array([float(g @ x[:k]) + slope * at.lam - value, 0.0])
        if floor.lam > 0.0:
            rows[1, : self.n], rows[1, self.lam] = floor.gradient, -1.0
            right[1] = float(floor.gradient @ x[: self.n]) - floor.lam
        # Just above the floor, where the rows have places to go to, stands for the floor itself.
        above = at.lam - floor.lam if at.lam == first and not self.shared else 0.0
        return Touch(value - max(slope, 0.0) * above, rows, right[: len(rows)])

    def _moves(self, x: Array) -> Moves:
        return make_moves(self.oracle.loss, self.oracle.ball, x[: self.n])

    def _first(self, moves: Moves, floor: Floor) -> float:
        return moves.first_price(floor.lam, self.oracle.loss.lipschitz * moves.reach)

    def summary(self, rows: Array, right: Array, weights: Array, *, lifted: bool) -> Array | None:
        row, bound = self.combine(rows, right, weights)
        if self.shared:
            return np.append(-bound, row[: self.d])
        # lambda is at least 0: its coefficient has to be, too. Rounding apart it is.
        missing = max(-row[self.lam], 0.0)
        share = self.radius / (self.radius + missing)  # the rest is p >= radius * lambda
        cut: Array = share * np.append(-bound, row[: self.d])
        return cut
