r"""The intercept that a client finds for itself.

With an intercept per client :math:`F_s(w)=\min_bF_s(w,b)`, convex in w. Of the tangents of F at
(w, b) those count whose slope in b is 0: they hold for every intercept, so that
:math:`(F_s(w),g_w)` is a cut that does not speak of b. Where F has a kink at the best b no single
slope is 0; but tangents at two intercepts, one on either side, have slopes in b of opposite signs,
and mixed so that these cancel they are such a cut *for any two*, and touch if F is linear between
each of them and the best b.

- Losses made of lines, labels that stay: :math:`F(w,\cdot)` bends where a row's argument meets a
  kink, and the best b is a weighted order statistic of these places.
- Otherwise a convex search in one dimension, by Newton's steps where the loss bends, within a
  bracket that intersections of tangents, secants and halving make smaller.

Where several intercepts are equally good the middle is taken, and the end of what is unbounded: as
with one class only, where no label moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.worst_case.oracle import Oracle
from drfl.worst_case.whole_space import WholeSpaceOracle

LEVEL = 1e-14  # a slope of a mean loss that is smaller is rounding
CLOSE = 1e-14  # relative: what a search leaves between a value and the tangents below it
MOST = 200  # steps of a search; a bracket is halved at least every third time
HALVINGS = 60
FAR = 2.0**40  # in units of the search: an intercept beyond is none

Curve = Callable[[float], tuple[float, float, float]]
"""Value, slope and curvature (0: not known) of a convex function of one number."""


@dataclass(frozen=True)
class Balance:
    """Where a convex function of b is least."""

    b: float  # a minimiser
    # Where tangents are to be taken: one intercept where the slope is 0, or one on either side
    around: tuple[float, ...]


def own_intercept(oracle: Oracle, w: Array) -> Balance:
    """The best intercept of a client's rows for w, and where tangents are to be taken."""
    if not isinstance(oracle, WholeSpaceOracle):
        return _search(_through(oracle, w), 1.0)[0]
    return balance(oracle, oracle.rows.scores(w), w)


def balance(oracle: WholeSpaceOracle, z: Array, w: Array) -> Balance:
    """The same on the whole space, where scores z without an intercept are all it takes."""
    if oracle.loss.pieces and not oracle.labels_move:
        return _order_statistic(oracle, z)
    return _search(_on_whole_space(oracle, z, w), _unit(oracle))[0]


def middle_intercept(oracle: Oracle, w: Array) -> float:
    """The best intercept, in the middle where several are equally good."""
    if isinstance(oracle, WholeSpaceOracle):
        z = oracle.rows.scores(w)
        if oracle.loss.pieces and not oracle.labels_move:
            return _order_statistic(oracle, z).b
        curve, unit = _on_whole_space(oracle, z, w), _unit(oracle)
    else:
        curve, unit = _through(oracle, w), 1.0
    found, level = _search(curve, unit)
    return _middle(curve, found.b, unit) if level else found.b


def _unit(oracle: Oracle) -> float:
    """A typical distance between arguments of the loss."""
    return 1.0 if oracle.is_margin else max(float(np.std(oracle.rows.y)), 1e-6)


# ---------------------------------------------------------------------- functions of b
def _through(oracle: Oracle, w: Array) -> Curve:
    """F in b by whole evaluations."""

    def at(b: float) -> tuple[float, float, float]:
        worst = oracle.evaluate(w, b)
        return worst.value, float(worst.intercept_gradient), 0.0

    return at


def _on_whole_space(oracle: WholeSpaceOracle, z: Array, w: Array) -> Curve:
    """F in b from scores: no pass over the rows."""
    rows, loss, norm = oracle.rows, oracle.loss, oracle.ball.norm.dual(w)
    sign = rows.y if oracle.is_margin else np.ones(1)

    def at(b: float) -> tuple[float, float, float]:
        m = oracle.arguments(z + b, rows.y)
        value, slope = loss.value_and_slope(m)
        total, bend = rows.mean(value), 0.0
        if not loss.kinks:
            bend = rows.mean(loss.curvature(m))
        if oracle.labels_move:
            flips = oracle.flips(m, norm)
            turned = flips.rows
            slope[turned] -= flips.share * (loss.slope(-m[turned]) + slope[turned])
            total += oracle.ball.radius * flips.multiplier + flips.excess
        return total, rows.mean(slope * sign), bend

    return at


# ---------------------------------------------------------------------- the order statistic
def _order_statistic(oracle: Oracle, z: Array) -> Balance:
    r"""The place at which the slope of :math:`\sum_ip_iL` in b changes its sign."""
    rows, loss = oracle.rows, oracle.loss
    kinks, slopes = _steps(loss)
    p = np.broadcast_to(np.asarray(rows.mass()), z.shape)
    sign = rows.y if oracle.is_margin else np.ones(len(z))
    offset = -z if oracle.is_margin else rows.y - z
    places = np.concatenate([sign * kink + offset for kink in kinks])
    jumps = np.concatenate([p * jump for jump in np.diff(slopes)])
    # At b = -inf an argument is at the end of the line that the sign of its label points from.
    first = rows.mean(np.where(sign > 0.0, slopes[0], -slopes[-1]))
    order = np.argsort(places)
    places, slope = places[order], first + np.cumsum(jumps[order])
    tiny = 1e-12 * (abs(first) + float(jumps.sum()))
    ends = np.concatenate([[-math.inf], places, [math.inf]])
    slope = np.concatenate([[first], slope])  # slope[k] holds between ends[k] and ends[k + 1]
    low = int(np.searchsorted(slope, -tiny, side="left"))  # the first that is not negative
    high = int(np.searchsorted(slope, tiny, side="right"))  # the first that is positive
    # Places closer than the rounding of arguments are one.
    apart = 1e-12 * (1.0 + float(np.abs(offset).max()))
    if low < high and ends[high] - ends[low] > apart:  # level between them
        return Balance(_finite_middle(ends[low], ends[high]), (_inside(ends[low], ends[high]),))
    b = float(ends[low])
    before = ends[np.searchsorted(ends, b - apart, side="left") - 1]
    behind = ends[np.searchsorted(ends, b + apart, side="right")]
    return Balance(b, (_inside(before, b), _inside(b, behind)))


def _steps(loss: Loss) -> tuple[Array, Array]:
    """The kinks of a loss made of lines, and the slopes before, between and behind them."""
    kinks = np.sort(np.asarray(loss.kinks, dtype=np.float64))
    between = np.concatenate([[kinks[0] - 1.0], (kinks[1:] + kinks[:-1]) / 2.0, [kinks[-1] + 1.0]])
    return kinks, loss.slope(between)


def _finite_middle(low: float, high: float) -> float:
    """The middle, or the end that is finite, or 0."""
    if math.isfinite(low) and math.isfinite(high):
        return float(low + 0.5 * (high - low))
    return float(low if math.isfinite(low) else high if math.isfinite(high) else 0.0)


def _inside(low: float, high: float) -> float:
    """A place between two others, one of which may be infinite."""
    low, high = float(low), float(high)
    if math.isinf(low):
        return high - max(1.0, abs(high))
    return low + max(1.0, abs(low)) if math.isinf(high) else low + 0.5 * (high - low)


# ---------------------------------------------------------------------- the search
@dataclass(frozen=True)
class _Tangent:
    b: float
    value: float
    slope: float


def _search(at: Curve, unit: float) -> tuple[Balance, bool]:
    """A minimiser with tangents around it, and whether the slope there is 0.

    It begins at 0, whatever was found before: a client that computes a point again, in another
    process or after a crash, finds the same.
    """
    low: _Tangent | None = None
    high: _Tangent | None = None
    b = 0.0
    for k in range(MOST):
        value, slope, bend = at(b)
        here = _Tangent(b, value, slope)
        if abs(slope) <= LEVEL or abs(b) > FAR * unit:
            return Balance(b, (b,)), True
        if slope < 0.0:
            low = here
        else:
            high = here
        if low is None or high is None:
            reach = unit * 2.0**k
            step = min(abs(slope) / bend, reach) if bend > 0.0 else reach
            b = b - math.copysign(step, slope)
            continue
        meet = _meeting(low, high)
        best = min(low.value, high.value)
        under = low.value + low.slope * (meet - low.b)
        if best - under <= CLOSE * (1.0 + abs(best)):
            break
        b = _next(low, high, here, bend, k, meet)
        if not low.b < b < high.b:
            break
    if low is None or high is None:
        return Balance(b, (b,)), True
    return Balance(low.b if low.value <= high.value else high.b, (low.b, high.b)), False


def _meeting(low: _Tangent, high: _Tangent) -> float:
    """Where two tangents meet."""
    gap = high.value - low.value - high.slope * (high.b - low.b)
    return float(np.clip(low.b + gap / (low.slope - high.slope), low.b, high.b))


def _next(low: _Tangent, high: _Tangent, here: _Tangent, bend: float, k: int, meet: float) -> float:
    """Newton's step if it stays inside; or where tangents meet, slopes cross, or the middle."""
    middle = low.b + 0.5 * (high.b - low.b)
    secant = low.b - low.slope * (high.b - low.b) / (high.slope - low.slope)
    tried = (middle, meet, secant)[k % 3]
    if bend > 0.0 and k % 4:
        tried = here.b - here.slope / bend
    return tried if low.b < tried < high.b else middle


def _middle(at: Curve, b: float, unit: float) -> float:
    """The middle of where the slope is 0, around b; its end where that has no other."""
    ends = [_level_end(at, b, sign * unit) for sign in (-1.0, 1.0)]
    return _finite_middle(*ends)


def _level_end(at: Curve, b: float, step: float) -> float:
    """How far the slope stays 0 in one direction."""
    inside, outside = b, math.inf
    while math.isinf(outside):
        if abs(step) > FAR:
            return math.copysign(math.inf, step)
        if abs(at(b + step)[1]) > LEVEL:
            outside = b + step
        else:
            inside, step = b + step, 2.0 * step
    for _ in range(HALVINGS):
        halfway = inside + 0.5 * (outside - inside)
        if halfway in (inside, outside):
            break
        if abs(at(halfway)[1]) > LEVEL:
            outside = halfway
        else:
            inside = halfway
    return inside
