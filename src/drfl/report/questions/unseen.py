"""How good is the model on rows and at clients it has not seen?"""

from __future__ import annotations

from collections.abc import Callable

from drfl.metrics.probabilities import SHARES
from drfl.problem import Json
from drfl.report.blocks import Block, Lines, Mark, Marks, Section, Series, TableBlock, Text
from drfl.report.evidence import Evidence, name, number, objects, objects_of, sentence, vector
from drfl.report.figures import ABSENT, count, metric, plain, title
from drfl.report.suppression import Groups

QUESTION = "How good is it on rows and at clients it has not seen?"
UNKNOWN = (
    "That is not known: nothing was held out. Figures further down are of rows that it was trained "
    "on; judge it with `drfl evaluate` on others."
)
METHODS = {
    "majority": "majority, or mean",
    "local": "model of one client",
    "erm": "no robustness (ERM)",
    "model": "the model",
}
LEFT = {
    "new rows": "held-out rows of the same clients, each fold in turn",
    "a new client": "clients left out of the training, each in turn",
}


def section(evidence: Evidence, groups: Groups) -> Section:
    """Held-out performance beside what is simpler, and the radii that clients would have needed."""
    record = evidence.first("validation")
    measures = objects_of(record.get("measures"))
    if not measures:
        why = sentence(record.get("failure"))
        return Section("unseen", QUESTION, UNKNOWN + (f" The reason: {why}." if why else ""))
    blocks: list[Block] = []
    for question, methods in measures.items():
        blocks += _question(name(question), objects_of(methods), groups)
    worth, of_groups = (objects_of(record.get(key)) for key in ("probabilities", "groups"))
    blocks += probabilities(worth, of_groups, groups)
    blocks += _radii(record, groups)
    remarks = record.get("remarks")
    told = remarks if isinstance(remarks, list) else []
    blocks += [Text(sentence(remark), "note") for remark in told]
    return Section("unseen", QUESTION, _answer(measures), blocks)


def _answer(measures: Json) -> str:
    parts = []
    for question, methods in measures.items():
        own = objects_of(objects_of(methods).get("model"))
        other = objects_of(objects_of(methods).get("majority"))
        for measure in list(own)[:1]:
            value, guess = (number(objects_of(m.get(measure)).get("mean")) for m in (own, other))
            if value is not None:
                parts.append(
                    f"{title(measure)} on {name(question)}: {metric(measure, value)} (the majority "
                    f"or the mean alone: {metric(measure, guess)})"
                )
    return "; ".join(parts).capitalize() + "." if parts else UNKNOWN


def _question(question: str, methods: Json, groups: Groups) -> list[Block]:
    kinds = list(objects_of(methods.get("model")))
    rows, marks = [], []
    for method, found in methods.items():
        told = objects_of(found)
        cells = [_interval(kind, objects_of(told.get(kind))) for kind in kinds]
        rows.append([METHODS.get(method, name(method)), *cells])
        first = objects_of(told.get(kinds[0])) if kinds else {}
        value = number(first.get("mean"))
        if value is not None:
            dots = [
                (score, f"{name(client)}: {metric(kinds[0], score)}")
                for client, score in ((c, number(s)) for c, s in _by_client(first, groups))
                if score is not None
            ]
            ends = {"low": number(first.get("low")), "high": number(first.get("high"))}
            label, shown = METHODS.get(method, name(method)), metric(kinds[0], value)
            marks.append(Mark(label, value, shown, dots=dots, **ends))
    caption = f"On {LEFT.get(question, question)}; mean and half of its 95 % interval."
    note = "A dot is a client, the thick mark the mean with its 95 % interval."
    head = ["method", *(title(kind) for kind in kinds)]
    return [
        Marks(f"{title(kinds[0])} on {question}", kinds[0], marks, zero=False, note=note),
        TableBlock(caption, head, rows),
    ]


def _by_client(found: Json, groups: Groups) -> list[tuple[str, object]]:
    """What is told of clients; nothing if one of them is too small: it would follow."""
    return [] if groups.small else list(objects_of(found.get("clients")).items())


def _interval(kind: str, found: Json) -> str:
    mean, low, high = (number(found.get(key)) for key in ("mean", "low", "high"))
    if mean is None:
        return ABSENT
    if low is None or high is None:
        return metric(kind, mean)
    return f"{metric(kind, mean)} ± {metric(kind, (high - low) / 2.0)}"


def _radii(record: Json, groups: Groups) -> list[Block]:
    radii, radius = objects_of(record.get("radii")), number(record.get("radius"))
    if not radii or groups.small:
        return []
    rows = [[name(client), plain(number(needed), 3)] for client, needed in radii.items()]
    caption = (
        "The radius that each client would have needed when it was left out: what its loss exceeds "
        f"that of the others by, over the size of the model. The model was trained with "
        f"{plain(radius, 3)}; training with the needed radii made models worse."
    )
    return [TableBlock(caption, ["client", "needed radius"], rows)]


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

    ``found`` is what was found by client, first of all clients, ``of_groups`` by groups of rows.
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
        Text(f"Fewer than 5 rows of a class, not told: {', '.join(few)}." if few else "", "note"),
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
        *_decision_curves(shown, several=several),
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


def _pair(entry: Json, x: str, y: str) -> Point | None:
    first, second = number(entry.get(x)), number(entry.get(y))
    return None if first is None or second is None else (first, second)


def _bin(entry: Json) -> Point | None:
    return _pair(entry, "predicted", "observed")


def _roc(entry: Json) -> Point | None:
    found = _pair(entry, "specificity", "sensitivity")
    return None if found is None else (1.0 - found[0], found[1])


def _decision_curves(shown: dict[str, Json], *, several: bool) -> list[Block]:
    """The net benefit over the thresholds: of every class, or of the first, which is everybody."""
    title = "Decision curve on held-out rows of all clients"
    if several:
        title += ", each class against the rest"
        every = [_benefit(label, facts, "net_benefit") for label, facts in shown.items()]
        curves = [curve for curve in every if curve.points]
    else:
        of = {"the model": "net_benefit", "calling everybody": "benefit_of_all"}
        facts = next(iter(shown.values()))
        curves = [_benefit(label, facts, key) for label, key in of.items()]
    if not curves or not curves[0].points:
        return []
    return [Lines(title, "threshold of the probability", "net benefit", curves)]


def _benefit(label: str, facts: Json, key: str) -> Series:
    pairs = [_pair(entry, "threshold", key) for entry in objects(facts.get("decisions"))]
    points = [pair for pair in pairs if pair is not None and pair[1] >= WORST_SHOWN]
    return Series(label, points, dashed=key != "net_benefit")


def _decisions(caption: str, shown: dict[str, Json]) -> list[TableBlock]:
    """What happens at thresholds that the user named; cells of 1 to 4 rows are not shown."""
    head = ["rows of", "threshold", "called positive", "sensitivity", "specificity"]
    head += ["positive predictive value", "negative predictive value"]
    head += ["net benefit", "of calling all"]
    rows = []
    for client, facts in shown.items():
        told = {number(entry.get("threshold")): entry for entry in objects(facts.get("decisions"))}
        for threshold in vector(facts.get("thresholds")):
            at = told.get(threshold, {})
            rows.append(
                [
                    client,
                    plain(threshold, 3),
                    count(number(at.get("called_positive"))),
                    *(_cell(at, key) for key in (*SHARES, "net_benefit", "benefit_of_all")),
                ]
            )
    return [TableBlock(caption, head, rows)] if rows else []


def _table(caption: str, shown: dict[str, Json]) -> TableBlock:
    head = ["rows of", "rows", "positive", "AUC (95 %)", "Brier", "of share"]
    head += ["slope", "intercept", "in the large", "accuracy", "majority"]
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
    return plain(number(facts.get(key)), 3)
