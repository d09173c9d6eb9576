"""The rules: which grid point is taken, and why, in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drfl.selection.choice import GridPoint


@dataclass(frozen=True)
class GridEvidence:
    """What a rule looks at."""

    points: Sequence[GridPoint]  # the table
    radii: Sequence[float]  # how cautious each point is: the mean radius of the clients
    noise: float = 0.0  # the scale of the noise on held-out rows
    erm: int = -1  # the number of the point that is plain ERM; -1: there is none
    # The number of the point that is kept unless another is clearly better; -1: there is none
    anchor: int = -1

    def best(self, value: Callable[[GridPoint], Any], among: Sequence[int] | None = None) -> int:
        """The number of the first point with the largest value."""
        numbers = range(len(self.points)) if among is None else among
        return max(numbers, key=lambda k: (value(self.points[k]), -k))

    def excess(self, k: int) -> tuple[float, float]:
        """By how much a point is better than the anchor, and the standard error of that.

        The error is paired: of the differences in every fold, or at every client left out.
        """
        apart = np.subtract(self.points[k].scores, self.points[self.anchor].scores)
        return float(apart.mean()), float(apart.std(ddof=1) / np.sqrt(len(apart)))


def by_mean(evidence: GridEvidence) -> tuple[int, str]:
    """The largest mean score, if it is better than the anchor by more than a standard error."""
    return _anchored(evidence, evidence.best(lambda point: point.mean), "the best mean score")


def _anchored(evidence: GridEvidence, k: int, what: str) -> tuple[int, str]:
    best = evidence.points[k]
    if evidence.anchor < 0 or k == evidence.anchor:
        return k, f"{_has(evidence, k)} {what}, {_mean(best)}"
    more, error = evidence.excess(k)
    anchor = evidence.points[evidence.anchor]
    if more > error:
        return k, (
            f"{_has(evidence, k)} {what}, {_mean(best)}, better than {anchor.describe()} by "
            f"{more:.2g}, more than one standard error ({error:.2g})"
        )
    return evidence.anchor, (
        f"{anchor.describe()} is kept: {best.describe()} has {what} of {len(evidence.points)} grid "
        f"points, {_mean(best)}, but is better by {more:.2g} only, within one standard error "
        f"({error:.2g})"
    )


def by_one_standard_error(evidence: GridEvidence) -> tuple[int, str]:
    """The largest radius within one standard error of the largest mean score."""
    top = evidence.points[evidence.best(lambda point: point.mean)]
    least = top.mean - top.standard_error
    # Rounding in sums of equal scores must not decide.
    near = [k for k, p in enumerate(evidence.points) if p.mean >= least - 1e-12 * abs(least)]
    largest = max(evidence.radii[k] for k in near)
    k = evidence.best(lambda point: point.mean, [k for k in near if evidence.radii[k] == largest])
    return k, (
        f"{_has(evidence, k)} the largest radius within one standard error of the best mean score, "
        f"{_mean(evidence.points[k])} against {_mean(top)} of {top.describe()}"
    )


def by_worst_client(evidence: GridEvidence) -> tuple[int, str]:
    """The largest score of the client that is worst off; the mean score decides ties."""
    k = evidence.best(lambda point: (point.worst_score, point.mean))
    point = evidence.points[k]
    return k, (
        f"{_has(evidence, k)} the best worst client: {point.worst_client!r} scores "
        f"{point.worst_score:.4g}"
    )


def by_noise(evidence: GridEvidence) -> tuple[int, str]:
    """The largest mean score on held-out rows with noise."""
    k = evidence.best(lambda point: point.mean)
    return k, (
        f"{_has(evidence, k)} the best mean score, {_mean(evidence.points[k])}, on rows with noise "
        f"of standard deviation {evidence.noise:g} in every feature"
    )


def by_new_client(evidence: GridEvidence) -> tuple[int, str]:
    """The largest mean score on clients left out; against the anchor, or else against ERM."""
    what = "the best mean score on clients left out of the training"
    if evidence.anchor >= 0:
        return _anchored(evidence, evidence.best(lambda point: point.mean), what)
    erm = evidence.points[evidence.erm]
    robust = [k for k in range(len(evidence.points)) if k != evidence.erm]
    k = evidence.best(lambda point: point.mean, robust or [evidence.erm])
    best = evidence.points[k]
    if best.mean < erm.mean:
        return evidence.erm, (
            f"on clients left out of the training ERM scores {_mean(erm)} and the best robust "
            f"point, {best.describe()}, {_mean(best)}: ERM is taken"
        )
    return k, f"{_has(evidence, k)} {what}, {_mean(best)}; ERM scores {_mean(erm)}"


RULES: Mapping[str, Callable[[GridEvidence], tuple[int, str]]] = {
    "mean": by_mean,
    "one_se": by_one_standard_error,
    "worst_client": by_worst_client,
    "noise": by_noise,
    "new_client": by_new_client,
}


def _has(evidence: GridEvidence, k: int) -> str:
    count = len(evidence.points)
    return f"of {count} grid points {evidence.points[k].describe()} has"


def _mean(point: GridPoint) -> str:
    error = point.standard_error
    return f"{point.mean:.4g}" + (f" (standard error {error:.2g})" if np.isfinite(error) else "")
