"""The rows of a model that exists already, from files or from columns in memory."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.estimators.data_warnings import DataWarning
from drfl.models.document import Model
from drfl.tables import Number, Reading, Table, TableError, encoded, read_table
from drfl.tables.encoding import (
    missing_rows,
    refuse_missing,
    require_columns,
    strange_rows,
    target_values,
    unseen,
    unseen_sentences,
)
from drfl.tables.read import read_column
from drfl.tables.reading import shown
from drfl.tables.table import table_of


@dataclass(frozen=True, eq=False)
class FileRows:
    """The rows of a file: those that can be used, which these are (N,), and their targets.

    X (M, n), an array or CSR array, is in the units of the file; y (M,) are positions of classes or
    scaled targets.
    """

    table: Table
    X: Any
    keep: NDArray[np.bool_]
    y: Array | None

    def unseen(self, model: Model) -> dict[str, int]:
        """How many rows hold a category that was not trained, by column."""
        return {} if self.table.sparse else unseen(self.table, model.columns)

    def unseen_sentences(self, model: Model) -> list[str]:
        """Sentences about them."""
        return unseen_sentences(self.unseen(model), model.columns)

    def lines(self, rows: Sequence[int]) -> Sequence[int]:
        """Where some of these rows are in the file."""
        return self.table.lines(np.flatnonzero(self.keep)[rows].tolist())


def column_texts(path: Path, name: str, reading: Reading, rows: FileRows) -> list[str]:
    """The texts of a column of a file, of the rows that were read from it and can be used."""
    texts = read_column(path, reading.names.get(name, name))
    if reading.where is not None:
        column, value = reading.where
        wanted = [own == value for own in read_column(path, column)]
        texts = [text for text, kept in zip(texts, wanted, strict=True) if kept]
    return [text for text, kept in zip(texts, rows.keep, strict=True) if kept]


def read_rows(
    model: Model,
    path: Path,
    *,
    target: bool,
    reading: Reading = Reading(),  # noqa: B008  (frozen)
    strange: bool = False,
) -> FileRows:
    """Read the columns that a model needs, and its target if it is wanted.

    ``reading`` says what columns are called in the file, where that differs, what separates
    decimals in it, and which rows of it are wanted. With ``strange`` rows with a category that the
    model does not know, and has no other for, are left out; without they are an error.
    """
    columns = [column.name for column in model.columns]
    texts = [column.name for column in model.columns if not isinstance(column, Number)]
    if target and isinstance((model.target.classes or [0])[0], str):
        texts.append(model.target.name)
    only = frozenset([*columns, *([model.target.name] if target else [])])
    table = read_table(path, replace(reading, text=frozenset(texts), only=only))
    require_columns(table, model.columns)
    keep = ~missing_rows(table, model.columns)
    if model.missing != "drop" and not keep.all():
        for column in model.columns:
            if not column.knows_gaps:
                refuse_missing(table, column.name, "fill it: the model was trained without such")
    if strange:
        keep &= ~strange_rows(table, model.columns)
    y = None
    if target:
        keep &= ~_missing_target(model, table)
        y = _targets(model, table)[keep]
    X = encoded(table, model.columns, None if keep.all() else keep)
    return FileRows(table, X, keep, y)


def _missing_target(model: Model, table: Table) -> NDArray[np.bool_]:
    name = model.target.name
    if name not in table.columns:
        raise TableError(f"{table.path} has no column {name!r}, the target: it cannot be judged")
    if model.missing != "drop":
        refuse_missing(table, name, "fill it, or drop the row")
    return table.missing(name)


def _targets(model: Model, table: Table) -> Array:
    target = model.target
    if target.classes is None and table.is_text(target.name):
        line, value = table.not_numbers.get(target.name, (1, ""))
        raise TableError(
            f"{table.path}, line {line}: the target {target.name!r} holds {shown(value)}, not a "
            "number"
        )
    y = target_values(table, target)
    strange = np.isnan(y) & ~table.missing(target.name)
    if strange.any():
        row = int(np.argmax(strange))
        known = ", ".join(str(label) for label in target.classes or ())
        raise TableError(
            f"{table.path}, line {table.lines([row])[0]}: the target {target.name!r} has a class "
            f"that the model does not know: it knows {known}"
        )
    return y


def features_of(X: Any, model: Model) -> Any:
    """The features (N, n) of rows given by their original columns, in original units."""
    if hasattr(X, "tocsr"):
        if X.shape[1] != len(model.columns) or not all(
            isinstance(c, Number) and not c.indicator for c in model.columns
        ):
            raise ValueError("sparse rows need the model's columns, all of numbers, in order")
        return X.tocsr()
    table = _table(X, model)
    if missing_rows(table, model.columns).any():
        for column in model.columns:
            if not column.knows_gaps:
                refuse_missing(table, column.name, "fill it or drop the row")
    for sentence in unseen_sentences(unseen(table, model.columns), model.columns):
        warnings.warn(sentence, DataWarning, stacklevel=4)  # the line that predicts
    return encoded(table, model.columns)


def _table(X: Any, model: Model) -> Table:
    columns = [_values(X, k, column.name, model) for k, column in enumerate(model.columns)]
    named = {c.name: values for c, values in zip(model.columns, columns, strict=True)}
    return table_of(named, [c.name for c in model.columns if not isinstance(c, Number)])


def _values(X: Any, k: int, name: str, model: Model) -> Any:
    if hasattr(X, "columns") or isinstance(X, Mapping):
        if name not in (X if isinstance(X, Mapping) else list(X.columns)):
            raise ValueError(f"X has no column {name!r}, which the model needs")
        return np.asarray(X[name])
    array = np.asarray(X)
    if array.ndim != 2 or array.shape[1] != len(model.columns):
        raise ValueError(
            f"X must have {len(model.columns)} columns in the order of the model, got shape "
            f"{array.shape}"
        )
    return array[:, k]
