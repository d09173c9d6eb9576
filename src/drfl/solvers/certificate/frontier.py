r"""Minorants of f along the gauge that were proved before, to be mixed with new ones.

Every proof ends with :math:`f\ge C+s\,\mathrm{gauge}(x)` for all x. It bounds f by C if the slack
s is not negative. A larger C with s < 0, and an older proof with s' > 0, bound f by their mixture
in which the slacks cancel, :math:`(s'C-sC')/(s'-s)`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MOST = 200  # pairs that are kept


@dataclass
class Frontier:
    """The pairs (s, C) that no mixture of others exceeds, by ascending slack."""

    pairs: list[tuple[float, float]] = field(default_factory=list)

    def bound(self, constant: float, slack: float) -> float:
        """What this minorant proves, alone or mixed with one seen before."""
        best = constant if slack >= 0.0 else 0.0
        for s, c in self.pairs:
            if s * slack < 0.0:
                share = abs(slack) / (abs(slack) + abs(s))  # of the older one
                best = max(best, share * c + (1.0 - share) * constant)
        self._add(slack, constant)
        return best

    def _add(self, slack: float, constant: float) -> None:
        """Keep the upper hull."""
        if any(s >= slack and c >= constant for s, c in self.pairs):
            return
        hull: list[tuple[float, float]] = []
        for s, c in sorted([*self.pairs, (slack, constant)]):
            while hull and hull[-1][1] <= c:  # more slack and a larger constant
                hull.pop()
            while len(hull) > 1 and _below(hull[-2], hull[-1], (s, c)):
                hull.pop()
            hull.append((s, c))
        self.pairs = hull[-MOST:]


def _below(left: tuple[float, float], mid: tuple[float, float], right: tuple[float, float]) -> bool:
    """Whether the middle pair is not above the line between the others."""
    run, rise = right[0] - left[0], right[1] - left[1]
    return (mid[1] - left[1]) * run <= rise * (mid[0] - left[0])
