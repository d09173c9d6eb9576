r"""What a client tells of its probabilities: counts between thresholds, and a few numbers.

Between neighbouring thresholds 0.05, 0.10, ..., 0.95 the rows of either class and the sum of their
probabilities. Such counts add up over folds and clients, and they are all that a ROC curve at these
thresholds, a calibration plot and a decision curve need. Areas under the ROC curve do not add up:
scores of different clients need not be comparable, so that each tells its own, with DeLong's
variance, and they are averaged.

Where counts are shown, no cell of 1 to 4 rows is: bins are joined until there is none, and curves
are told at the thresholds that are left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from drfl.arrays import Array
from drfl.metrics.probabilities import Decisions, area, brier, combined_auc, recalibration

LEVELS = np.linspace(0.05, 0.95, 19)
SMALLEST = 5
ALL_CLIENTS = "all clients"
NUMBERS = ("auc", "auc_variance", "brier", "calibration_intercept", "calibration_slope")


@dataclass(frozen=True, eq=False)
class Told:
    """What one client tells of some rows.

    Attributes
    ----------
    bins : array of shape (20, 3)
        Between thresholds: other rows, positive rows, sum of probabilities.
    known : array of shape (19,)
        At which thresholds the sums of bins on either side are exact.
    numbers : array of shape (5,)
        `NUMBERS`, NaN where there is none.
    """

    bins: Array
    known: NDArray[np.bool_]
    numbers: Array

    @property
    def rows(self) -> float:
        """How many rows."""
        return float(self.bins[:, :2].sum())

    @property
    def pairs(self) -> float:
        """mk/(m+k) of m and k rows of the classes: how much its area counts."""
        other, positive = self.bins[:, 0].sum(), self.bins[:, 1].sum()
        return float(other * positive / max(other + positive, 1.0))


def told(z: Array, positive: NDArray[np.bool_]) -> Told:
    """Of log-odds and who is positive (N,)."""
    p = expit(z)
    at = np.searchsorted(LEVELS, p, side="left")
    sums = [np.bincount(at, weight, len(LEVELS) + 1) for weight in (~positive, positive, p)]
    both = recalibration(z, positive)
    numbers = [*area(z, positive), brier(z, positive), both.intercept, both.slope]
    return Told(np.stack(sums, axis=1), np.ones(len(LEVELS), dtype=bool), np.array(numbers))


def coarsened(found: Told) -> Told:
    """The same without cells of 1 to 4 rows; nothing where there are too few of a class."""
    bins, kept = np.zeros_like(found.bins), list[int]()
    waiting = np.zeros(3)
    for k, counts in enumerate(found.bins):
        waiting = waiting + counts
        if _large(waiting) and waiting[:2].any():
            bins[k], waiting = waiting, np.zeros(3)
            kept.append(k)
    while kept and (waiting.any() or not _large(bins[kept[-1]])):
        waiting = waiting + bins[kept[-1]]
        bins[kept[-1]] = 0.0
        if _large(waiting):
            bins[kept[-1]], waiting = waiting, np.zeros(3)
        else:
            kept.pop()
    known = np.zeros(len(LEVELS), dtype=bool)
    known[[k for k in kept[:-1] if found.known[k]]] = True
    totals = bins[:, :2].sum(axis=0)
    whole = bool(kept) and bool((totals >= SMALLEST).all())
    return Told(bins, known, found.numbers if whole else np.full(len(NUMBERS), np.nan))


def _large(counts: Array) -> bool:
    return all(c == 0.0 or c >= SMALLEST for c in counts[:2].tolist())


def added(parts: Sequence[Told]) -> Told:
    """What several folds or clients tell together; numbers are averaged by rows, areas by pairs."""
    bins = np.sum([part.bins for part in parts], axis=0)
    known = np.all([part.known for part in parts], axis=0)
    values = np.array([part.numbers for part in parts])
    weights = np.array([part.rows for part in parts])
    pairs = np.array([part.pairs for part in parts])
    middle, variance = combined_auc(values[:, 0], values[:, 1], pairs)
    means = [_mean(values[:, k], weights) for k in range(2, len(NUMBERS))]
    return Told(bins, known, np.array([middle, variance, *means]))


def _mean(values: Array, weights: Array) -> float:
    at = np.isfinite(values) & (weights > 0.0)
    return float(weights[at] @ values[at] / weights[at].sum()) if at.any() else math.nan


def facts_of(found: Told, level: float = 0.95) -> dict[str, Any]:
    """For records and tables: numbers, what they rest on, and the majority beside them."""
    other, positive = (round(c) for c in found.bins[:, :2].sum(axis=0))
    rows = other + positive
    if rows == 0:
        return {"rows": 0}
    share = positive / rows
    auc, variance, score, intercept, slope = found.numbers.tolist()
    half = float(ndtri(0.5 + 0.5 * level)) * math.sqrt(variance) if variance >= 0.0 else math.nan
    return {
        "rows": rows,
        "positive": positive,
        "auc": auc,
        "auc_low": max(0.0, auc - half),
        "auc_high": min(1.0, auc + half),
        "brier": score,
        "brier_of_share": share * (1.0 - share),
        "majority": max(share, 1.0 - share),
        "calibration_intercept": intercept,
        "calibration_slope": slope,
        "calibration": [
            {"rows": round(a + b), "predicted": p / (a + b), "observed": b / (a + b)}
            for a, b, p in found.bins.tolist()
            if a + b > 0.0
        ],
        "decisions": [_decided(found, k) for k in np.flatnonzero(found.known).tolist()],
    }


def _decided(found: Told, k: int) -> dict[str, Any]:
    """What happens at the k-th threshold: a point of the ROC and of the decision curve."""
    below, above = found.bins[: k + 1, :2].sum(axis=0), found.bins[k + 1 :, :2].sum(axis=0)
    counts = (round(c) for c in (above[1], above[0], below[0], below[1]))
    at = Decisions(float(LEVELS[k]), *counts)
    names = ("sensitivity", "specificity", "positive_value", "negative_value", "net_benefit")
    return {
        "threshold": round(at.threshold, 4),
        **{name: getattr(at, name) for name in (*names, "benefit_of_all")},
    }
