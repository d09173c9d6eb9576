"""What left each client?"""

from __future__ import annotations

from drfl.report.blocks import Block, Mark, Marks, Section, TableBlock, Text
from drfl.report.evidence import Evidence, name, number, numbers, objects, objects_of, sentence
from drfl.report.figures import ABSENT, count, size
from drfl.report.suppression import Groups

QUESTION = "What left each client?"
NO_ROWS = (
    "No message holds rows. What it holds can still tell something about rows: this is not "
    "differential privacy."
)
WORDS = {
    "bundle/reply": {
        "about": "weight of the rows and size of a feature",
        "cuts": "cuts",
        "dual": "dual cut",
        "facts": "class shares and means",
        "factor": "curvature",
        "guard": "k of the guard",
        "hess": "curvature",
        "local": "own rough optimum",
        "scale": "curvature",
        "share": "shares of groups",
        "sketch": "curvature",
        "value": "worst-case loss, and how it grows with the radius",
    },
    "own_intercept/reply": {"b": "own intercept"},
    "bundle_close/reply": {"constant": "constants of bounds", "value": "worst-case loss"},
}
CUTS = "A cut is a constant and a slope: sums over the client's rows, with weights."
CHOICE = "The choice of the radius has sent the same kinds of messages before; it is not counted."
UNKNOWN = "The kinds of messages are not recorded for this run, only their sizes."


def section(evidence: Evidence, groups: Groups) -> Section:
    """Message kinds, counts, sizes."""
    sent = _sent(evidence)
    kinds = evidence.of("messages")
    if not sent and not kinds:
        return Section("messages", QUESTION, "What was sent is not recorded.")
    total = sum(sent.values())
    answer = f"{size(total)} for this model, from {len(sent)} clients. {NO_ROWS}"
    rows = [
        [
            name(record.get("client")),
            name(record.get("message")),
            ", ".join(_held(record)),
            count(number(record.get("count"))),
            size(number(record.get("bytes"))),
        ]
        for record in kinds
    ]
    agreed = numbers(evidence.first("preflight").get("bytes_up"))
    rows += [
        [name(client), "before the training", "columns, counts, sums", ABSENT, size(amount)]
        for client, amount in agreed.items()
    ]
    blocks: list[Block] = [] if kinds else [Text(UNKNOWN, "note")]
    blocks += [Text(text, "note") for text in _beside(evidence)]
    marks = [Mark(name(c), amount / 1000, size(amount)) for c, amount in sent.items()]
    if marks:
        blocks.append(Marks("Sent by each client, in kB", "kB", marks, bars=True))
    head = ["client", "message", "what it holds (largest shape)", "count", "size in all"]
    if rows:
        blocks.append(TableBlock("Answers of the clients, by kind.", head, rows, texts=3))
        blocks += [Text(CUTS, "note")] if any("cuts" in row[2] for row in rows) else []
    return Section("messages", QUESTION, answer, blocks)


def _sent(evidence: Evidence) -> dict[str, float]:
    """Bytes by client: of the last round of every model, as they are sums, and of the preflight."""
    total = dict(numbers(evidence.first("preflight").get("bytes_up")))
    last: dict[object, dict[str, float]] = {}
    for record in evidence.of("round"):
        last[str(record.get("model", 0))] = numbers(record.get("bytes_up"))
    for sums in last.values():
        for client, amount in sums.items():
            total[client] = total.get(client, 0.0) + amount
    return total


def _beside(evidence: Evidence) -> list[str]:
    """Which guard there was; what else was sent, for the choice of the radius or by others."""
    guard = sentence(evidence.first("start").get("guard"))
    told = [f"{guard[:1].upper()}{guard[1:]}."] if guard else []
    told += [CHOICE] if objects(evidence.first("selection").get("table")) else []
    for record in evidence.of("comparison"):
        amount = number(record.get("kilobytes"))
        if amount is not None:
            method = name(record.get("method"))
            told.append(f"The comparison with {method} sent {size(1000 * amount)} more, both ways.")
    return told


def _held(record: dict[str, object]) -> list[str]:
    """The arrays of a kind of message in words, with their largest shapes."""
    words = WORDS.get(str(record.get("message")), {})
    held: dict[str, list[str]] = {}
    for key, shape in list(objects_of(record.get("arrays")).items())[:12]:
        sizes = [str(axis) for axis in shape] if isinstance(shape, list) else []
        held.setdefault(words.get(key, name(key)), []).append(" × ".join(sizes))
    return [
        f"{word} ({'; '.join(shape for shape in shapes if shape)})" if any(shapes) else word
        for word, shapes in held.items()
    ]
