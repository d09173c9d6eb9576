r"""The last step of the search for lambda: an exact minimum between two prices.

Where every line is linear in lambda, a row whose winner is the same at both ends of an interval
has the same winner throughout, and is a constant. Only the others are looked at, and fewer of
them as the interval shrinks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.worst_case.clipping import Line, Winners, compete
from drfl.worst_case.search import Point, meeting

# Every third step halves the interval; by then only rounding is left of it.
MAX_STEPS = 200


@dataclass
class Undecided:
    """Rows between two prices, t = 0 and t = 1."""

    lines: tuple[Line, ...]
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
class End(Point):
    """One end of the interval: the whole function, and who wins among the undecided."""

    winner: Winners


def find_kink(rows: Undecided, values: tuple[float, float]) -> tuple[Point, Point]:
    """Two points of the whole function (in t) next to its minimum, with slopes < 0 and > 0.

    Where rounding leaves no such pair, both are the end at which the minimum is.

    Parameters
    ----------
    rows : Undecided
        The rows that are not decided between t = 0 and t = 1.
    values : tuple of float
        The whole function at t = 0 and t = 1; the other rows are linear between.
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
