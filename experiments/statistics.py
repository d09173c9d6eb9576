"""Means over seeds, their bands, and who is better by paired differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array

ERRORS = 2.0
"""A difference counts if it is larger than this many standard errors; so wide are the bands."""


@dataclass(frozen=True)
class Tally:
    """How often one method was better, worse, or neither."""

    wins: int = 0
    losses: int = 0
    ties: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.wins + other.wins, self.losses + other.losses, self.ties + other.ties)

    @property
    def total(self) -> int:
        """The number of comparisons."""
        return self.wins + self.losses + self.ties

    def __str__(self) -> str:
        return f"{self.wins} / {self.losses} / {self.ties}"


def band(values: Array) -> tuple[Array, Array]:
    """Mean over the seeds, and two standard errors of it; the first axis is the seeds."""
    values = np.asarray(values, dtype=np.float64)
    count = len(values)
    spread = values.std(axis=0, ddof=1) if count > 1 else np.full(values.shape[1:], np.nan)
    return values.mean(axis=0), np.asarray(ERRORS * spread / np.sqrt(count))


def tally(own: Array, rival: Array, *, smaller_is_better: bool) -> Tally:
    """Compare two methods in every cell by the differences within the seeds.

    Parameters
    ----------
    own, rival : arrays of shape (seeds, cells)
        What each has measured with the same seeds.
    smaller_is_better : bool
        As for errors.

    Examples
    --------
    >>> print(tally(np.array([[1.0], [2.0]]), np.array([[0.5], [1.5]]), smaller_is_better=False))
    1 / 0 / 0
    """
    gains = (rival - own) if smaller_is_better else (own - rival)
    mean, wide = band(gains)
    # With one seed nothing can be told; rounding is no difference.
    floor = 1e-12 * np.abs(rival).max(initial=1.0)
    sure = np.abs(mean) > np.maximum(np.where(np.isnan(wide), np.inf, wide), floor)
    wins, losses = int((sure & (mean > 0.0)).sum()), int((sure & (mean < 0.0)).sum())
    return Tally(wins, losses, int(mean.size) - wins - losses)


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return lines + [f"| {' | '.join(row)} |" for row in rows]


def best_count(cells: Mapping[str, Array], name: str, *, smaller_is_better: bool) -> int:
    """In how many cells a method has the best mean over the seeds; equal ones do not count.

    Parameters
    ----------
    cells : mapping of str to arrays of shape (seeds, cells)
        What every method has measured.
    name : str
        Whose.
    smaller_is_better : bool
        As for errors.
    """
    sign = -1.0 if smaller_is_better else 1.0
    own = sign * cells[name].mean(axis=0)
    rivals = [sign * values.mean(axis=0) for other, values in cells.items() if other != name]
    margin = 1e-9 * np.maximum(1.0, np.abs(own))
    return int((own > np.max(rivals, axis=0) + margin).sum())
