"""CSV files, read in blocks of lines: numbers fast, everything else by the csv module."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from drfl.arrays import Array
from drfl.tables.errors import TableError, at_line, shown
from drfl.tables.formats.lines import Cells, blocks, lines_of, read_head
from drfl.tables.reading import LARGEST, LEVELS, MISSING_TEXTS, Reading
from drfl.tables.storage import Growing
from drfl.tables.table import MISSING, Table


class _NotNumbersError(Exception):
    """A column turns out to hold text: reading starts again with that knowledge."""

    def __init__(self, column: int, line: int, value: str) -> None:
        super().__init__(column)
        self.column, self.line, self.value = column, line, value


def read_delimited(path: Path, reading: Reading) -> Table:
    """Read a CSV file with a line of names; a ``.tsv`` file has tabs.

    The separator of other files is the one of comma, semicolon and tab that the first line has
    most of.
    """
    names, separator = read_head(path)
    _check_names(path, names)
    text = {k for k, name in enumerate(names) if name in reading.text}
    told: dict[str, tuple[int, str]] = {}
    while True:
        builder = _Builder(path, names, reading, text, told)
        try:
            for line, cells in blocks(path, separator, len(names), builder.only_numbers):
                builder.add(line, cells)
            return builder.table(separator)
        except _NotNumbersError as found:
            text.add(found.column)
            told[names[found.column]] = (found.line, found.value)


class _Builder:
    """Takes blocks of cells and grows the arrays of a table."""

    def __init__(
        self,
        path: Path,
        names: list[str],
        reading: Reading,
        text: set[int],
        told: dict[str, tuple[int, str]],
    ) -> None:
        wanted = [k for k, name in enumerate(names) if reading.wanted(name)]
        self.path, self.names, self.told = path, names, told
        self.number_columns = [k for k in wanted if k not in text]
        self.text_columns = [k for k in wanted if k in text]
        self.comma = reading.decimal == ","
        self.only_numbers = not text and len(wanted) == len(names) and not self.comma
        self.numbers = Growing(np.float64, len(self.number_columns))
        self.codes = Growing(np.int32, len(self.text_columns))
        self.known: list[dict[str, int]] = [{} for _ in self.text_columns]
        self.n_rows = 0

    def add(self, line: int, cells: Cells | Array) -> None:
        """Add a block that starts in this line."""
        self.n_rows += len(cells)
        if isinstance(cells, np.ndarray):
            self._require_finite(line, cells)
            self.numbers.append(cells)
            self.codes.append(np.zeros((len(cells), 0), dtype=np.int32))
            return
        columns = list(zip(*cells, strict=True))
        numbers = [self._numbers(line, k, columns[k]) for k in self.number_columns]
        pairs = zip(self.known, self.text_columns, strict=True)
        codes = [_coded(known, columns[k]) for known, k in pairs]
        self.numbers.append(_side_by_side(numbers, len(cells), np.float64))
        self.codes.append(_side_by_side(codes, len(cells), np.int32))

    def table(self, separator: str) -> Table:
        """What was read."""
        if self.n_rows == 0:
            raise TableError(f"{self.path} has no rows: a client needs at least one")
        self._refuse_commas()
        read = sorted([*self.number_columns, *self.text_columns])
        numbers, codes = self.numbers.finish(), self.codes.finish()
        return Table(
            path=self.path,
            columns=tuple(self.names[k] for k in read),
            n_rows=self.n_rows,
            numbers=numbers.reshape(self.n_rows, -1),
            number_names=tuple(self.names[k] for k in self.number_columns),
            codes=codes.reshape(self.n_rows, -1),
            levels={
                self.names[k]: list(known)
                for k, known in zip(self.text_columns, self.known, strict=True)
            },
            not_numbers=self.told,
            header=tuple(self.names),
            lines=lambda rows: lines_of(self.path, separator, rows),
        )

    def _refuse_commas(self) -> None:
        """A column of text whose every value is a number with a comma is none of categories."""
        for k, known in zip(self.text_columns, self.known, strict=True):
            commas = [text for text in known if "," in text]
            numbers = all(_is_number(text.replace(",", ".", 1)) for text in known)
            if self.names[k] in self.told and commas and numbers:
                raise TableError(
                    f"{self.path}: column {self.names[k]!r} holds numbers with a comma, like "
                    f"{shown(commas[0])}: say so with --decimal , or write them with a point"
                )

    def _numbers(self, line: int, column: int, texts: Sequence[str]) -> Array:
        try:
            values = np.fromiter(map(float, texts), np.float64, len(texts))
        except ValueError:
            values = np.array([self._number(line + i, column, t) for i, t in enumerate(texts)])
        if not (np.abs(values) <= LARGEST).all():
            for i, text in enumerate(texts):
                self._number(line + i, column, text)
        return values

    def _number(self, line: int, column: int, text: str) -> float:
        text = text.strip()
        if text in MISSING_TEXTS:
            return math.nan
        try:
            value = float(text.replace(",", ".") if self.comma else text)
        except ValueError:
            raise _NotNumbersError(column, line, text) from None
        if not abs(value) <= LARGEST:
            raise self._infinite(line, column, text)
        return value

    def _infinite(self, line: int, column: int, text: str) -> TableError:
        return at_line(
            self.path,
            line,
            f"column {self.names[column]!r} holds {shown(text)}, which is not a finite number that "
            "can be squared: write a number, or leave it empty",
        )

    def _require_finite(self, line: int, block: Array) -> None:
        infinite = np.argwhere(np.abs(block) > LARGEST)
        if len(infinite):
            row, column = (int(k) for k in infinite[0])
            raise self._infinite(line + row, column, str(block[row, column]))


def _coded(known: dict[str, int], texts: Sequence[str]) -> list[int]:
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


def _side_by_side(columns: Sequence[Sequence[float] | Array], n_rows: int, dtype: type) -> Array:
    block: Array = np.empty((n_rows, len(columns)), dtype=dtype)
    for k, column in enumerate(columns):
        block[:, k] = column
    return block


def _check_names(path: Path, names: list[str]) -> None:
    for k, name in enumerate(names):
        if not name:
            raise at_line(path, 1, f"column {k + 1} has no name: give every column a name")
        if name in names[:k]:
            raise at_line(path, 1, f"two columns are called {shown(name)}: rename one of them")
    if all(_is_number(name) for name in names):
        raise at_line(path, 1, "it holds numbers only, but must name the columns: add such a line")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
