r"""The search for lambda in the clipped problem: breakpoints, then undecided rows.

:math:`\varphi` has kinks at the breakpoints of w, each worth a share of the whole budget, and small
ones where a row changes its winning line. A pass over the rows at a few prices gives values, slopes
on both sides and gradients. If the minimum is at no breakpoint it is found exactly from the few
rows that are undecided between two prices. On large data a sample of blocks tells where to look, so
that usually one full pass is enough.

Where every line is linear in lambda, a row whose winner is the same at both ends of an interval
has the same winner throughout, and is a constant. Only the others are looked at, and fewer of
them as the interval shrinks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.rows import Rows
from drfl.worst_case.boxes.clipping import Clipping, Contender, Sums, Winners, compete
from drfl.worst_case.price_search import Bracket, PricePoint, Tangent, balance, meeting

# Rows that are undecided between two prices are kept, unless they are more than this share
# (of many): they take memory.
LARGEST_SHARE, ALWAYS_KEPT = 0.125, 50_000


@dataclass(frozen=True)
class Probe:
    """What a pass finds at one price: the tangents from both sides, and who won each row."""

    lam: float
    sums: Sums
    left: Tangent
    right: Tangent
    winner: Winners
    share: float
    """The mass of the blocks that were read."""


@dataclass
class Undone:
    """The rows whose winner differs between two prices, with their scores at both."""

    limit: float
    count: int = 0
    found: list[tuple[NDArray[np.intp], Array]] = field(default_factory=list)

    def add(self, start: int, differ: NDArray[np.bool_], scores: Array) -> None:
        """Note the rows of a block that differ; ``scores`` is (2, levels, m)."""
        rows = np.flatnonzero(differ)
        self.count += len(rows)
        if self.count <= self.limit:
            self.found.append((rows + start, scores[:, :, rows]))
        else:
            self.found.clear()

    @property
    def is_complete(self) -> bool:
        return self.count <= self.limit

    @property
    def rows(self) -> NDArray[np.intp]:
        return np.concatenate([rows for rows, _ in self.found])

    @property
    def scores(self) -> Array:
        return np.concatenate([scores for _, scores in self.found], axis=2)


class Pass:
    """The sums of one pass, filled block by block."""

    def __init__(self, rows: Rows, problem: Clipping, prices: Sequence[float]) -> None:
        self.rows, self.problem, self.prices = rows, problem, prices
        levels, lines = len(problem.sizes), len(problem.lines)
        self.reach = np.array([problem.reach(lam) for lam in prices])
        self.constants = np.array([problem.constants(lam) for lam in prices])
        self.value, self.mass = np.zeros(len(prices)), np.zeros((len(prices), lines))
        self.target = np.zeros((len(prices), levels))
        self.winners = np.zeros((len(prices), rows.n_rows), dtype=np.int8)
        self.undone = Undone(max(ALWAYS_KEPT, LARGEST_SHARE * rows.n_rows))

    def visit(self, block: slice, z: Array) -> Array:
        """Scores of a block, (prices * levels, m), in; weights of its rows out."""
        y, problem = self.rows.y[block], self.problem
        scores = z.reshape(len(self.prices), len(problem.sizes), -1)
        if problem.is_margin:
            scores *= y
        else:
            scores -= self.reach[:, :, None] * y
        for k in range(len(self.prices)):
            best, self.winners[k, block] = compete(problem.lines, scores[k], self.constants[k])
            self.value[k] += self.rows.mean(best, block)
        if len(self.prices) == 2:
            first, last = self.winners[:, block]
            self.undone.add(block.start, first != last, scores)
        for k, winner in enumerate(self.winners[:, block]):
            self._weigh(k, block, winner, scores[k])
        return z

    def _weigh(self, k: int, block: slice, winner: Winners, out: Array) -> None:
        """Replace the scores of a block by the signed masses of its rows."""
        y = self.rows.y[block]
        out[:] = 0.0
        for i, line in enumerate(self.problem.lines):
            won = winner == i
            self.mass[k, i] += self.rows.mean(won, block)
            if line.level >= 0:
                np.copyto(out[line.level], line.sign, where=won)
        out *= self.rows.mass(block)
        if self.problem.is_margin:
            out *= y
        else:
            self.target[k] += out @ y

    def probes(self, g: Array, total: Array, radius: float) -> list[Probe]:
        """The tangents, once all blocks are visited."""
        shape = len(self.prices), len(self.problem.sizes)
        g, total = g.reshape(*shape, -1), total.reshape(shape)
        share = self.mass.sum(axis=1)  # less than 1 on a sample of the blocks
        found = []
        for k, lam in enumerate(self.prices):
            sums = Sums(
                float(self.value[k] / share[k]),
                self.mass[k] / share[k],
                g[k] / share[k],
                total[k] / share[k],
                self.target[k] / share[k],
            )
            left = self.problem.tangent(sums, lam, radius, from_left=True)
            right = self.problem.tangent(sums, lam, radius, from_left=False)
            found.append(Probe(lam, sums, left, right, self.winners[k], float(share[k])))
        return found


def sweep_prices(
    rows: Rows, problem: Clipping, prices: Sequence[float], radius: float, every: int
) -> tuple[list[Probe], Undone]:
    """Probe several prices in one pass over the rows, or over a sample of their blocks.

    With two prices the rows that are undecided between them are returned too.
    """
    models = [problem.models(lam) for lam in prices]
    W = np.concatenate([omega for omega, _ in models])
    b = np.concatenate([offset for _, offset in models])
    state = Pass(rows, problem, prices)
    g, total = rows.sweep_many(W, b, state.visit, every=every)
    return state.probes(g, total, radius), state.undone


# Prices per pass while the search is wide: more would cost more than another pass.
PRICES = 7
# Blocks in the sample, the number of blocks from which a sample pays, and what the radius is varied
# by to bracket the price on all rows.
SAMPLE, ENOUGH, DOUBT = 5, 20, 0.1
# Rows gathered at a time.
CHUNK = 8192
# Each pass narrows the bracket; rounding ends the search long before.
MAX_PASSES = 60


@dataclass(frozen=True)
class WinnersAt:
    """A part of the optimal mixture: who wins each row at a price next to the best one."""

    weight: float
    lam: float
    winner: Winners


@dataclass(frozen=True)
class BestPrice:
    """The best price: tangents whose slopes cancel, and the winning lines in the parts."""

    bracket: Bracket
    parts: tuple[WinnersAt, ...]


def best_price(rows: Rows, problem: Clipping, radius: float) -> BestPrice | None:
    """Minimise over lambda.

    None if the price is above all breakpoints: flipped labels set it, and no row moves in any box.
    """
    points = problem.breakpoints
    top = float(points[-1])
    first = sorted({*_spread(points), top})
    blocks = sum(1 for _ in rows.blocks())
    if blocks >= ENOUGH:
        # The price falls as the radius grows.
        every = blocks // SAMPLE
        found = [
            _prices(search(rows, problem, factor * radius, first, every), top)
            for factor in (1.0 + DOUBT, 1.0 - DOUBT)
        ]
        start, stop = min(found[0]), max(found[1])
        between = points[(points > start) & (points < stop)]
        first = sorted({start, *_spread(between), stop})
    return search(rows, problem, radius, first)


def _prices(solution: BestPrice | None, top: float) -> tuple[float, ...]:
    return tuple(part.lam for part in solution.parts) if solution else (top,)


def search(
    rows: Rows, problem: Clipping, radius: float, prices: Sequence[float], every: int = 1
) -> BestPrice | None:
    """Minimise over lambda, probing the given prices first."""
    points = problem.breakpoints
    left: Probe | None = None
    right: Probe | None = None
    for _ in range(MAX_PASSES):
        probes, undone = sweep_prices(rows, problem, prices, radius, every)
        for probe in probes:
            at_floor = probe.lam <= points[0]
            if probe.right.slope < 0.0:
                left = probe
            elif probe.left.slope <= 0.0 or at_floor:
                return _at_breakpoint(probe, at_floor=at_floor)
            else:
                right = probe
                break
        if left is not None and left.lam >= points[-1]:
            return None
        inner = _inside(points, left, right)
        if left is not None and right is not None and not len(inner):
            if tuple(prices) == (left.lam, right.lam) and undone.is_complete:
                return _between(rows, problem, radius, left, right, undone)
            if _agree(left, right):
                return _straddling(left, right)
        prices = _next_prices(inner, left, right, prices)
    assert left is not None  # each pass narrows the bracket
    assert right is not None
    return _straddling(left, right)


def _next_prices(
    inner: Array, left: Probe | None, right: Probe | None, previous: Sequence[float]
) -> Sequence[float]:
    """Narrow the bracket: among breakpoints, then its ends for the undecided rows, then inside."""
    if left is None or right is None:
        # A guess was wrong on this side: probably not by much.
        near = inner if right is None else inner[::-1]
        return sorted(float(near[k]) for k in (0, 2, 8) if k < len(near))
    if len(inner):
        return _spread(inner)
    pair = (left.lam, right.lam)
    if tuple(previous) != pair:
        return pair
    return [float(lam) for lam in np.linspace(*pair, PRICES + 2)[1:-1]]


def _inside(points: Array, left: Probe | None, right: Probe | None) -> Array:
    """The breakpoints that may still be the minimum and have not been probed."""
    above = points if left is None else points[points > left.lam]
    return above if right is None else above[above < right.lam]


def _spread(points: Array) -> list[float]:
    """At most a few of the points, evenly by rank."""
    if len(points) > PRICES:
        ranks = np.linspace(0, len(points) - 1, PRICES + 2)[1:-1]
        points = points[np.rint(ranks).astype(np.intp)]
    return [float(lam) for lam in points]


def _at_breakpoint(probe: Probe, *, at_floor: bool) -> BestPrice:
    """The minimum is at a probe; at the floor there is nothing on its left."""
    weights = (0.0, 1.0) if at_floor else balance(probe.left, probe.right)
    sides = zip(weights, (probe.left, probe.right), strict=True)
    bracket = tuple((weight, side) for weight, side in sides if weight > 0.0)
    return BestPrice(bracket, (WinnersAt(1.0, probe.lam, probe.winner),))


def _agree(left: Probe, right: Probe) -> bool:
    least = min(left.right.value, right.left.value)
    return least - meeting(left.right, right.left)[1] <= 1e-15 * abs(least)


def _straddling(left: Probe, right: Probe) -> BestPrice:
    """The minimum is between two probes, too close to tell where."""
    theta, rest = balance(left.right, right.left)
    return BestPrice(
        ((theta, left.right), (rest, right.left)),
        (WinnersAt(theta, left.lam, left.winner), WinnersAt(rest, right.lam, right.winner)),
    )


def _between(
    rows: Rows, problem: Clipping, radius: float, left: Probe, right: Probe, undone: Undone
) -> BestPrice:
    """The minimum between two prices in one piece of the clipping: no further pass."""
    some, (start, end) = undone.rows, undone.scores
    width = right.lam - left.lam
    constants = problem.constants(left.lam)
    undecided = Undecided(
        problem.lines,
        rows.masses(some) / left.share,
        start,
        end - start,
        constants,
        problem.constants(right.lam) - constants,
    )
    low, high = find_kink(undecided, (left.right.value, right.left.value))
    t, height = (low.lam, low.value) if low is high else meeting(low, high)
    parts = []
    for weight, point in zip(balance(low, high), (low, high), strict=True):
        if weight > 0.0:
            winner = left.winner.copy()
            winner[some] = undecided.value_and_slope(point.lam)[2]
            parts.append(WinnersAt(weight, left.lam + point.lam * width, winner))
    sums = _reassigned(rows, problem, left, some, undecided.mass, parts)
    tangent = problem.tangent(sums, left.lam, radius, from_left=False)
    lam = left.lam + min(max(t, 0.0), 1.0) * width
    return BestPrice(((1.0, replace(tangent, lam=lam, value=height, slope=0.0)),), tuple(parts))


def _reassigned(
    rows: Rows,
    problem: Clipping,
    probe: Probe,
    some: NDArray[np.intp],
    mass: Array,
    parts: Sequence[WinnersAt],
) -> Sums:
    """The sums of a probe after some rows got the winners of the parts instead."""
    shares = [(part.weight, part.winner[some]) for part in parts] + [(-1.0, probe.winner[some])]
    old, y, lines = probe.sums, rows.y[some], len(problem.lines)
    won, g, total, target = old.mass.copy(), old.g.copy(), old.total.copy(), old.target.copy()
    for weight, winner in shares:
        won += weight * np.bincount(winner, weights=mass, minlength=lines)
    for level in range(len(problem.sizes)):
        signs = problem.signs(level)
        v = mass * sum(weight * signs[winner] for weight, winner in shares)
        target[level] += float(v @ y)
        if problem.is_margin:
            v *= y
        changed = np.flatnonzero(v)
        for chunk in np.array_split(changed, 1 + len(changed) // CHUNK):
            dg, dtotal = rows.combine_some(some[chunk], v[chunk])
            g[level] += dg
            total[level] += dtotal
    return Sums(old.value, won, g, total, target)


# Every third step halves the interval; by then only rounding is left of it.
MAX_STEPS = 200


@dataclass
class Undecided:
    """Rows between two prices, t = 0 and t = 1."""

    lines: tuple[Contender, ...]
    mass: Array  # (U,)
    start: Array  # (levels, U), the scores at t = 0
    change: Array  # (levels, U), to t = 1
    constants: Array  # (lines,) at t = 0
    constants_change: Array  # (lines,) to t = 1

    def value_and_slope(self, t: float) -> tuple[float, float, Winners]:
        """The sum of the winning lines, its slope in t, and the winners."""
        scores = self.start + t * self.change
        constants = self.constants + t * self.constants_change
        best, winner = compete(self.lines, scores, constants)
        slope = 0.0
        for k, line in enumerate(self.lines):
            mass = self.mass * (winner == k)
            slope += float(mass.sum()) * float(self.constants_change[k])
            if line.level >= 0:
                slope += line.sign * float(mass @ self.change[line.level])
        return float(self.mass @ best), slope, winner

    def some(self, keep: NDArray[np.bool_]) -> Undecided:
        return Undecided(
            self.lines,
            self.mass[keep],
            self.start[:, keep],
            self.change[:, keep],
            self.constants,
            self.constants_change,
        )


@dataclass(frozen=True)
class End(PricePoint):
    """One end of the interval: the whole function, and who wins among the undecided."""

    winner: Winners


def find_kink(rows: Undecided, values: tuple[float, float]) -> tuple[PricePoint, PricePoint]:
    """Two points of the whole function (in t) next to its minimum, with slopes < 0 and > 0.

    Where rounding leaves no such pair, both are the end at which the minimum is. ``values`` are
    those of the whole function at t = 0 and t = 1; rows that are decided are linear between.
    """
    rest = [value - rows.value_and_slope(t)[0] for t, value in enumerate(values)]
    at_0, rise = rest[0], rest[1] - rest[0]

    def end(t: float) -> End:
        value, slope, winner = rows.value_and_slope(t)
        return End(t, value + at_0 + t * rise, slope + rise, winner)

    low, high = end(0.0), end(1.0)
    for step in range(MAX_STEPS):
        if low.slope >= 0.0 or high.slope <= 0.0:
            return (low, low) if low.slope >= 0.0 else (high, high)
        meet, height = meeting(low, high)
        t = meet if step % 3 < 2 else 0.5 * (low.lam + high.lam)
        least = min(low.value, high.value)
        if not low.lam < t < high.lam or least - height <= 1e-15 * abs(least):
            break
        middle = end(t)
        low, high = (middle, high) if middle.slope < 0.0 else (low, middle)
        undecided = low.winner != high.winner
        if 2 * np.count_nonzero(undecided) < len(undecided):
            # The settled rows join the linear part.
            value, slope, _ = rows.some(~undecided).value_and_slope(low.lam)
            at_0, rise = at_0 + value - slope * low.lam, rise + slope
            rows = rows.some(undecided)
            low = replace(low, winner=low.winner[undecided])
            high = replace(high, winner=high.winner[undecided])
    return low, high
