"""The epigraph of a client's worst-case loss on the whole space."""

from __future__ import annotations

import numpy as np

from drfl.arrays import Array
from drfl.gauges import DualNorm
from drfl.norms import EpigraphRows
from drfl.solvers.admm.epigraph import Frame, Touch
from drfl.worst_case.whole_space import WholeSpaceOracle, flip_gain


class WholeSpaceFrame(Frame):
    r"""The whole space: :math:`p\ge\rho\lambda+u(x,\lambda)` with :math:`\lambda\ge\|w\|_*`.

    :math:`u=\sum_ip_i\max\{L(m_i),L(-m_i)-\kappa\lambda\}`; where labels do not move it is the
    mean loss and :math:`\rho` contains the Lipschitz constant. Extra variables: :math:`\lambda`
    (none if the radius is 0 or it is shared), and those of the gauge's rows. A shared
    :math:`\lambda` has no price here: :math:`\rho=0`.
    """

    oracle: WholeSpaceOracle

    def __init__(self, oracle: WholeSpaceOracle, dimension: int, *, shared: bool = False) -> None:
        ball, self.gauge = oracle.ball, DualNorm(oracle.ball.norm, oracle.rows.n_features)
        self.priced = shared or ball.radius > 0.0
        own, exact = self.priced and not shared, self.gauge.rows() if self.priced else None
        self.extra = 0 if exact is None else exact.n_extra
        self.learned = self.priced and exact is None  # the gauge, by tangents
        super().__init__(oracle, dimension, own + self.extra, shared=shared)
        self.rho = ball.radius * oracle.loss.lipschitz * own
        self.floor = 0.0 if oracle.is_margin else 1.0 / ball.label_cost
        if self.priced:
            self._write(exact)

    def _write(self, exact: EpigraphRows | None) -> None:
        """The row of p >= rho lambda, and those of the gauge if it has any."""
        self.lower[self.lam] = self.floor
        A = np.zeros((1 + (0 if exact is None else exact.n_rows), self.size))
        A[0, [self.d, self.lam]] = -1.0, self.rho
        if exact is not None:
            A[1 + exact.w.row, exact.w.column] = exact.w.value
            A[1 + exact.e.row, self.size - self.extra + exact.e.column] = exact.e.value
            A[1 + exact.t.row, self.lam] = exact.t.value
        self.A, self.b = A, np.zeros(len(A))

    def start(self, x: Array) -> Array:
        lam = [self._least_price(x)] if self.priced and not self.shared else []
        more = self.gauge.extra(x) if self.extra else x[:0]
        return self.feasible(np.concatenate([x, [0.0], lam, more]))

    def feasible(self, y: Array) -> Array:
        if not self.shared or y[self.lam] >= self._least_price(y):
            return y
        y = y.copy()
        y[self.lam] = self._least_price(y)
        return y

    def _least_price(self, x: Array) -> float:
        return max(self.gauge.value(x), self.floor)

    def touch(self, y: Array) -> Touch:
        x, k = y[: self.d], self.d - self.shared
        # The QP keeps its constraints up to rounding, and a gauge without rows up to cuts.
        least = self._least_price(x)
        lam = max(least, float(y[self.lam])) if self.priced else least
        u, slope, g = self._mean(x, lam)
        row = np.zeros((1, self.size))
        row[0, :k], row[0, self.d] = g, -1.0
        right = np.array([float(g @ x[:k]) + slope * lam - u])
        value = u + self.rho * lam
        if self.priced:
            row[0, self.lam] = slope + self.rho
            if self.learned and x[: self.n].any():
                return Touch(value, np.vstack([row, self._tangent(x)]), np.append(right, 0.0))
        return Touch(value, row, right)

    def _mean(self, x: Array, lam: float) -> tuple[float, float, Array]:
        """u and its slopes in lambda and x, in one sweep."""
        oracle, rows, loss = self.oracle, self.rows, self.oracle.loss
        kappa, flipping = oracle.ball.label_cost, oracle.labels_move
        u = slope = 0.0

        def visit(block: slice, z: Array) -> Array:
            nonlocal u, slope
            y = rows.y[block]
            z = np.multiply(z, y, out=z) if oracle.is_margin else np.subtract(z, y, out=z)
            value, v = loss.value_and_slope(z)
            # The gain of a flip grows with the margin: most of the time the largest tells all.
            if flipping and flip_gain(loss, z.max(keepdims=True))[0] > kappa * lam:
                gain = flip_gain(loss, z) - kappa * lam
                flips = gain > 0.0
                value += np.maximum(gain, 0.0)
                v = np.where(flips, -loss.slope(-z), v)
                slope -= kappa * rows.mean(flips.astype(np.float64), block)
            u += rows.mean(value, block)
            v *= rows.mass(block)
            return np.multiply(v, y, out=v) if oracle.is_margin else v

        g, gb = rows.sweep(*self.split(x), visit)
        return u, slope, np.append(g, gb)[: self.d - self.shared]

    def summary(self, rows: Array, right: Array, weights: Array, *, lifted: bool) -> Array | None:
        weights = np.where(rows[:, self.d] < 0.0, weights, 0.0)  # the norm is everybody's own
        row, bound = self.combine(rows, right, weights)
        own = self.oracle.labels_move and not self.shared
        slope = [row[self.lam] - self.rho] if own else []
        return np.concatenate([[-bound], slope, row[: self.d]])

    def _tangent(self, x: Array) -> Array:
        row = np.zeros(self.size)
        row[: self.n], row[self.lam] = self.gauge.subgradient(x), -1.0
        return row

    def norm_curvature(self, x: Array) -> Array | None:
        H = self.gauge.curvature(x) if self.learned else None
        return None if H is None else np.pad(H, (0, self.d - self.n))
