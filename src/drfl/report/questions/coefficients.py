"""What carries the prediction, and how sure are the coefficients?"""

from __future__ import annotations

import math
from typing import Any

from drfl.metrics.probabilities import HALF
from drfl.problem import Json
from drfl.report.blocks import Block, Mark, Marks, Section, TableBlock, Text
from drfl.report.evidence import (
    Evidence,
    name,
    names,
    number,
    numbers,
    objects,
    objects_of,
    sentence,
    vector,
    whole,
)
from drfl.report.figures import count, plain, share
from drfl.report.questions.proof import model_name
from drfl.report.suppression import Groups

MEANING = (
    "Robust training shrinks coefficients, so that intervals around them would be wrong. These "
    "belong to the unpenalised estimate that the robust model was corrected to; the dot is the "
    "robust coefficient. Intervals hold the true value of the mixture of clients with the weights "
    "below in 95 of 100 repetitions (sandwich errors); an effect here is no cause."
)


def forest(
    evidence: Evidence, groups: Groups, k: int, features: list[str], which: str
) -> list[Block]:
    """The unpenalised estimates of the k-th linear model with their intervals, if recorded."""
    for record in evidence.of("inference"):
        if record.get("refused"):
            return [Text(f"{sentence(record['refused'])}.", "note")] if k == 0 else []
        at_once = whole(evidence.first("problem").get("classes"))
        if at_once is not None and record.get("model") == 0:
            if k == 0 or k >= len(groups.classes):
                return []  # the others are against this one
            base = f"{which} against {name(groups.classes[0])}"
            return _forest(
                evidence, groups, _of_one_class(record, k, len(features)), features, base
            )
        if record.get("model") == k:
            return _forest(evidence, groups, record, features, which)
    return []


def _of_one_class(record: Json, k: int, n: int) -> Json:
    """What a record says of the k-th class against the first: its n coefficients."""
    at = slice((k - 1) * n, k * n)
    rows = objects_of(record.get("covariances")).get("robust")
    errors = [vector(row)[at] for row in rows[at]] if isinstance(rows, list) else []
    used = record.get("used")
    return {
        **record,
        "point": vector(record.get("point"))[at],
        "robust": vector(record.get("robust"))[at],
        "covariances": {"robust": errors},
        "used": used[at] if isinstance(used, list) else None,
    }


def _forest(
    evidence: Evidence, groups: Groups, record: Json, features: list[str], which: str
) -> list[Block]:
    point, robust = vector(record.get("point")), vector(record.get("robust"))
    rows = objects_of(record.get("covariances")).get("robust")
    errors = [vector(row) for row in rows] if isinstance(rows, list) else []
    used = record.get("used")
    whole = len(point) == len(robust) == len(errors) >= len(features)
    if not whole or not isinstance(used, list) or any(len(e) != len(point) for e in errors):
        return []
    odds = objects_of(evidence.first("problem").get("loss")).get("name") == "logistic"
    marks, lines = [], []
    order = sorted(range(len(features)), key=lambda j: -abs(point[j]))
    for j in [j for j in order if used[j] is True and errors[j][j] > 0.0]:
        se = math.sqrt(errors[j][j])
        low, high = point[j] - HALF * se, point[j] + HALF * se
        shown = f"{plain(point[j], 3)} ({plain(low, 3)} to {plain(high, 3)})"
        dots = [(robust[j], f"robust {plain(robust[j], 3)}")]
        marks.append(Mark(features[j], point[j], shown, low, high, dots))
        z = point[j] / se
        cells = [features[j], plain(robust[j], 3), plain(point[j], 3), plain(se, 3), plain(z, 3)]
        cells.append(f"{math.erfc(abs(z) / math.sqrt(2.0)):.4f}")
        if odds:
            cells.append(" to ".join(plain(math.exp(min(e, 700.0)), 3) for e in (low, high)))
        lines.append(cells)
    head = ["column", "robust", "estimate", "standard error", "z", "p"]
    head += ["odds ratio, 95 %"] if odds else []
    title = f"Unpenalised estimates per standard deviation{which}"
    return [
        Marks(title, "per standard deviation, with 95 % intervals", marks, note=MEANING),
        TableBlock(f"{title}.", head, lines, folded=True),
        Text("" if groups.small else _weights(record), "note"),  # few rows are not told
    ]


def _weights(record: Json) -> str:
    rows = numbers(record.get("rows"))
    told = [
        f"{name(client)} {share(weight)} ({count(rows.get(client))} rows)"
        for client, weight in list(numbers(record.get("weights")).items())[:12]
    ]
    likelihood = number(record.get("log_likelihood"))
    also = "" if likelihood is None else f" The log-likelihood is {plain(likelihood, 6)}."
    return f"Weights in what is estimated: {', '.join(told)}.{also}"


QUESTION = "What carries the prediction?"
MOST_MODELS = 4
MUCH = 0.3
"""A larger share of gaps is told beside a column that counts."""
NO_INTERVALS = (
    "No intervals: they need refits on resampled rows, which are computed where the data lie."
)
UNITS = (
    "A coefficient says by how much the score changes when its column changes by one unit of the "
    "file; for a category, when it has this value instead of the reference. Columns of numbers in "
    "different units are compared per standard deviation."
)
SCALED = "The units of the files are not recorded: these are coefficients of scaled columns."


def section(evidence: Evidence, groups: Groups) -> Section | None:
    """Coefficients with their names, in original units and per standard deviation."""
    if evidence.network:
        return None
    features = names(evidence.first("result").get("features"))
    every = _scores(evidence.models)
    models = [m for m in every if len(vector(m.get("coef"))) == len(features)]
    if not (models and features):
        return Section("coefficients", QUESTION, "The coefficients are not recorded.")
    units = CoefficientUnits(evidence.first("units"), len(features))
    blocks: list[Block] = [Text(UNITS if units.known else SCALED, "note")]
    for k, model in enumerate(models[:MOST_MODELS]):
        which = "" if len(models) == 1 else f", {model_name(k, len(models), groups.classes)}"
        intervals = _intervals(evidence, k, len(features))
        blocks += _model(features, model, units, intervals, which)
        blocks += forest(evidence, groups, k, features, which)
    bootstrap = evidence.first("bootstrap")
    blocks.append(Text(_label(bootstrap) if bootstrap else NO_INTERVALS, "note"))
    if len(models) > MOST_MODELS:
        blocks.append(Text(f"{len(models) - MOST_MODELS} more models are in the model file."))
    leading = _leading(features, vector(models[0]["coef"]))
    blocks = [*(Text(said, "warning") for said in _filled(evidence, leading)), *blocks]
    return Section("coefficients", QUESTION, _answer(leading, vector(models[0]["coef"])), blocks)


def _scores(models: list[Json]) -> list[Json]:
    """One entry for every score: a problem of several classes has several."""
    out: list[Json] = []
    for model in models:
        coef, intercept = model.get("coef"), model.get("intercept")
        if isinstance(coef, list) and isinstance(intercept, list) and len(coef) == len(intercept):
            own = model.get("intercepts")
            for k, (w, b) in enumerate(zip(coef, intercept, strict=True)):
                kept = {} if own is None else {"intercepts": _of_class(own, k)}
                out.append({**model, "coef": w, "intercept": b, **kept})
        else:
            out.append(model)
    return out


def _leading(features: list[str], coef: list[float]) -> list[str]:
    """The features with the largest coefficients."""
    order = sorted(range(len(coef)), key=lambda j: -abs(coef[j]))
    return [features[j] for j in order[:3] if coef[j] != 0.0]


def _filled(evidence: Evidence, leading: list[str]) -> list[str]:
    """Which of these columns are mostly made up, and where."""
    said = []
    for column in leading:
        gaps = [
            f"{share(missing)} of the rows of {name(cell.get('client'))}"
            for cell in objects(evidence.first("preflight").get("table"))
            if name(cell.get("column")) == column
            and (missing := number(cell.get("missing"))) is not None
            and missing > MUCH
            and cell.get("shares") is None
        ]
        if gaps:
            said.append(f"{column} has no value in {', '.join(gaps)}: its mean stands there.")
    return said


def _answer(leading: list[str], coef: list[float]) -> str:
    zero = sum(value == 0.0 for value in coef)
    if not leading:
        return "No column: every coefficient is zero."
    without = f" {zero} of {len(coef)} columns are not used." if zero else ""
    return f"Per standard deviation, most by {', '.join(leading)}.{without}"


def _label(bootstrap: Json) -> str:
    refits, level = number(bootstrap.get("refits")), number(bootstrap.get("level"))
    if refits is None or level is None:
        return NO_INTERVALS
    return (
        f"Intervals are bootstrap percentile intervals: the middle {100 * level:.0f} % of "
        f"{refits:.0f} refits, each on rows that every client has drawn again from its own with "
        "replacement, scaled as in the training. They show how much a coefficient depends on which "
        "rows were there. Robust training shrinks coefficients, so they are not confidence "
        "intervals for a true effect, and an effect here is no cause."
    )


def _intervals(evidence: Evidence, k: int, n: int) -> list[tuple[float, float]]:
    for record in evidence.of("bootstrap"):
        low, high = vector(record.get("low")), vector(record.get("high"))
        if record.get("model") == k and len(low) == len(high) == n:
            return list(zip(low, high, strict=True))
    return []


def _model(
    features: list[str],
    model: Json,
    units: CoefficientUnits,
    intervals: list[tuple[float, float]],
    which: str,
) -> list[Block]:
    coef = vector(model["coef"])
    order = sorted(range(len(coef)), key=lambda j: -abs(coef[j]))
    charts = []
    for what, change in units.views(len(coef)):
        marks = []
        for j in order:
            value = coef[j] * change[j]
            ends = sorted(end * change[j] for end in intervals[j]) if intervals else []
            between = f" ({plain(ends[0], 3)} to {plain(ends[1], 3)})" if ends else ""
            low, high = ends or (None, None)
            marks.append(Mark(features[j], value, f"{plain(value, 4)}{between}", low, high))
        charts.append(Marks(f"Coefficients {what}{which}", what, marks))
    head = ["column", *(chart.unit for chart in charts)]
    rows = [
        [row[0].label, *(mark.shown for mark in row)]
        for row in zip(*(chart.rows for chart in charts), strict=True)
    ]
    own = objects_of(model.get("intercepts")) or {"": model.get("intercept")}
    for client, value in own.items():
        told = number(value)
        intercepts = [] if told is None else units.intercepts(coef, told)
        cells = [plain(b, 4) for b in intercepts] or ["kept by the client"] * (len(head) - 1)
        rows.append([f"intercept of {client}" if client else "intercept", *cells])
    return [*charts, TableBlock(f"All coefficients{which}.", head, rows, folded=True)]


def _of_class(own: Any, k: int) -> Json:
    """The k-th of every client's own intercepts; None of those who keep theirs."""
    return {
        client: values[k] if isinstance(values, list) and k < len(values) else None
        for client, values in objects_of(own).items()
    }


class CoefficientUnits:
    """From scaled columns to those of the files; the record "units" may be absent."""

    def __init__(self, record: Json, n: int) -> None:
        self.shift, self.scale = vector(record.get("shift")), vector(record.get("scale"))
        self.known = len(self.shift) == len(self.scale) == n and all(s > 0.0 for s in self.scale)
        self.ways = 1 if all(scale == 1.0 for scale in self.scale) else 2  # else they are the same
        self.target_scale = number(record.get("target_scale")) or 1.0
        self.target_shift = number(record.get("target_shift")) or 0.0

    def views(self, n: int) -> list[tuple[str, list[float]]]:
        """What a coefficient is multiplied by, in each way to look at it."""
        if not self.known:
            return [("of scaled columns", [1.0] * n)]
        units = ("per unit of the file", [self.target_scale / scale for scale in self.scale])
        return [units, ("per standard deviation", [self.target_scale] * n)][: self.ways]

    def intercepts(self, coef: list[float], intercept: float) -> list[float]:
        """The score where every column is zero, in each of these ways."""
        if not self.known:
            return [intercept]
        moved = sum(w * a / s for w, a, s in zip(coef, self.shift, self.scale, strict=True))
        both = (intercept - moved, intercept)
        return [self.target_shift + self.target_scale * b for b in both][: self.ways]
