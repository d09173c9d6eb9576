"""What do the clients' data look like?"""

from __future__ import annotations

from drfl.report.blocks import Block, Section, TableBlock, Text
from drfl.report.evidence import Evidence, name, number, numbers, objects, sentence
from drfl.report.figures import share
from drfl.report.suppression import Groups

QUESTION = "What do the clients' data look like?"
ANSWER = "Table 1: mean (standard deviation) of numbers, shares of categories, and what is missing."


def section(evidence: Evidence, groups: Groups) -> Section | None:
    """Table 1, and what looked wrong; None if the run has not recorded it."""
    del groups  # clients name nothing that fewer than five of their rows hold
    facts = evidence.first("preflight")
    cells = objects(facts.get("table"))
    if not cells:
        return None
    clients = list(dict.fromkeys(name(cell.get("client")) for cell in cells))
    columns = list(dict.fromkeys(name(cell.get("column")) for cell in cells))
    known = {(name(c.get("column")), name(c.get("client"))): _cell(c) for c in cells}
    rows = [[column, *(known.get((column, c), "") for c in clients)] for column in columns]
    told = facts.get("warnings")
    warnings = [sentence(text) for text in told] if isinstance(told, list) else []
    blocks: list[Block] = [Text(text, "warning") for text in warnings[:20] if text]
    blocks.append(TableBlock("Table 1, the target last.", ["column", *clients], rows, texts=1))
    return Section("table", QUESTION, ANSWER, blocks)


def _cell(cell: dict[str, object]) -> str:
    mean, deviation = number(cell.get("mean")), number(cell.get("deviation"))
    if mean is not None and deviation is not None:
        text = f"{mean:.4g} ({deviation:.3g})"
    else:
        first = sorted(numbers(cell.get("shares")).items(), key=lambda pair: -pair[1])[:3]
        text = ", ".join(f"{name(level)} {share(part)}" for level, part in first)
    missing = number(cell.get("missing"))
    return f"{text}, {share(missing)} missing" if missing else text
