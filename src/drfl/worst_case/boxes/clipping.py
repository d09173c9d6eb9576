r"""Piecewise-linear losses on a box with the l1 norm: one clipped w serves all rows.

For a piece of slope size A and sign :math:`\sigma_i` (in the score), with midpoint m and half
width h of the box,

.. math::
    \omega=\operatorname{clip}(Aw,-\lambda,\lambda),\quad
    \tau=\sum_jh_j(A|w_j|-\lambda)_+,\quad
    s_i=\langle\omega,x_i-m\rangle+A(b+\langle m,w\rangle),\quad
    \text{worst value}=\sigma_is_i+\tau+\text{constant}.

The columns :math:`D=\{A|w_j|>\lambda\}` go to their faces, the others stay. A target within bounds
is one more column, :math:`\kappa y` with the coefficient :math:`-1/\kappa`. An infinite side: m is
the finite face (or 0) and h = 0, and the floor keeps lambda where this is true. Between two
breakpoints :math:`A|w_j|` (and :math:`A/\kappa`) everything is linear in lambda.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.supports import Box
from drfl.uncertainty import Ball
from drfl.worst_case.price_search import Tangent

Winners = NDArray[np.int8]


class Contender(NamedTuple):
    """One linear function of the scores among which the largest wins a row."""

    level: int
    """Which size A, or -1 for a constant."""
    sign: float
    """In the argument of the loss of the row as it is, with its own label."""
    constant: float
    flipped: bool


@dataclass
class Sums:
    """What a pass over the rows leaves of the winning lines, per level and per line."""

    value: float
    mass: Array  # (lines,) that each line won
    g: Array  # (levels, n) sums of p_i sigma_i x_i
    total: Array  # (levels,) sums of p_i sigma_i
    target: Array  # (levels,) sums of p_i sigma_i y_i


class Clipping:
    """The clipped problem at one (w, b)."""

    def __init__(self, loss: Loss, ball: Ball, w: Array, b: float, floor: float) -> None:
        assert isinstance(ball.support, Box)
        box = ball.support
        self.is_margin = loss.task == "classification"
        self.kappa = ball.label_cost
        self.w, self.b = w, b
        self.sizes, self.lines = make_lines(loss, self.kappa)
        self.middle, self.half = _halves(*box.bounds(len(w)))
        y_middle, y_half = _halves(np.array([box.y_low]), np.array([box.y_high]))
        self.y_middle, self.y_half = float(y_middle[0]), float(y_half[0])
        # Targets that never move are worth their own value at every price.
        self.targets_move = not self.is_margin and math.isfinite(self.kappa)
        self.steep = np.multiply.outer(self.sizes, np.abs(w))  # (levels, n)
        self.y_steep = self.sizes / self.kappa  # (levels,)
        y_points = self.y_steep if self.targets_move else self.y_steep[:0]
        points = np.concatenate([self.steep.ravel(), y_points, [floor]])
        self.breakpoints = np.unique(points[points >= floor])

    def reach(self, lam: float) -> Array:
        """The coefficient of -y in each level, (levels,)."""
        if self.is_margin:
            return np.zeros(len(self.sizes))
        if not self.targets_move:
            return self.sizes
        return np.where(self.y_steep > lam, self.kappa * lam, self.sizes)

    def models(self, lam: float) -> tuple[Array, Array]:
        """The clipped w and the intercept of each level, (levels, n) and (levels,)."""
        omega = np.sign(self.w) * np.minimum(self.steep, lam)
        offset = self.sizes * (self.b + float(self.middle @ self.w)) - omega @ self.middle
        if not self.is_margin:
            offset += (self.reach(lam) - self.sizes) * self.y_middle
        return omega, offset

    def constants(self, lam: float) -> Array:
        """What each line adds to its signed score at a price, (lines,)."""
        tau = np.maximum(self.steep - lam, 0.0) @ self.half
        if self.targets_move:
            tau = tau + self.y_half * (self.sizes - self.reach(lam))
        tau = np.append(tau, 0.0)  # level -1 is a constant
        return np.array(
            [
                line.constant + tau[line.level] - (self.kappa * lam if line.flipped else 0.0)
                for line in self.lines
            ]
        )

    def signs(self, level: int) -> Array:
        """The sign of each line that belongs to a level, 0 for the others, (lines,)."""
        return np.array([line.sign if line.level == level else 0.0 for line in self.lines])

    def tangent(self, sums: Sums, lam: float, radius: float, *, from_left: bool) -> Tangent:
        """The tangent at a price; at a breakpoint there are two, with and without its columns."""
        toward, gradient = np.sign(self.w), np.zeros_like(self.w)
        slope = radius - sum(
            self.kappa * mass
            for line, mass in zip(self.lines, sums.mass, strict=True)
            if line.flipped
        )
        for level, size in enumerate(self.sizes):
            g, total, steep = sums.g[level], sums.total[level], self.steep[level]
            won = float(sums.mass[self.signs(level) != 0.0].sum())
            D = ((steep >= lam) & (steep > 0.0)) if from_left else steep > lam
            slope += float((toward * (g - total * self.middle) - won * self.half)[D].sum())
            gradient += size * np.where(D, total * self.middle + won * toward * self.half, g)
            y_steep = self.y_steep[level]
            if self.targets_move and (y_steep >= lam if from_left else y_steep > lam):
                slope -= self.kappa * (sums.target[level] - total * self.y_middle)
                slope -= self.kappa * won * self.y_half
        value = radius * lam + sums.value
        return Tangent(lam, value, float(slope), gradient, float(self.sizes @ sums.total))


def make_lines(loss: Loss, kappa: float) -> tuple[Array, tuple[Contender, ...]]:
    """The sizes of the slopes, and a line for each piece: constants first, flipped labels last."""
    sizes = sorted({abs(piece.slope) for piece in loss.pieces} - {0.0})
    flips = loss.task == "classification" and math.isfinite(kappa)
    lines = []
    for a, c in loss.pieces:
        level = sizes.index(abs(a)) if a else -1
        lines.append(Contender(level, math.copysign(1.0, a) if a else 0.0, c, False))
        if flips and a:
            lines.append(Contender(level, -math.copysign(1.0, a), c, True))
    return np.array(sizes), tuple(sorted(lines, key=lambda line: (line.level >= 0, line.flipped)))


def compete(lines: tuple[Contender, ...], scores: Array, constants: Array) -> tuple[Array, Winners]:
    """The largest line of every row and which one it is; ``scores`` is (levels, m)."""
    m = scores.shape[1]
    best, winner = np.full(m, -math.inf), np.zeros(m, dtype=np.int8)
    for k, (line, constant) in enumerate(zip(lines, constants, strict=True)):
        if line.level < 0:
            value = np.full(m, constant)
        elif line.sign > 0.0:
            value = scores[line.level] + constant
        else:
            value = constant - scores[line.level]
        if k:
            np.copyto(winner, np.int8(k), where=value > best)
            value = np.maximum(best, value, out=value)
        best = value
    return best, winner


def _halves(low: Array, high: Array) -> tuple[Array, Array]:
    """Midpoint and half width; for an infinite side the finite face (or 0) and 0."""
    finite_low, finite_high = np.isfinite(low), np.isfinite(high)
    low, high = np.where(finite_low, low, 0.0), np.where(finite_high, high, 0.0)
    both = finite_low & finite_high
    # One of two absent faces counts as 0, so the sum is the other one.
    return np.where(both, 0.5 * low + 0.5 * high, low + high), np.where(both, 0.5 * (high - low), 0)
