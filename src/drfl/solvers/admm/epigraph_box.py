"""The epigraph of a client's worst-case loss on a box, with the l1 norm."""

from __future__ import annotations

import numpy as np

from drfl.arrays import Array
from drfl.solvers.admm.epigraph import Frame, Touch
from drfl.supports import Box
from drfl.worst_case.clipping import compete, make_lines
from drfl.worst_case.oracle import Oracle


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
        self.flipping = bool(self.flipped.any())
        self.signs = np.array([line.sign for line in self.lines])
        self.constants = np.array([line.constant for line in self.lines])
        self.floor = 0.0 if oracle.is_margin else 1.0 / ball.label_cost
        self.up, self.down = self.lam + 1, self.lam + 1 + n
        self.lower[self.lam], self.lower[self.up :] = self.floor, 0.0
        self.busy = self.up
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
        omega = np.minimum(np.maximum(w, -lam), lam)
        s = w - omega
        tau = float(self.half @ np.abs(s))
        fee = ball.label_cost * lam if self.flipping else 0.0
        mean, won, g, total = self._sweep(omega, b + float(self.middle @ s), tau, fee)
        row = np.zeros((1, self.size))
        row[0, :n], row[0, n : self.d], row[0, self.d] = g, total, -1.0
        slope = -ball.label_cost * float(won @ self.flipped) if self.flipping else 0.0
        row[0, self.lam] = ball.radius + slope
        # g holds x_i; clipped away it becomes the midpoint, and the half side is paid instead.
        away, reach = total * self.middle - g, float(won @ self.moving) * self.half
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
            each = mass if isinstance(mass, np.ndarray) else None
            won += np.bincount(winner, each, len(self.lines)) * (mass if each is None else 1.0)
            v: Array = self.signs[winner] * mass
            return np.multiply(v, y, out=v) if is_margin else v

        g, total = rows.sweep(omega, offset, visit)
        return mean, won, g, total

    def summary(self, rows: Array, right: Array, weights: Array, *, lifted: bool) -> Array | None:
        if not lifted:
            return None
        weights = np.where(rows[:, self.d] < 0.0, weights, 0.0)
        row, bound = self.combine(rows, right, weights)
        up, down = row[self.up : self.down], row[self.down :]
        away, reach = 0.5 * (up - down), 0.5 * (up + down)
        wide = self.half > 0.0
        tau = float((reach[wide] / self.half[wide]).max(initial=0.0))
        slope = row[self.lam] - self.oracle.ball.radius
        x = np.concatenate([row[: self.n] + away, row[self.n : self.d]])
        return np.concatenate([[-bound, slope], -away, [tau], x])
