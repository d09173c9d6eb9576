"""Which rows would the adversary change? Only asked where the data lie."""

from __future__ import annotations

from drfl.report.blocks import Section, TableBlock, Text
from drfl.report.evidence import Evidence, clipped, name, sentence
from drfl.report.suppression import Groups

QUESTION = "Which rows would the adversary change?"
WARNING = "This page shows single rows: it must stay where the data lie."
LONGEST = 300


def section(evidence: Evidence, groups: Groups) -> Section | None:
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
    return Section("rows", QUESTION, WARNING, [Text(WARNING, "warning"), table])
