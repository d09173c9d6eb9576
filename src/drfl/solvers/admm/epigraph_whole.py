"""The epigraph of a client's worst-case loss on the whole space."""

from __future__ import annotations

import numpy as np

from drfl.losses import Array
from drfl.solvers.admm.epigraph import Frame, Touch
from drfl.worst_case.whole_space import WholeSpaceOracle, flip_gain


class WholeSpaceFrame(Frame):
    r"""The whole space: :math:`p\ge\rho\lambda+u(x,\lambda)` with :math:`\lambda\ge\|w\|_*`.

    :math:`u=\sum_ip_i\max\{L(m_i),L(-m_i)-\kappa\lambda\}`; where labels do not move it is the
    mean loss and :math:`\rho` contains the Lipschitz constant. Extra variables: :math:`\lambda`
    (none if the radius is 0), and for the ground norm linf the absolute values of w.
    """

    oracle: WholeSpaceOracle

    def __init__(self, oracle: WholeSpaceOracle, dimension: int) -> None:
        n, ball = oracle.rows.n_features, oracle.ball
        self.priced = ball.radius > 0.0
        self.summed = self.priced and ball.norm.name == "linf"
        super().__init__(oracle, dimension, int(self.priced) + n * self.summed)
        self.rho = ball.radius * oracle.loss.lipschitz
        self.floor = 0.0 if oracle.is_margin else 1.0 / ball.label_cost
        if self.priced:
            self._write(ball.norm.name)

    def _write(self, norm: str) -> None:
        """The rows of p >= rho lambda and of the dual norm; the Euclidean one is cut."""
        n, lam = self.n, self.d + 1
        self.lower[lam] = self.floor
        trivial = np.zeros((1, self.size))
        trivial[0, [self.d, lam]] = -1.0, self.rho
        rows = np.zeros((2 * n if norm != "l2" else 0, self.size))
        if norm != "l2":
            rows[:n, :n], rows[n:, :n] = np.eye(n), -np.eye(n)
            rows[:, lam] = -1.0 if norm == "l1" else 0.0
        if self.summed:  # |w_j| <= e_j and their sum is at most lambda
            rows[:n, lam + 1 :] = rows[n:, lam + 1 :] = -np.eye(n)
            total = np.zeros((1, self.size))
            total[0, lam], total[0, lam + 1 :] = -1.0, 1.0
            trivial = np.vstack([trivial, total])
        self.A = np.vstack([trivial, rows])
        self.b = np.zeros(len(self.A))

    def start(self, x: Array) -> Array:
        lam = [self._least_price(x)] if self.priced else []
        size = np.abs(x[: self.n]) if self.summed else x[:0]
        return np.concatenate([x, [0.0], lam, size])

    def _least_price(self, x: Array) -> float:
        return max(self.oracle.ball.norm.dual(x[: self.n]), self.floor)

    def touch(self, y: Array) -> Touch:
        x, d = y[: self.d], self.d
        # The QP keeps its constraints up to rounding, and the Euclidean norm up to cuts.
        lam = max(self._least_price(x), y[d + 1]) if self.priced else self._least_price(x)
        u, slope, g = self._mean(x, lam)
        row = np.zeros((1, self.size))
        row[0, :d], row[0, d] = g, -1.0
        right = np.array([float(g @ x) + slope * lam - u])
        value = u + self.rho * lam
        if self.priced:
            row[0, d + 1] = slope + self.rho
            if self.oracle.ball.norm.name == "l2" and x[: self.n].any():
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
        return u, slope, np.append(g, gb)[: self.d]

    def summary(self, rows: Array, right: Array, weights: Array, *, lifted: bool) -> Array | None:
        weights = np.where(rows[:, self.d] < 0.0, weights, 0.0)  # the norm is everybody's own
        row, bound = self.combine(rows, right, weights)
        slope = [row[self.d + 1] - self.rho] if self.oracle.labels_move else []
        return np.concatenate([[-bound], slope, row[: self.d]])

    def _tangent(self, x: Array) -> Array:
        row = np.zeros(self.size)
        row[: self.n], row[self.d + 1] = self.oracle.ball.norm.steepest(x[: self.n]), -1.0
        return row

    def norm_curvature(self, x: Array) -> Array | None:
        w = x[: self.n]
        if not (self.priced and self.oracle.ball.norm.name == "l2" and w.any()):
            return None
        length = float(np.linalg.norm(w))
        H = np.zeros((self.d, self.d))
        H[: self.n, : self.n] = (np.eye(self.n) - np.outer(w, w) / length**2) / length
        return H
