"""Table 1 of a federation: what every client's columns look like, and what looks wrong in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from drfl._registry import listed
from drfl.protocols.data_request import DataReply, DataRequest
from drfl.tables.columns import GAP
from drfl.tables.encoding import FILLED

UNITS = {
    10.0: "a power of ten",
    12.0: "years and months",
    100.0: "a share and per cent, or m and cm",
    1000.0: "a power of a thousand",
    2.54: "inches and cm",
    2.2046: "kg and pounds",
    38.67: "mg/dL and mmol/L of cholesterol",
    88.57: "mg/dL and mmol/L of triglycerides",
    88.42: "mg/dL and µmol/L of creatinine",
    18.02: "mg/dL and mmol/L of glucose",
    365.25: "years and days",
}
"""Factors between the units in which the same thing is measured."""
NEAR = 0.12
"""A ratio this near to a factor, relatively, looks like it."""
ENOUGH = 20
"""The mean of fewer values says little."""
MUCH = 0.3
"""More gaps than this are told of."""
SHOWN = 20
"""Columns that are printed."""


@dataclass(frozen=True)
class Cell:
    """One column at one client: a number's moments, or the shares of its categories.

    Attributes
    ----------
    rows : int
        How many rows have a value.
    missing : float
        The share of the rows without one, of those that are used.
    mean, deviation : float or None
        Of numbers.
    shares : dict of str to float
        Of categories, those that are named.
    """

    client: str
    column: str
    rows: int
    missing: float
    mean: float | None = None
    deviation: float | None = None
    shares: dict[str, float] | None = None

    def __str__(self) -> str:
        if not self.rows:
            return "no value"
        if self.shares is None:
            assert self.mean is not None
            assert self.deviation is not None
            text = f"{self.mean:.4g} ({self.deviation:.3g})"
        else:
            first = sorted(self.shares.items(), key=lambda pair: -pair[1])[:3]
            text = ", ".join(f"{name} {share:.0%}" for name, share in first)
        if not self.missing:
            return text
        return f"{text}, {self.missing:.0%} missing" if self.missing >= 0.005 else f"{text}, gaps"


@dataclass(frozen=True)
class TableOne:
    """What the preflight tells of the clients' columns.

    Attributes
    ----------
    cells : tuple of Cell
        By column, then by client; the target last.
    warnings : tuple of str
        What looks wrong, each with what to do.
    """

    cells: tuple[Cell, ...]
    warnings: tuple[str, ...]

    def facts(self) -> list[dict[str, Any]]:
        """For the records."""
        return [asdict(cell) for cell in self.cells]

    def lines(self) -> list[str]:
        """For a reader: a line for every column, a column for every client."""
        clients = list(dict.fromkeys(cell.client for cell in self.cells))
        columns = list(dict.fromkeys(cell.column for cell in self.cells))
        shown = columns if len(columns) <= SHOWN + 1 else [*columns[:SHOWN], columns[-1]]
        known = {(cell.column, cell.client): str(cell) for cell in self.cells}
        rows = [["", *clients]]
        rows += [[name, *(known.get((name, c), "-") for c in clients)] for name in shown]
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = ["Table 1: mean (standard deviation) of numbers, shares of categories"]
        for row in rows:
            cells = [f"{text:{width}}" for text, width in zip(row, widths, strict=True)]
            lines.append(("  " + "  ".join(cells)).rstrip())
        more = len(columns) - len(shown)
        lines += [f"  and {more} more columns"] if more else []
        return [
            *lines,
            *(
                f"filled at {client}: {self.filled(client)}"
                for client in clients
                if self.filled(client)
            ),
        ]

    def filled(self, client: str) -> str:
        """Which columns of numbers have gaps at a client, the most first."""
        gaps = [c for c in self.cells if c.client == client and c.missing and c.shares is None]
        gaps.sort(key=lambda cell: -cell.missing)
        return ", ".join(f"{cell.column} {max(cell.missing, 0.01):.0%}" for cell in gaps)


def table_one(request: DataRequest, answers: Mapping[str, DataReply]) -> TableOne:
    """Put together what the clients told."""
    names = list(dict.fromkeys(n for a in answers.values() for n in a.facts["columns"]))
    cells = [cell for name in names for cell in _cells(name, answers)]
    warnings = [*_units(names, cells), *_hints(answers), *_gaps(request, cells), *_small(answers)]
    return TableOne((*cells, *_target_cells(request.target, answers)), tuple(warnings))


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


def _units(names: Sequence[str], cells: Sequence[Cell]) -> Iterator[str]:
    """Numbers whose clients differ by more than they spread, or by a factor as between units."""
    for name in names:
        mine = [cell for cell in cells if cell.column == name and cell.rows >= ENOUGH]
        for cell, other in _strange([cell for cell in mine if cell.mean is not None]):
            mean, usual = cell.mean or 0.0, other.mean or 0.0
            where = f"column {name!r} has mean {mean:.4g} at {cell.client!r} and {usual:.4g}"
            units = _between(cell, other)
            if units:
                what = f"they look like {units}: give it in the same units everywhere"
            elif 0.0 in (mean, usual) and not (cell.deviation and other.deviation):
                what = "0 may stand for a missing value: leave it empty, or --exclude the column"
            else:
                what = "check that it is the same thing in the same units everywhere"
            yield f"{where} at {other.client!r}, farther apart than it spreads: {what}"


def _strange(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Cell]]:
    """Clients that are not like the one that most are like, which is given beside."""
    if len(cells) < 2:
        return
    alike = {one.client: [_alike(one, other) for other in cells] for one in cells}
    usual = max(cells, key=lambda cell: (sum(alike[cell.client]), cell.rows))
    for cell, near in zip(cells, alike[usual.client], strict=True):
        if not near:
            yield cell, usual


def _alike(one: Cell, other: Cell) -> bool:
    """Whether two means differ by no more than the values spread, and by no known factor."""
    spread = max(one.deviation or 0.0, other.deviation or 0.0)
    near = abs((one.mean or 0.0) - (other.mean or 0.0)) <= spread
    return near and not (_factor(one.mean, other.mean) and _same_shape(one, other))


def _same_shape(one: Cell, other: Cell) -> bool:
    """Whether values are as spread for their size, as numbers in two units are."""
    if not one.mean or not other.mean or not one.deviation or not other.deviation:
        return False
    ratio = (one.deviation / one.mean) / (other.deviation / other.mean)
    return abs(ratio - 1.0) <= NEAR


def _between(one: Cell, other: Cell) -> str:
    """Which units two clients seem to have; empty if none."""
    low, high = sorted([one, other], key=lambda cell: cell.mean or 0.0)
    cold, hot = low.mean or 0.0, high.mean or 0.0
    if 30.0 < cold < 45.0 and abs(hot - (32.0 + 1.8 * cold)) <= 2.0:
        return "degrees Celsius and Fahrenheit"
    return _factor(one.mean, other.mean)


def _factor(one: float | None, other: float | None) -> str:
    if not one or not other or one * other < 0.0:
        return ""
    ratio = max(one / other, other / one)
    near = [f for f in UNITS if abs(ratio / f - 1.0) <= NEAR]
    return UNITS[min(near, key=lambda f: abs(ratio / f - 1.0))] if near else ""


def _hints(answers: Mapping[str, DataReply]) -> Iterator[str]:
    """What the clients found suspicious themselves; clients with a guard tell nothing."""
    for client, answer in answers.items():
        told = answer.facts["hints"]
        for name, codes in told["codes"].items():
            for code, count in codes:
                yield (
                    f"column {name!r} is {code:g} in {count} rows of {client!r}, apart from all "
                    "other values: if that means missing, leave it empty there"
                )
        for name, power in told["far"].items():
            yield (
                f"column {name!r} has a value at {client!r} that is 1e{power} times as far from "
                "the middle as is usual there: correct it, or leave the row out"
            )
    ids, perfect = (
        {name: [c for c, a in answers.items() if name in a.facts["hints"][kind]] for name in found}
        for kind, found in (
            (kind, dict.fromkeys(n for a in answers.values() for n in a.facts["hints"][kind]))
            for kind in ("ids", "perfect")
        )
    )
    for name, clients in ids.items():
        if 2 * len(clients) > len(answers):
            yield (
                f"column {name!r} is a whole number that differs in every row: if it is an id, "
                f"leave it out with --exclude {name}"
            )
    for name, clients in perfect.items():
        yield (
            f"column {name!r} alone tells the target without an error at {listed(clients)}: if it "
            f"is a copy or came after it, leave it out with --exclude {name}"
        )


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
