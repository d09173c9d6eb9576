"""Checks of what users pass to partition and noise: each failure is one sentence."""

from __future__ import annotations

import operator
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Indices = NDArray[np.intp]


def check_rng(rng: object) -> None:
    """Refuse anything but a Generator: a bare seed would repeat the same draw in every call."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(
            "rng must be a numpy.random.Generator such as numpy.random.default_rng(0), "
            f"got {type(rng).__name__}"
        )


def check_sizes(n_rows: int, n_clients: int) -> tuple[int, int]:
    """Return both as int; every client needs a row."""
    n_rows, n_clients = operator.index(n_rows), operator.index(n_clients)
    if n_clients < 1:
        raise ValueError(f"at least one client is needed, got n_clients={n_clients}")
    if n_clients > n_rows:
        raise ValueError(f"{n_clients} clients need at least {n_clients} rows, got {n_rows}")
    return n_rows, n_clients


def check_rows(rows: ArrayLike, n_rows: int) -> Indices:
    """Return one client's row numbers as an array."""
    index = np.asarray(rows)
    if index.ndim != 1 or index.dtype.kind not in "iu" or len(index) == 0:
        raise ValueError("each client must be a nonempty list of row numbers")
    low, high = index.min(), index.max()
    if low < 0 or high >= n_rows:
        raise ValueError(f"row numbers must lie in 0..{n_rows - 1}, got {low}..{high}")
    return index.astype(np.intp)


def check_finite(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return a column of finite numbers."""
    column = _column(name, values)
    if column.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold numbers, got {column.dtype}")
    numbers = column.astype(np.float64)
    if bad := _first_rows(~np.isfinite(numbers)):
        raise ValueError(f"{name} must be finite: see rows {bad}")
    return numbers


def check_classes(name: str, values: ArrayLike) -> tuple[NDArray[np.generic], Indices]:
    """Return the sorted distinct values of a column, and the position of each row's value."""
    column = _column(name, values)
    try:
        if missing := _first_rows(v is None or v != v for v in column):
            raise ValueError(f"{name} has missing values: see rows {missing}")
        return np.unique(column, return_inverse=True)
    except TypeError:  # values that do not compare: text beside numbers, pandas.NA
        raise TypeError(
            f"{name} must hold values of one kind, text or numbers, and none missing"
        ) from None


def _column(name: str, values: ArrayLike) -> NDArray[np.generic]:
    column = np.asarray(values)
    if column.ndim != 1 or len(column) == 0:
        raise ValueError(f"{name} must be one nonempty column, got shape {column.shape}")
    return column


def _first_rows(flags: Iterable[object]) -> str:
    rows = [str(row) for row, flag in enumerate(flags) if flag]
    return ", ".join(rows[:5]) + (f" and {len(rows) - 5} more" if len(rows) > 5 else "")
