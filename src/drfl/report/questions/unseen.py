"""How good is the model on rows and at clients it has not seen?"""

from __future__ import annotations

from drfl.report.blocks import Block, Mark, Marks, Section, TableBlock, Text
from drfl.report.evidence import Evidence, Json, name, number, objects_of, sentence
from drfl.report.figures import ABSENT, metric, plain, title
from drfl.report.questions.probability_curves import probabilities
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
