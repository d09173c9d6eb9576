r"""One client's worst-case loss as a minimum over a few extra variables, described by cuts.

.. math:: F(x)=\min_y\{\,p:\ A_0y\le b_0,\ y\ge l,\ \text{all cuts}\,\},\qquad
          y=(x,\,p,\,\text{extra variables}),\quad x=(w,b).

The multiplier :math:`\lambda` is such an extra variable, as in the paper's client step, so a cut
needs one pass over the rows and no search for :math:`\lambda`; what is known exactly (the dual
norm, the clipping of w in a box) is written down and need not be learned from cuts. A frame never
says more than F: every cut is valid for ever.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from drfl.losses import Array
from drfl.solvers.bundle.terms import is_lifted
from drfl.supports import Box
from drfl.worst_case.clipping import compete, make_lines
from drfl.worst_case.oracle import Oracle
from drfl.worst_case.whole_space import WholeSpaceOracle, flip_gain

UNBOUNDED = -1e30  # of the QP solver


@dataclass(frozen=True)
class Touch:
    r"""What one pass over the rows tells at y: a value and cuts ``rows @ y <= right``.

    ``value`` is at least F(x), and exactly what the new cuts allow for p at y.
    """

    value: float
    rows: Array  # (k, m)
    right: Array  # (k,)


class Frame(ABC):
    """The variables and exact rows of a client; ``d`` is the length of x, and p is entry d.

    Attributes
    ----------
    A, b : arrays of shape (r, m) and (r,)
        The exact rows.
    lower : array of shape (m,)
        Lower bounds of the variables.
    """

    def __init__(self, oracle: Oracle, dimension: int, extra: int) -> None:
        self.oracle, self.rows = oracle, oracle.rows
        self.n, self.d = oracle.rows.n_features, dimension
        self.size = dimension + 1 + extra
        self.A, self.b = np.zeros((0, self.size)), np.zeros(0)
        self.lower = np.full(self.size, UNBOUNDED)
        self.lower[self.d] = 0.0  # losses are nonnegative

    @abstractmethod
    def start(self, x: Array) -> Array:
        """Some y for this x, the exact rows satisfied; p is left 0."""

    @abstractmethod
    def touch(self, y: Array) -> Touch:
        """Evaluate at y."""

    def norm_curvature(self, x: Array) -> Array | None:
        """The second derivative of the dual norm where cuts have to learn it; else None."""
        return None

    def loss_curvature(self, x: Array) -> Array | None:
        """The second derivative of the mean loss if it is smooth; a guide, never trusted."""
        loss = self.oracle.loss
        if loss.kinks:
            return None
        w, b = self.split(x)
        z = self.oracle.arguments(self.rows.scores(w, b), self.rows.y)
        return self.rows.gram(loss.curvature(z) * self.rows.mass())[: self.d, : self.d]

    def split(self, x: Array) -> tuple[Array, float]:
        """Coefficients and intercept."""
        return x[: self.n], float(x[self.n]) if self.d > self.n else 0.0


class PlainFrame(Frame):
    """Cuts of F itself, by the oracle: for everything that has no frame of its own."""

    def __init__(self, oracle: Oracle, dimension: int) -> None:
        super().__init__(oracle, dimension, 0)

    def start(self, x: Array) -> Array:
        return np.append(x, 0.0)

    def touch(self, y: Array) -> Touch:
        x = y[: self.d]
        worst = self.oracle.evaluate(*self.split(x))
        g = np.append(worst.gradient, worst.intercept_gradient)[: self.d]
        return Touch(worst.value, np.append(g, -1.0)[None], np.array([float(g @ x) - worst.value]))


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


class BoxFrame(Frame):
    r"""A bounded box, l1, slopes 0 or :math:`\pm1`: one clipped w serves all rows.

    With midpoint m and half sides h, :math:`\omega=w-s^++s^-`, :math:`|\omega_j|\le\lambda` and
    :math:`\tau=h^\top(s^++s^-)`, a row on a piece of slope :math:`\alpha=\pm1` is worth
    :math:`\alpha(b+\langle m,w\rangle)+\alpha\langle\omega,x_i-m\rangle+\tau+c`, less
    :math:`\kappa\lambda` if its label is flipped (Propositions SVM1 and SVM2 with 2n multipliers
    instead of 4nN). Extra variables: :math:`\lambda, s^+\ge0, s^-\ge0`.
    """

    def __init__(self, oracle: Oracle, dimension: int) -> None:
        n, ball = oracle.rows.n_features, oracle.ball
        super().__init__(oracle, dimension, 1 + 2 * n)
        assert isinstance(ball.support, Box)
        low, high = ball.support.bounds(n)
        self.middle, self.half = (low + high) / 2.0, (high - low) / 2.0
        self.lines = make_lines(oracle.loss, ball.label_cost)[1]
        self.moving = np.array([line.level >= 0 for line in self.lines])
        self.flipped = np.array([line.flipped for line in self.lines])
        self.signs = np.array([line.sign for line in self.lines])
        self.constants = np.array([line.constant for line in self.lines])
        self.floor = 0.0 if oracle.is_margin else 1.0 / ball.label_cost
        self.lam, self.up, self.down = dimension + 1, dimension + 2, dimension + 2 + n
        self.lower[self.lam], self.lower[self.up :] = self.floor, 0.0
        clip = np.zeros((n, self.size))
        clip[:, :n] = clip[:, self.down :] = np.eye(n)
        clip[:, self.up : self.down] = -np.eye(n)
        price = np.zeros(self.size)
        price[self.lam] = 1.0
        trivial = np.zeros((1, self.size))
        trivial[0, [self.d, self.lam]] = -1.0, ball.radius
        self.A = np.vstack([trivial, clip - price, -clip - price])
        self.b = np.zeros(len(self.A))

    def start(self, x: Array) -> Array:
        lam = max(self.oracle.ball.norm.dual(x[: self.n]), self.floor)
        return np.concatenate([x, [0.0, lam], np.zeros(2 * self.n)])

    def touch(self, y: Array) -> Touch:
        x, n, ball = y[: self.d], self.n, self.oracle.ball
        w, b = self.split(x)
        lam = max(float(y[self.lam]), self.floor)
        omega = np.clip(w, -lam, lam)
        s = w - omega
        tau = float(self.half @ np.abs(s))
        fee = ball.label_cost * lam if self.flipped.any() else 0.0
        mean, won, g, total = self._sweep(omega, b + float(self.middle @ s), tau, fee)
        row = np.zeros((1, self.size))
        row[0, :n], row[0, n : self.d], row[0, self.d] = g, total, -1.0
        slope = -ball.label_cost * won[self.flipped].sum() if self.flipped.any() else 0.0
        row[0, self.lam] = ball.radius + slope
        # g holds x_i; clipped away it becomes the midpoint, and the half side is paid instead.
        away, reach = total * self.middle - g, won[self.moving].sum() * self.half
        row[0, self.up : self.down], row[0, self.down :] = away + reach, reach - away
        value = mean + ball.radius * lam
        at = np.concatenate([x, [value, lam], np.maximum(s, 0.0), np.maximum(-s, 0.0)])
        return Touch(value, row, row @ at)

    def _sweep(
        self, omega: Array, offset: float, tau: float, fee: float
    ) -> tuple[float, Array, Array, float]:
        """The mean, the mass that each line won, and the weighted sums of rows and signs."""
        rows, is_margin = self.rows, self.oracle.is_margin
        constants = self.constants + tau * self.moving - fee * self.flipped
        mean, won = 0.0, np.zeros(len(self.lines))

        def visit(block: slice, z: Array) -> Array:
            nonlocal mean, won
            y, mass = rows.y[block], rows.mass(block)
            z = np.multiply(z, y, out=z) if is_margin else np.subtract(z, y, out=z)
            best, winner = compete(self.lines, z[None], constants)
            mean += rows.mean(best, block)
            mass = np.broadcast_to(mass, (len(y),))
            won += np.bincount(winner, mass, len(self.lines))
            v: Array = self.signs[winner] * mass
            return np.multiply(v, y, out=v) if is_margin else v

        g, total = rows.sweep(omega, offset, visit)
        return mean, won, g, total


def make_frame(oracle: Oracle, dimension: int) -> Frame:
    """The frame that fits an oracle."""
    if isinstance(oracle, WholeSpaceOracle):
        return WholeSpaceFrame(oracle, dimension)
    if is_lifted(oracle.loss, oracle.ball) and oracle.ball.radius > 0.0:
        return BoxFrame(oracle, dimension)
    return PlainFrame(oracle, dimension)
