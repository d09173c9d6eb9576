"""Whom does it serve?"""

from __future__ import annotations

from drfl.defaults import FEW_ROWS
from drfl.metrics import LOWER_IS_BETTER, worst
from drfl.report.blocks import Block, Lines, Mark, Marks, Section, Series, TableBlock, Text
from drfl.report.evidence import (
    Evidence,
    name,
    number,
    numbers,
    objects,
    objects_of,
    vector,
    whole,
)
from drfl.report.figures import ABSENT, count, metric, plain, share, title
from drfl.report.questions.proof import model_name
from drfl.report.suppression import FEW, Groups, without_small
from drfl.training.left_out import unexplained

QUESTION = "Whom does it serve?"
HERE = "Without rounds and kB: solved where all rows are at hand, nothing was sent."
TOLD = "Rows that are given such a probability of the class, and how many of them are in it."
JUDGED = "Judged on the clients' own rows, those of the training: new rows may fare worse."


def section(evidence: Evidence, groups: Groups) -> Section:
    """Per client: metric, loss, worst weight, rows, class balance; and what others would do."""
    result = evidence.first("result")
    scores = client_scores(result.get("clients"), groups)
    kinds = list(dict.fromkeys(kind for found in scores.values() for kind in found))
    blocks: list[Block] = [_table(evidence, groups, scores, kinds)]
    if groups.small:
        blocks.insert(0, Text(_suppressed(groups), "note"))
    blocks += _bars(evidence, groups, scores, kinds)
    blocks += _classes(evidence, groups)
    if kinds:
        blocks += [Text(JUDGED, "note"), *_methods(evidence, groups, kinds[0])]
    blocks += [*_left_out(evidence, groups), *_demo(evidence)]
    return Section("clients", QUESTION, _answer(scores, kinds, groups), blocks)


def _classes(evidence: Evidence, groups: Groups) -> list[Block]:
    """Which class is taken for which, and by class how good its probabilities are."""
    labels, record = groups.classes, evidence.first("confusion")
    lines = [vector(row) for row in record.get("counts") or ()]
    if len(labels) < 3 or len(lines) != len(labels) or groups.small:
        return []
    if any(len(line) != len(labels) for line in lines):
        return []
    cells = [
        [name(label), *(FEW if n is None else count(n) for n in without_small(line))]
        for label, line in zip(labels, lines, strict=True)
    ]
    head = ["rows of class", *(f"taken for {name(label)}" for label in labels)]
    blocks: list[Block] = [TableBlock("Which class is taken for which, all rows.", head, cells)]
    series = []
    for found in evidence.of("class_curve"):
        k, told = whole(found.get("class")), objects(found.get("bins"))
        pairs = [(number(b.get("predicted")), number(b.get("observed"))) for b in told]
        points = [(x, y) for x, y in pairs if x is not None and y is not None]
        if k is not None and k < len(labels) and points:
            series.append(Series(name(labels[k]), points))
    if series:
        series.append(Series("as told", [(0.0, 0.0), (1.0, 1.0)], dashed=True))
        blocks.append(
            Lines("Probability of each class", "told", "share of the rows", series, note=TOLD)
        )
    return blocks


def client_scores(value: object, groups: Groups) -> dict[str, dict[str, float]]:
    """The metrics of the clients that may be told."""
    found = objects_of(value)
    return {client: groups.scores(client, found.get(client)) for client in groups.shown}


def _suppressed(groups: Groups) -> str:
    told = (
        f"Nothing is told of clients that have fewer than {FEW_ROWS} rows or whose number of rows "
        f"is not known here: {_listed(groups.small)}."
    )
    if groups.company:
        told += (
            " The loss and the weight of others would give them away and are left out too: "
            f"{_listed(groups.company)}."
        )
    return told


def _listed(clients: list[str]) -> str:
    more = f" and {len(clients) - 10} more" if len(clients) > 10 else ""
    return ", ".join(name(client) for client in clients[:10]) + more


def _answer(scores: dict[str, dict[str, float]], kinds: list[str], groups: Groups) -> str:
    values = {c: found[kinds[0]] for c, found in scores.items() if kinds and kinds[0] in found}
    if not values:
        return f"{len(groups.clients)} clients took part; how well it serves them is not recorded."
    low = worst(kinds[0], list(values.values()))
    client = next(c for c, value in values.items() if value == low)
    mean = sum(values.values()) / len(values)
    return (
        f"Its mean {title(kinds[0])} over {len(values)} clients is {metric(kinds[0], mean)}; the "
        f"worst served is {name(client)} with {metric(kinds[0], low)}."
    )


def _table(
    evidence: Evidence, groups: Groups, scores: dict[str, dict[str, float]], kinds: list[str]
) -> TableBlock:
    models = evidence.models
    labels = [model_name(k, len(models), groups.classes) for k in range(len(models))]
    several = len(models) > 1
    heads = ["client", "rows", *(f"of class {label}" for label in groups.classes)]
    heads += [title(kind) for kind in kinds]
    for label in labels[:3]:
        what = f", {label}" if several else ""
        heads += [f"worst-case loss{what}", f"worst weight{what}"]
    rows = []
    for client in [*groups.shown, *groups.small]:
        cells = [name(client), FEW if groups.is_small(client) else count(groups.rows(client))]
        told = zip(groups.classes, groups.counts(client), strict=True)
        cells += [ABSENT if n is None else count(n) for _, n in told]
        cells += [metric(kind, scores.get(client, {}).get(kind)) for kind in kinds]
        for model in models[:3]:
            known = groups.tells_parts(client)
            loss = number(objects_of(model.get("losses")).get(client)) if known else None
            weight = number(objects_of(model.get("weights")).get(client)) if known else None
            cells += [plain(loss), share(weight if groups.weights_are_shown else None)]
        rows.append(cells)
    return TableBlock("The clients. – is what is not told or not known.", heads, rows)


def _bars(
    evidence: Evidence, groups: Groups, scores: dict[str, dict[str, float]], kinds: list[str]
) -> list[Block]:
    charts: list[Block] = []
    if kinds:
        rows = [
            Mark(name(c), s[kinds[0]], metric(kinds[0], s[kinds[0]]))
            for c, s in scores.items()
            if kinds[0] in s
        ]
        charts.append(Marks(f"{title(kinds[0])} of each client", kinds[0], rows, bars=True))
    for model in evidence.models[:1]:
        losses, weights = numbers(model.get("losses")), numbers(model.get("weights"))
        told = [c for c in groups.shown if groups.tells_parts(c)]
        rows = [Mark(name(c), losses[c], plain(losses[c])) for c in told if c in losses]
        charts.append(Marks("Worst-case loss of each client", "loss", rows, bars=True))
        rows = [Mark(name(c), weights[c], share(weights[c])) for c in told if c in weights]
        note = "What the adversary makes of the clients' weights: losses that count more."
        if groups.weights_are_shown:
            charts.append(Marks("Worst weights", "weight", rows, bars=True, note=note))
    return [chart for chart in charts if isinstance(chart, Marks) and chart.rows]


def _methods(evidence: Evidence, groups: Groups, kind: str) -> list[Block]:
    """DRFL beside the other methods, on the same rows."""
    marks, rows = [], []
    for record in [evidence.first("result"), *evidence.of("comparison")]:
        found = client_scores(record.get("clients"), groups)
        dots = [
            (s[kind], f"{name(c)}: {metric(kind, s[kind])}") for c, s in found.items() if kind in s
        ]
        if not dots:
            continue
        values = [value for value, _ in dots]
        mean, low = sum(values) / len(values), worst(kind, values)
        method = name(record.get("method", "method"))
        marks.append(Mark(method, mean, f"mean {metric(kind, mean)}", dots=dots))
        costs = [number(record.get(key)) for key in ("gap", "rounds", "kilobytes")]
        kilobytes = ABSENT if costs[2] is None else f"{costs[2]:.1f}"
        gap = "none" if costs[0] is None or costs[0] >= 1.0 else plain(costs[0], 2)
        cells = [method, metric(kind, mean), metric(kind, low), gap]
        rows.append([*cells, count(costs[1]), kilobytes])
    if len(marks) < 2:
        return []
    better = "lower" if kind in LOWER_IS_BETTER else "higher"
    note = f"A dot is a client, the thick mark their mean; {better} is better."
    head = ["method", f"mean {title(kind)}", "worst client", "proved gap", "rounds", "kB"]
    return [
        Marks(f"{title(kind)} by method", kind, marks, zero=False, note=note),
        TableBlock(f"Methods, each trained on the same rows. {HERE}", head, rows),
    ]


def _left_out(evidence: Evidence, groups: Groups) -> list[Block]:
    """What the others would have without each client."""
    found = [record for record in evidence.of("left_out") if not groups.small]
    rows, warnings = [], []
    for record in found:
        weight, before, after = (number(record.get(k)) for k in ("weight", "with", "without"))
        if weight is None or before is None or after is None or before <= 0.0:
            continue
        client, change = name(record.get("client")), (after - before) / before
        rows.append([client, share(weight), plain(before), plain(after), f"{change:+.1%}"])
        warnings.append(unexplained(client, weight, before, after))
    if not rows:
        return []
    head = ["without", "its worst weight", "loss of the others with it", "without it", "change"]
    caption = "One client left out in turn; mean losses of the other clients."
    return [*(Text(text, "warning") for text in warnings if text), TableBlock(caption, head, rows)]


def _demo(evidence: Evidence) -> list[Block]:
    rows = [
        [
            name(record.get("method")),
            share(number(record.get("mean"))),
            share(number(record.get("worst"))),
            f"{number(record.get('log_loss')):.3f}",
        ]
        for record in evidence.of("demo")
    ]
    head = ["method", "mean accuracy", "worst client", "log loss"]
    caption = "Methods at clients that were left out of their training, each client in turn."
    return [TableBlock(caption, head, rows)] if rows else []
