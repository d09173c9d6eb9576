"""How a file becomes rows: its columns as features, and its target as numbers for the solvers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.tables.moments import moments_of
from drfl.tables.table import GAP, Table, folded

OTHER = "other"
"""The level of values that are too rare to be named."""


@dataclass(frozen=True)
class Number:
    """A column of numbers.

    Attributes
    ----------
    name : str
        In the files.
    shift, scale : float
        What the number is scaled by.
    fill : float or None
        What a missing value stands for; None: it is an error.
    indicator : bool
        Whether a second feature says where a value is missing.
    """

    name: str
    shift: float = 0.0
    scale: float = 1.0
    fill: float | None = None
    indicator: bool = False

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features.

        Examples
        --------
        >>> Number("ca", fill=0.7, indicator=True).features
        ('ca', 'ca=missing')
        """
        return (self.name, f"{self.name}={GAP}") if self.indicator else (self.name,)

    @property
    def knows_gaps(self) -> bool:
        """Whether something stands in for a missing value."""
        return self.fill is not None


@dataclass(frozen=True)
class Category:
    """A column of text.

    Attributes
    ----------
    name : str
        In the files.
    reference : str
        The value that is 0 in all features.
    levels : tuple of str
        The values with a feature of their own.
    other : bool
        Whether values that are none of these count as the last level, `OTHER`.
    shares : tuple of float
        The shares of the levels in the training. Without a level `OTHER` a value that is none of
        these counts as the mean over all of them, which has these numbers as features, and is
        neither the reference nor another level. Empty: nobody knows, and it is refused.
    """

    name: str
    reference: str
    levels: tuple[str, ...]
    other: bool = False
    shares: tuple[float, ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features.

        Examples
        --------
        >>> Category("sex", "m", ("f",)).features
        ('sex=f',)
        """
        return tuple(f"{self.name}={level}" for level in self.levels)

    @property
    def knows_others(self) -> bool:
        """Whether a value that is none of the levels has a meaning."""
        return self.other or bool(self.shares)

    @property
    def knows_gaps(self) -> bool:
        """Whether a missing value is a level of its own."""
        return GAP in (self.reference, *self.levels)


Column = Number | Category


def units_of(columns: Iterable[Column]) -> list[tuple[float, float, bool]]:
    """Shift and scale of every feature, and whether it is a number that was measured."""
    found = []
    for column in columns:
        marks = [(0.0, 1.0, False)] * len(column.features)
        if isinstance(column, Number):
            marks[0] = (column.shift, column.scale, True)
        found += marks
    return found


def feature_names(columns: Iterable[Column]) -> list[str]:
    """The features of all columns, in order."""
    return [feature for column in columns for feature in column.features]


MISSING = ("error", "drop", "mean", "indicator")
"""What may be done about missing values; the last two put something in their place."""
FILLED = ("mean", "indicator")


SCALES = ("federated", "per-client", "none")
Label = str | int | float


@dataclass(frozen=True)
class Target:
    """What is predicted.

    Attributes
    ----------
    name : str
        The column.
    classes : tuple, or None
        The classes in their order; None: a number.
    shift, scale : float
        A number is predicted as ``shift + scale * score``.
    """

    name: str
    classes: tuple[Label, ...] | None = None
    shift: float = 0.0
    scale: float = 1.0

    @property
    def task(self) -> str:
        """The task of the losses that fit."""
        return "regression" if self.classes is None else "classification"


@dataclass(frozen=True)
class Encoding:
    """How every file becomes rows.

    Attributes
    ----------
    target : Target
        What is predicted.
    columns : tuple of Column
        What the features are made of.
    scale, missing : str
        As wished.
    """

    target: Target
    columns: tuple[Column, ...]
    scale: str
    missing: str

    @property
    def features(self) -> list[str]:
        """The names of the features."""
        return feature_names(self.columns)

    def scaling(self, X: Any) -> tuple[Array, Array]:
        """Shift and scale of every feature, for the rows of one client in the units of its file.

        With ``scale = "per-client"`` they are mean and deviation of X itself, gaps being filled.
        """
        columns = units_of(self.columns)
        shift, scale, measured = (np.array(part) for part in zip(*columns, strict=True))
        if self.scale != "per-client":
            return shift, scale
        moments = moments_of(X, None)
        deviation = np.where(moments.deviation > 0.0, moments.deviation, 1.0)
        return np.where(measured, moments.mean, shift), np.where(measured, deviation, scale)


def target_values(table: Table, target: Target, keep: NDArray[np.bool_] | None = None) -> Array:
    """Positions of classes (NaN for others), or scaled targets (N,)."""
    if target.classes is None:
        y = (table.number(target.name) - target.shift) / target.scale
    elif table.is_text(target.name):
        known = {str(label): float(k) for k, label in enumerate(target.classes)}
        alike = {folded(label): k for label, k in known.items()}
        values = [
            known.get(level, alike.get(folded(level), np.nan))
            for level in table.levels[target.name]
        ]
        y = np.array([*values, np.nan])[table.text(target.name)]
    else:
        labels = np.array([_as_number(label) for label in target.classes])
        numbers = table.number(target.name)
        places = np.searchsorted(labels, numbers).clip(0, len(labels) - 1)
        y = np.where(labels[places] == numbers, places, np.nan)
    return np.asarray(y if keep is None else y[keep], dtype=np.float64)


def _as_number(label: Label) -> float:
    """A label as the number that it would be in a file; NaN if it is none."""
    try:
        return float(label)
    except ValueError:
        return np.nan


def few_values(y: Array, most: int) -> list[list[float]] | None:
    """Different values with their counts; None if there are more than so many."""
    found: dict[float, int] = {}
    for start in range(0, len(y), 1_000_000):
        values, counts = np.unique(y[start : start + 1_000_000], return_counts=True)
        for value, count in zip(values[: most + 1].tolist(), counts.tolist(), strict=False):
            found[value] = found.get(value, 0) + count
        if len(found) > most:
            return None
    return [[value, found[value]] for value in sorted(found)]
