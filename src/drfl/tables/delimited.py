"""CSV files, read in blocks of lines: numbers fast, everything else by the csv module."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

from drfl.arrays import Array
from drfl.tables.reading import LARGEST, MISSING_TEXTS, Reading, TableError, at_line, shown
from drfl.tables.table import Growing, Table, coded

THOUSANDS = re.compile(r"[+-]?\d{1,3},\d{3}")
BLOCK = 4_000_000  # characters that are looked at together

Cells = Sequence[Sequence[str]]


def read_head(path: Path) -> tuple[list[str], str]:
    """The names of the columns, and what separates them."""
    with path.open("rb") as file:
        first = file.readline().decode("utf-8", errors="replace")
    if not first.strip():
        raise TableError(f"{path} is empty: its first line must name the columns")
    if "\r" in first.strip() and '"' not in first:
        raise at_line(
            path, 1, "lines end with a carriage return alone, as on old Macs: save it with others"
        )
    separator = "\t" if path.suffix.lower() == ".tsv" else max(",;\t", key=first.count)
    with _opened(path) as text:
        names = next(_rows(path, text, separator))[1]
    return [name.strip() for name in names], separator


def _opened(path: Path) -> TextIO:
    return path.open(encoding="utf-8-sig", newline="")


def blocks(
    path: Path, separator: str, width: int, fast: bool
) -> Iterator[tuple[int, Cells | Array]]:
    """Blocks of rows after the names, each with the line it starts in.

    As long as a block can be read as plain numbers it is; from the first that cannot, the csv
    module reads the rest.
    """
    with path.open("rb") as file:
        line = 1
        if b'"' in file.readline():  # names may hold line breaks
            file.seek(0)
        else:
            line = 2
            while fast:
                place = file.tell()
                block = file.readlines(BLOCK)
                if not block:
                    return
                values = _plain(block, separator, width)
                if values is None:
                    file.seek(place)
                    break
                yield line, values
                line += len(block)
        encoding = "utf-8-sig" if line == 1 else "utf-8"
        rest = io.TextIOWrapper(file, encoding=encoding, newline="")
        rows = _rows(path, rest, separator, line)
        if line == 1:
            next(rows)
        yield from _slow_blocks(path, rows, width)


def _plain(lines: list[bytes], separator: str, width: int) -> Array | None:
    """A block of numbers alone, of full width and without empty lines, or None."""
    try:
        texts = [line.decode("ascii") for line in lines]
        values = np.loadtxt(texts, delimiter=separator, comments=None, ndmin=2)
    except ValueError:
        return None
    return np.asarray(values) if values.shape == (len(lines), width) else None


def _slow_blocks(
    path: Path, rows: Iterator[tuple[int, list[str]]], width: int
) -> Iterator[tuple[int, Cells]]:
    while True:
        first, expected = 0, 0
        cells: list[list[str]] = []
        for line, row in rows:
            if len(row) != width:
                if not row:
                    continue
                raise at_line(
                    path,
                    line,
                    f"it has {len(row)} values, but the first line names {width} columns: "
                    "correct the line",
                )
            if cells and line != expected:
                # After a gap a new block starts, so that lines can be counted within blocks.
                yield first, cells
                cells = []
            first, expected = (line, line + 1) if not cells else (first, line + 1)
            cells.append(row)
            if len(cells) * width * 8 > BLOCK:
                break
        if not cells:
            return
        yield first, cells


def _rows(
    path: Path, file: TextIO, separator: str, start: int = 1
) -> Iterator[tuple[int, list[str]]]:
    """Rows with the line each starts in."""
    reader = csv.reader(file, delimiter=separator, strict=True)
    line = start
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except UnicodeDecodeError:
            # Text is decoded in chunks: the line that is to blame comes later.
            raise at_line(
                path,
                _undecodable(path),
                f"it is not UTF-8 text: save the file as UTF-8 ({_conversion(path)})",
            ) from None
        except csv.Error as error:
            raise at_line(path, line, f"it cannot be read ({error}): correct the line") from None
        yield line, row
        line = start + reader.line_num


def _conversion(path: Path) -> str:
    """How a file of another encoding probably becomes UTF-8: UTF-16 has a mark at its beginning."""
    with path.open("rb") as file:
        wide = file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    source, name = ("utf16", "UTF-16") if wide else ("latin1", "latin-1")
    return f"from {name} by `iconv -f {source} -t utf8`"


def _undecodable(path: Path) -> int:
    """The first line that is not UTF-8."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return 1


def cells_of(path: Path, separator: str) -> Iterator[list[str]]:
    """The cells of every row after the names."""
    with _opened(path) as file:
        yield from (
            row for _, row in itertools.islice(_rows(path, file, separator), 1, None) if row
        )


def lines_of(path: Path, separator: str, rows: Sequence[int]) -> list[int]:
    """The lines of a few rows, by reading again."""
    wanted, found = set(rows), {}
    with _opened(path) as file:
        full = ((line, row) for line, row in _rows(path, file, separator) if row)
        for k, (line, _) in enumerate(itertools.islice(full, 1, max(rows, default=-1) + 2)):
            if k in wanted:
                found[k] = line
    return [found[row] for row in rows]


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
        codes = [coded(known, columns[k]) for known, k in pairs]
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
                # Taken for decimals, thousands would be wrong by a factor of 1000.
                thousands = all(THOUSANDS.fullmatch(text) for text in commas)
                raise TableError(
                    f"{self.path}: column {self.names[k]!r} holds numbers with a comma, like "
                    f"{shown(commas[0])}: "
                    + ("if it parts thousands, leave it out; else " if thousands else "")
                    + "say so with --decimal , or write them with a point"
                )

    def _numbers(self, line: int, column: int, texts: Sequence[str]) -> Array:
        try:
            if "_" in "".join(texts):
                raise ValueError
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
            if "_" in text:  # a code, such as 1_100: Python alone calls that a number
                raise ValueError
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
