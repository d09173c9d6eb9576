r"""What rows can gain under the curves of an additive model, and at what cost.

A row that is pushed in a direction goes to knots. In l1 its columns move one after the other: every
column along the concave majorant of what its knots gain, all segments in the order of their rates,
so that costs and changes of the scores are prefix sums. In linf all columns move at once: within
every distance at which a knot is, each takes the best that it can reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.curves import Curves

Places = NDArray[np.intp]


def majorants(cost: Array, gain: Array, least: float) -> Places:
    """The corners of the concave majorants of points (m, k), of which the first are 0.

    From corner to corner at the best rate, as long as it is above ``least``: positions (m, corners)
    that begin with 0 and repeat the last corner of rows that have fewer.
    """
    corners = [np.zeros(len(cost), dtype=np.intp)]
    rows = np.arange(len(cost))
    while True:
        here = corners[-1][rows][:, None]
        length = cost - np.take_along_axis(cost, here, axis=1)
        more = gain - np.take_along_axis(gain, here, axis=1)
        rate = np.divide(more, length, out=np.full(cost.shape, -np.inf), where=length > 0.0)
        best = rate.argmax(axis=1)
        on = rate[np.arange(len(rows)), best] > least
        if not on.any():
            return np.stack(corners, axis=1)
        rows, cost, gain = rows[on], cost[on], gain[on]
        corners.append(corners[-1].copy())
        corners[-1][rows] = best[on]


def rates(cost: Array, gain: Array) -> Array:
    """The rates of the segments between corners (..., c), falling; 0: the corner is repeated."""
    length, more = np.diff(cost), np.diff(gain)
    rate = np.divide(more, length, out=np.zeros(length.shape), where=length > 0.0)
    return np.asarray(np.minimum.accumulate(rate, axis=-1))  # rounding may let one rise


class Heights:
    """The curves of K scores with slopes W (K, n'), at knots and anywhere."""

    def __init__(self, curves: Curves, W: Array) -> None:
        self.curves, self.W, self.zero = curves, W, curves.pieces[2]
        # The heights of the curves where pieces begin; of the first pieces, where they end.
        starts = [(j, self.zero[curves.of(j)]) for j in range(curves.n)]
        self.start = np.stack([np.hstack([curves.value(j, w, t) for j, t in starts]) for w in W])
        self._along: dict[bytes, Heights] = {}

    def before(self, j: int, x: Array) -> Places:
        """How many knots of column j are not above x."""
        return np.searchsorted(np.array(self.curves.knots[j]), x, side="right")

    def of(self, j: int, x: Array, before: Places) -> Array:
        """The curves of column j at x, (K, ...)."""
        piece = before + self.curves.of(j).start
        return np.asarray(self.start[:, piece] + self.W[:, piece] * (x - self.zero[piece]))

    def at(self, X: Array) -> Array:
        """The curves of all columns at rows (m, n): (K, m, n)."""
        columns = range(self.curves.n)
        return np.stack([self.of(j, X[:, j], self.before(j, X[:, j])) for j in columns], axis=2)

    @cached_property
    def bent(self) -> Places:
        """The columns that have knots."""
        return np.flatnonzero(self.curves.sizes > 1)

    @cached_property
    def knots(self) -> tuple[Array, Array]:
        """The knots of bent columns (c, k) and the curves there (K, c, k), the last repeated."""
        count = self.curves.sizes[self.bent] - 1
        each = np.minimum(np.arange(count.max(initial=1)), count[:, None] - 1)
        first = np.array([self.curves.of(j).start + 1 for j in self.bent], dtype=np.intp)
        at = first[:, None] + each
        return self.zero[at], self.start[:, at]

    @cached_property
    def highest(self) -> list[Places]:
        """Of the knots of every column from p up to before q the highest of the first curve: the
        piece that begins there, (p, q)."""
        found = []
        for j, size in enumerate(self.curves.sizes.tolist()):
            own, knot, edge = self.curves.of(j), np.arange(size - 1), np.arange(size)
            within = (knot >= edge[:, None, None]) & (knot < edge[:, None])
            top = np.where(within, self.start[0, own][1:], -np.inf)
            found.append((top.argmax(axis=2) if size > 1 else edge[None]) + own.start + 1)
        return found

    def along(self, direction: Array) -> Heights:
        """The one curve that scores have in a direction (K,)."""
        key = direction.tobytes()
        if key not in self._along:
            self._along[key] = Heights(self.curves, (direction @ self.W)[None])
        return self._along[key]


class CurveMoves(NamedTuple):
    """What rows can do that are pushed in some directions.

    Attributes
    ----------
    cost : array of shape (m, S)
        Of every option; the first is to stay.
    change : array of shape (K, m, S)
        By how much the scores change.
    points : callable
        From the option of every row (m,) to where it takes the row (m, n).
    """

    cost: Array
    change: Array
    points: Callable[[Places], Array]


class OneByOne:
    """l1: the segments of the majorants of all columns of rows X (m, n), the best rate first."""

    def __init__(self, heights: Heights, X: Array) -> None:
        self.heights, self.X, bent = heights, X, heights.bent
        self.knots, self.above = heights.knots
        self.here = heights.at(X)  # (K, m, n)
        cost = np.abs(self.knots - X[:, bent, None])
        self.cost = np.concatenate([np.zeros((*cost.shape[:2], 1)), cost], axis=2)  # (m, c, k + 1)

    def moves(self, direction: Array, least: float) -> CurveMoves:
        """The moves in directions (m, K) of the scores, at rates above ``least``."""
        corners, rate = self._corners(direction, least)
        m, c, count = rate.shape
        rate = rate.reshape(m, c * count)
        most = int((rate > 0.0).sum(axis=1).max(initial=0))
        order = np.argsort(-rate, axis=1, kind="stable")[:, :most]
        row, (column, step) = np.arange(m)[:, None], np.divmod(order, max(count, 1))
        begin, end = corners[row, column, step], corners[row, column, step + 1]
        here = self.here[:, row, self.heights.bent[column]]
        before = np.where(begin > 0, self.above[:, column, begin - 1], here)
        after = np.where(end > 0, self.above[:, column, end - 1], here)
        cost = prefix_sums(self.cost[row, column, end] - self.cost[row, column, begin])
        points = partial(self._points, corners, order)
        return CurveMoves(cost, prefix_sums(after - before), points)

    def _corners(self, direction: Array, least: float) -> tuple[Places, Array]:
        """The corners of every column's majorant (m, c, s + 1), and the rates between (m, c, s)."""
        cost, gain = self.cost, np.zeros(self.cost.shape)
        here = np.einsum("mk,kmc->mc", direction, self.here[:, :, self.heights.bent])
        gain[:, :, 1:] = np.tensordot(direction, self.above, 1) - here[:, :, None]
        m, c, k = cost.shape
        flat = cost.reshape(m * c, k), gain.reshape(m * c, k)
        corners = majorants(*flat, least)
        rate = rates(*(np.take_along_axis(part, corners, axis=1) for part in flat))
        return corners.reshape(m, c, corners.shape[1]), rate.reshape(m, c, rate.shape[1])

    def _points(self, corners: Places, order: Places, option: Places) -> Array:
        """Where the rows are after the first segments, as many as ``option`` says."""
        m, c, count = corners.shape
        taken = np.zeros((m, c * (count - 1)), dtype=np.intp)
        np.put_along_axis(taken, order, np.arange(order.shape[1]) < option[:, None], axis=1)
        taken = taken.reshape(m, c, count - 1).sum(axis=2, keepdims=True)
        corner = np.take_along_axis(corners, taken, axis=2)[:, :, 0]
        X, bent = self.X.copy(), self.heights.bent
        X[:, bent] = np.where(corner > 0, self.knots[np.arange(c), corner - 1], X[:, bent])
        return X


def prefix_sums(steps: Array) -> Array:
    """What the first of steps (..., s) sum up to, (..., s + 1)."""
    sums = np.zeros((*steps.shape[:-1], steps.shape[-1] + 1))
    np.cumsum(steps, axis=-1, out=sums[..., 1:])
    return sums


class AllAtOnce:
    """linf: within the distance of every knot the best that each column can reach."""

    def __init__(self, heights: Heights, X: Array) -> None:
        self.heights, self.X, self.here = heights, X, heights.at(X)  # (K, m, n)
        curves = heights.curves
        column = np.repeat(np.arange(curves.n), curves.sizes - 1)
        distance = np.abs(np.concatenate(curves.knots) - X[:, column])
        self.reach = np.hstack([np.zeros((len(X), 1)), np.sort(distance, axis=1)])

    def moves(self, direction: Array, least: float) -> CurveMoves:
        """The moves in directions (m, K) of the scores; ``least`` leaves none out."""
        change = np.zeros((len(self.here), *self.reach.shape))
        for rows, j, place in self._places(direction, self.reach):
            there = self.heights.of(j, place, self.heights.before(j, place))
            change[:, rows] += there - self.here[:, rows, j, None]
        return CurveMoves(self.reach, change, partial(self._points, direction))

    def _points(self, direction: Array, option: Places) -> Array:
        X, reach = self.X.copy(), np.take_along_axis(self.reach, option[:, None], axis=1)
        for rows, j, place in self._places(direction, reach):
            X[rows, j] = place[:, 0]
        return X

    def _places(self, direction: Array, reach: Array) -> Iterator[tuple[Places, int, Array]]:
        """Rows, a column, and where it goes within distances (m, s): the best in the direction."""
        every, which = np.unique(direction, axis=0, return_inverse=True)
        for k, u in enumerate(every):
            rows, along = np.flatnonzero(which.ravel() == k), self.heights.along(u)
            for j in range(self.X.shape[1]):
                yield rows, j, _best_place(along, j, self.X[rows, j, None], reach[rows])


def _best_place(along: Heights, j: int, x: Array, reach: Array) -> Array:
    """Where a curve is highest within distances from x, at their ends or at a knot between."""
    ends = x + np.stack([-reach, reach])
    before = along.before(j, ends)
    low, high = along.of(j, ends, before)[0]
    place, top = np.where(high > low, ends[1], ends[0]), np.maximum(low, high)
    if along.curves.knots[j]:
        knot = along.highest[j][before[0], before[1]]
        inner = np.where(before[0] < before[1], along.start[0, knot], -np.inf)
        place, top = np.where(inner > top, along.zero[knot], place), np.maximum(inner, top)
    return np.where(top > along.of(j, x, along.before(j, x))[0], place, x)
