"""What clients told in the preflight: Table 1 of a federation, and how large its features are."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from drfl.inspection.table_one import PROGRAM, Cell, TableOne, hinted, units
from drfl.protocols.data_request import DataReply, DataRequest
from drfl.tables import Column, Number
from drfl.tables.encoding import FILLED
from drfl.tables.moments import CONSTANT
from drfl.tables.table import GAP, as_text

SLACK = 1e-6  # relative: sums were rounded


def column_sizes(columns: Sequence[Column], scale: str, answer: DataReply) -> tuple[float, ...]:
    """Bounds from above of the root mean square of every agreed feature of one client."""
    place = {name: k for k, name in enumerate(answer.facts["numbers"])}
    sizes: list[float] = []
    for column in columns:
        if not isinstance(column, Number):
            sizes += [1.0] * len(column.levels)
        elif column.name in place:
            sizes.append(_of_number(column, scale, answer, place[column.name]))
            sizes += [1.0] * (len(column.features) - 1)
        else:  # a sparse file without the column: it is 0 everywhere
            sizes.append((1.0 + SLACK) * abs(column.shift) / column.scale)
    return tuple(sizes)


def _of_number(column: Number, scaling: str, answer: DataReply, k: int) -> float:
    m, rows = answer.moments, max(float(answer.facts["rows"]), 1.0)
    count, mean, squares = float(m.count[k]), float(m.mean[k]), max(float(m.squares[k]), 0.0)
    gaps = 0.0 if column.fill is None else max(rows - count, 0.0)
    fill = mean if column.fill is None else column.fill
    shift, scale = column.shift, column.scale
    if scaling == "per-client":
        # Mean and deviation of the column with its gaps filled, as `Encoding.scaling` takes them.
        shift = (count * mean + gaps * fill) / rows
        between = count * (mean - shift) ** 2 + gaps * (fill - shift) ** 2
        scale = math.sqrt((squares + between) / rows)
        scale = scale if scale > CONSTANT * abs(shift) else 1.0
    total = squares + count * (mean - shift) ** 2 + gaps * (fill - shift) ** 2
    # Where a column is almost constant, its deviation is known up to rounding of its mean.
    return (math.sqrt(total / rows) * (1.0 + SLACK) + SLACK * (abs(mean) + abs(shift))) / scale


MUCH = 0.3  # more gaps than this are told of


def table_one(
    request: DataRequest, answers: Mapping[str, DataReply], used: Container[str]
) -> TableOne:
    """Put together what the clients told; what looks wrong is told of columns that are used."""
    names = list(dict.fromkeys(n for a in answers.values() for n in a.facts["columns"]))
    cells = [cell for name in names for cell in cells_of(name, answers)]
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


def cells_of(name: str, answers: Mapping[str, DataReply]) -> Iterator[Cell]:
    """What every client told of a column."""
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
            shares = {as_text(value): count / total for value, count in told["values"]}
            yield Cell(client, name, total, 0.0, shares=shares)
        else:
            count, total, squares = told["moments"]
            moments = total / max(count, 1.0), float(np.sqrt(squares / max(count, 1.0)))
            yield Cell(client, name, int(count), 0.0, *moments)


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
