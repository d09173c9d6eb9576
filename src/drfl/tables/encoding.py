"""How a file becomes rows: its target, its columns, and the target as numbers for the solvers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.tables.columns import Column, feature_names, units_of
from drfl.tables.moments import moments_of
from drfl.tables.table import Table, folded

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
