"""Table 1: one column at one client, and all of them for a reader."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

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
    """What the clients' columns look like.

    Attributes
    ----------
    cells : tuple of Cell
        By column, then by client; the target last.
    warnings : tuple of str
        What looks wrong, each with what to do.
    left_out : frozenset of str
        Columns that no model has, by a rule; nothing is filled in them.
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
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = ["Table 1: mean (standard deviation) of numbers, shares of categories"]
        for row in rows:
            cells = [f"{text:{width}}" for text, width in zip(row, widths, strict=True)]
            lines.append(("  " + "  ".join(cells)).rstrip())
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
