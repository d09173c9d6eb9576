"""Table 1 of a federation from what its clients told: their columns, and what looks wrong."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from drfl.inspection.cells import Cell, TableOne
from drfl.inspection.sentences import PROGRAM, hinted, units
from drfl.protocols.data_request import DataReply, DataRequest
from drfl.tables.columns import GAP
from drfl.tables.encoding import FILLED

MUCH = 0.3
"""More gaps than this are told of."""


def table_one(
    request: DataRequest, answers: Mapping[str, DataReply], used: Container[str]
) -> TableOne:
    """Put together what the clients told; what looks wrong is told of columns that are used."""
    names = list(dict.fromkeys(n for a in answers.values() for n in a.facts["columns"]))
    cells = [cell for name in names for cell in _cells(name, answers)]
    # Clients with a guard tell no hints.
    hints = {client: _of_used(answer.facts["hints"], used) for client, answer in answers.items()}
    seen = [cell for cell in cells if cell.column in used]
    warnings = [*units(seen), *hinted(hints, PROGRAM), *_gaps(request, seen)]
    warnings += _small(answers)
    left_out = frozenset(name for name in names if name not in used)
    table = (*cells, *_target_cells(request.target, answers))
    return TableOne(table, tuple(warnings), left_out)


def _of_used(hints: Mapping[str, Any], used: Container[str]) -> dict[str, Any]:
    named = {k: {n: v for n, v in hints[k].items() if n in used} for k in ("codes", "far")}
    return {**named, **{k: [n for n in hints[k] if n in used] for k in ("ids", "perfect")}}


def _cells(name: str, answers: Mapping[str, DataReply]) -> Iterator[Cell]:
    for client, answer in answers.items():
        facts, rows = answer.facts, max(answer.facts["rows"], 1)
        if name in facts["numbers"]:
            at, m = facts["numbers"].index(name), answer.moments
            missing = max(0.0, 1.0 - float(m.count[at]) / rows)
            moments = float(m.mean[at]), float(m.deviation[at])
            yield Cell(client, name, int(m.count[at]), missing, *moments)
        elif name in facts["texts"]:
            shares = {v: n / rows for v, n in facts["texts"][name]["values"].items()}
            missing = shares.pop(GAP, 0.0)
            yield Cell(client, name, round(rows * (1.0 - missing)), missing, shares=shares)


def _target_cells(name: str, answers: Mapping[str, DataReply]) -> Iterator[Cell]:
    for client, answer in answers.items():
        told = answer.facts["target"]
        if told["values"] is not None:
            total = max(sum(count for _, count in told["values"]), 1)
            shares = {_label(value): count / total for value, count in told["values"]}
            yield Cell(client, name, total, 0.0, shares=shares)
        else:
            count, total, squares = told["moments"]
            moments = total / max(count, 1.0), float(np.sqrt(squares / max(count, 1.0)))
            yield Cell(client, name, int(count), 0.0, *moments)


def _label(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _gaps(request: DataRequest, cells: Sequence[Cell]) -> Iterator[str]:
    """Columns that are mostly made up where gaps are filled."""
    for name in dict.fromkeys(cell.column for cell in cells):
        mine = [cell for cell in cells if cell.column == name and cell.missing > MUCH]
        if not mine or request.gaps_of(name) not in FILLED:
            continue
        where = ", ".join(f"{cell.missing:.0%} of the rows of {cell.client!r}" for cell in mine)
        if mine[0].shares is not None:
            filled, mark = f"the category {GAP!r} stands there", ""
        elif request.gaps_of(name) == "indicator":
            filled, mark = "the mean over all clients stands there, marked by a feature", ""
        else:
            filled = "the mean over all clients stands there"
            mark = f", or mark its gaps with --missing-columns {name}=indicator"
        yield (
            f"column {name!r} has no value in {where}; {filled}: leave it out with --exclude "
            f"{name} or by rule with --max-missing{mark}"
        )


def _small(answers: Mapping[str, DataReply]) -> Iterator[str]:
    """Clients with hardly any rows."""
    for client, answer in answers.items():
        rows = answer.facts["rows"]
        if rows < 10 and len(answers) > 1:
            yield (
                f"client {client!r} has {rows} row{'s' * (rows > 1)} and counts as much as the "
                "others with --mixture-center uniform: take proportional, or leave the client out"
            )
