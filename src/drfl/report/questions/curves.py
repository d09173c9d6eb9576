"""What are its curves?"""

from __future__ import annotations

from drfl.report.blocks import Block, Lines, Section, Series, Text
from drfl.report.evidence import Evidence, Json, number, vector, whole
from drfl.report.questions.proof import model_name
from drfl.report.suppression import Groups

QUESTION = "What are its curves?"
MOST = 40
NOTE = (
    "What a column adds to the score, by its value in the units of the files; 0 at the first knot. "
    "Beyond the ends drawn here the curves go on straight. How far slopes depend on the rows is "
    "said above, if it was measured."
)


def section(evidence: Evidence, groups: Groups) -> Section | None:
    """A chart for every curve of an additive model; None for a linear one."""
    given = evidence.first("result").get("curves")
    curves = [c for c in given if isinstance(c, dict)] if isinstance(given, list) else []
    if not curves:
        return None
    models = max(len(evidence.models), 1)
    blocks: list[Block] = [Text(NOTE, "note")]
    blocks += [chart for curve in curves[:MOST] if (chart := _chart(curve, models, groups))]
    columns = list(dict.fromkeys(str(curve.get("name")) for curve in curves))
    answer = f"{len(columns)} columns have curves: {', '.join(columns[:5])}"
    return Section("curves", QUESTION, answer + (", ..." if len(columns) > 5 else "."), blocks)


def _chart(curve: Json, models: int, groups: Groups) -> Lines | None:
    x, y = vector(curve.get("x")), vector(curve.get("y"))
    points = [(a, b) for a, b in zip(x, y, strict=False) if number(a) is not None]
    if not points:
        return None
    k, rules = whole(curve.get("model", 0)) or 0, curve.get("rules")
    which = "" if models == 1 else f", {model_name(k, models, groups.classes)}"
    note = f"Rule: {', '.join(map(str, rules))}." if isinstance(rules, list) and rules else ""
    name = str(curve.get("name"))
    return Lines(f"{name}{which}", name, "added to the score", [Series(name, points)], note=note)
