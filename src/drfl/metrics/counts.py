r"""What a client tells of its probabilities: counts between thresholds, and a few numbers.

Between neighbouring thresholds 0.05, 0.10, ..., 0.95, and those that the user names, the rows of
either class and the sum of their probabilities. Such counts add up over folds and clients, and they
are all that a ROC curve at these thresholds, a calibration plot and a decision curve need. Areas
under the ROC curve do not add up: scores of different clients need not be comparable, so that each
tells its own, with DeLong's variance, and they are averaged.

Where counts are shown, no cell of 1 to 4 rows is: bins are joined until there is none, and curves
are told at the thresholds that are left. Those that the user names are the last to go.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from drfl.arrays import Array
from drfl.defaults import FEW_ROWS
from drfl.metrics.probabilities import (
    Decisions,
    area,
    auc_interval,
    brier,
    combined_auc,
    recalibration,
)

LEVELS = np.round(np.linspace(0.05, 0.95, 19), 2)
ALL_CLIENTS = "all clients"
NUMBERS = (
    "auc",
    "auc_variance",
    "brier",
    "accuracy",
    "calibration_in_the_large",
    "calibration_intercept",
    "calibration_slope",
)


@dataclass(frozen=True, eq=False)
class Told:
    """What one client tells of some rows."""

    bins: Array  # (E + 1, 3), between edges: other rows, positive rows, sum of probabilities
    known: NDArray[np.bool_]  # (E,), at which edges the sums of bins on either side are exact
    numbers: Array  # (7,), `NUMBERS`, NaN where there is none
    # Those that the user names; with `LEVELS` they are the E edges
    thresholds: tuple[float, ...] = ()

    @property
    def edges(self) -> Array:
        """The thresholds between the bins (E,)."""
        return edges_of(self.thresholds)

    @property
    def rows(self) -> float:
        """How many rows."""
        return float(self.bins[:, :2].sum())

    @property
    def pairs(self) -> float:
        """mk/(m+k) of m and k rows of the classes: how much its area counts."""
        other, positive = self.bins[:, 0].sum(), self.bins[:, 1].sum()
        return float(other * positive / max(other + positive, 1.0))


def edges_of(thresholds: Sequence[float]) -> Array:
    """`LEVELS` and the thresholds that a user names, in order (E,)."""
    return np.union1d(LEVELS, np.asarray(thresholds, dtype=np.float64))


def told(z: Array, positive: NDArray[np.bool_], thresholds: Sequence[float] = ()) -> Told:
    """Of log-odds and who is positive (N,)."""
    p, edges = expit(z), edges_of(thresholds)
    at = np.searchsorted(edges, p, side="left")
    counted = (np.bincount(at, weight, len(edges) + 1) for weight in (~positive, positive, p))
    sums = [np.asarray(counts, dtype=np.float64) for counts in counted]
    known = np.ones(len(edges), dtype=bool)
    if len(z) == 0:
        nothing = np.full(len(NUMBERS), np.nan)
        return Told(np.stack(sums, axis=1), known, nothing, tuple(thresholds))
    both, shift = recalibration(z, positive), recalibration(z, positive, slope=False)
    numbers = [*area(z, positive), brier(z, positive), float(np.mean((z > 0.0) == positive))]
    numbers += [shift.intercept, both.intercept, both.slope]
    return Told(np.stack(sums, axis=1), known, np.array(numbers), tuple(thresholds))


def coarsened(found: Told) -> Told:
    """The same without cells of 1 to 4 rows; nothing where there are too few of a class.

    One edge after the other is taken, those that the user names first, if it leaves rows of every
    class on either side, up to the next edges that were taken: none, or at least 5.
    """
    sums = np.vstack([np.zeros(3), np.cumsum(found.bins, axis=0)])  # below each edge, and of all
    first, last = 0, len(found.bins)
    bins, known = np.zeros_like(found.bins), np.zeros(len(found.known), dtype=bool)
    if not _large(sums[last]) or not (sums[last, :2] > 0.0).any():
        return Told(bins, known, np.full(len(NUMBERS), np.nan), found.thresholds)
    taken = [first, last]
    named = np.isin(found.edges, found.thresholds)
    for k in [*np.flatnonzero(named).tolist(), *np.flatnonzero(~named).tolist()]:
        at = bisect(taken, k + 1)
        parts = np.diff(sums[[taken[at - 1], k + 1, taken[at]]], axis=0)
        if found.known[k] and all(_large(part) and part[:2].any() for part in parts):
            taken.insert(at, k + 1)
            known[k] = True
    for low, high in pairwise(taken):
        bins[high - 1] = sums[high] - sums[low]
    whole = bool((sums[last, :2] >= FEW_ROWS).all())
    numbers = found.numbers if whole else np.full(len(NUMBERS), np.nan)
    return Told(bins, known, numbers, found.thresholds)


def _large(counts: Array) -> bool:
    return all(c == 0.0 or c >= FEW_ROWS for c in counts[:2].tolist())


def added(parts: Sequence[Told]) -> Told:
    """What several folds or clients tell together; numbers are averaged by rows, areas by pairs."""
    bins = np.sum([part.bins for part in parts], axis=0)
    known = np.all([part.known for part in parts], axis=0)
    values = np.array([part.numbers for part in parts])
    weights = np.array([part.rows for part in parts])
    pairs = np.array([part.pairs for part in parts])
    middle, variance = combined_auc(values[:, 0], values[:, 1], pairs)
    means = [_mean(values[:, k], weights) for k in range(2, len(NUMBERS))]
    return Told(bins, known, np.array([middle, variance, *means]), parts[0].thresholds)


def recalibrated(found: Told) -> Told:
    """The same with the calibration of all rows together, each with the mean score of its bin.

    The calibrations of single folds of few rows are nothing that could be averaged.
    """
    other, positive, sums = found.bins.T
    rows = other + positive
    at = rows > 0.0
    p = np.clip(sums[at] / rows[at], 1e-6, 1.0 - 1e-6)
    z, times = np.tile(logit(p), 2), np.append(other[at], positive[at])
    second = np.repeat([False, True], int(at.sum()))
    shift = recalibration(z, second, slope=False, times=times)
    both = recalibration(z, second, times=times)
    numbers = np.append(found.numbers[:4], [shift.intercept, both.intercept, both.slope])
    return replace(found, numbers=numbers)


def _mean(values: Array, weights: Array) -> float:
    at = np.isfinite(values) & (weights > 0.0)
    return float(weights[at] @ values[at] / weights[at].sum()) if at.any() else math.nan


def facts_of(found: Told) -> dict[str, Any]:
    """For records and tables: numbers, what they rest on, and the majority beside them."""
    other, positive = (round(c) for c in found.bins[:, :2].sum(axis=0))
    if other + positive == 0:
        return {"rows": 0}
    calibration = [
        {"rows": round(a + b), "predicted": p / (a + b), "observed": b / (a + b)}
        for a, b, p in found.bins.tolist()
        if a + b > 0.0
    ]
    decisions = [_decided(found, k) for k in np.flatnonzero(found.known).tolist()]
    return worth(
        other + positive,
        positive,
        found.numbers.tolist(),
        calibration=calibration,
        decisions=decisions,
        thresholds=found.thresholds,
    )


def worth(
    rows: int,
    positive: int,
    numbers: Sequence[float],
    *,
    calibration: Sequence[Mapping[str, float]],
    decisions: Sequence[Decisions],
    thresholds: Sequence[float],
) -> dict[str, Any]:
    """What probabilities are worth, for records and tables: `NUMBERS`, and what they rest on."""
    share = positive / rows
    auc, variance, score, accuracy, shift, intercept, slope = numbers
    low, high = auc_interval(auc, variance)
    return {
        "rows": rows,
        "positive": positive,
        "auc": auc,
        "auc_low": low,
        "auc_high": high,
        "brier": score,
        "brier_of_share": share * (1.0 - share),
        "accuracy": accuracy,
        "majority": max(share, 1.0 - share),
        "calibration_in_the_large": shift,
        "calibration_intercept": intercept,
        "calibration_slope": slope,
        "calibration": list(calibration),
        "decisions": [at.facts() for at in decisions],
        "thresholds": list(thresholds),
    }


def named_decisions(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of what `facts_of` tells, the decisions at thresholds that the user named."""
    return [d for d in facts.get("decisions", ()) if d["threshold"] in facts["thresholds"]]


def _decided(found: Told, k: int) -> Decisions:
    """What happens at the k-th threshold."""
    below, above = found.bins[: k + 1, :2].sum(axis=0), found.bins[k + 1 :, :2].sum(axis=0)
    counts = (round(c) for c in (above[1], above[0], below[0], below[1]))
    return Decisions(float(found.edges[k]), *counts)
