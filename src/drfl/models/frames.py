"""Original columns in memory: DataFrames, mappings and arrays, as the features of a model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from drfl.estimators.data_warnings import DataWarning
from drfl.models.document import Model
from drfl.tables import Number, Table, encoded
from drfl.tables.encode import missing_rows, refuse_missing, unseen, unseen_sentences
from drfl.tables.memory import table_of


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
