"""The epigraph of a client's worst-case loss on any support, by the gains of single rows."""

from __future__ import annotations

import numpy as np

from drfl.losses import Array
from drfl.solvers.admm.epigraph import Frame, Touch
from drfl.worst_case.floor import find_floor
from drfl.worst_case.gains import GainOracle, make_moves


class GainFrame(Frame):
    r""":math:`p\ge\varphi(x,\lambda)=\rho\lambda+\sum_ip_ia_i(x,\lambda)`, which is jointly convex.

    A tangent at one price is one pass over the rows and valid everywhere, since every place that
    it moves a row to is a point of the support. Where the support is unbounded the price has a
    floor :math:`\lambda_0(w)`, convex and positively homogeneous, which is cut as well. Extra
    variable: :math:`\lambda\ge0`.
    """

    oracle: GainOracle

    def __init__(self, oracle: GainOracle, dimension: int) -> None:
        super().__init__(oracle, dimension, 1)
        self.lower[self.d + 1] = 0.0
        self.A, self.b = np.zeros((1, self.size)), np.zeros(1)  # losses are nonnegative
        self.A[0, [self.d, self.d + 1]] = -1.0, oracle.ball.radius

    def start(self, x: Array) -> Array:
        reach = make_moves(self.oracle.loss, self.oracle.ball, x[: self.n]).reach
        return np.append(x, [0.0, self.oracle.loss.lipschitz * reach])

    def touch(self, y: Array) -> Touch:
        x, d, oracle = y[: self.d], self.d, self.oracle
        w, b = self.split(x)
        moves = make_moves(oracle.loss, oracle.ball, w)
        floor = find_floor(oracle, moves)
        first = moves.first_price(floor.lam, oracle.loss.lipschitz * moves.reach)
        at = oracle._tangent(moves, b, max(float(y[d + 1]), first))
        # Just above the floor, where the rows have places to go to, stands for the floor itself.
        above = at.lam - floor.lam if at.lam == first else 0.0
        value = at.value - max(at.slope, 0.0) * above
        g = np.append(at.gradient, at.intercept_gradient)[:d]
        rows = np.zeros((2 if floor.lam > 0.0 else 1, self.size))
        rows[0] = np.concatenate([g, [-1.0, at.slope]])
        right = np.array([float(g @ x) + at.slope * at.lam - at.value, 0.0])
        if floor.lam > 0.0:
            rows[1, : self.n], rows[1, d + 1] = floor.gradient, -1.0
        return Touch(value, rows, right[: len(rows)])

    def summary(self, rows: Array, right: Array, weights: Array, *, lifted: bool) -> Array | None:
        row, bound = self.combine(rows, right, weights)
        # lambda is at least 0: its coefficient has to be, too. Rounding apart it is.
        missing, radius = max(-row[self.d + 1], 0.0), self.oracle.ball.radius
        share = radius / (radius + missing)  # the rest is p >= radius * lambda
        cut: Array = share * np.append(-bound, row[: self.d])
        return cut
