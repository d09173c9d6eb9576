"""The four hospitals as features, and as files for the program."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.datasets import load_four_hospitals

CATEGORIES: Mapping[str, Mapping[float, str]] = {
    "chest_pain_type": {1.0: "typical", 2.0: "atypical", 3.0: "other", 4.0: "none"},
    "resting_ecg": {0.0: "normal", 1.0: "ST-T", 2.0: "hypertrophy"},
    "st_slope": {1.0: "up", 2.0: "flat", 3.0: "down"},
    "thal": {3.0: "normal", 6.0: "fixed", 7.0: "reversible"},
}
"""Columns whose numbers are names; the first is the reference."""


@dataclass(frozen=True, eq=False)
class Patients:
    """Rows of several hospitals: features with NaN for gaps, labels -1 and +1, who holds them."""

    X: Array
    y: Array
    hospital: NDArray[np.str_]

    def take(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> Patients:
        """Some of the rows."""
        return Patients(self.X[rows], self.y[rows], self.hospital[rows])


def patients() -> Patients:
    """All of them; a category is a column for each of its values but the first."""
    data = load_four_hospitals()
    columns = []
    for j, name in enumerate(data.feature_names):
        column = data.data[:, j]
        if name not in CATEGORIES:
            columns.append(column)
            continue
        # An unknown value is none of them, as an unknown level of a file is.
        columns += [(column == code).astype(np.float64) for code in list(CATEGORIES[name])[1:]]
    return Patients(np.column_stack(columns), data.target.astype(np.float64), data.hospital)


def scaled(train: Patients, test: Patients) -> tuple[Patients, Patients]:
    """Gaps filled with the mean, then standardised; both by the training hospitals' sums alone."""
    fill = np.nanmean(train.X, axis=0)
    filled = np.where(np.isnan(train.X), fill, train.X)
    mean, deviation = filled.mean(axis=0), filled.std(axis=0)
    deviation[deviation == 0.0] = 1.0

    def moved(some: Patients) -> Patients:
        X = np.where(np.isnan(some.X), fill, some.X)
        return Patients((X - mean) / deviation, some.y, some.hospital)

    return moved(train), moved(test)


def write_files(folder: Path) -> dict[str, Path]:
    """A CSV file for each hospital, with words for codes."""
    folder.mkdir(parents=True, exist_ok=True)
    data = load_four_hospitals()
    files = {}
    for hospital in np.unique(data.hospital).tolist():
        path = files[hospital] = folder / f"{hospital}.csv"
        at = data.hospital == hospital
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*data.feature_names, "disease"])
            for row, label in zip(data.data[at], data.target[at], strict=True):
                words = map(_word, data.feature_names, row.tolist())
                writer.writerow([*words, "yes" if label > 0 else "no"])
    return files


def _word(name: str, value: float) -> str:
    if name in CATEGORIES:
        return CATEGORIES[name].get(value, "unknown")
    return "" if np.isnan(value) else f"{value:g}"
