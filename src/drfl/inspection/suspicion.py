"""What looks wrong in rows: which columns to look at one by one, and what may be told of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.defaults import FEW_ROWS
from drfl.inspection.column import (
    CODED,
    DENSE,
    DISTINCT,
    ENOUGH,
    FAR,
    FULL,
    column_of,
    is_id,
    look,
    nothing,
)
from drfl.rows.parts import is_sparse
from drfl.tables import Table

SCREENED, LEAST, MOST = 40_000, 200, 1_000
"""Entries that decide which columns are looked at; rows, at least and at most."""
CLOSE = 6.0
"""So many roots of their number: among so many rows two are closer than all are in a numbering."""
LONG = 600  # entries that are compared at once


def column_ends(X: Any) -> tuple[Array, Array]:
    """The least and the largest value of every column (n,)."""
    if is_sparse(X):
        return X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()
    n, parts = X.shape[1], _long_rows(X)
    low = [part.min(axis=0).reshape(-1, n).min(axis=0) for part in parts]
    high = [part.max(axis=0).reshape(-1, n).max(axis=0) for part in parts]
    return np.min(low, axis=0), np.max(high, axis=0)


def suspects(
    X: Array, y: Array, first: Array, ends: Array, *, sampled: bool = True
) -> NDArray[np.bool_]:
    """In which columns (n,) `look`, `is_id` or `is_numbering` can find anything.

    What they find shows in the ends of a column, or in any few of its rows: such columns are few,
    and a look at each of thousands would take longer than the fit. ``first`` are the rows of one
    client, whose numbers could be a numbering; ``ends`` (2, n) are of all rows, of which X may be a
    sample.
    """
    X = X if 2 * X.shape[1] > LONG else np.ascontiguousarray(X)
    few, target = _spread(X), y[:: _stride(X)]
    ordered = _sorted_columns(few)
    gaps = ordered[:, 1:] - ordered[:, :-1]
    levels = 1 + np.count_nonzero(gaps, axis=1)
    own_ends = column_ends(X) if sampled else ends
    held = [_often(X, end) for end in own_ends]
    usual = [[abs(v) in CODED or v in (0.0, -1.0) for v in end.tolist()] for end in own_ends]
    # A tenth of FAR: the middle of few rows is not quite that of all.
    k = len(few)
    inner = ordered[:, -(-3 * k // 5) - 1] - ordered[:, 2 * k // 5]
    far = ends[1] - ends[0] >= 0.1 * FAR * inner
    if len(first) < len(X):
        ordered = _sorted_columns(_spread(first))
        gaps = ordered[:, 1:] - ordered[:, :-1]
    numbered = _may_number(ordered, gaps, len(first))
    tell = (levels < DISTINCT) | _may_tell(few, target)
    return np.asarray(np.any([*held, *usual, far, numbered, tell], axis=0))


def _long_rows(X: Array) -> list[Array]:
    """Views of the rows, several of them as one: what is done along short rows is slow."""
    together = LONG // X.shape[1] if X.flags.c_contiguous else 1
    whole = len(X) // together * together if together > 1 else 0
    if whole == 0:
        return [X]
    parts = [X[:whole].reshape(-1, together * X.shape[1]), X[whole:]]
    return parts if len(parts[1]) else parts[:1]


def _often(X: Array, value: Array) -> NDArray[np.bool_]:
    """Which columns (n,) hold their value of these, which each has at least once, several times."""
    n, total = X.shape[1], 0
    for part in _long_rows(X):
        total += int(np.count_nonzero(part == np.tile(value, part.shape[1] // n)))
    if total < n + FEW_ROWS - 1:  # no column can have so many
        return np.zeros(n, np.bool_)
    counts: Array = np.count_nonzero(value == X, axis=0)
    return np.asarray(counts >= FEW_ROWS)


def _spread(X: Array) -> Array:
    """A few rows from everywhere."""
    return X[:: _stride(X)]


def _stride(X: Array) -> int:
    most = min(MOST, int(CLOSE * math.sqrt(len(X))))
    rows: int = max(LEAST, min(SCREENED // X.shape[1], most))
    return max(1, len(X) // rows)


def _sorted_columns(X: Array) -> Array:
    """The values of every column in order, (n, N)."""
    return np.sort(np.ascontiguousarray(X.T), axis=1)


def _may_number(ordered: Array, gaps: Array, rows: int) -> NDArray[np.bool_]:
    """Whether some rows of so many, every column (n, k) sorted, may be of an id or a numbering."""
    if rows < ENOUGH:
        return np.zeros(len(ordered), np.bool_)
    least = gaps.min(axis=1)
    dense = ordered[:, -1] - ordered[:, 0] <= 1.01 * DENSE * rows * least
    whole = (ordered == np.round(ordered)).all(axis=1)
    return np.asarray((least > 0.0) & (dense | whole))


def _may_tell(X: Array, y: Array) -> NDArray[np.bool_]:
    """Whether columns of some rows may tell the target, by a threshold or a line."""
    classes = np.unique(y)
    if len(classes) == 2:
        one, other = X[y == classes[0]], X[y == classes[1]]
        below, above = one.max(axis=0) < other.min(axis=0), other.max(axis=0) < one.min(axis=0)
        return np.asarray(below | above)
    centred, target = X - X.mean(axis=0), y - y.mean()
    size = np.sqrt(np.square(centred).sum(axis=0) * (target @ target))
    return np.asarray(np.abs(target @ centred) >= 0.999 * size)


SHORTEST = 99.0
"""Among counts, which sparse rows often are, 7, 8 and 9 are no codes; below 0 they are."""
FIRST = 0.1  # what sums take for far, of what is told as far: they know the middle only about


def worth_a_look(csr: Any, y: Array) -> list[int]:
    """Positions of columns in which something may be seen; in all others there is nothing.

    These are the columns that many rows store, that may tell the target, or whose largest or least
    entry is a code or far from the geometric mean of the entries' sizes.
    """
    stored = csr.data != 0.0
    column, entry = csr.indices[stored], csr.data[stored].astype(np.float64)
    row = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))[stored]
    count = _sums(column, csr.shape[1])
    size = np.log10(np.abs(entry))
    largest = np.full(csr.shape[1], -np.inf)
    np.maximum.at(largest, column, size)
    far = largest - _sums(column, csr.shape[1], size) / np.maximum(count, 1.0)
    seen = (count >= FULL * csr.shape[0]) | (far >= np.log10(FIRST * FAR))
    seen |= _entries_may_tell(row, column, entry, y, csr.shape)
    code = np.isin(np.abs(entry), list(CODED)) & ((entry < 0.0) | (entry >= SHORTEST))
    seen[column[code]] = True
    found: list[int] = np.flatnonzero(seen & (count > 0.0)).tolist()
    return found


def _sums(column: NDArray[np.integer[Any]], n: int, weight: Array | None = None) -> Array:
    return np.bincount(column, weight, n).astype(np.float64)


def _entries_may_tell(
    row: NDArray[np.intp],
    column: NDArray[np.integer[Any]],
    entry: Array,
    y: Array,
    shape: tuple[int, int],
) -> NDArray[np.bool_]:
    """Whether a column may tell the target: its zeros are of one class, or it lies on a line."""
    values, at, rows = np.unique(y, return_inverse=True, return_counts=True)
    if len(values) < DISTINCT:
        zeros = np.array(
            [rows[c] - _sums(column[at[row] == c], shape[1]) for c in range(len(values))]
        )
        return np.asarray((zeros > 0.0).sum(axis=0) <= 1)
    centred = y - y.mean()
    mean = _sums(column, shape[1], entry) / shape[0]
    variance = _sums(column, shape[1], np.square(entry)) / shape[0] - np.square(mean)
    product = _sums(column, shape[1], entry * centred[row]) / shape[0]
    return np.asarray(np.square(product) > (1.0 - 1e-6) * variance * np.square(centred).mean())


def hints(
    table: Table, names: list[str], target: str, keep: NDArray[np.bool_] | None
) -> dict[str, Any]:
    """What looks wrong, by column.

    Returns
    -------
    dict
        ``codes``: pairs of a number that looks like a code for "missing", and how many rows hold
        it, 0 for fewer than 5; ``far``: the power of ten by which the farthest value is farther
        from the middle than the usual ones; ``ids``: columns of whole numbers that differ in every
        row; ``perfect``: columns that alone tell the target; ``scale``: how many different whole
        numbers the target has where these are few enough to be classes or grades, else 0.
    """
    found = nothing()
    y = _positions(table, target, keep)
    found["scale"] = 0 if table.is_text(target) else _grades(y)
    if table.sparse:
        _look_at_sparse(found, table, names, y, keep)
        return found
    for name in names:
        x = _positions(table, name, keep)
        present = ~np.isnan(x)
        look(found, name, x[present], y[present], text=table.is_text(name))
        if not table.is_text(name) and is_id(x[present]):
            found["ids"].append(name)
    return found


def _look_at_sparse(
    found: dict[str, Any],
    table: Table,
    names: Sequence[str],
    y: Array,
    keep: NDArray[np.bool_] | None,
) -> None:
    rows = table.numbers if keep is None else table.numbers[np.flatnonzero(keep)]
    by_column, wanted = rows.tocsc(), set(names)
    for j in worth_a_look(rows, y):
        name = table.number_names[j]
        if name in wanted:
            x = column_of(by_column, j)
            look(found, name, x, y, text=False, stored=True)
            if is_id(x):
                found["ids"].append(name)


def _positions(table: Table, name: str, keep: NDArray[np.bool_] | None) -> Array:
    """Numbers, or the codes of text; NaN where there is none."""
    values = np.asarray(table.values(name), dtype=np.float64)
    values = np.where(values < 0, np.nan, values) if table.is_text(name) else values
    return values if keep is None else values[keep]


def _grades(y: Array) -> int:
    """How many different whole numbers there are, of 3 to 9; two are classes anyway."""
    values = np.unique(y[~np.isnan(y)])
    whole = bool((values == np.round(values)).all())
    return len(values) if whole and 2 < len(values) < DISTINCT and len(y) >= ENOUGH else 0
