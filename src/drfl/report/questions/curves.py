"""What are its curves?"""

from __future__ import annotations

from itertools import pairwise

from drfl.defaults import FEW_ROWS
from drfl.problem import Json
from drfl.report.blocks import Block, Lines, Section, Series, Text
from drfl.report.evidence import Evidence, objects, objects_of, sentence, vector, whole
from drfl.report.questions.proof import model_name
from drfl.report.suppression import Groups

QUESTION = "What are its curves?"
MOST = 40
NOTE = (
    "What a column adds to the score, by its value in the units of the files, against its mean. "
    "Beyond the ends drawn here the curves go on straight."
)
BAND = (
    "Robust training shrinks slopes, so that intervals around them would be wrong. The area is the "
    "pointwise 95 % band of the unpenalised curve, dashed, that the robust one was corrected to: "
    "wide where rows are few, and nothing at the mean, from which all curves are measured."
)
LINE = "The linear model, trained with the same settings, is drawn beside."
ROWS = "Bars at the bottom: rows of all clients between the knots, and beyond the outer ones."


def section(evidence: Evidence, groups: Groups) -> Section | None:
    """A chart for every curve of an additive model; None for a linear one."""
    curves = objects(evidence.first("result").get("curves"))
    if not curves:
        return None
    # A problem of several classes has several scores.
    models = max(len(evidence.models), *(1 + (whole(c.get("model", 0)) or 0) for c in curves))
    charts = [chart for curve in curves[:MOST] if (chart := _chart(curve, models, groups))]
    said = [NOTE]
    said += [BAND] if any(chart.band for chart in charts) else []
    said += [LINE] if any(len(chart.series) > 1 + bool(chart.band) for chart in charts) else []
    said += [ROWS] if any(chart.bars for chart in charts) else []
    refused = [sentence(record.get("refused")) for record in evidence.of("inference")]
    said += [f"No bands: {why}." for why in refused if why][:1]
    blocks: list[Block] = [Text(" ".join(said), "note"), *charts]
    columns = list(dict.fromkeys(str(curve.get("name")) for curve in curves))
    answer = f"{len(columns)} columns have curves: {', '.join(columns[:5])}"
    return Section("curves", QUESTION, answer + (", ..." if len(columns) > 5 else "."), blocks)


def _chart(curve: Json, models: int, groups: Groups) -> Lines | None:
    x, y = vector(curve.get("x")), vector(curve.get("y"))
    if not x or len(x) != len(y):
        return None
    k, rules = whole(curve.get("model", 0)) or 0, curve.get("rules")
    which = "" if models == 1 else f", {model_name(k, models, groups.classes)}"
    note = f"Rule: {', '.join(map(str, rules))}." if isinstance(rules, list) and rules else ""
    name = str(curve.get("name"))
    series = [Series("robust curve", list(zip(x, y, strict=True)))]
    line = vector(curve.get("line"))
    if len(line) == len(x):
        ends = [(x[0], line[0]), (x[-1], line[-1])]
        series.append(Series("linear model", ends, dashed=True))
    band, middle = _band(curve)
    series += [Series("unpenalised curve", middle, dashed=True)] if band else []
    bars = _bars(curve, x, groups)
    return Lines(
        f"{name}{which}", name, "added to the score", series, note=note, band=band, bars=bars
    )


def _band(
    curve: Json,
) -> tuple[list[tuple[float, float, float]], list[tuple[float, float]]]:
    """Places with the ends of the band, and the curve in its middle."""
    given = objects_of(curve.get("band"))
    x, y, low, high = (vector(given.get(key)) for key in ("x", "y", "low", "high"))
    if not len(x) == len(y) == len(low) == len(high):
        return [], []
    return list(zip(x, low, high, strict=True)), list(zip(x, y, strict=True))


def _bars(curve: Json, x: list[float], groups: Groups) -> list[tuple[float, float, float]]:
    """Rows between the knots; none where some would be those of few people."""
    rows, knots = vector(curve.get("rows")), vector(curve.get("knots"))
    if groups.small or len(rows) != len(knots) + 1 or min(rows) < FEW_ROWS:
        return []
    places = pairwise([x[0], *knots, x[-1]])
    return [(a, b, count) for (a, b), count in zip(places, rows, strict=True)]
