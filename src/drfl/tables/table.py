"""A table: numbers, and codes of text, from a file or from columns in memory."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from drfl._registry import nearest
from drfl.arrays import Array
from drfl.tables.reading import LEVELS, MISSING_TEXTS, TableError

GAP = "missing"  # the level of rows without a value, where these count as a category of their own
IN_MEMORY = 64_000_000  # bytes of an array up to which it is kept in memory


class Growing:
    """An array (N, width), or (N,) if the width is None, whose N becomes known at its end."""

    def __init__(self, dtype: DTypeLike, width: int | None = None) -> None:
        self.dtype, self.width = np.dtype(dtype), width
        self._blocks: list[NDArray[Any]] = []
        self._bytes = 0
        self._file: BinaryIO | None = None

    def append(self, block: NDArray[Any]) -> None:
        """Add rows."""
        block = np.ascontiguousarray(block, dtype=self.dtype)
        self._bytes += block.nbytes
        if self._file is None and self._bytes > IN_MEMORY:
            # It has no name, so that nothing is left behind, however the process ends.
            self._file = tempfile.TemporaryFile(prefix="drfl-")  # noqa: SIM115
            for early in self._blocks:
                early.tofile(self._file)
            self._blocks.clear()
        if self._file is None:
            self._blocks.append(block)
        else:
            block.tofile(self._file)

    def finish(self) -> NDArray[Any]:
        """The whole array; nothing may be added afterwards."""
        shape = (-1,) if self.width is None else (-1, self.width)
        if self.width == 0:
            return np.zeros((sum(len(block) for block in self._blocks), 0), dtype=self.dtype)
        if self._file is not None:
            self._file.flush()
            numbers = mapped(self._file, self.dtype).reshape(shape)
            self._file.close()  # the map keeps what it needs
            return numbers
        if not self._blocks:
            return np.zeros((0, *shape[1:]), dtype=self.dtype)
        return np.concatenate(self._blocks).reshape(shape)


def mapped(file: BinaryIO, dtype: DTypeLike) -> NDArray[Any]:
    """The numbers in a file, read when they are used."""
    numbers = np.memmap(file, dtype=dtype, mode="r")
    if hasattr(mmap, "MADV_SEQUENTIAL"):  # rows are read in order: the system may read ahead more
        pages: mmap.mmap = getattr(numbers, "_mmap")  # noqa: B009  (NumPy does not declare it)
        pages.madvise(mmap.MADV_SEQUENTIAL)
    return numbers


Codes = NDArray[np.int32]

MISSING = -1  # the code of a missing text; a missing number is NaN


def coded(known: dict[str, int], texts: Sequence[str]) -> list[int]:
    """Positions of texts among those known; new ones are added as long as it makes sense."""
    codes = []
    for text in texts:
        text = text.strip()
        code = MISSING if text in MISSING_TEXTS else known.get(text, len(known))
        # One more than allowed is enough to know that there are too many.
        if code == len(known) and len(known) <= LEVELS:
            known[text] = code
        codes.append(min(code, LEVELS))
    return codes


def folded(label: str) -> str:
    """A label without what does not matter in it.

    Examples
    --------
    >>> folded("  Not  Known ")
    'not known'
    """
    return " ".join(label.casefold().split())


def plain_whole(text: str) -> str:
    """A whole number without decimals, as files without gaps have it; other texts as they are.

    Examples
    --------
    >>> plain_whole("2.0"), plain_whole("2.5"), plain_whole("02")
    ('2', '2.5', '02')
    """
    whole, point, decimals = text.partition(".")
    digits = whole.lstrip("-").isdigit() and decimals.strip("0") == ""
    return whole if point and digits else text


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of a file, in memory or in a temporary file that is mapped into it."""

    path: Path  # where it was read from
    columns: tuple[str, ...]  # all of them, in the order of the file
    n_rows: int  # how many rows there are
    numbers: Any  # (N, k), or a CSR array: the columns of numbers
    number_names: tuple[str, ...]  # their names
    codes: Codes  # (N, m): the columns of text: positions in ``levels``
    # the different values of every column of text, in the order in which they occur
    levels: dict[str, list[str]]
    # line and value by which a column of text was told from one of numbers
    not_numbers: dict[str, tuple[int, str]]
    # from positions of rows to their lines in the file; slow, for error messages
    lines: Callable[[Sequence[int]], list[int]] = field(repr=False)
    label: Array | None = None  # (N,): the labels of a file that keeps them apart (LIBSVM)
    # the names of all columns of the file, also of those that were not read
    header: tuple[str, ...] = ()
    origin: NDArray[np.bool_] | None = None  # which rows of the file these are; None: all

    @property
    def sparse(self) -> bool:
        """Whether the numbers are a CSR array."""
        return not isinstance(self.numbers, np.ndarray)

    def is_text(self, name: str) -> bool:
        """Whether a column holds text."""
        return name in self.levels

    def number(self, name: str) -> Array:
        """A column of numbers (N,)."""
        if self.label is not None and name == self.columns[0]:
            return self.label
        column = self.numbers[:, self.number_names.index(name)]
        return np.asarray(column.toarray().ravel() if self.sparse else column)

    def text(self, name: str) -> Codes:
        """The codes of a column of text (N,)."""
        return np.asarray(self.codes[:, list(self.levels).index(name)])

    def values(self, name: str) -> NDArray[Any]:
        """A column of numbers, or the codes of one of text (N,)."""
        return self.text(name) if self.is_text(name) else self.number(name)

    def missing(self, name: str) -> NDArray[np.bool_]:
        """Where a column has no value (N,)."""
        if self.is_text(name):
            return np.asarray(self.text(name) == MISSING)
        return np.isnan(self.number(name))

    def merged_labels(self) -> Table:
        """The same with texts that differ in case and blanks alone made one, in lower case."""
        return self._respelt(folded)

    def with_plain_wholes(self) -> Table:
        """The same with 2.0 as 2 in columns of text: a gap in a file makes its numbers decimal."""
        changed = any(plain_whole(v) != v for values in self.levels.values() for v in values)
        return self._respelt(plain_whole) if changed else self

    def _respelt(self, spelling: Callable[[str], str]) -> Table:
        """The same with other texts, and those that are then equal made one."""
        levels, codes = {}, np.array(self.codes)
        for k, (name, values) in enumerate(self.levels.items()):
            known: dict[str, int] = {}
            new = [known.setdefault(spelling(value), len(known)) for value in values]
            places = np.array([*new, MISSING])
            codes[:, k] = places[self.codes[:, k]]
            levels[name] = list(known)
        return replace(self, codes=codes, levels=levels)

    def with_gap_level(self, names: Collection[str]) -> Table:
        """The same with missing texts as the level `GAP`, in these columns."""
        levels, codes = dict(self.levels), np.array(self.codes)
        for k, (name, values) in enumerate(self.levels.items()):
            gaps = codes[:, k] == MISSING
            if name in names and gaps.any():
                levels[name] = values if GAP in values else [*values, GAP]
                codes[gaps, k] = levels[name].index(GAP)
        return replace(self, codes=codes, levels=levels)

    def only(self, these: NDArray[np.bool_]) -> Table:
        """Some of the rows, with the texts that occur in them."""
        places, levels = np.flatnonzero(these), {}
        if not len(places):
            raise TableError(f"{self.path} has no rows of this client")
        codes = np.array(self.codes[places])
        for k, (name, values) in enumerate(self.levels.items()):
            held = np.unique(codes[codes[:, k] >= 0, k])
            new = np.full(len(values) + 1, MISSING, dtype=codes.dtype)
            new[held] = np.arange(len(held))
            codes[:, k] = new[codes[:, k]]
            levels[name] = [values[code] for code in held]
        return replace(
            self,
            n_rows=len(places),
            numbers=self.numbers[places],
            codes=codes,
            levels=levels,
            label=None if self.label is None else self.label[places],
            lines=lambda rows: self.lines([int(places[row]) for row in rows]),
            origin=these,
        )

    def renamed(self, names: Mapping[str, str]) -> Table:
        """The same with other names: from new ones to those of the file."""
        if not names:
            return self
        for name in names.values():
            if name not in self.columns:
                near = nearest(name, self.header or self.columns)
                hint = f"did you mean {near!r}?" if near else "correct the names of columns"
                raise TableError(f"{self.path} has no column {name!r} to rename: {hint}")
        new = {old: name for name, old in names.items()}
        columns = tuple(new.get(name, name) for name in self.columns)
        twice = [name for k, name in enumerate(columns) if name in columns[:k]]
        if twice:
            raise TableError(f"{self.path} would have two columns {twice[0]!r}: rename one of them")
        return replace(
            self,
            columns=columns,
            header=tuple(new.get(name, name) for name in self.header),
            number_names=tuple(new.get(name, name) for name in self.number_names),
            levels={new.get(name, name): levels for name, levels in self.levels.items()},
            not_numbers={new.get(name, name): why for name, why in self.not_numbers.items()},
        )


HERE = Path("X")


def table_of(columns: Mapping[str, Any], texts: Collection[str]) -> Table:
    """The table of columns (N,) by name, some of them of text; None and NaN are gaps."""
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise ValueError("the columns have different lengths")
    n_rows = lengths.pop()
    numbers = {n: _as_numbers(n, values) for n, values in columns.items() if n not in texts}
    coded = {n: _coded(values) for n, values in columns.items() if n in texts}
    codes = [codes for codes, _ in coded.values()]
    return Table(
        path=HERE,
        columns=tuple(columns),
        n_rows=n_rows,
        numbers=np.column_stack(list(numbers.values())) if numbers else np.zeros((n_rows, 0)),
        number_names=tuple(numbers),
        codes=np.column_stack(codes) if codes else np.zeros((n_rows, 0), dtype=np.int32),
        levels={name: levels for name, (_, levels) in coded.items()},
        not_numbers={},
        lines=lambda rows: list(rows),
    )


def _as_numbers(name: str, values: Any) -> Array:
    try:
        numbers = np.array(
            [np.nan if value is None else value for value in values.tolist()], dtype=np.float64
        )
    except (TypeError, ValueError):
        raise TableError(f"column {name!r} of X must hold numbers") from None
    if np.isinf(numbers).any():
        raise TableError(f"column {name!r} of X has infinite numbers")
    return numbers


def _coded(values: Any) -> tuple[Any, list[str]]:
    known: dict[str, int] = {}
    codes = [
        MISSING if value is None or value != value else known.setdefault(as_text(value), len(known))
        for value in values.tolist()
    ]
    return np.array(codes, dtype=np.int32), list(known)


def as_text(value: Any) -> str:
    """As the value would stand in a file: whole numbers without a point."""
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole else plain_whole(str(value).strip())
