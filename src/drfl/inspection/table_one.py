"""Table 1: one column at one client, all of them for a reader, and what looks wrong in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl._registry import listed
from drfl.aligned import aligned
from drfl.defaults import FEW_ROWS
from drfl.tables.moments import Moments

SHOWN = 20  # columns that are printed


@dataclass(frozen=True)
class Cell:
    """One column at one client: a number's moments, or the shares of its categories."""

    client: str
    column: str
    rows: int  # how many rows have a value
    missing: float  # the share of the rows without one, of those that are used
    # of numbers
    mean: float | None = None
    deviation: float | None = None
    shares: dict[str, float] | None = None  # of categories, those that are named

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
    """What the clients' columns look like: by column, then by client, the target last.

    Warnings say what looks wrong, and what to do. ``left_out`` are columns that no model has, by a
    rule; nothing is filled in them.
    """

    cells: tuple[Cell, ...]
    warnings: tuple[str, ...]
    left_out: frozenset[str] = frozenset()

    def facts(self) -> list[dict[str, Any]]:
        """For the records."""
        return [asdict(cell) for cell in self.cells]

    def lines(self) -> list[str]:
        """For a reader: the table, and where gaps were filled."""
        clients = dict.fromkeys(cell.client for cell in self.cells)
        filled = {client: self.filled(client) for client in clients}
        return [*self._table(), *(f"filled at {c}: {text}" for c, text in filled.items() if text)]

    def _table(self) -> list[str]:
        """A line for every column, a column for every client."""
        clients = list(dict.fromkeys(cell.client for cell in self.cells))
        columns = list(dict.fromkeys(cell.column for cell in self.cells))
        shown = columns if len(columns) <= SHOWN + 1 else [*columns[:SHOWN], columns[-1]]
        known = {(cell.column, cell.client): str(cell) for cell in self.cells}
        rows = [["", *clients]]
        rows += [[name, *(known.get((name, c), "-") for c in clients)] for name in shown]
        lines = ["Table 1: mean (standard deviation) of numbers, shares of categories"]
        lines += [f"  {line}".rstrip() for line in aligned(rows, texts=range(len(rows[0])))]
        more = len(columns) - len(shown)
        return [*lines, f"  and {more} more columns"] if more else lines

    def __str__(self) -> str:
        return "\n".join([*self._table(), *(f"warning: {text}" for text in self.warnings)])

    def filled(self, client: str) -> str:
        """Which columns of numbers have gaps at a client, the most first."""
        gaps = [c for c in self.cells if c.client == client and c.missing and c.shares is None]
        gaps = [c for c in gaps if c.column not in self.left_out]
        gaps.sort(key=lambda cell: -cell.missing)
        return ", ".join(f"{cell.column} {max(cell.missing, 0.01):.0%}" for cell in gaps)


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
NEAR = 0.12  # a ratio this near to a factor, relatively, looks like it
SMALLEST = (1.0 - NEAR) * min(UNITS)  # no smaller ratio looks like a factor
SURE = 5.0  # standard errors beyond which means differ surely, also where columns are many
ENOUGH = 20  # the mean of fewer values says little
MOST = 50  # of more clients those with the most rows are compared


@dataclass(frozen=True)
class Words:
    """What to do, in the language of the program or of Python.

    How ``{name}`` is left out, and what a value that means "missing" should be.
    """

    exclude: str
    gap: str


PROGRAM = Words("leave it out with --exclude {name}", "leave it empty there")
PYTHON = Words("leave it out", "make it NaN, and fill it or leave the row out")


def units(cells: Iterable[Cell]) -> Iterator[str]:
    """Numbers whose clients differ by more than they spread, or by a factor as between units."""
    columns: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.mean is not None and cell.rows >= ENOUGH:
            columns.setdefault(cell.column, []).append(cell)
    for name, mine in columns.items():
        mine.sort(key=lambda cell: -cell.rows)
        centred = _centred(mine)
        for cell, other in _strange(mine[:MOST]):
            mean, usual = cell.mean or 0.0, other.mean or 0.0
            where = f"column {name!r} has mean {mean:.4g} at {cell.client!r} and {usual:.4g}"
            known = "" if centred else _between(cell, other)
            if known:
                what = f"they look like {known}: give it in the same units everywhere"
            elif 0.0 in (mean, usual) and not (cell.deviation and other.deviation):
                what = "0 may stand for a missing value: leave it empty, or the column out"
            else:
                what = "check that it is the same thing in the same units everywhere"
            yield f"{where} at {other.client!r}, farther apart than it spreads: {what}"


def _centred(cells: Sequence[Cell]) -> bool:
    """Whether the mean over all clients is 0: such numbers were scaled, and have no units."""
    total = sum(cell.rows * (cell.mean or 0.0) for cell in cells)
    size = sum(cell.rows * (abs(cell.mean or 0.0) + (cell.deviation or 0.0)) for cell in cells)
    return abs(total) <= 1e-6 * size


def _strange(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Cell]]:
    """Clients that are not like the one that most are like, which is given beside."""
    if len(cells) < 2 or all(_alike(cells[0], cell) for cell in cells):
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
    scaled = _factor(one.mean, other.mean) and _same_shape(one, other) and _surely(one, other)
    return near and not scaled


def _surely(one: Cell, other: Cell) -> bool:
    """Whether two means differ by more than chance makes them."""
    error = math.hypot(*((c.deviation or 0.0) / math.sqrt(c.rows) for c in (one, other)))
    return abs((one.mean or 0.0) - (other.mean or 0.0)) > SURE * error


def unlike(clients: Sequence[Moments]) -> NDArray[np.bool_]:
    """Columns (n,) of which `units` may tell: some client is unlike the one with the most rows."""
    told = [client for client in clients if client.count.max(initial=0.0) >= ENOUGH]
    if len(told) < 2:
        return np.zeros(len(clients[0].count), dtype=bool)
    usual = max(told, key=lambda client: float(client.count.max()))
    found = np.zeros(len(usual.count), dtype=bool)
    with np.errstate(divide="ignore", invalid="ignore"):
        for one in told:
            apart = np.abs(one.mean - usual.mean) > np.maximum(one.deviation, usual.deviation)
            factor = one.mean / usual.mean
            shape = np.abs(one.deviation / usual.deviation / factor - 1.0) <= NEAR
            error = np.hypot(*(m.deviation / np.sqrt(m.count) for m in (one, usual)))
            sure = np.abs(one.mean - usual.mean) > SURE * error
            found |= apart | (shape & sure & (np.maximum(factor, 1.0 / factor) >= SMALLEST))
    return found


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


def hinted(told: Mapping[str, Mapping[str, Any]], words: Words) -> Iterator[str]:
    """What was found suspicious in the rows of every client, see `drfl.inspection.suspicion`.

    A client without a name stands for all rows.
    """
    for client, hints in told.items():
        of, at = (f" of {client!r}", f" at {client!r}") if client else ("", "")
        for name, codes in hints["codes"].items():
            for code, count in codes:
                rows = f"{count} rows" if count else f"fewer than {FEW_ROWS} rows"
                yield (
                    f"column {name!r} is {code:g} in {rows}{of}, apart from all other values: if "
                    f"that means missing, {words.gap}"
                )
        for name, power in hints["far"].items():
            yield (
                f"column {name!r} has a value{at} that is 1e{power} times as far from the middle "
                "as is usual there: correct it, or leave the row out"
            )
    for name, clients in _named_in(told, "ids").items():
        if 2 * len(clients) > len(told):
            yield (
                f"column {name!r} is a whole number that differs in every row: if it is an id, "
                f"{words.exclude.format(name=name)}"
            )
    for name, clients in _named_in(told, "perfect").items():
        where = f" at {listed(clients)}" if any(clients) else ""
        yield (
            f"column {name!r} alone tells the target without an error{where}: if it is a copy or "
            f"came after it, {words.exclude.format(name=name)}"
        )


def _named_in(told: Mapping[str, Mapping[str, Any]], kind: str) -> dict[Any, list[str]]:
    """Which clients name a column, by column."""
    found: dict[Any, list[str]] = {}
    for client, hints in told.items():
        for name in hints[kind]:
            found.setdefault(name, []).append(client)
    return found
