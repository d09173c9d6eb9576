"""The lines of a CSV file: names, then blocks of rows, each with the line it starts in."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

from drfl.arrays import Array
from drfl.tables.errors import TableError, at_line

BLOCK = 4_000_000
"""Characters that are looked at together."""

Cells = Sequence[Sequence[str]]


def read_head(path: Path) -> tuple[list[str], str]:
    """The names of the columns, and what separates them."""
    with path.open("rb") as file:
        first = file.readline().decode("utf-8", errors="replace")
    if not first.strip():
        raise TableError(f"{path} is empty: its first line must name the columns")
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
                "it is not UTF-8 text: save the file as UTF-8 (from latin-1 by `iconv -f latin1 -t "
                "utf8`)",
            ) from None
        except csv.Error as error:
            raise at_line(path, line, f"it cannot be read ({error}): correct the line") from None
        yield line, row
        line = start + reader.line_num


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
