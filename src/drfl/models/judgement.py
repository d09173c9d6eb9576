"""How good the probabilities of a model are, for all rows, for files and for groups of rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.defaults import FEW_ROWS
from drfl.metrics.counts import named_decisions, worth
from drfl.metrics.probabilities import (
    SHARES,
    area,
    bins,
    brier,
    combined_auc,
    decisions,
    recalibration,
)

EDGES = np.linspace(0.0, 1.0, 11)


def judged(
    z: Array, positive: NDArray[np.bool_], member: NDArray[np.intp], thresholds: Sequence[float]
) -> dict[str, Any]:
    """What is told of some rows, with the numbers it rests on and the majority beside it.

    z (N,) are log-odds of the second class, ``positive`` says who is in it, and ``member`` whose
    row each is: the areas under the ROC curves of clients are combined, since scores of rows of
    different clients need not be comparable. Decisions are counted at thresholds of the
    probability.
    """
    parts = [(z[member == s], positive[member == s]) for s in np.unique(member)]
    areas, variances = (np.array(v) for v in zip(*(area(*part) for part in parts), strict=True))
    sizes = np.array([_pairs(part[1]) for part in parts])
    middle, variance = combined_auc(areas, variances, sizes)
    both, shift = recalibration(z, positive), recalibration(z, positive, slope=False)
    right = float(((z > 0.0) == positive).mean())
    calibrated = shift.intercept, both.intercept, both.slope
    facts = worth(
        len(z),
        int(positive.sum()),
        [middle, variance, brier(z, positive), right, *calibrated],
        calibration=calibration(z, positive),
        decisions=[decisions(z, positive, t) for t in thresholds],
        thresholds=thresholds,
    )
    return facts | {"calibration_slope_error": both.slope_error}


def calibration(z: Array, positive: NDArray[np.bool_]) -> list[dict[str, float]]:
    """How often rows are positive by the tenth in which their probability is; few are not told."""
    return [
        {"rows": n, "predicted": p, "observed": y}
        for n, p, y in bins(z, positive, EDGES)
        if n >= FEW_ROWS
    ]


def _pairs(positive: NDArray[np.bool_]) -> float:
    m, k = int(positive.sum()), int((~positive).sum())
    return m * k / (m + k)


def grouped(column: str, texts: Iterable[str], cuts: Sequence[float]) -> NDArray[np.str_]:
    """The group of every row: its text, or between which cuts its number lies.

    Examples
    --------
    >>> grouped("age", ["40", "65", "?"], [50.0]).tolist()
    ['age < 50', 'age >= 50', 'age missing']
    """
    return np.array([_group(column, text, cuts) for text in texts])


def _group(column: str, text: str, cuts: Sequence[float]) -> str:
    if not cuts:
        return f"{column} = {text}" if text else f"{column} missing"
    try:
        value = float(text)
    except ValueError:
        return f"{column} missing"
    if math.isnan(value):
        return f"{column} missing"
    low = max((cut for cut in cuts if cut <= value), default=-math.inf)
    return between(column, low, min((cut for cut in cuts if cut > value), default=math.inf))


def between(column: str, low: float, high: float) -> str:
    """What rows with a number from low to below high are called."""
    if math.isinf(low):
        return f"{column} < {high:g}"
    return f"{column} >= {low:g}" if math.isinf(high) else f"{low:g} <= {column} < {high:g}"


def read_by(text: str) -> tuple[str, list[float]]:
    """A column that divides rows, and where: ``sex``, or ``age:50,65``.

    Examples
    --------
    >>> read_by("age:65,50")
    ('age', [50.0, 65.0])
    """
    column, _, cuts = text.partition(":")
    try:
        found = sorted(float(cut) for cut in cuts.split(",") if cut.strip())
    except ValueError:
        found = [math.nan]
    if not column.strip() or not all(map(math.isfinite, found)):
        raise ValueError(f"groups are written as COLUMN, or COLUMN:CUT,CUT; got {text!r}")
    return column.strip(), found


def told(groups: Mapping[str, NDArray[np.bool_]]) -> tuple[dict[str, NDArray[np.bool_]], list[str]]:
    """The groups that are large enough, and the names of the others."""
    small = [name for name, at in groups.items() if int(at.sum()) < FEW_ROWS]
    return {name: at for name, at in groups.items() if name not in small}, small


def told_outside(groups: Mapping[str, NDArray[np.bool_]]) -> dict[str, NDArray[np.bool_]]:
    """The groups of one column that a site may name: those that are not, have 5 rows or none.

    Otherwise all rows less the groups that are told would be a few rows.
    """
    sizes = {name: int(at.sum()) for name, at in groups.items()}
    kept, hidden = dict(groups), 0
    for name in sorted(groups, key=lambda group: sizes[group]):
        if sizes[name] >= FEW_ROWS and (hidden == 0 or hidden >= FEW_ROWS):
            break
        hidden += sizes[name]
        del kept[name]
    return kept


def lines(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """For a reader."""
    width = max(map(len, ["decisions", *found]))
    text = [
        f"{'rows of':{width}} {'rows':>7} {'positive':>8} {'AUC (95 %)':>21} {'Brier':>7} "
        f"{'of share':>8} {'accuracy':>8} {'majority':>8} {'slope':>6} {'in the large':>12}"
    ]
    for name, f in found.items():
        text.append(
            f"{name:{width}} {f['rows']:>7} {f['positive']:>8} {_auc(f):>21} {f['brier']:>7.4f} "
            f"{f['brier_of_share']:>8.4f} {f['accuracy']:>8.4f} {f['majority']:>8.4f} "
            f"{_cell(f['calibration_slope'], '.2f'):>6} "
            f"{_cell(f['calibration_in_the_large'], '+.2f'):>12}"
        )
    decided = [(name, d) for name, f in found.items() for d in named_decisions(f)]
    if decided:
        text += [
            "",
            f"{'decisions':{width}} {'threshold':>9} {'called':>7} {'sens':>6} {'spec':>6} "
            f"{'PPV':>6} {'NPV':>6} {'net benefit':>11} {'of all':>7}",
        ]
        text += [
            f"{name:{width}} {d['threshold']:>9g} {d['called_positive']:>7} "
            + "".join(f"{_cell(d[key], '.3f'):>6} " for key in SHARES)
            + f"{d['net_benefit']:>11.4f} {d['benefit_of_all']:>7.4f}"
            for name, d in decided
        ]
    hidden = [
        f"{name} at {threshold:g}"
        for name, f in found.items()
        for threshold in f["thresholds"]
        if threshold not in [d["threshold"] for d in f["decisions"]]
    ]
    if hidden:
        text += ["", f"1 to 4 rows are in a cell of these decisions: {', '.join(hidden)}"]
    return text


def _auc(facts: Mapping[str, Any]) -> str:
    low, high = facts["auc_low"], facts["auc_high"]
    interval = "" if math.isnan(low) else f" ({low:.3f}-{high:.3f})"
    return _cell(facts["auc"], ".3f") + interval


def _cell(value: float, form: str) -> str:
    """A number, or a dash where there is none: of one class alone, say."""
    return "-" if math.isnan(value) else f"{value:{form}}"
