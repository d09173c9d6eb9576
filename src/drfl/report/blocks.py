"""What a page consists of: sections that answer a question with texts, numbers, tables, charts.

Blocks are plain data; `drfl.report.page` writes them as HTML, and ``assets/charts.js`` draws those
that are charts. Each has a limit, so that no run makes a page of more than a megabyte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from drfl.report.evidence import thinned
from drfl.report.figures import plain

MOST_ROWS, MOST_COLUMNS = 60, 14
MOST_SERIES, MOST_POINTS, MOST_MARKS, MOST_WORDS = 8, 200, 30, 10


@dataclass(frozen=True)
class Text:
    """A paragraph; ``tone`` may be "note" for what qualifies a number."""

    text: str
    tone: str = ""


@dataclass(frozen=True)
class FactsBlock:
    """A few numbers, large."""

    items: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class TableBlock:
    """A table; the first ``texts`` columns are text, the others numbers."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: int = 1
    folded: bool = False

    @property
    def shown(self) -> Sequence[Sequence[str]]:
        """The rows within the limit."""
        return [row[:MOST_COLUMNS] for row in self.rows[:MOST_ROWS]]

    @property
    def left_out(self) -> str:
        """What the limit has cost, in words; empty if nothing."""
        rows, columns = len(self.rows) - MOST_ROWS, len(self.head) - MOST_COLUMNS
        parts = [f"{rows} more rows"] * (rows > 0) + [f"{columns} more columns"] * (columns > 0)
        return " and ".join(parts) + " are not shown" if parts else ""


@dataclass(frozen=True)
class Series:
    """A line of a chart."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


@dataclass(frozen=True)
class Lines:
    """Lines over a common axis; ``labels`` name the positions 0, 1, ... of x.

    ``band`` has places, lower and upper ends of an area behind the lines; ``bars`` from where to
    where how much there is, drawn at the bottom.
    """

    kind: ClassVar[str] = "lines"
    title: str
    x: str
    y: str
    series: Sequence[Series]
    log: bool = False
    labels: Sequence[str] = ()
    note: str = ""
    band: Sequence[tuple[float, float, float]] = ()
    bars: Sequence[tuple[float, float, float]] = ()

    def data(self) -> dict[str, Any]:
        """For the script."""
        kept = [
            {**asdict(series), "points": [list(point) for point in series.points[:MOST_POINTS]]}
            for series in self.series[:MOST_SERIES]
        ]
        return {"kind": self.kind, **_without(asdict(self), "note"), "series": kept}


@dataclass(frozen=True)
class Mark:
    """A row of a chart: a value, perhaps with an interval and further dots with names."""

    label: str
    value: float
    shown: str
    low: float | None = None
    high: float | None = None
    dots: Sequence[tuple[float, str]] = ()


@dataclass(frozen=True)
class Marks:
    """Rows of bars from zero, or of points (a forest plot)."""

    kind: ClassVar[str] = "marks"
    title: str
    unit: str
    rows: Sequence[Mark]
    bars: bool = False
    zero: bool = True
    note: str = ""

    def data(self) -> dict[str, Any]:
        """For the script."""
        rows = [asdict(row) for row in self.rows[:MOST_MARKS]]
        for row in rows:
            # All of them are drawn, but so many cannot be read in words.
            row["dots"] = [
                [value, text if k < MOST_WORDS else ""]
                for k, (value, text) in enumerate(row["dots"][:MOST_POINTS])
            ]
        return {"kind": self.kind, **_without(asdict(self), "note"), "rows": rows}


Chart = Lines | Marks


def numbers_of(chart: Chart) -> TableBlock:
    """What a chart shows, as a table: for readers without a script."""
    if isinstance(chart, Marks):
        rows = [[mark.label, mark.shown] for mark in chart.rows[:MOST_MARKS]]
        return TableBlock(chart.title, ["", chart.unit], rows)
    series = [dict(line.points[:MOST_POINTS]) for line in chart.series[:MOST_SERIES]]
    places = sorted({x for line in series for x in line})
    ends = {x: f"{plain(low, 4)} to {plain(high, 4)}" for x, low, high in chart.band}
    rows = [
        [
            _place(chart, x),
            *(plain(line.get(x), 4) for line in series),
            *([ends.get(x, "")] if ends else []),
        ]
        for x in thinned(places, MOST_MARKS)
    ]
    head = [chart.x, *(line.name for line in chart.series[:MOST_SERIES])]
    return TableBlock(chart.title, [*head, "95 % band"] if ends else head, rows)


def _place(chart: Lines, x: float) -> str:
    return chart.labels[int(x)] if 0 <= x < len(chart.labels) else plain(x)


Block = Text | FactsBlock | TableBlock | Chart


@dataclass(frozen=True)
class Section:
    """A question, its answer in a sentence, and what the answer rests on."""

    id: str
    question: str
    answer: str
    blocks: Sequence[Block] = field(default_factory=list)


def _without(data: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in keys}
