"""Original columns in memory: DataFrames, mappings and arrays, as the features of a model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from drfl.arrays import Array
from drfl.estimators.data_warnings import DataWarning
from drfl.models.document import Model
from drfl.tables import Column, Number, Table, TableError, encoded
from drfl.tables.encode import missing_rows, refuse_missing, unseen_sentences
from drfl.tables.table import MISSING

HERE = Path("X")


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
    for sentence in unseen_sentences(table, model.columns):
        warnings.warn(sentence, DataWarning, stacklevel=4)  # the line that predicts
    return encoded(table, model.columns)


def _table(X: Any, model: Model) -> Table:
    columns = [_values(X, k, column.name, model) for k, column in enumerate(model.columns)]
    lengths = {len(values) for values in columns}
    if len(lengths) > 1:
        raise ValueError("the columns have different lengths")
    n_rows = lengths.pop()
    pairs = list(zip(model.columns, columns, strict=True))
    numbers = [_as_numbers(c, values) for c, values in pairs if isinstance(c, Number)]
    texts = {c.name: _coded(values) for c, values in pairs if not isinstance(c, Number)}
    codes = [codes for codes, _ in texts.values()]
    return Table(
        path=HERE,
        columns=tuple(c.name for c in model.columns),
        n_rows=n_rows,
        numbers=np.column_stack(numbers) if numbers else np.zeros((n_rows, 0)),
        number_names=tuple(c.name for c in model.columns if isinstance(c, Number)),
        codes=np.column_stack(codes) if codes else np.zeros((n_rows, 0), dtype=np.int32),
        levels={name: levels for name, (_, levels) in texts.items()},
        not_numbers={},
        lines=lambda rows: list(rows),
    )


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


def _as_numbers(column: Column, values: Any) -> Array:
    try:
        numbers = np.array(
            [np.nan if value is None else value for value in values.tolist()], dtype=np.float64
        )
    except (TypeError, ValueError):
        raise TableError(f"column {column.name!r} of X must hold numbers") from None
    if np.isinf(numbers).any():
        raise TableError(f"column {column.name!r} of X has infinite numbers")
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
    return str(int(value)) if whole else str(value).strip()
