"""Weights that make a valid cut: any dual-feasible v gives one; moved labels do not tell whose."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.privacy.columns import Centres
from drfl.privacy.leverage import Leverage
from drfl.privacy.release.lattice import Lattice
from drfl.privacy.release.rounding import grid_above
from drfl.worst_case.whole_space import WholeSpaceOracle, flip_gain

WINDOW = 4  # times k: the fewest rows in a window
WIDER = 1.25
EASE = 1e-2  # of moving rows where a smooth loss is straight
SHARE = 0.1  # of what there is to tell may be lost to a wide window


@dataclass(frozen=True)
class DualPoint:
    r"""What makes a cut: a slope v of every row's loss, and the share of it that is flipped."""

    v: Array
    share: Array


@dataclass(frozen=True)
class Slopes:
    r"""Slopes of every row's loss at a point, and the cut that they make.

    A row's weight, in units of its margin or residual, is :math:`(1-\phi_i)v_i-\phi_it_i` with
    :math:`t_i=L'(-z_i)`, and without flips v itself.

    Attributes
    ----------
    loss : Loss
        Whose conjugate gives the constant.
    z : (N,)
        Margins or residuals at the point.
    sign : (N,)
        What turns a slope in z into a weight of the row x: its label, or 1.
    share, turned : (N,)
        The shares of flipped labels, if nothing hinders them, and the slopes t.
    price : float
        What a flip costs, :math:`\kappa\lambda`; inf: no label flips.
    """

    loss: Loss
    z: Array
    sign: Array
    share: Array
    turned: Array
    price: float = math.inf

    @classmethod
    def fixed(cls, loss: Loss, z: Array, sign: Array) -> Slopes:
        """No label flips."""
        none = np.zeros_like(z)
        return cls(loss, z, sign, none, none)

    def weights(self, dual: DualPoint) -> Array:
        """The weights of the rows that a dual makes."""
        return self.sign * ((1.0 - dual.share) * dual.v - dual.share * self.turned)

    def dual(self, weights: Array, v: Array) -> DualPoint:
        """What has these weights: flipped shares change first, then slopes, which were v."""
        low, high = self.loss.slope_range
        wanted = self.sign * weights
        plain = np.clip(wanted, low, high)
        if math.isinf(self.price):
            return DualPoint(plain, self.share)
        own = np.where(self.share > 0.0, v, plain)
        room = -self.turned - own
        share = np.where(room > 0.0, (wanted - own) / np.where(room > 0.0, room, 1.0), 0.0)
        share = np.clip(share, 0.0, 1.0)
        return DualPoint(np.where(share > 0.0, own, plain), share)

    def bounds(self) -> tuple[Array, Array]:
        """The least and the largest weight of every row."""
        low, high = self.loss.slope_range
        ends = self.sign * low, self.sign * np.maximum(high, -self.turned)
        return np.minimum(*ends), np.maximum(*ends)

    def conjugate(self, dual: DualPoint) -> Array:
        """What the slopes cost in the constant, row by row."""
        cost = (1.0 - dual.share) * self.loss.conjugate(dual.v)
        return (
            cost if math.isinf(self.price) else cost + dual.share * self.loss.conjugate(self.turned)
        )

    def touch(self, dual: DualPoint) -> float:
        """What the cut says of the mean loss at z, flips paid for."""
        gain = self.sign * self.weights(dual) * self.z - self.conjugate(dual)
        if dual.share.any():
            gain = gain - self.price * dual.share
        return float(gain.mean())

    def ease(self, k: int) -> Array:
        """How gladly the weights of rows are moved, since their cuts lose little by it."""
        if not self.loss.kinks:
            return np.asarray(self.loss.curvature(self.z) + EASE)
        distance = self._distance()
        rows = min(WINDOW * k, len(distance) // 2)
        near = float(np.partition(distance, rows - 1)[rows - 1])
        return np.asarray(1.0 / (1.0 + distance / max(near, 1e-150)))

    def _distance(self) -> Array:
        """From the nearest kink."""
        kinks = self.loss.kinks or (0.0,)
        return np.asarray(np.min([np.abs(self.z - kink) for kink in kinks], axis=0))

    def windows(self, k: int) -> Iterator[Array]:
        """Slopes averaged over ever wider windows."""
        if not self.loss.kinks:
            yield self.loss.slope(self.z)
        distance = np.sort(self._distance())
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


def fresh_dual(
    slopes: Slopes, leverage: Leverage, lattice: Lattice, centres: Centres, known: float
) -> DualPoint | None:
    """A dual whose weights may leave, with a cut at z that is well above what is known there.

    The widest window that gives most of what there is to tell: narrow ones, which put more weight
    on few rows, are kept for the end. Without such a one the highest cut of all.
    """
    best, most = None, -math.inf
    low, high = slopes.bounds()
    exact = slopes.touch(DualPoint(slopes.loss.slope(slopes.z), slopes.share))
    enough = exact - SHARE * (exact - known)
    k = centres.k
    windows = [DualPoint(v, slopes.share) for v in slopes.windows(k)]
    wide = [dual for dual in windows if slopes.touch(dual) >= enough]
    ease = slopes.ease(k)
    for dual in (*reversed(wide), *windows[len(wide) :]):
        if slopes.touch(dual) <= most:
            break  # wider windows are lower still
        settled = leverage.settle(slopes.weights(dual), low, high, lattice, ease)
        if settled is None:
            continue
        found = slopes.dual(settled, dual.v)
        touch, weights = slopes.touch(found), slopes.weights(found)
        may_leave = leverage.admits(weights) and lattice.holds(weights) and centres.many(weights)
        if touch > most and may_leave:
            best, most = found, touch
            if touch >= enough:
                break
    return best


def power_above(delta: float) -> float:
    """The next power of the square root of 2: near a number, without telling it."""
    return math.pow(2.0, math.ceil(2.0 * math.log2(max(delta, 1e-150))) / 2.0)


STEPS = 16  # of the multiplier, per factor of 2
BISECTIONS = 60


def flip(
    oracle: WholeSpaceOracle, m: Array, norm: float, k: int, shift: float
) -> tuple[Array, float]:
    """Shares (N,) near the optimal ones at margins m, and the multiplier that goes with them.

    Parameters
    ----------
    oracle : WholeSpaceOracle
        With a finite label cost.
    m : (N,)
        The margins.
    norm : float
        The dual norm of w, below which no multiplier is feasible.
    k : int
        Of the guard: the multiplier is that of at least 2k rows.
    shift : float
        Dithers the multiplier.
    """
    kappa, budget = oracle.ball.label_cost, oracle.ball.radius / oracle.ball.label_cost
    gain = flip_gain(oracle.loss, m)
    window = _width(gain, kappa * norm, k)
    # No comparison without a dither: a server could bisect for the place where it turns.
    least = _threshold(gain, window, max(budget, 2.0 * k / len(m))) / kappa
    unit = max(norm, 1e-3 * oracle.loss.lipschitz)
    steps = grid_above(STEPS * float(np.log2(max(least / unit, 1e-9))), 1.0, shift)
    price = max(_threshold(gain, window, min(budget, 1.0)), kappa * norm)
    share = np.where(gain > 0.0, _ramp(gain, price, window), 0.0)
    if share.mean() < shift * k / len(m):
        share[:] = 0.0  # so few are not worth telling whether there are any
    return share, max(norm, unit * 2.0 ** (steps / STEPS))


def _ramp(gain: Array, threshold: float, width: float) -> Array:
    return np.clip(0.5 + (gain - threshold) / (2.0 * width), 0.0, 1.0)


def _width(gain: Array, price: float, k: int) -> float:
    """Half the width of a ramp that holds enough rows around the price."""
    distance = np.abs(gain - min(price, float(gain.max())))
    rows = min(WINDOW * k, len(gain) // 2)
    return power_above(float(np.partition(distance, rows - 1)[rows - 1]))


def _threshold(gain: Array, width: float, mass: float) -> float:
    """Where the ramp has a mean of at most this mass."""
    low, high = float(gain.min()) - width, float(gain.max()) + width
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if float(_ramp(gain, middle, width).mean()) > mass:
            low = middle
        else:
            high = middle
    return high
