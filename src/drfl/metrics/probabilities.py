r"""Whether probabilities mean what they say: calibration, discrimination, and what decisions cost.

Of two classes. A score z stands for the probability :math:`1/(1+e^{-z})` of the second one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.metrics.predictions import auc

STEPS = 50
FAR = 30.0
"""A recalibration that goes farther has no end: the scores separate the classes."""


@dataclass(frozen=True)
class Recalibration:
    r"""Log-odds :math:`a+bz` that fit the rows best, with standard errors.

    Calibrated scores have intercept 0 and slope 1. A slope below 1 says that the probabilities are
    too extreme, one above 1 that they are too cautious, as those of a robust model are. NaN where
    the classes are separated or there is one only.
    """

    intercept: float
    slope: float
    intercept_error: float
    slope_error: float


def recalibration(
    z: Array, positive: NDArray[np.bool_], *, slope: bool = True, times: Array | None = None
) -> Recalibration:
    """Fit intercept and slope by maximum likelihood; or the intercept alone, with slope 1.

    ``times`` says how often every row is there; by default once.
    """
    nothing = Recalibration(np.nan, np.nan if slope else 1.0, np.nan, np.nan)
    weight = np.ones(len(z)) if times is None else times
    if positive[weight > 0.0].all() or not positive[weight > 0.0].any():
        return nothing
    A = np.column_stack([np.ones(len(z)), z])[:, : 1 + slope]
    offset = np.zeros(len(z)) if slope else z
    theta = np.zeros(A.shape[1])
    for _ in range(STEPS):
        p = _probability(A @ theta + offset)
        H = (A * (weight * p * (1.0 - p))[:, None]).T @ A
        if np.linalg.cond(H) > 1e12 or np.abs(theta).max() > FAR:
            return nothing
        step = np.linalg.solve(H, A.T @ (weight * (positive - p)))
        theta = theta + step
        if np.abs(step).max() <= 1e-10:
            break
    error = np.sqrt(np.diag(np.linalg.inv(H)))
    if not slope:
        return Recalibration(float(theta[0]), 1.0, float(error[0]), 0.0)
    return Recalibration(float(theta[0]), float(theta[1]), float(error[0]), float(error[1]))


def brier(z: Array, positive: NDArray[np.bool_]) -> float:
    """The mean squared distance of the probabilities from what happened."""
    return float(np.mean((_probability(z) - positive) ** 2))


def auc_variance(z: Array, positive: NDArray[np.bool_]) -> float:
    r"""DeLong's variance of the area under the ROC curve.

    With the share of the other class that a row beats, :math:`V_i` of the m positive and
    :math:`W_j` of the k other rows: :math:`\mathrm{var}(V)/m+\mathrm{var}(W)/k`. NaN with fewer
    than two rows of a class.
    """
    m, k = int(positive.sum()), int((~positive).sum())
    if m < 2 or k < 2:
        return float("nan")
    own, other = z[positive], z[~positive]
    above = _share_below(own, other)
    below = 1.0 - _share_below(other, own)
    return float(above.var(ddof=1) / m + below.var(ddof=1) / k)


def _share_below(z: Array, others: Array) -> Array:
    """The share of others that each is above; equal ones count half."""
    ordered = np.sort(others)
    left, right = (np.searchsorted(ordered, z, side) for side in ("left", "right"))
    return np.asarray(0.5 * (left + right) / len(ordered))


def combined_auc(areas: Array, variances: Array, pairs: Array) -> tuple[float, float]:
    """The mean area of several clients and its variance; each counts by its harmonic size.

    A client without an area, NaN, does not count; ``pairs`` are mk/(m+k) of m and k rows of the
    classes.
    """
    known = np.isfinite(areas) & np.isfinite(variances)
    if not known.any():
        return float("nan"), float("nan")
    weight = pairs[known] / pairs[known].sum()
    return float(weight @ areas[known]), float(weight**2 @ variances[known])


HALF = 1.959963984540054
"""Of an interval of 95 %, in standard errors."""


def auc_interval(auc: float, variance: float) -> tuple[float, float]:
    """Where the area under the ROC curve lies with a confidence of 95 %.

    NaN where there is no area, or no variance.
    """
    half = HALF * np.sqrt(variance) if variance >= 0.0 else np.nan
    # Not by max and min, which leave a NaN out.
    low, high = np.clip([auc - half, auc + half], 0.0, 1.0)
    return float(low), float(high)


SHARES = ("sensitivity", "specificity", "positive_value", "negative_value")


@dataclass(frozen=True)
class Decisions:
    """What happens if rows with a probability above a threshold are called positive."""

    threshold: float  # of the probability
    # true_positive, false_positive, true_negative, false_negative: counts
    true_positive: int
    false_positive: int
    true_negative: int
    false_negative: int

    @property
    def rows(self) -> int:
        """All of them."""
        called = self.true_positive + self.false_positive
        return called + self.true_negative + self.false_negative

    @property
    def sensitivity(self) -> float:
        """The share of positive rows that are called so."""
        return _ratio(self.true_positive, self.true_positive + self.false_negative)

    @property
    def specificity(self) -> float:
        """The share of other rows that are called so."""
        return _ratio(self.true_negative, self.true_negative + self.false_positive)

    @property
    def positive_value(self) -> float:
        """The share of those called positive that are."""
        return _ratio(self.true_positive, self.true_positive + self.false_positive)

    @property
    def negative_value(self) -> float:
        """The share of those called negative that are."""
        return _ratio(self.true_negative, self.true_negative + self.false_negative)

    @property
    def net_benefit(self) -> float:
        r"""Of a decision curve: :math:`TP/N-(FP/N)\,t/(1-t)`; calling nobody has 0."""
        odds = self.threshold / (1.0 - self.threshold)
        return (self.true_positive - odds * self.false_positive) / self.rows

    @property
    def benefit_of_all(self) -> float:
        """The net benefit of calling every row positive."""
        odds = self.threshold / (1.0 - self.threshold)
        positive = self.true_positive + self.false_negative
        return (positive - odds * (self.rows - positive)) / self.rows

    def facts(self) -> dict[str, float]:
        """For records and tables: a point of the ROC and of the decision curve."""
        told = (*SHARES, "net_benefit", "benefit_of_all")
        return {
            "threshold": self.threshold,
            "called_positive": self.true_positive + self.false_positive,
            **{name: getattr(self, name) for name in told},
        }


def decisions(z: Array, positive: NDArray[np.bool_], threshold: float) -> Decisions:
    """Count the decisions at a threshold of the probability, in (0, 1)."""
    called = _probability(z) > threshold
    return Decisions(
        threshold,
        int((called & positive).sum()),
        int((called & ~positive).sum()),
        int((~called & ~positive).sum()),
        int((~called & positive).sum()),
    )


def bins(z: Array, positive: NDArray[np.bool_], edges: Array) -> list[tuple[int, float, float]]:
    """A calibration plot: rows, mean probability and share of positive rows between edges."""
    p = _probability(z)
    at = np.clip(np.searchsorted(edges, p, side="right") - 1, 0, len(edges) - 2)
    found = []
    for k in range(len(edges) - 1):
        inside = at == k
        n = int(inside.sum())
        if n:
            found.append((n, float(p[inside].mean()), float(positive[inside].mean())))
    return found


def area(z: Array, positive: NDArray[np.bool_]) -> tuple[float, float]:
    """The area under the ROC curve, and DeLong's variance."""
    return auc(z, positive), auc_variance(z, positive)


def _probability(z: Array) -> Array:
    return np.asarray(np.exp(-np.logaddexp(0.0, -z)))


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")
