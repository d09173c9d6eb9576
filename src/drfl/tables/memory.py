"""Columns in memory as a table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from drfl.arrays import Array
from drfl.tables.errors import TableError
from drfl.tables.table import MISSING, Table, plain_whole

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
