"""What scikit-learn's transformers before an estimator do to columns, as a model file says it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

from drfl.tables import Category, Column, Number
from drfl.tables.table import as_text

NONE = "(none of these)"
"""The reference of a category that has a feature for each of its values."""
KNOWN = "StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler, SimpleImputer, OneHotEncoder"


def columns_of(steps: Sequence[Any], names: Sequence[str]) -> tuple[Column, ...]:
    """The columns of a model, in the order of the features that fitted transformers make.

    Parameters
    ----------
    steps : sequence of transformers
        What stands before the estimator, in order.
    names : sequence of str
        What goes into the first of them.
    """
    columns: tuple[Column, ...] = tuple(Number(name) for name in names)
    for step in steps:
        columns = _after(step, columns)
    used = [column.name for column in columns]
    twice = [name for k, name in enumerate(used) if name in used[:k]]
    if twice:
        raise TypeError(f"column {twice[0]!r} is used twice: a model file has it once")
    return columns


def _after(step: Any, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns after one more transformer."""
    if isinstance(step, Pipeline):
        for _, part in step.steps:
            columns = _after(part, columns)
        return columns
    if isinstance(step, ColumnTransformer):
        return _chosen(step, columns)
    if isinstance(step, str | None) or (isinstance(step, FunctionTransformer) and not step.func):
        return columns  # "passthrough"
    if isinstance(step, OneHotEncoder):
        return _categories(step, columns)
    if not all(isinstance(column, Number) for column in columns):
        raise TypeError(f"a {type(step).__name__} after categories has no place in a model file")
    if isinstance(step, SimpleImputer) and not step.add_indicator:
        return _filled(step, columns)
    shift, scale = _units(step, len(columns))
    return tuple(
        # Twice scaled: (x - a)/b, then (that - c)/d.
        Number(c.name, c.shift + c.scale * float(a), c.scale * float(b), c.fill)
        for c, a, b in zip(columns, shift, scale, strict=True)
        if isinstance(c, Number)
    )


def _chosen(step: ColumnTransformer, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    places = {column.name: k for k, column in enumerate(columns)}
    found: list[Column] = []
    for _, part, chosen in step.transformers_:
        if part == "drop":
            continue
        at = _positions(chosen, places, len(columns))
        found += _after(part, tuple(columns[k] for k in at))
    return tuple(found)


def _positions(chosen: Any, places: dict[str, int], n: int) -> list[int]:
    """Which columns a part of a ColumnTransformer was fitted to."""
    if isinstance(chosen, str):
        return [places[chosen]]
    if isinstance(chosen, slice):
        return list(range(n))[chosen]
    given = np.atleast_1d(np.asarray(chosen, dtype=object)).tolist()
    if all(isinstance(k, bool | np.bool_) for k in given):
        return [k for k, wanted in enumerate(given) if wanted]
    return [places[k] if isinstance(k, str) else range(n)[int(k)] for k in given]


def _filled(step: SimpleImputer, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Gaps filled, in the units that the columns had in the file."""
    try:
        values = np.asarray(step.statistics_, dtype=np.float64)
    except ValueError:
        raise TypeError("a SimpleImputer of text has no place in a model file") from None
    if np.isnan(values).any():
        raise TypeError("a column without any value was dropped by a SimpleImputer: leave it out")
    return tuple(
        Number(c.name, c.shift, c.scale, c.shift + c.scale * float(value))
        for c, value in zip(columns, values, strict=True)
        if isinstance(c, Number)
    )


def _categories(step: OneHotEncoder, columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """A feature for every value, or for all but the one that is dropped."""
    if step.min_frequency is not None or step.max_categories is not None:
        raise TypeError("a OneHotEncoder that merges rare values has no place in a model file")
    dropped = [None] * len(columns) if step.drop_idx_ is None else step.drop_idx_
    found: list[Column] = []
    for column, values, drop in zip(columns, step.categories_, dropped, strict=True):
        texts = [as_text(value) for value in values.tolist()]
        reference = NONE if drop is None else texts.pop(int(drop))
        if not texts:
            continue  # one value only, and that is the reference
        found.append(Category(column.name, reference, tuple(texts)))
    return tuple(found)


def _units(step: Any, n: int) -> tuple[Any, Any]:
    """Shift and scale (n,) of a scaler."""
    zeros, ones = np.zeros(n), np.ones(n)
    if isinstance(step, StandardScaler):
        return _or(step.mean_ if step.with_mean else None, zeros), _or(step.scale_, ones)
    if isinstance(step, RobustScaler):
        return _or(step.center_, zeros), _or(step.scale_, ones)
    if isinstance(step, MaxAbsScaler):
        return zeros, step.scale_
    if isinstance(step, MinMaxScaler) and not step.clip:
        return -step.min_ / step.scale_, 1.0 / step.scale_
    raise TypeError(
        f"{type(step).__name__} has no place in a model file, which knows {KNOWN}, in pipelines "
        "and ColumnTransformers: transform the rows first, and use the estimator alone"
    )


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value
