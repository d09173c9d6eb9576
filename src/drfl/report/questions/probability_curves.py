"""What the model's probabilities are worth on rows that it has not seen: curves and numbers."""

from __future__ import annotations

from collections.abc import Callable

from drfl.report.blocks import Block, Lines, Series, TableBlock, Text
from drfl.report.evidence import Json, name, number, objects, objects_of
from drfl.report.figures import ABSENT, count, plain
from drfl.report.suppression import Groups

NOTE = (
    "Of held-out rows, each fold in turn. Bins with fewer than 5 rows of a class are joined with "
    "their neighbours. An area is the mean of the clients' own areas, with DeLong's interval. "
    "Slope 1 and intercept 0 are calibrated; a slope above 1 says that the probabilities are "
    "cautious, as those of a robust model are. Beside the Brier score stands that of telling "
    "everybody the share of positive rows, beside the net benefit that of calling everybody "
    "positive; calling nobody has 0."
)
Point = tuple[float, float]


def probabilities(found: Json, groups: Groups) -> list[Block]:
    """Calibration, ROC and decision curves, and a table; of all clients if one is too small."""
    every = {name(client): objects_of(facts) for client, facts in found.items()}
    shown = {client: facts for client, facts in every.items() if number(facts.get("rows"))}
    if groups.small:
        shown = dict(list(shown.items())[:1])
    if not shown:
        return []
    return [
        _table(shown),
        Lines(
            "Calibration on held-out rows",
            "predicted probability",
            "share of positive rows",
            [*_series(shown, "calibration", _bin), Series("calibrated", [(0, 0), (1, 1)], True)],
        ),
        Lines(
            "ROC curve on held-out rows",
            "1 - specificity",
            "sensitivity",
            [*_series(shown, "decisions", _roc), Series("no skill", [(0, 0), (1, 1)], True)],
        ),
        *_decision_curve(next(iter(shown.values()))),
        Text(NOTE, "note"),
    ]


def _series(
    shown: dict[str, Json], key: str, point: Callable[[Json], Point | None]
) -> list[Series]:
    lines = []
    for client, facts in shown.items():
        points = [p for p in map(point, objects(facts.get(key))) if p is not None]
        if points:
            ends = [(0.0, 0.0), (1.0, 1.0)] if key == "decisions" else []
            lines.append(Series(client, sorted([*points, *ends])))
    return lines


def _pair(x: float | None, y: float | None) -> Point | None:
    return None if x is None or y is None else (x, y)


def _bin(entry: Json) -> Point | None:
    return _pair(number(entry.get("predicted")), number(entry.get("observed")))


def _roc(entry: Json) -> Point | None:
    specificity = number(entry.get("specificity"))
    return _pair(
        None if specificity is None else 1.0 - specificity, number(entry.get("sensitivity"))
    )


def _decision_curve(facts: Json) -> list[Block]:
    """The net benefit over the thresholds, of the first, which is everybody."""
    curves = []
    for label, key in (("the model", "net_benefit"), ("calling everybody", "benefit_of_all")):
        pairs = [
            _pair(number(entry.get("threshold")), number(entry.get(key)))
            for entry in objects(facts.get("decisions"))
        ]
        points = [pair for pair in pairs if pair is not None]
        curves.append(Series(label, points, dashed=key != "net_benefit"))
    if not curves[0].points:
        return []
    title = "Decision curve on held-out rows of all clients"
    return [Lines(title, "threshold of the probability", "net benefit", curves)]


def _table(shown: dict[str, Json]) -> TableBlock:
    head = [
        "rows of",
        "rows",
        "positive",
        "AUC (95 %)",
        "Brier score",
        "of the share",
        "calibration slope",
        "intercept",
        "sensitivity at 0.5",
        "specificity at 0.5",
        "always the majority",
    ]
    rows = []
    for client, facts in shown.items():
        low, high = number(facts.get("auc_low")), number(facts.get("auc_high"))
        auc = plain(number(facts.get("auc")), 3)
        between = "" if low is None or high is None else f" ({plain(low, 3)} to {plain(high, 3)})"
        half = [e for e in objects(facts.get("decisions")) if number(e.get("threshold")) == 0.5]
        at = half[0] if half else {}
        rows.append(
            [
                client,
                *(count(int(number(facts.get(key)) or 0)) for key in ("rows", "positive")),
                auc + between,
                *(_cell(facts, key) for key in ("brier", "brier_of_share")),
                *(_cell(facts, key) for key in ("calibration_slope", "calibration_intercept")),
                *(_cell(at, key) for key in ("sensitivity", "specificity")),
                _cell(facts, "majority"),
            ]
        )
    return TableBlock("Probabilities on held-out rows, with what they rest on.", head, rows)


def _cell(facts: Json, key: str) -> str:
    value = number(facts.get(key))
    return ABSENT if value is None else plain(value, 3)
