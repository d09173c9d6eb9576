"""How was the radius chosen?"""

from __future__ import annotations

from drfl.problem import Json
from drfl.report.blocks import Block, Lines, Section, Series, TableBlock
from drfl.report.evidence import Evidence, clipped, name, number, numbers, objects, objects_of
from drfl.report.evidence import sentence as said
from drfl.report.figures import ABSENT, count, plain
from drfl.report.suppression import Groups

QUESTION = "How was the radius chosen?"
GIVEN = "It was given, not chosen from the data."
UNTOLD = "its reason rests on a client of which nothing is told."
AUTO = (
    "It is that of the purpose, by default 0.1 times the root of columns over rows; it was not "
    "chosen from the data."
)


def section(evidence: Evidence, groups: Groups) -> Section:
    """The selection table and its reason."""
    selection = evidence.first("selection")
    points = objects(selection.get("table"))
    if not points:
        automatic = evidence.first("settings").get("radius") == "auto"
        return Section("radius", QUESTION, AUTO if automatic else GIVEN)
    reason = said(selection.get("reason"))
    # A reason names clients as Python writes them down.
    if any(repr(client) in str(selection["reason"]) for client in groups.small + groups.company):
        reason = UNTOLD
    answer = f"By the rule {name(selection.get('rule', 'given'))}: {reason.rstrip('.')}."
    blocks: list[Block] = [*_chart(points, groups), _table(points, groups)]
    return Section("radius", QUESTION, answer, blocks)


def _table(points: list[Json], groups: Groups) -> TableBlock:
    rows = []
    for point in points:
        client, low = _worst(point, groups)
        params = ", ".join(f"{name(k)} = {_value(v)}" for k, v in _params(point).items())
        mean, error = number(point.get("mean")), number(point.get("standard_error"))
        cells = [
            clipped(params, 120),
            clipped(said(point.get("note")), 120),
            plain(mean, 4),
            plain(error, 2),
        ]
        rows.append([*cells, client, plain(low, 4), count(number(point.get("rounds")))])
    head = ["tried", "remark", "mean score", "standard error", "worst client", "its score"]
    caption = (
        "Scores of rows that the clients had held out: minus the log loss or the mean loss, or the "
        "share of right classes."
    )
    return TableBlock(caption, [*head, "rounds"], rows, texts=2)


def _params(point: Json) -> Json:
    return objects_of(point.get("params"))


def _value(value: object) -> str:
    found = number(value)
    return name(value) if found is None else plain(found, 4)


def _worst(point: Json, groups: Groups) -> tuple[str, float | None]:
    """The worst client among those that may be told about."""
    scores = numbers(point.get("client_scores"))
    known = {client: score for client, score in scores.items() if groups.tells_parts(client)}
    if not known:
        return ABSENT, None
    client = min(known, key=lambda c: known[c])
    return name(client), known[client]


def _chart(points: list[Json], groups: Groups) -> list[Block]:
    """Scores against the radius, if the radius is all that was tried."""
    tried = [_params(point) for point in points]
    if any(list(params) != ["radius"] or number(params["radius"]) is None for params in tried):
        return []
    ordered = sorted(points, key=lambda point: float(_params(point)["radius"]))
    ordered = [point for point in ordered if number(point.get("mean")) is not None]
    labels = [plain(number(_params(point)["radius"]), 3) for point in ordered]
    means = [(float(k), number(p.get("mean")) or 0.0) for k, p in enumerate(ordered)]
    errors = [number(p.get("standard_error")) or 0.0 for p in ordered]
    pairs = list(zip(means, errors, strict=True))
    low = [(float(k), _worst(p, groups)[1]) for k, p in enumerate(ordered)]
    lines = [
        Series("mean", means),
        Series("mean + standard error", [(x, y + e) for (x, y), e in pairs], dashed=True),
        Series("mean − standard error", [(x, y - e) for (x, y), e in pairs], dashed=True),
        Series("worst client", [(x, y) for x, y in low if y is not None]),
    ]
    lines = [line for line in lines if line.points]
    return [
        Lines("Score on held-out rows against the radius", "radius", "score", lines, labels=labels)
    ]
