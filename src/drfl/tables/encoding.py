"""How a file becomes rows: its columns as features, and its target as numbers for the solvers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl._registry import listed
from drfl.arrays import Array
from drfl.defaults import FEW_ROWS
from drfl.tables.moments import moments_of
from drfl.tables.reading import SHOWN, TableError, listed_lines, shown
from drfl.tables.table import GAP, Growing, Table, folded
from drfl.tables.table import MISSING as NO_TEXT

OTHER = "other"  # the level of values that are too rare to be named


@dataclass(frozen=True)
class Number:
    """A column of numbers."""

    name: str  # in the files
    # what the number is scaled by
    shift: float = 0.0
    scale: float = 1.0
    fill: float | None = None  # what a missing value stands for; None: it is an error
    indicator: bool = False  # whether a second feature says where a value is missing

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features.

        Examples
        --------
        >>> Number("ca", fill=0.7, indicator=True).features
        ('ca', 'ca=missing')
        """
        return (self.name, f"{self.name}={GAP}") if self.indicator else (self.name,)

    @property
    def knows_gaps(self) -> bool:
        """Whether something stands in for a missing value."""
        return self.fill is not None


@dataclass(frozen=True)
class Category:
    """A column of text."""

    name: str  # in the files
    reference: str  # the value that is 0 in all features
    levels: tuple[str, ...]  # the values with a feature of their own
    other: bool = False  # whether values that are none of these count as the last level, `OTHER`
    # the shares of the levels in the training. Without a level `OTHER` a value that is none of
    # these counts as the mean over all of them, which has these numbers as features, and is
    # neither the reference nor another level. Empty: nobody knows, and it is refused
    shares: tuple[float, ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features.

        Examples
        --------
        >>> Category("sex", "m", ("f",)).features
        ('sex=f',)
        """
        return tuple(f"{self.name}={level}" for level in self.levels)

    @property
    def knows_others(self) -> bool:
        """Whether a value that is none of the levels has a meaning."""
        return self.other or bool(self.shares)

    @property
    def knows_gaps(self) -> bool:
        """Whether a missing value is a level of its own."""
        return GAP in (self.reference, *self.levels)


Column = Number | Category


def units_of(columns: Iterable[Column]) -> list[tuple[float, float, bool]]:
    """Shift and scale of every feature, and whether it is a number that was measured."""
    found = []
    for column in columns:
        marks = [(0.0, 1.0, False)] * len(column.features)
        if isinstance(column, Number):
            marks[0] = (column.shift, column.scale, True)
        found += marks
    return found


def feature_names(columns: Iterable[Column]) -> list[str]:
    """The features of all columns, in order."""
    return [feature for column in columns for feature in column.features]


MISSING = ("error", "drop", "mean", "indicator")
"""What may be done about missing values; the last two put something in their place."""
FILLED = ("mean", "indicator")


SCALES = ("federated", "per-client", "none")
Label = str | int | float


@dataclass(frozen=True)
class Target:
    """What is predicted."""

    name: str  # the column
    classes: tuple[Label, ...] | None = None  # the classes in their order; None: a number
    # A number is predicted as ``shift + scale * score``
    shift: float = 0.0
    scale: float = 1.0

    @property
    def task(self) -> str:
        """The task of the losses that fit."""
        return "regression" if self.classes is None else "classification"


@dataclass(frozen=True, eq=False)
class Encoding:
    """How every file becomes rows: the target, the columns, and how scales and gaps are treated."""

    target: Target
    columns: tuple[Column, ...]
    scale: str
    missing: str

    @property
    def features(self) -> list[str]:
        """The names of the features."""
        return feature_names(self.columns)

    def scaling(self, X: Any) -> tuple[Array, Array]:
        """Shift and scale of every feature, for the rows of one client in the units of its file.

        With ``scale = "per-client"`` they are mean and deviation of X itself, gaps being filled.
        """
        columns = units_of(self.columns)
        shift, scale, measured = (np.array(part) for part in zip(*columns, strict=True))
        if self.scale != "per-client":
            return shift, scale
        moments = moments_of(X, None)
        deviation = np.where(moments.deviation > 0.0, moments.deviation, 1.0)
        return np.where(measured, moments.mean, shift), np.where(measured, deviation, scale)


def target_values(table: Table, target: Target, keep: NDArray[np.bool_] | None = None) -> Array:
    """Positions of classes (NaN for others), or scaled targets (N,)."""
    if target.classes is None:
        y = (table.number(target.name) - target.shift) / target.scale
    elif table.is_text(target.name):
        known = {str(label): float(k) for k, label in enumerate(target.classes)}
        alike = {folded(label): k for label, k in known.items()}
        values = [
            known.get(level, alike.get(folded(level), np.nan))
            for level in table.levels[target.name]
        ]
        y = np.array([*values, np.nan])[table.text(target.name)]
    else:
        labels = np.array([_as_number(label) for label in target.classes])
        numbers = table.number(target.name)
        places = np.searchsorted(labels, numbers).clip(0, len(labels) - 1)
        y = np.where(labels[places] == numbers, places, np.nan)
    return np.asarray(y if keep is None else y[keep], dtype=np.float64)


def _as_number(label: Label) -> float:
    """A label as the number that it would be in a file; NaN if it is none."""
    try:
        return float(label)
    except ValueError:
        return np.nan


def few_values(y: Array, most: int) -> list[list[float]] | None:
    """Different values with their counts; None if there are more than so many."""
    found: dict[float, int] = {}
    for start in range(0, len(y), 1_000_000):
        values, counts = np.unique(y[start : start + 1_000_000], return_counts=True)
        for value, count in zip(values[: most + 1].tolist(), counts.tolist(), strict=False):
            found[value] = found.get(value, 0) + count
        if len(found) > most:
            return None
    return [[value, found[value]] for value in sorted(found)]


# ---------------------------------------------------------------------- from a table to features
BLOCK = 500_000  # numbers that are encoded together
STRANGE = -2  # the place of a text that a column does not know

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Withheld:
    """What of a client's table is told to nobody, by column."""

    # values that count as `OTHER`
    rare: Mapping[str, Collection[str]] = field(default_factory=dict)
    # columns of numbers whose gaps are too few to be told of: they hold this, unmarked
    own_fill: Mapping[str, float] = field(default_factory=dict)
    # columns of numbers with too few values to be told of: all are gaps
    blank: Collection[str] = ()


def encoded(
    table: Table,
    columns: Sequence[Column],
    keep: Mask | None = None,
    withheld: Withheld = Withheld(),  # noqa: B008  (frozen)
) -> Any:
    """The features of the rows, (N, n): an array, memory-mapped if it is large, or CSR.

    The table may have other columns besides; ``keep`` (N,) are the rows that are wanted.
    """
    require_columns(table, columns)
    if table.sparse:
        matrix = _sparse(table, columns)
        return matrix if keep is None else matrix[np.flatnonzero(keep)]
    _refuse_strange(table, columns, keep)
    parts = [_ColumnEncoder(table, column, withheld) for column in columns]
    out = Growing(np.float64, len(feature_names(columns)))
    step = max(1, BLOCK // max(1, len(parts)))
    for start in range(0, table.n_rows, step):
        block = slice(start, min(start + step, table.n_rows))
        wanted = None if keep is None else keep[block]
        rows = np.concatenate([part.features(block) for part in parts], axis=1)
        out.append(rows if wanted is None else rows[wanted])
    return out.finish()


def missing_rows(table: Table, columns: Sequence[Column]) -> Mask:
    """Which rows (N,) lack a value that nothing stands in for."""
    missing = np.zeros(table.n_rows, dtype=bool)
    if not table.sparse:
        for column in columns:
            if not column.knows_gaps:
                missing |= table.missing(column.name)
    return missing


def strange_rows(table: Table, columns: Sequence[Column]) -> Mask:
    """Which rows (N,) hold a text that a column does not know, and that has no meaning there."""
    strange = np.zeros(table.n_rows, dtype=bool)
    for column in columns:
        if not isinstance(column, Number) and not column.knows_others:
            strange |= _places(table, column, ())[table.text(column.name)] == STRANGE
    return strange


def _refuse_strange(table: Table, columns: Sequence[Column], keep: Mask | None) -> None:
    for column in columns:
        strange = strange_rows(table, [column])
        strange &= True if keep is None else keep
        if isinstance(column, Number) or not strange.any():
            continue
        row = int(np.argmax(strange))
        value = table.levels[column.name][table.text(column.name)[row]]
        known = ", ".join(shown(level) for level in (column.reference, *column.levels))
        raise TableError(
            f"{table.path}, line {table.lines([row])[0]}: column {column.name!r} holds "
            f"{shown(value)}, but the model knows {known}: correct it, or train with it"
        )


def refuse_missing(table: Table, name: str, advice: str) -> None:
    """Raise if a column has missing values, with their lines."""
    rows = np.flatnonzero(table.missing(name))
    if len(rows):
        lines = table.lines(rows[:SHOWN].tolist())
        raise TableError(
            f"{table.path}: column {name!r} has no value in {listed_lines(lines, len(rows))}: "
            f"{advice}"
        )


def holds_other(
    table: Table, column: Category, keep: Mask | None = None, rare: Collection[str] = ()
) -> bool:
    """Whether a row that is wanted is in the last level, `OTHER`; see `Withheld` for ``rare``."""
    codes = table.text(column.name)
    used = codes if keep is None else codes[keep]
    return bool((_places(table, column, rare)[used] == len(column.levels) - 1).any())


def unseen(table: Table, columns: Sequence[Column]) -> dict[str, int]:
    """How many rows hold a value that a column of categories takes for `OTHER`, by column."""
    found: dict[str, int] = {}
    for column in columns:
        if isinstance(column, Number) or not column.knows_others:
            continue
        known = {folded(level) for level in (column.reference, *column.levels)}
        strange = [folded(value) not in known for value in table.levels[column.name]]
        counts = np.append(strange, False)[table.text(column.name)]
        found |= {column.name: int(counts.sum())} if counts.any() else {}
    return found


def unseen_sentences(counts: Mapping[str, int], columns: Sequence[Column]) -> list[str]:
    """What is to be said of such rows; a count of 0 is one that is too small to be told."""
    mean = {c.name: not c.other for c in columns if isinstance(c, Category)}
    return [
        f"{count or f'fewer than {FEW_ROWS}'} row{'s hold' if count != 1 else ' holds'} a value of "
        f"{name!r} that was not trained: it is {OTHER!r}"
        + (", here the mean over the values that were trained" if mean[name] else "")
        for name, count in counts.items()
    ]


def require_columns(table: Table, columns: Sequence[Column]) -> None:
    """Raise if the table lacks a column, or has text where numbers are due."""
    lacking = [column.name for column in columns if column.name not in table.columns]
    if lacking and not table.sparse:  # entries that a sparse file does not mention are 0
        word = "column" if len(lacking) == 1 else "columns"
        raise TableError(
            f"{table.path} has no {word} {listed(lacking)}, which the model needs: add "
            f"{'it' if len(lacking) == 1 else 'them'}"
        )
    for column in columns:
        if column.name in lacking:
            continue
        if isinstance(column, Number) and table.is_text(column.name):
            line, value = table.not_numbers.get(column.name, (0, ""))
            where = f" ({shown(value)} in line {line})" if line else ""
            raise TableError(
                f"{table.path}: column {column.name!r} must hold numbers, but has text{where}: "
                "correct it"
            )


class _ColumnEncoder:
    """One column, from a block of rows to features."""

    def __init__(self, table: Table, column: Column, withheld: Withheld) -> None:
        self.table, name = table, column.name
        if isinstance(column, Number):
            self.at = table.number_names.index(name)
            self.column: Column = replace(column, fill=withheld.own_fill.get(name, column.fill))
            self.blank = name in withheld.blank
            self.marked = name not in withheld.own_fill
        else:
            self.at = list(table.levels).index(name)
            self.column = column
            places = _places(table, column, withheld.rare.get(name, ()))
            self.rows = np.asarray(places[:, None] == np.arange(len(column.levels)), np.float64)
            if column.shares:
                self.rows[places == STRANGE] = column.shares

    def features(self, block: slice) -> Array:
        if isinstance(self.column, Number):
            values = np.array(self.table.numbers[block, self.at], dtype=np.float64)
            gaps = np.isnan(values) | self.blank
            if self.column.fill is not None:
                values[gaps] = self.column.fill
            marks = [gaps * float(self.marked)] if self.column.indicator else []
            return np.column_stack([values, *marks])
        return np.asarray(self.rows[self.table.codes[block, self.at]])


def _places(table: Table, column: Category, rare: Collection[str]) -> NDArray[np.intp]:
    """From codes to positions among the levels; -1 is the reference, `STRANGE` none of them."""
    place = {level: k for k, level in enumerate(column.levels)} | {column.reference: -1}
    # What differs in case and blanks alone is the same: two such levels are never agreed upon.
    alike = {folded(level): k for level, k in place.items() if level != OTHER}
    values = table.levels[column.name]
    places = np.full(len(values) + 1, -1, dtype=np.intp)  # the last is for NO_TEXT, -1
    for code, value in enumerate(values):
        if value in rare and column.other:
            places[code] = place[OTHER]
        elif value in place:
            places[code] = place[value]
        elif folded(value) in alike:
            places[code] = alike[folded(value)]
        else:
            places[code] = place[OTHER] if column.other else STRANGE
    places[NO_TEXT] = place.get(GAP, -1)
    return places


def _sparse(table: Table, columns: Sequence[Column]) -> Any:
    from scipy import sparse

    names = [column.name for column in columns]
    if list(table.number_names) == names[: len(table.number_names)]:
        csr = table.numbers  # perhaps of fewer columns than the model has: the others are 0
        parts = (csr.data, csr.indices, csr.indptr)
        return sparse.csr_array(parts, shape=(table.n_rows, len(names)))
    places = {name: k for k, name in enumerate(table.number_names)}
    known = [name for name in names if name in places]
    picked = sparse.csc_array(table.numbers)[:, [places[name] for name in known]]
    width = sparse.csr_array(
        (np.ones(len(known)), (list(range(len(known))), [names.index(n) for n in known])),
        shape=(len(known), len(names)),
    )
    return sparse.csr_array(picked @ width)
