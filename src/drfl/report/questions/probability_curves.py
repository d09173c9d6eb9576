"""What the model's probabilities are worth on rows that it has not seen: curves and numbers."""

from __future__ import annotations

from collections.abc import Callable

from drfl.report.blocks import Block, Lines, Series, TableBlock, Text
from drfl.report.evidence import Json, name, number, objects, objects_of, vector
from drfl.report.figures import ABSENT, count, plain
from drfl.report.suppression import Groups

NOTE = (
    "Of held-out rows, each fold in turn. Bins with fewer than 5 rows of a class are joined with "
    "their neighbours. An area is the mean of the clients' own areas, with DeLong's interval. "
    "Calibrated probabilities have slope 1 and intercept 0, together and, in the large, with slope "
    "1; a slope above 1 says that they are cautious, as those of a robust model are. Accuracy at "
    "0.5 stands beside that of always naming the majority, the Brier score beside that of telling "
    "everybody the share of positive rows. Decisions with 1 to 4 rows in a cell are not shown. "
    "Beside the net benefit stands that of calling everybody positive; calling nobody has 0."
)
CALIBRATION = ("calibration_slope", "calibration_intercept", "calibration_in_the_large")
WORST_SHOWN = -0.1
"""Of net benefits: calling everybody is far worse at high thresholds, which would hide the rest."""
Point = tuple[float, float]


def probabilities(found: Json, of_groups: Json, groups: Groups) -> list[Block]:
    """Calibration, ROC and decision curves, and tables; of all clients if one is too small.

    Parameters
    ----------
    found : dict
        What was found by client, first of all clients.
    of_groups : dict
        The same by groups of rows.
    groups : Groups
        Which clients are too small to be spoken of.
    """
    every = {name(client): objects_of(facts) for client, facts in found.items()}
    shown = {client: facts for client, facts in every.items() if number(facts.get("rows"))}
    several = len(groups.classes) > 2  # then each is of all clients, and of one class
    if groups.small and not several:
        shown = dict(list(shown.items())[:1])
    if not shown:
        return []
    parts = {name(group): objects_of(facts) for group, facts in of_groups.items()}
    large = {group: facts for group, facts in parts.items() if number(facts.get("rows"))}
    few = [group for group in parts if group not in large]
    whose = ", each class against the rest" if several else ""
    return [
        _table(f"Probabilities on held-out rows, with what they rest on{whose}.", shown),
        *_decisions("Decisions on held-out rows, at the thresholds that were named.", shown),
        *([_table("The same in groups of the rows of all clients.", large)] if large else []),
        *_decisions("Decisions in groups of rows.", large),
        *(
            [Text(f"Fewer than 5 rows of a class, not told: {', '.join(few)}.", "note")]
            if few
            else []
        ),
        Lines(
            f"Calibration on held-out rows{whose}",
            "predicted probability",
            "share of positive rows",
            [*_series(shown, "calibration", _bin), Series("calibrated", [(0, 0), (1, 1)], True)],
        ),
        Lines(
            f"ROC curve on held-out rows{whose}",
            "1 - specificity",
            "sensitivity",
            [*_series(shown, "decisions", _roc), Series("no skill", [(0, 0), (1, 1)], True)],
        ),
        *(_class_benefits(shown) if several else _decision_curve(next(iter(shown.values())))),
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


def _class_benefits(shown: dict[str, Json]) -> list[Block]:
    """The net benefit over the thresholds, of calling rows of each class so."""
    curves = [_benefit(label, facts, "net_benefit") for label, facts in shown.items()]
    title = "Decision curve on held-out rows of all clients, each class against the rest"
    known = [curve for curve in curves if curve.points]
    return [Lines(title, "threshold of the probability", "net benefit", known)] if known else []


def _benefit(label: str, facts: Json, key: str) -> Series:
    pairs = [
        _pair(number(entry.get("threshold")), number(entry.get(key)))
        for entry in objects(facts.get("decisions"))
    ]
    points = [pair for pair in pairs if pair is not None and pair[1] >= WORST_SHOWN]
    return Series(label, points, dashed=key != "net_benefit")


def _decision_curve(facts: Json) -> list[Block]:
    """The net benefit over the thresholds, of the first, which is everybody."""
    of = {"the model": "net_benefit", "calling everybody": "benefit_of_all"}
    curves = [_benefit(label, facts, key) for label, key in of.items()]
    if not curves[0].points:
        return []
    title = "Decision curve on held-out rows of all clients"
    return [Lines(title, "threshold of the probability", "net benefit", curves)]


def _decisions(caption: str, shown: dict[str, Json]) -> list[TableBlock]:
    """What happens at thresholds that the user named; cells of 1 to 4 rows are not shown."""
    keys = ("sensitivity", "specificity", "positive_value", "negative_value")
    head = ["rows of", "threshold", "called positive", "sensitivity", "specificity"]
    head += [
        "positive predictive value",
        "negative predictive value",
        "net benefit",
        "of calling all",
    ]
    rows = []
    for client, facts in shown.items():
        told = {number(entry.get("threshold")): entry for entry in objects(facts.get("decisions"))}
        for threshold in vector(facts.get("thresholds")):
            at = told.get(threshold, {})
            called = number(at.get("called_positive"))
            rows.append(
                [
                    client,
                    plain(threshold, 3),
                    ABSENT if called is None else count(int(called)),
                    *(_cell(at, key) for key in (*keys, "net_benefit", "benefit_of_all")),
                ]
            )
    return [TableBlock(caption, head, rows)] if rows else []


def _table(caption: str, shown: dict[str, Json]) -> TableBlock:
    head = [
        "rows of",
        "rows",
        "positive",
        "AUC (95 %)",
        "Brier",
        "of share",
        "slope",
        "intercept",
        "in the large",
        "accuracy",
        "majority",
    ]
    rows = []
    for client, facts in shown.items():
        low, high = number(facts.get("auc_low")), number(facts.get("auc_high"))
        auc = plain(number(facts.get("auc")), 3)
        between = "" if low is None or high is None else f" ({plain(low, 3)}–{plain(high, 3)})"
        rows.append(
            [
                client,
                *(count(int(number(facts.get(key)) or 0)) for key in ("rows", "positive")),
                auc + between,
                *(_cell(facts, key) for key in ("brier", "brier_of_share")),
                *(_hundredths(facts, key) for key in CALIBRATION),
                *(_cell(facts, key) for key in ("accuracy", "majority")),
            ]
        )
    return TableBlock(caption, head, rows)


def _hundredths(facts: Json, key: str) -> str:
    value = number(facts.get(key))
    return ABSENT if value is None else f"{round(value, 2) + 0.0:.2f}".replace("-", "−")


def _cell(facts: Json, key: str) -> str:
    value = number(facts.get(key))
    return ABSENT if value is None else plain(value, 3)
