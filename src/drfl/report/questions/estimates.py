"""How sure are the coefficients? A part of the question what carries the prediction."""

from __future__ import annotations

import math

from drfl.report.blocks import Block, Mark, Marks, TableBlock, Text
from drfl.report.evidence import Evidence, Json, name, number, numbers, objects_of, sentence, vector
from drfl.report.figures import count, plain, share
from drfl.report.suppression import Groups

HALF = 1.959963984540054
"""Standard errors on either side of a 95 % interval."""
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
        if record.get("model") == k:
            return _forest(evidence, groups, record, features, which)
    return []


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
