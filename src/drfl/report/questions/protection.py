"""What is it protected against, and which rows would the adversary change?"""

from __future__ import annotations

from drfl.metrics import worst
from drfl.models.adversary import found_sentence
from drfl.problem import Json
from drfl.report.blocks import Block, Lines, Mark, Marks, Section, Series, TableBlock, Text
from drfl.report.evidence import Evidence, clipped, name, number, numbers, objects_of, sentence
from drfl.report.figures import plain, share, title
from drfl.report.questions.proof import model_name
from drfl.report.suppression import Groups

QUESTION = "What is it protected against?"
MOST_CLIENTS = 6
MOST_MODELS = 4
NOT_AT_HAND = (
    "What noise does to the model, and what its adversary would choose, is computed where the "
    "data lie; it was not recorded for this run."
)
REFITS = "Models of the same kind with other radii, on the rows of the training."
CHOICE = "It is the worst case within the radii{}: what becomes of each client's weight and rows."
DISTANCES = "Mean distance in standard deviations, the clients with their worst weights."
SHARED = (
    "One ball lies around the mixture of all clients: the adversary has one budget and spends it "
    "where it pays most. The worst-case loss of a client is that of its rows as they are then."
)
FOUND = (
    "The worst-case loss of each client: what an attack found, and what the layers of the network "
    "prove that it cannot exceed; not known where a layer has no bound."
)
NOISE = "Noise is Gaussian, in standard deviations of every column of numbers; means over draws."


def section(evidence: Evidence, groups: Groups) -> Section:
    """Metric against noise and radius, and the adversary's choice."""
    blocks = [*_noise(evidence, groups), *_radii(evidence, groups), *_adversary(evidence, groups)]
    blocks += _found_and_proved(evidence, groups)
    if not any(map(evidence.of, ("adversary", "noise", "interval"))):
        blocks.append(Text(NOT_AT_HAND, "note"))
    answer = _answer(evidence.first("problem"), groups)
    return Section("protection", QUESTION, answer, blocks)


def _answer(problem: Json, groups: Groups) -> str:
    if not problem:
        return "The problem that was solved is not recorded."
    balls = list(groups.balls(problem).values())
    costs = _between([number(ball.get("label_cost")) for ball in balls])
    labels = f"a label changes at the cost {costs}" if costs else "labels stay"
    radii = [number(ball.get("radius")) for ball in balls]
    radius = 0.0 if set(radii) == {0.0} else None
    norm = name(balls[0].get("norm", "l1")) if balls else "of the ball"
    far = _between(radii) or "their radius"
    each = ", every client's by its own radius," if len(set(radii)) > 1 else ""
    order = balls[0].get("order") if balls else None
    how = {"inf": "at most each", 2: "in the root mean square"}.get(order, "on average")
    rows = f"rows that move by {far} {how}{each} in the norm {norm}"
    theta = objects_of(problem.get("mixture")).get("radius")
    weights = "weights of the clients that are as bad as can be"
    if theta != "inf":
        weights = f"weights of the clients that differ by {plain(number(theta), 4)} in all"
    against = [f"{rows} ({labels})"] * (radius != 0.0) + [weights] * (theta != 0.0)
    trusted = ["the rows"] * (radius == 0.0) + ["the weights of the clients"] * (theta == 0.0)
    said = [f"Against {', and against '.join(against)}."] if against else []
    said += [f"As they are it takes {' and '.join(trusted)}."] if trusted else []
    return " ".join(said)


def _found_and_proved(evidence: Evidence, groups: Groups) -> list[Block]:
    """Of a network: the worst-case loss of each client as the attack found it, and its bound."""
    rows = []
    for record in evidence.of("interval"):
        client = str(record.get("client"))
        if groups.tells_parts(client):
            ends = (number(record.get(end)) for end in ("lower", "upper"))
            shown = ("not known" if end is None else plain(end, 4) for end in ends)
            rows.append([name(client), *shown])
    if not rows:
        return []
    head = ["client", "at least, as found", "at most, as proved"]
    return [TableBlock(FOUND, head, rows)]


def _between(values: list[float | None]) -> str:
    """The finite ones of some numbers, in words."""
    known = sorted({value for value in values if value is not None})
    ends = [plain(value, 4) for value in known[:1] + known[1:][-1:]]
    return " to ".join(ends)


def _noise(evidence: Evidence, groups: Groups) -> list[Block]:
    """Metric against noise, for the worst clients and in the mean."""
    curves: dict[str, dict[float, float]] = {}
    kind = ""
    for record in evidence.of("noise"):
        client, level = str(record.get("client")), number(record.get("noise"))
        scores = groups.scores(client, record.get("scores"))
        if level is not None and scores:
            kind = kind or next(iter(scores))
            curves.setdefault(client, {})[level] = scores.get(kind, 0.0)
    if not curves:
        return []
    levels = sorted(set.intersection(*(set(curve) for curve in curves.values())))
    mean = [(x, sum(c[x] for c in curves.values()) / len(curves)) for x in levels]
    by_worst = sorted(curves, key=lambda c: curves[c][levels[-1]] if levels else 0.0)
    lines = [Series("mean", mean)]
    lines += [
        Series(name(client), [(x, curves[client][x]) for x in levels], dashed=True)
        for client in by_worst[:MOST_CLIENTS]
    ]
    text = f"{title(kind)} against noise in all columns"
    x = "noise, in standard deviations"
    return [Lines(text, x, title(kind), lines, note=NOISE)]


def _radii(evidence: Evidence, groups: Groups) -> list[Block]:
    """Metric against the radius, on rows as they are and with noise."""
    found: dict[float, list[tuple[float, float, float]]] = {}
    kind = ""
    for record in evidence.of("radius"):
        x, level = number(record.get("radius")), number(record.get("noise"))
        told = [groups.scores(c, s) for c, s in objects_of(record.get("clients")).items()]
        scores = [entry for entry in told if entry]
        if x is None or level is None or not scores:
            continue
        kind = kind or next(iter(scores[0]))
        values = [entry[kind] for entry in scores if kind in entry]
        if values:
            low = worst(kind, values)
            found.setdefault(level, []).append((x, sum(values) / len(values), low))
    if not found:
        return []
    labels = [plain(x, 3) for x, _, _ in next(iter(found.values()))]
    lines = []
    for level, points in found.items():
        what = "rows as they are" if level == 0.0 else f"noise {plain(level, 3)}"
        mean = [(float(k), value) for k, (_, value, _) in enumerate(points)]
        least = [(float(k), value) for k, (_, _, value) in enumerate(points)]
        lines += [Series(f"mean, {what}", mean), Series(f"worst, {what}", least, dashed=True)]
    text = f"{title(kind)} against the radius"
    return [Lines(text, "radius", title(kind), lines, labels=labels, note=REFITS)]


def _adversary(evidence: Evidence, groups: Groups) -> list[Block]:
    """Worst weights, share of labels flipped, distance moved by feature; for every linear model."""
    records = [r for r in evidence.of("adversary") if groups.tells_parts(str(r.get("client")))]
    count = max(len(evidence.models), 1)
    blocks: list[Block] = []
    for k in range(min(count, MOST_MODELS)):
        mine = [record for record in records if record.get("model", 0) == k]
        which = "" if count == 1 else f", {model_name(k, count, groups.classes)}"
        blocks += _choice(mine, groups, which) if mine else []
    if blocks and evidence.first("problem").get("shared_ball") is True:
        blocks.insert(0, Text(SHARED, "note"))
    if blocks and count > MOST_MODELS:
        blocks.append(Text(f"{count - MOST_MODELS} more models are not shown.", "note"))
    return blocks


def _choice(records: list[Json], groups: Groups, which: str) -> list[Block]:
    """What the adversary does to one linear model."""
    rows, total, proved = [], dict[str, float](), []
    for record in records:
        weight = number(record.get("weight")) if groups.weights_are_shown else None
        keys = ("loss", "worst_loss", "features_moved", "price")
        loss, worst_loss, moved, price = (number(record.get(key)) for key in keys)
        bound = number(record.get("bound"))
        if bound is not None:
            proved.append(f"{name(record.get('client'))}: {found_sentence(bound)}")
        flipped = share(number(record.get("labels_changed")))
        losses = [plain(loss), plain(worst_loss)]
        cells = [name(record.get("client")), share(weight), *losses, flipped]
        rows.append([*cells, plain(moved, 4), plain(price, 4)])
        part = 1.0 / len(records) if weight is None else weight
        for feature, distance in numbers(record.get("scaled_moves")).items():
            total[feature] = total.get(feature, 0.0) + part * distance
    head = ["client", "worst weight", "loss", "worst-case loss", "labels changed"]
    head += ["distance moved", "loss per radius"]
    choice = CHOICE.format(" that was found" if proved else "")
    blocks: list[Block] = [TableBlock(f"The adversary's choice{which}. {choice}", head, rows)]
    blocks += [Text(f"{'; '.join(proved)}.", "note")] if proved else []
    order = sorted((f for f in total if total[f] > 0.0), key=lambda feature: -total[feature])
    marks = [Mark(name(f), total[f], plain(total[f], 3)) for f in order]
    title = f"How far the adversary moves each column{which}"
    if marks:
        blocks.append(Marks(title, "", marks, True, note=DISTANCES))
    elif total:
        blocks.append(Text(f"{title}: not at all. Changing labels pays more.", "note"))
    if any(record.get("attained") is False for record in records):
        blocks.append(Text("A worst case is only approached, by few rows that move very far."))
    return blocks


ROWS_QUESTION = "Which rows would the adversary change?"
WARNING = "This page shows single rows: it must stay where the data lie."
LONGEST = 300


def rows_section(evidence: Evidence, groups: Groups) -> Section | None:
    """Row by row what changes; None unless it was asked for."""
    del groups  # who asks for rows holds them
    found = evidence.of("row")
    if not found:
        return None
    rows = [
        [
            name(record.get("client")),
            name(record.get("row")),
            clipped(sentence(record.get("change")), LONGEST),
        ]
        for record in found
    ]
    table = TableBlock("Most changed first, by client.", ["client", "row", "change"], rows, texts=3)
    return Section("rows", ROWS_QUESTION, WARNING, [Text(WARNING, "warning"), table])
