r"""Weights that make a valid cut: any dual-feasible v gives one.

For every convex loss and all slopes v in the domain of its conjugate,

.. math:: \frac1N\sum_iL(z_i)\ \ge\ \frac1N\sum_i\big(v_iz_i-L^*(v_i)\big).

The slopes of the loss averaged over a window, :math:`v_i=(L(z_i+\delta)-L(z_i-\delta))/2\delta`,
nearly touch at z, and a change of z moves the weights of all rows near a kink a little instead of
that of one row at the kink by 1. For the hinge it is a ramp of width :math:`2\delta`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from drfl.losses import Array, Loss
from drfl.privacy.leverage import Leverage

WINDOW = 4  # times k: the fewest rows in a window
WIDER = 1.25
SHARE = 0.1  # of what there is to tell may be lost to a wide window


@dataclass(frozen=True)
class Slopes:
    r"""Slopes v of every row's loss, as the sum that they make.

    A row's part of a cut is :math:`\alpha_i+\beta_iv_i` times its margin or residual:
    :math:`\alpha=0,\beta=1` unless a share of its label is flipped.

    Attributes
    ----------
    loss : Loss
        Whose conjugate gives the constant.
    z : (N,)
        Margins or residuals at the point.
    sign : (N,)
        What turns a slope in z into a weight of the row x: its label, or 1.
    alpha, beta : (N,)
        See above; :math:`\beta\ge0`.
    """

    loss: Loss
    z: Array
    sign: Array
    alpha: Array
    beta: Array

    @classmethod
    def plain(cls, loss: Loss, z: Array, sign: Array) -> Slopes:
        """No label is flipped."""
        return cls(loss, z, sign, np.zeros_like(z), np.ones_like(z))

    def weights(self, v: Array) -> Array:
        """The weights of the rows that slopes v make."""
        return self.sign * (self.alpha + self.beta * v)

    def slopes(self, weights: Array) -> Array:
        """The other way round, within the domain of the conjugate."""
        beta = np.where(self.beta > 0.0, self.beta, 1.0)
        v = np.where(self.beta > 0.0, (self.sign * weights - self.alpha) / beta, 0.0)
        return np.clip(v, *self.loss.slope_range)

    def bounds(self) -> tuple[Array, Array]:
        """The least and the largest weight of every row."""
        ends = [self.weights(np.full_like(self.z, end)) for end in self.loss.slope_range]
        return np.minimum(*ends), np.maximum(*ends)

    def touch(self, v: Array) -> float:
        """What the cut of v says of the mean loss at z, the parts that alpha makes left out."""
        return float((self.beta * (v * self.z - self.loss.conjugate(v))).mean())

    def windows(self, k: int) -> Iterator[Array]:
        """Slopes averaged over ever wider windows."""
        if not self.loss.kinks:
            yield self.loss.slope(self.z)
        distance = np.min([np.abs(self.z - kink) for kink in self.loss.kinks or (0.0,)], axis=0)
        distance.sort()
        rows, last = float(min(WINDOW * k, len(distance) // 2)), 0.0
        while rows <= len(distance):
            # A power of a public number: the width itself would be one row's margin.
            delta = power_above(distance[int(rows) - 1])
            if delta > last:
                yield averaged(self.loss, self.z, delta)
            rows, last = rows * WIDER, max(delta, last)


def averaged(loss: Loss, z: Array, delta: float) -> Array:
    """The slope of the loss, averaged over a window of half-width delta."""
    v = (loss.value(z + delta) - loss.value(z - delta)) / (2.0 * delta)
    return np.clip(v, *loss.slope_range)


def fresh_slopes(slopes: Slopes, leverage: Leverage, k: int, known: float) -> Array | None:
    """Slopes whose weights may leave, with a cut at z that is well above what is known there.

    The widest window that gives most of what there is to tell: narrow ones, which put more weight
    on few rows, are kept for the end. Without such a one the highest cut of all.
    """
    best, most = None, -math.inf
    low, high = slopes.bounds()
    exact = slopes.touch(slopes.loss.slope(slopes.z))
    enough = exact - SHARE * (exact - known)
    windows = list(slopes.windows(k))
    wide = [v for v in windows if slopes.touch(v) >= enough]
    for v in (*reversed(wide), *windows[len(wide) :]):
        if slopes.touch(v) <= most:
            break  # wider windows are lower still
        settled = leverage.settle(slopes.weights(v), low, high)
        if settled is None:
            continue
        v = slopes.slopes(settled)
        touch = slopes.touch(v)
        if touch > most and leverage.admits(slopes.weights(v)):
            best, most = v, touch
            if touch >= enough:
                break
    return best


def power_above(delta: float) -> float:
    """The next power of the square root of 2: near a number, without telling it."""
    return math.pow(2.0, math.ceil(2.0 * math.log2(max(delta, 1e-150))) / 2.0)
