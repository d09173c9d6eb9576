"""Table 1 of rows in memory, and what looks wrong in the rows of a fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl._registry import listed
from drfl.arrays import Array
from drfl.inspection.cells import Cell, TableOne
from drfl.inspection.sentences import ENOUGH, MOST, PYTHON, hinted, units
from drfl.inspection.suspicion import DISTINCT, hints, is_id, is_numbering, look, nothing, tells
from drfl.tables.memory import table_of
from drfl.tables.moments import moments_of
from drfl.tables.table import MISSING, Table

SAMPLE, ENTRIES, LEAST = 20_000, 500_000, 2_000
"""Rows of a fit that are looked at one by one, at most; fewer where columns are many, but so many.

The largest values are of all rows.
"""
JUDGES = 5
"""Clients whose numbers are looked at for an id: those with the most rows."""

Index = NDArray[np.intp]


def array_table(X: Any, y: Any, clients: Sequence[str], member: Index) -> TableOne:
    """Table 1 of rows in memory, and what looks wrong in them.

    Parameters
    ----------
    X : DataFrame, mapping of columns, or array of shape (N, n)
        The rows in their own units; gaps are None or NaN, columns may be text.
    y : array of shape (N,)
        Classes or numbers.
    clients : sequence of str
        The clients.
    member : array of shape (N,)
        The position of each row's client.
    """
    columns = named_columns(X)
    target = str(getattr(y, "name", None) or "target")
    if target in columns:
        raise ValueError(f"X holds the target, {target!r}: leave it out of X")
    names, labels = list(columns), np.asarray(y)
    texts = [name for name, values in {**columns, target: labels}.items() if _is_text(values)]
    for name in texts:
        _refuse_commas(name, {**columns, target: labels}[name])
    table = table_of({**columns, target: labels}, texts)
    parts = {client: table.only(member == k) for k, client in enumerate(clients)}
    cells = [_cell(client, name, part) for name in names for client, part in parts.items()]
    told = {client: hints(part, names, target, None) for client, part in parts.items()}
    constant = [name for name in names if not _varies(table, name)]
    warnings = [*_constant(constant), *units(names, cells), *hinted(told, PYTHON)]
    few = target not in texts and len(np.unique(labels)) >= DISTINCT
    ends = [_cell(c, target, part, shares=not few) for c, part in parts.items()]
    return TableOne((*cells, *ends), tuple(warnings))


def named_columns(X: Any) -> dict[str, NDArray[Any]]:
    """The columns (N,) by name; those of an array are x1, x2, ..."""
    if hasattr(X, "columns"):
        return {str(name): np.asarray(X[name]) for name in X.columns}
    if isinstance(X, Mapping):
        return {str(name): np.asarray(values) for name, values in X.items()}
    if hasattr(X, "tocsr"):
        raise ValueError("sparse rows have no Table 1: give an array or a DataFrame")
    array = np.asarray(X)
    if array.ndim != 2:
        raise ValueError(f"X must have rows and columns, got shape {array.shape}")
    return {f"x{j + 1}": array[:, j] for j in range(array.shape[1])}


def _is_text(values: NDArray[Any]) -> bool:
    """Whether a column holds texts; None and NaN are gaps."""
    if values.dtype.kind != "O":
        return values.dtype.kind in "US"
    return any(isinstance(value, str) for value in values.tolist())


def _refuse_commas(name: str, values: NDArray[Any]) -> None:
    """A column of texts that are numbers with a comma is none of categories."""
    texts = [value for value in values.tolist() if isinstance(value, str)]
    commas = [text for text in texts if "," in text]
    if commas and all(text.strip().lstrip("+-").replace(",", "", 1).isdigit() for text in texts):
        raise ValueError(
            f"column {name!r} holds numbers with a comma, like {commas[0]!r}: read them as numbers "
            "(pandas.read_csv has decimal=','), or write them with a point"
        )


def _cell(client: str, name: str, part: Table, *, shares: bool = False) -> Cell:
    present = ~part.missing(name)
    missing = 1.0 - float(present.mean())
    rows = int(present.sum())
    if part.is_text(name):
        counts = np.bincount(part.text(name)[present], minlength=len(part.levels[name]))
        pairs = zip(part.levels[name], counts.tolist(), strict=True)
    elif shares:
        values, counts = np.unique(part.number(name)[present], return_counts=True)
        pairs = zip([f"{value:g}" for value in values], counts.tolist(), strict=True)
    else:
        m = moments_of(part.number(name)[:, None], None)
        return Cell(client, name, rows, missing, float(m.mean[0]), float(m.deviation[0]))
    return Cell(client, name, rows, missing, shares={text: n / max(rows, 1) for text, n in pairs})


def _varies(table: Table, name: str) -> bool:
    if table.is_text(name):
        return len(set(table.text(name).tolist()) - {MISSING}) > 1
    return bool(moments_of(table.number(name)[:, None], None).deviation[0] > 0.0)


def _constant(names: Sequence[Any]) -> Iterator[str]:
    if len(names) == 1:
        yield f"column {names[0]!r} is the same in every row and tells nothing: leave it out"
    elif names:
        yield f"columns {listed(names)} are the same in every row and tell nothing: leave them out"


def row_sentences(
    X: Array, y: Array, clients: Sequence[str], member: Index, names: Sequence[str] | None
) -> list[str]:
    """What looks wrong in rows that are about to be fitted.

    Numbers are compared between clients by their sums, and looked at for codes, outliers, numbers
    of rows and copies of the target in all rows together; of more than `SAMPLE` rows, in so many.

    Parameters
    ----------
    X, y : arrays of shape (N, n) and (N,)
        Features and codes of classes, or targets.
    clients, member
        As for `array_table`.
    names : sequence of str, optional
        Of the columns; without, they are numbered from 0.
    """
    step = -(-len(X) // max(LEAST, min(SAMPLE, ENTRIES // X.shape[1])))
    some, target, who = X[::step], y[::step], member[::step]
    columns: list[Any] = list(range(X.shape[1])) if names is None else [str(n) for n in names]
    largest = np.argsort(-np.bincount(who, minlength=len(clients)), kind="stable")[:MOST]
    parts = {clients[k]: some[who == k] for k in largest.tolist()}
    moments = {client: moments_of(rows, None) for client, rows in parts.items()}
    least, most = X.min(axis=0), X.max(axis=0)
    found, constant = nothing(), []
    judges = list(parts.values())[:JUDGES]
    for j, name in enumerate(columns):
        if least[j] == most[j]:
            constant += [name] if len(X) >= ENOUGH else []
            continue
        look(found, name, some[:, j], target, text=False, ends=(least[j], most[j]))
        if all(_numbered(rows[:, j]) for rows in judges):
            found["ids"].append(name)
        if step > 1 and name in found["perfect"] and not tells(X[:, j], y, text=False):
            found["perfect"].remove(name)
    cells = [
        Cell(client, name, int(m.count[j]), 0.0, float(m.mean[j]), float(m.deviation[j]))
        for j, name in enumerate(columns)
        for client, m in moments.items()
    ]
    return [*_constant(constant), *units(columns, cells), *hinted({"": found}, PYTHON)]


def _numbered(x: Array) -> bool:
    return is_id(x) or is_numbering(x)
