r"""The simplex cut by a p-norm ball: its linear maximiser and its projection, exact for each p.

All functions take the centre :math:`\hat q` (S,) in the simplex and a radius below the distance of
the farthest unit vector; they sort, and never loop over clients.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array

Rule = Callable[[Array, Array, float], Array]


def worst_l1(z: Array, center: Array, radius: float) -> Array:
    """Move radius/2 to the largest loss from the smallest ones; what ties with it stays."""
    best = int(np.argmax(z))
    available = np.where(z < z[best], center, 0.0)
    amount = min(0.5 * radius, float(available.sum()))
    q = center - pour(amount, available, np.argsort(z, kind="stable"))
    q[best] += amount
    return q


def worst_l2(z: Array, center: Array, radius: float) -> Array:
    r"""Follow :math:`q(t)=P_\Delta(\hat q+tz)` to the distance radius, or to its end.

    While the set A of positive weights stays, :math:`q(t)` is a base point plus t times the centred
    z, and the squared distance is linear in :math:`t^2` with slope :math:`\|z_A-\bar z_A\|^2`. A
    weight that has reached 0 stays there (its z is below the mean of A, which only grows), hence
    the slope falls with t: Newton's method on :math:`t^2` never overshoots and ends after a few
    steps at the exact point.
    """
    active = np.ones(len(z), dtype=bool)
    while True:
        dropped = center[~active]
        lift = dropped.sum() / active.sum()
        part = center[active] + lift
        # Differences from the maximum: exactly 0 for equal losses and exact for close ones. A mean
        # taken first leaves noise, which would be blown up to the radius and spoil the sum of q.
        slope = z[active] - z[active].max()
        spread = -slope.min()
        if spread > 0.0:
            slope = slope / spread
            slope -= slope.mean()
            left = radius**2 - active.sum() * lift**2 - dropped @ dropped
            part += slope * math.sqrt(max(left, 0.0) / (slope @ slope))
        if part.min() >= 0.0:
            q = np.zeros_like(z)
            q[active] = part
            return q
        # All that is 0 in the projection and falls leaves at once. What rises must stay: the
        # projection may round a weight to 0 that only begins to grow.
        kept = project_capped(part, np.ones_like(part), 1.0)
        active[active] = (part >= 0.0) & ((kept > 0.0) | (slope >= 0.0))


def worst_linf(z: Array, center: Array, radius: float) -> Array:
    """Fill from the lower to the upper bounds, the largest losses first."""
    low, room, left = _bounds(center, radius)
    return low + pour(left, room, np.argsort(-z, kind="stable"))


def worst_capped_l1(z: Array, center: Array, radius: float, cap: float) -> Array:
    """Move up to radius/2 from the smallest losses to the largest, which hold at most the cap."""
    down, up = np.argsort(-z, kind="stable"), np.argsort(z, kind="stable")
    room = np.maximum(cap - center, 0.0)
    taken, given = np.cumsum(room[down]), np.cumsum(center[up])
    # From each of these amounts on another client gives or takes; it pays while losses differ.
    starts = np.sort(np.concatenate([[0.0], taken, given]))
    last = len(z) - 1
    takes = z[down[np.minimum(np.searchsorted(taken, starts, "right"), last)]]
    gives = z[up[np.minimum(np.searchsorted(given, starts, "right"), last)]]
    ended = np.flatnonzero((takes <= gives) | (starts >= min(taken[-1], given[-1])))
    amount = min(0.5 * radius, float(starts[ended[0]]))
    return center + pour(amount, room, down) - pour(amount, center, up)


def worst_capped_linf(z: Array, center: Array, radius: float, cap: float) -> Array:
    """Fill from the lower to the upper bounds, the largest losses first."""
    low, room, left = _bounds(center, radius, cap)
    return low + pour(left, room, np.argsort(-z, kind="stable"))


def project_capped_l1(v: Array, center: Array, radius: float, cap: float) -> Array:
    """Project v where the radius binds: radius/2 is added here and taken away there."""
    half = 0.5 * radius
    gained = project_capped(v - center, np.minimum(half, np.maximum(cap - center, 0.0)), half)
    lost = project_capped(center - v, center, half)
    return (center - lost) + gained


def project_capped_linf(v: Array, center: Array, radius: float, cap: float) -> Array:
    """Project v onto the simplex between the bounds of every weight."""
    low, room, left = _bounds(center, radius, cap)
    return low + project_capped(v - low, room, left)


def project_l1(v: Array, center: Array, radius: float) -> Array:
    """Project v where the radius binds: radius/2 is added here and taken away there."""
    half = 0.5 * radius
    gained = project_capped(v - center, np.full_like(v, half), half)
    lost = project_capped(center - v, center, half)
    return (center - lost) + gained


def project_l2(v: Array, center: Array, radius: float) -> Array:
    """Project v where the radius binds: the point lies on the path q(t) of z = v - center."""
    return worst_l2(v - center, center, radius)


def project_linf(v: Array, center: Array, radius: float) -> Array:
    """Project v onto the simplex between the bounds of every weight."""
    low, room, left = _bounds(center, radius)
    return low + project_capped(v - low, room, left)


WORST: dict[float, Rule] = {1: worst_l1, 2: worst_l2, math.inf: worst_linf}
PROJECT: dict[float, Rule] = {1: project_l1, 2: project_l2, math.inf: project_linf}

CappedRule = Callable[[Array, Array, float, float], Array]
WORST_CAPPED: dict[float, CappedRule] = {1: worst_capped_l1, math.inf: worst_capped_linf}
PROJECT_CAPPED: dict[float, CappedRule] = {1: project_capped_l1, math.inf: project_capped_linf}


def pour(amount: float, capacity: Array, order: NDArray[np.intp]) -> Array:
    """Hand out the amount in the given order, to each at most its capacity."""
    full = int(np.searchsorted(np.cumsum(capacity[order]), amount))
    given = np.zeros_like(capacity)
    given[order[:full]] = capacity[order[:full]]
    if full < len(order):
        last = order[full]
        # The rest by a fresh sum: the running one of 10,000 terms drifts.
        given[last] = np.clip(amount - given.sum(), 0.0, capacity[last])
    return given


def project_capped(v: Array, cap: Array, total: float) -> Array:
    r"""Project v onto :math:`\{0\le u\le cap,\ \sum u=total\}`, where total <= sum of cap.

    The projection is clip(v - level, 0, cap). The second pass sees v - level, in which all that is
    not clipped is small: otherwise a large v lacks the digits in which u has to sum to total.
    """
    for _ in range(2):
        v = np.clip(v - _level(v, cap, total), -1.0, cap + 1.0)
    return np.clip(v, 0.0, cap)


def _level(v: Array, cap: Array, total: float) -> float:
    """Find the level at which clip(v - level, 0, cap) sums to total."""

    def filled(level: float) -> float:
        return float(np.clip(v - level, 0.0, cap).sum())

    # Linear between the levels where an entry starts to fill or is full. Bisection over them sums
    # log S times anew: running sums over all of them lose the caps beside a large v.
    ends = np.sort(np.concatenate([v - cap, v]))
    k = max(bisect_left(ends, -total, key=lambda level: -filled(level)), 1)
    low, high = float(ends[k - 1]), float(ends[k])
    most, least = filled(low), filled(high)
    return high - (high - low) * (total - least) / (most - least) if most > total else low


def _bounds(center: Array, radius: float, cap: float = 1.0) -> tuple[Array, Array, float]:
    """Lower bounds of the weights in the max-norm ball, the room above them, and what is left."""
    low = np.maximum(center - radius, 0.0)
    return low, np.minimum(center + radius, cap) - low, max(1.0 - float(low.sum()), 0.0)
