"""Table 1 of rows in memory, and what looks wrong in the rows of a fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl._registry import listed
from drfl.arrays import Array
from drfl.inspection.column import DISTINCT, column_of, is_id, is_numbering, look, nothing, tells
from drfl.inspection.suspicion import column_ends, hints, suspects, worth_a_look
from drfl.inspection.table_one import ENOUGH, MOST, PYTHON, Cell, TableOne, hinted, units, unlike
from drfl.rows.intake import as_matrix
from drfl.rows.parts import is_sparse
from drfl.tables.moments import Moments, added, moments_of
from drfl.tables.table import MISSING, Table, table_of

SAMPLE, ENTRIES, LEAST = 20_000, 500_000, 2_000
"""Rows of a fit that are looked at one by one, at most; fewer where columns are many, but so many.

The largest values are of all rows.
"""
NAMED = 10  # columns of which one sentence names no more
JUDGES = 5  # clients whose numbers are looked at for an id: those with the most rows

Index = NDArray[np.intp]


def array_table(X: Any, y: Any, clients: Sequence[str], member: Index) -> TableOne:
    """Table 1 of rows in memory, in their own units, and what looks wrong in them.

    X is a DataFrame, a mapping of columns or an array, with gaps that are None or NaN and columns
    that may be text; y are classes or numbers; ``member`` (N,) is the position of each row's
    client.
    """
    target = str(getattr(y, "name", None) or "target")
    table = _table(X, np.asarray(y), target)
    names = [name for name in table.columns if name != target]
    parts = {client: table.only(member == k) for k, client in enumerate(clients)}
    moments = {client: moments_of(part.numbers, None) for client, part in parts.items()}
    place = {name: j for j, name in enumerate(table.number_names)}
    cells = [
        _number(client, name, moments[client], place[name], parts[client].n_rows)
        if name in place
        else _cell(client, name, parts[client])
        for name in names
        for client in clients
    ]
    told = {client: hints(part, names, target, None) for client, part in parts.items()}
    together = added(list(moments.values()))
    same = (together.deviation == 0.0) & _stored(table, together)
    constant = [
        name for name in names if (same[place[name]] if name in place else _one(table, name))
    ]
    warnings = [*_constant(constant), *units(cells), *hinted(told, PYTHON)]
    few = table.is_text(target) or len(np.unique(table.number(target))) < DISTINCT
    ends = [_cell(client, target, part, shares=few) for client, part in parts.items()]
    return TableOne((*cells, *ends), tuple(warnings))


def _table(X: Any, y: NDArray[Any], target: str) -> Table:
    """The rows and their target as a table; sparse rows stay so."""
    columns = {} if is_sparse(X) else named_columns(X)
    if target in columns:
        raise ValueError(f"X holds the target, {target!r}: leave it out of X")
    columns[target] = y
    texts = [name for name, values in columns.items() if _is_text(values)]
    for name in texts:
        _refuse_commas(name, columns[name])
    table = table_of(columns, texts)
    if not is_sparse(X):
        return table
    names = tuple(f"x{j + 1}" for j in range(X.shape[1]))
    label = None if texts else table.number(target)
    return replace(
        table, columns=(target, *names), numbers=as_matrix(X), number_names=names, label=label
    )


def named_columns(X: Any) -> dict[str, NDArray[Any]]:
    """The columns (N,) by name; those of an array are x1, x2, ..."""
    if hasattr(X, "columns"):
        return {str(name): np.asarray(X[name]) for name in X.columns}
    if isinstance(X, Mapping):
        return {str(name): np.asarray(values) for name, values in X.items()}
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


def _number(client: str, name: Any, m: Moments, j: int, rows: int) -> Cell:
    missing = 1.0 - float(m.count[j]) / rows
    return Cell(client, name, int(m.count[j]), missing, float(m.mean[j]), float(m.deviation[j]))


def _cell(client: str, name: str, part: Table, *, shares: bool = False) -> Cell:
    """Of texts, or of a target."""
    present = ~part.missing(name)
    rows = int(present.sum())
    if part.is_text(name):
        counts = np.bincount(part.text(name)[present], minlength=len(part.levels[name]))
        pairs = zip(part.levels[name], counts.tolist(), strict=True)
    elif shares:
        values, counts = np.unique(part.number(name)[present], return_counts=True)
        pairs = zip([f"{value:g}" for value in values], counts.tolist(), strict=True)
    else:
        return _number(client, name, moments_of(part.number(name)[:, None], None), 0, part.n_rows)
    held = {text: n / max(rows, 1) for text, n in pairs}
    return Cell(client, name, rows, 1.0 - float(present.mean()), shares=held)


def _one(table: Table, name: str) -> bool:
    """Whether a column of texts holds one alone."""
    return len(set(table.text(name).tolist()) - {MISSING}) <= 1


def _stored(table: Table, moments: Moments) -> NDArray[np.bool_]:
    """Where there is something: in sparse rows an empty column is as usual as it is harmless."""
    return np.asarray((moments.sum != 0.0) | (not table.sparse))


def _constant(names: Sequence[Any]) -> Iterator[str]:
    if len(names) == 1:
        yield f"column {names[0]!r} is the same in every row and tells nothing: leave it out"
    elif names:
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        yield (
            f"columns {listed(names[:NAMED])}{more} are the same in every row and tell nothing: "
            "leave them out"
        )


def row_sentences(
    X: Any,
    y: Array,
    clients: Sequence[str],
    member: Index,
    names: Sequence[str] | None,
    ends: tuple[Array, Array] | None = None,
) -> list[str]:
    """What looks wrong in rows that are about to be fitted.

    Numbers are compared between clients by their sums, and looked at for codes, outliers, numbers
    of rows and copies of the target in all rows together; of more than `SAMPLE` rows, in so many;
    of sparse ones in the columns in which sums find something. y are codes of classes, or targets;
    columns without names are numbered from 0; ``ends`` are `column_ends` of X, where they are
    known.
    """
    wide = max(1, X.nnz // X.shape[0] if is_sparse(X) else X.shape[1])
    step = -(-X.shape[0] // max(LEAST, min(SAMPLE, ENTRIES // wide)))
    some, who = X[::step], member[::step]
    columns: list[Any] = list(range(X.shape[1])) if names is None else [str(n) for n in names]
    largest = np.argsort(-np.bincount(who, minlength=len(clients)), kind="stable")[:MOST]
    judged = [who == k for k in largest.tolist() if (who == k).any()]
    least, most = column_ends(X) if ends is None else ends
    found = _seen(X, y, step, columns, judged[:JUDGES], least, most)
    same = (least == most) & ((least != 0.0) | (not is_sparse(X))) & (X.shape[0] >= ENOUGH)
    several = judged if len(judged) > 1 else []  # one client has nobody to be compared with
    moments = [moments_of(some[mine], None) for mine in several]
    cells = [
        _number(clients[k], columns[j], m, j, int(m.count[j]))
        for j in (np.flatnonzero(unlike(moments)).tolist() if several else [])
        for k, m in zip(largest.tolist(), moments, strict=False)
    ]
    constant = [columns[j] for j in np.flatnonzero(same).tolist()]
    return [*_constant(constant), *units(cells), *hinted({"": found}, PYTHON)]


def _seen(
    X: Any,
    y: Array,
    step: int,
    names: Sequence[Any],
    judges: Sequence[NDArray[np.bool_]],
    least: Array,
    most: Array,
) -> dict[str, Any]:
    """What is seen in every ``step``-th row, column by column; see `drfl.inspection.column`."""
    found, sparse = nothing(), is_sparse(X)
    some, target = X[::step].tocsc() if sparse else X[::step], y[::step]
    if sparse:
        seen = worth_a_look(X, y)
    else:
        first = some if judges[0].all() else some[judges[0]]
        odd = suspects(some, target, first, np.array([least, most]), sampled=step > 1)
        seen = np.flatnonzero(odd).tolist()
    for j in [j for j in seen if least[j] < most[j]]:
        name, x = names[j], column_of(some, j)
        look(found, name, x, target, text=False, stored=sparse, ends=(least[j], most[j]))
        if all(_numbered(x[mine]) for mine in judges):
            found["ids"].append(name)
        if step > 1 and name in found["perfect"]:
            whole = X[:, [j]].toarray().ravel() if sparse else X[:, j]
            if not tells(whole, y, text=False):
                found["perfect"].remove(name)
    return found


def _numbered(x: Array) -> bool:
    return is_id(x) or is_numbering(x)
