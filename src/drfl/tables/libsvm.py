"""LIBSVM files: a label and the entries that are not 0, in every line."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from drfl.tables.reading import LABEL, Reading, TableError, at_line, shown
from drfl.tables.reading import LARGEST as MOST
from drfl.tables.table import Growing, Table

BLOCK = 4_000_000
LARGEST = 10_000_000  # the largest index of a feature; a larger one is taken for an error


def read_libsvm(path: Path, reading: Reading) -> Table:
    """Read lines ``label index:value ...``; features are called x1, x2, ... after their index."""
    from scipy import sparse  # the help of the program does without it

    labels, data = Growing(np.float64), Growing(np.float64)
    indices, lengths = Growing(np.int32), Growing(np.int64)
    width = 0
    with path.open("rb") as file:
        line = 1
        while block := file.readlines(BLOCK):
            read = [_row(path, line + k, text) for k, text in enumerate(block)]
            rows = [row for row in read if row is not None]
            line += len(block)
            if not rows:
                continue
            labels.append(np.array([label for label, _, _ in rows]))
            lengths.append(np.array([len(at) for _, at, _ in rows]))
            indices.append(np.array([j for _, at, _ in rows for j in at], dtype=np.int32))
            data.append(np.array([v for _, _, values in rows for v in values], dtype=np.float64))
            width = max([width, *(at[-1] + 1 for _, at, _ in rows if at)])
    label = labels.finish()
    if not len(label):
        raise TableError(f"{path} has no rows: a client needs at least one")
    starts = np.concatenate([[0], np.cumsum(lengths.finish())])
    shape = (len(label), width)
    names = tuple(f"x{j + 1}" for j in range(width))
    matrix = sparse.csr_array((data.finish(), indices.finish(), starts), shape=shape)
    kept = [j for j, name in enumerate(names) if reading.wanted(name)]
    if len(kept) < width:
        matrix, names = matrix[:, kept], tuple(names[j] for j in kept)
    return Table(
        path=path,
        columns=(LABEL, *names),
        n_rows=len(label),
        numbers=matrix,
        number_names=names,
        codes=np.zeros((len(label), 0), dtype=np.int32),
        levels={},
        not_numbers={},
        label=label,
        lines=lambda rows: _lines_of(path, rows),
    )


def _row(path: Path, line: int, text: bytes) -> tuple[float, list[int], list[float]] | None:
    """Label, positions and values of a line; None if it is empty."""
    parts = text.partition(b"#")[0].split()
    if not parts:
        return None
    label = _number(path, line, parts[0], "the label")
    at: list[int] = []
    values: list[float] = []
    for part in parts[1:]:
        index, colon, value = part.partition(b":")
        if not (colon and index.isdigit() and 1 <= int(index) <= LARGEST):
            raise at_line(
                path,
                line,
                f"{shown(part.decode(errors='replace'))} is not like 3:0.5, an index from 1 and a "
                "value: correct the line",
            )
        if at and int(index) <= at[-1] + 1:
            raise at_line(path, line, f"index {int(index)} is not in ascending order: sort them")
        at.append(int(index) - 1)
        values.append(_number(path, line, value, f"column 'x{int(index)}'"))
    return label, at, values


def _number(path: Path, line: int, text: bytes, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) <= MOST:
        raise at_line(
            path,
            line,
            f"{where} holds {shown(text.decode(errors='replace'))}, which is not a finite number "
            "that can be squared: correct the line",
        )
    return value


def _lines_of(path: Path, rows: Sequence[int]) -> list[int]:
    with path.open("rb") as file:
        full = [k for k, text in enumerate(file, start=1) if text.partition(b"#")[0].split()]
    return [full[row] for row in rows]
