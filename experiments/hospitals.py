"""The bundled heart data as three hospitals, one of which measures badly."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from drfl.arrays import Array
from drfl.datasets import load_heart, partition

NAMES = ("north", "south", "west")
NOISY = "north"
NOISE = 1.0
"""Standard deviation of the noise, in standard deviations of every feature."""
TRAINED = 0.7


@dataclass(frozen=True, eq=False)
class Hospital:
    """Rows in original units; labels are -1 and +1."""

    name: str
    train: Array
    train_y: Array
    test: Array
    test_y: Array


def hospitals(seed: int) -> list[Hospital]:
    """A random division of the patients, and of each hospital's into training and test."""
    rng = np.random.default_rng(seed)
    heart = load_heart(scaled=False)
    X, y = heart.data, heart.target.astype(np.float64)
    deviation = X.std(axis=0)
    found = []
    for name, rows in zip(NAMES, partition.random(len(y), len(NAMES), rng), strict=True):
        rows = rng.permutation(rows)
        first, last = np.split(rows, [round(TRAINED * len(rows))])
        level = NOISE if name == NOISY else 0.0
        train = X[first] + level * deviation * rng.normal(size=X[first].shape)
        found.append(Hospital(name, train, y[first], X[last], y[last]))
    return found


def write_files(found: list[Hospital], folder: Path) -> dict[str, Path]:
    """The training rows as CSV files, by hospital."""
    folder.mkdir(parents=True, exist_ok=True)
    names = load_heart().feature_names
    files = {}
    for hospital in found:
        path = files[hospital.name] = folder / f"{hospital.name}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*names, "disease"])
            for row, label in zip(hospital.train.tolist(), hospital.train_y, strict=True):
                writer.writerow([f"{value:.6g}" for value in row] + [_word(float(label))])
    return files


def _word(label: float) -> str:
    return "yes" if label > 0.0 else "no"
