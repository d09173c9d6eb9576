"""What left each client?"""

from __future__ import annotations

from drfl.report.blocks import Block, Mark, Marks, Section, Table, Text
from drfl.report.evidence import Evidence, name, number, numbers, objects_of
from drfl.report.figures import ABSENT, count, size
from drfl.report.suppression import Groups

QUESTION = "What left each client?"
NO_ROWS = (
    "No message holds rows. What it holds can still tell something about rows: this is not "
    "differential privacy."
)
UNKNOWN = "The kinds of messages are not recorded for this run, only their sizes."


def section(evidence: Evidence, groups: Groups) -> Section:
    """Message kinds, counts, sizes."""
    sent = _sent(evidence)
    kinds = evidence.of("messages")
    if not sent and not kinds:
        return Section("messages", QUESTION, "What was sent is not recorded.")
    total = sum(sent.values())
    answer = f"{size(total)} in all, from {len(sent)} clients. {NO_ROWS}"
    rows = [
        [
            name(record.get("client")),
            name(record.get("message")),
            ", ".join(_array(key, value) for key, value in _arrays(record)),
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
    marks = [Mark(name(c), amount / 1000, size(amount)) for c, amount in sent.items()]
    if marks:
        blocks.append(Marks("Sent by each client, in kB", "kB", marks, bars=True))
    head = ["client", "message", "what it holds (largest shape)", "count", "size in all"]
    if rows:
        blocks.append(Table("Answers of the clients, by kind.", head, rows, texts=3))
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


def _arrays(record: dict[str, object]) -> list[tuple[str, object]]:
    return list(objects_of(record.get("arrays")).items())[:8]


def _array(key: str, shape: object) -> str:
    sizes = [str(axis) for axis in shape] if isinstance(shape, list) else []
    return f"{name(key)} ({' × '.join(sizes)})" if sizes else name(key)
