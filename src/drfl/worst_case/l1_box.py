r"""Piecewise-linear losses on a box with the l1 norm: the closed form and its search for lambda.

:math:`\varphi` has kinks at the breakpoints of w, each worth a share of the whole budget, and
small ones where a row changes its winning line. A pass over the rows at a few prices gives values,
slopes on both sides and gradients. The search goes over the breakpoints first; if the minimum is at
none of them, it is found exactly from the few rows that are undecided between two prices. On large
data a sample of blocks tells where to look, so that one full pass usually is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from drfl.losses import Array
from drfl.worst_case.box_moves import BoxMoves
from drfl.worst_case.clipping import Clipping, Line, Sums, Winners
from drfl.worst_case.floor import Floor, find_floor
from drfl.worst_case.gains import GainOracle
from drfl.worst_case.l1_pass import Probe, Undone, sweep_prices
from drfl.worst_case.oracle import Distribution, Oracle, WorstCase
from drfl.worst_case.search import Bracket, balance, cut, meeting
from drfl.worst_case.undecided import Undecided, find_kink
from drfl.worst_case.whole_space import WholeSpaceOracle

# Prices per pass while the search is wide: more would cost more than another pass.
PRICES = 7
# Blocks in the sample, and what the radius is varied by to bracket the price on all rows.
SAMPLE, DOUBT = 5, 0.1
# Rows gathered at a time.
CHUNK = 8192
# One pass per price is the least progress; rounding ends the search long before.
MAX_PASSES = 60


@dataclass(frozen=True)
class Active:
    """Which lines win at a share of the optimal mixture.

    Attributes
    ----------
    weight : float
        Of this part of the mixture; they sum to 1.
    multiplier : float
        Its lambda.
    winner : array of shape (N,)
        For every row the index of its line.
    lines : tuple of Line
        All lines: level and sign of the slope, constant, flipped or not.
    sizes : array
        The size of the slope of each level.
    """

    weight: float
    multiplier: float
    winner: Winners
    lines: tuple[Line, ...]
    sizes: Array

    def slopes(self) -> Array:
        """The slope of the winning line in the argument of the loss, (N,); 0 for constants."""
        sizes = np.append(self.sizes, 0.0)  # level -1
        return np.array([line.sign * sizes[line.level] for line in self.lines])[self.winner]

    def flipped(self) -> NDArray[np.bool_]:
        """Whether the winning line has the other label, (N,)."""
        return np.array([line.flipped for line in self.lines])[self.winner]

    def constants(self) -> Array:
        """The constant of the piece that wins, (N,)."""
        return np.array([line.constant for line in self.lines])[self.winner]


@dataclass(frozen=True)
class Solution:
    """The best price: a mixture of tangents, and the winners in its parts."""

    bracket: Bracket
    winners: tuple[tuple[float, float, Winners], ...]  # weight, lambda, winner of each row

    @property
    def prices(self) -> tuple[float, ...]:
        return tuple(lam for _, lam, _ in self.winners)


class L1BoxOracle(Oracle):
    """F on a box with the l1 norm, for piecewise-linear losses."""

    def evaluate(self, w: Array, b: float) -> WorstCase:
        floor = self._floor(w)
        solution = self._solve(Clipping(self.loss, self.ball, w, b, floor.lam))
        if solution is None:
            return self._whole().evaluate(w, b)
        best = cut(solution.bracket, floor.lam, floor.gradient)
        return WorstCase(
            best.value,
            best.gradient,
            best.intercept_gradient,
            best.lam,
            lambda: self.distribution(w, b),
        )

    def active(self, w: Array, b: float) -> tuple[Active, ...]:
        """The winning lines in the parts of the optimal mixture, for cuts that know the clipping.

        Empty where the box plays no role: without a budget, or if flipped labels set the price.
        """
        problem = Clipping(self.loss, self.ball, w, b, self._floor(w).lam)
        solution = self._solve(problem)
        return tuple(
            Active(weight, lam, winner, problem.lines, problem.sizes)
            for weight, lam, winner in (solution.winners if solution else ())
        )

    def distribution(self, w: Array, b: float) -> Distribution:
        solution = self._solve(Clipping(self.loss, self.ball, w, b, self._floor(w).lam))
        if solution is None:
            return self._whole().distribution(w, b)
        near = (float(np.nextafter(solution.prices[0], 0.0)), *solution.prices)
        return GainOracle(self.rows, self.loss, self.ball).distribution(w, b, near)

    def _floor(self, w: Array) -> Floor:
        return find_floor(self, BoxMoves(self.loss, self.ball, w))

    def _whole(self) -> WholeSpaceOracle:
        return WholeSpaceOracle(self.rows, self.loss, self.ball)

    # ------------------------------------------------------------------ the search
    def _solve(self, problem: Clipping) -> Solution | None:
        """The best price; None if it is above all breakpoints, where nothing moves in any box."""
        radius, points = self.ball.radius, problem.breakpoints
        if radius == 0.0:
            return None
        every = sum(1 for _ in self.rows.blocks()) // SAMPLE
        first = sorted({*_spread(points), float(points[-1])})
        if every >= 4:
            # The price falls as the radius grows: vary it to bracket the price on all rows.
            low = self._search(problem, (1.0 + DOUBT) * radius, first, every)
            high = self._search(problem, (1.0 - DOUBT) * radius, first, every)
            start = min(low.prices) if low else float(points[-1])
            stop = max(high.prices) if high else float(points[-1])
            between = points[(points > start) & (points < stop)]
            first = sorted({start, *_spread(between), stop})
        return self._search(problem, radius, first, 1)

    def _search(
        self, problem: Clipping, radius: float, prices: Sequence[float], every: int
    ) -> Solution | None:
        points = problem.breakpoints
        left: Probe | None = None
        right: Probe | None = None
        for _ in range(MAX_PASSES):
            probes, undone = sweep_prices(self.rows, problem, prices, radius, every)
            for probe in probes:
                if probe.right.slope < 0.0:
                    left = probe
                elif probe.left.slope <= 0.0 or probe.lam <= points[0]:
                    return _at_breakpoint(probe, at_floor=probe.lam <= points[0])
                else:
                    right = probe
                    break
            if left is not None and left.lam >= points[-1]:
                return None
            inner = _inside(points, left, right)
            if left is not None and right is not None and not len(inner):
                if tuple(prices) == (left.lam, right.lam) and undone.is_complete:
                    return self._between(problem, radius, left, right, undone)
                if _agree(left, right):
                    return _straddling(left, right)
            prices = _next_prices(inner, left, right, prices)
        assert left is not None and right is not None  # every pass narrows the bracket
        return _straddling(left, right)

    def _between(
        self, problem: Clipping, radius: float, left: Probe, right: Probe, undone: Undone
    ) -> Solution:
        """The minimum between two prices in one piece of the clipping: no further pass."""
        rows, (start, end) = undone.rows, undone.scores
        width = right.lam - left.lam
        constants = problem.constants(left.lam)
        undecided = Undecided(
            problem.lines,
            self.rows.masses(rows) / left.share,
            start,
            end - start,
            constants,
            problem.constants(right.lam) - constants,
        )
        low, high = find_kink(undecided, (left.right.value, right.left.value))
        weights = balance(low, high)
        t, height = (low.lam, low.value) if low is high else meeting(low, high)
        lam = left.lam + min(max(t, 0.0), 1.0) * width
        parts = []
        for weight, point in zip(weights, (low, high), strict=True):
            if weight > 0.0:
                winner = left.winner.copy()
                winner[rows] = undecided.value_and_slope(point.lam)[2]
                parts.append((weight, left.lam + point.lam * width, winner))
        shares = [(weight, winner[rows]) for weight, _, winner in parts]
        sums = self._reassign(problem, left, rows, undecided.mass, shares)
        tangent = problem.tangent(sums, left.lam, radius, from_left=False)
        tangent = replace(tangent, lam=lam, value=height, slope=0.0)
        return Solution(((1.0, tangent),), tuple(parts))

    def _reassign(
        self,
        problem: Clipping,
        probe: Probe,
        rows: NDArray[np.intp],
        mass: Array,
        shares: list[tuple[float, Winners]],
    ) -> Sums:
        """The sums of a probe after some rows got other winners."""
        shares = [*shares, (-1.0, probe.winner[rows])]
        sums, y = probe.sums, self.rows.y[rows]
        lines = len(problem.lines)
        won = sums.mass + sum(
            weight * np.bincount(winner, weights=mass, minlength=lines) for weight, winner in shares
        )
        g, total, target = sums.g.copy(), sums.total.copy(), sums.target.copy()
        for level in range(len(problem.sizes)):
            signs = problem.signs(level)
            v = mass * sum(weight * signs[winner] for weight, winner in shares)
            target[level] += float(v @ y)
            if problem.is_margin:
                v *= y
            changed = np.flatnonzero(v)
            for part in np.array_split(changed, 1 + len(changed) // CHUNK):
                dg, dtotal = self.rows.combine_some(rows[part], v[part])
                g[level] += dg
                total[level] += dtotal
        return Sums(sums.value, won, g, total, target)


def _at_breakpoint(probe: Probe, *, at_floor: bool) -> Solution:
    """The minimum is at a probe; at the floor there is nothing on the left."""
    weights = (0.0, 1.0) if at_floor else balance(probe.left, probe.right)
    sides = zip(weights, (probe.left, probe.right), strict=True)
    bracket = tuple((weight, side) for weight, side in sides if weight > 0.0)
    return Solution(bracket, ((1.0, probe.lam, probe.winner),))


def _straddling(left: Probe, right: Probe) -> Solution:
    """The minimum is between two probes, too close to tell where."""
    theta, rest = balance(left.right, right.left)
    return Solution(
        ((theta, left.right), (rest, right.left)),
        ((theta, left.lam, left.winner), (rest, right.lam, right.winner)),
    )


def _agree(left: Probe, right: Probe) -> bool:
    least = min(left.right.value, right.left.value)
    return least - meeting(left.right, right.left)[1] <= 1e-15 * abs(least)


def _inside(points: Array, left: Probe | None, right: Probe | None) -> Array:
    """The breakpoints that may still be the minimum and have not been probed."""
    above = points if left is None else points[points > left.lam]
    return above if right is None else above[above < right.lam]


def _next_prices(
    inner: Array, left: Probe | None, right: Probe | None, previous: Sequence[float]
) -> Sequence[float]:
    """Narrow the bracket: among breakpoints, then at its ends for the undecided rows, then inside."""
    if left is None or right is None:
        # A guess was wrong on this side, or the spread missed the ends: probably not by much.
        near = inner if right is None else inner[::-1]
        return sorted(float(near[k]) for k in (0, 2, 8) if k < len(near))
    if len(inner):
        return _spread(inner)
    pair = (left.lam, right.lam)
    if tuple(previous) != pair:
        return pair
    return [float(lam) for lam in np.linspace(*pair, PRICES + 2)[1:-1]]


def _spread(points: Array) -> list[float]:
    """At most a few of the points, evenly by rank."""
    if len(points) <= PRICES:
        return [float(lam) for lam in points]
    ranks = np.linspace(0, len(points) - 1, PRICES + 2)[1:-1]
    return [float(points[round(rank)]) for rank in ranks]
