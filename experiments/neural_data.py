"""Clients for networks: digits in eight hands, hospitals, breast cancer, abalone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from drfl.arrays import Array
from drfl.datasets import load_abalone, load_breast_cancer, partition
from experiments.hospitals import patients

DATA = ("digits", "four hospitals", "breast cancer", "abalone")
NUMBERS = ("abalone",)
WRITERS, TABLES = 8, 5
"""Clients of digits, and of the tables that have no clients of their own."""
SKEW = 1.0
"""The Dirichlet parameter of the classes of the writers."""
MOST = 1500
"""Rows that are used of a table."""
TESTED, HELD = 0.3, 0.25
"""Shares: of a client's rows that test; of its training rows by which strengths are chosen."""

Rows = tuple[Array, Array]
"""X (N, n) and y (N,): classes 0, 1, ... or numbers."""


@dataclass(frozen=True, eq=False)
class Split:
    """The rows of every client, divided: what trains, what chooses, what judges."""

    fitting: list[Rows]
    choosing: list[Rows]
    testing: list[Rows]


def split(name: str, seed: int) -> Split:
    """A data set among its clients, divided by this seed."""
    rng = np.random.default_rng([seed, DATA.index(name)])
    clients = _writers(rng) if name == "digits" else _tables(name, rng)
    parts: tuple[list[Rows], list[Rows], list[Rows]] = ([], [], [])
    for X, y in clients:
        order = rng.permutation(len(y))
        tested = round(TESTED * len(y))
        held = tested + round(HELD * (len(y) - tested))
        places = order[held:], order[tested:held], order[:tested]
        for part, rows in zip(parts, places, strict=True):
            part.append((X[rows], y[rows]))
    found = Split(*parts)
    return found if name == "digits" else _standardised(found, numbers=name in NUMBERS)


def _writers(rng: np.random.Generator) -> list[Rows]:
    """Images in [0, 1]: few classes are frequent with a writer, and each has a style."""
    bunch = load_digits()
    images, y = bunch.images / 16.0, bunch.target.astype(np.float64)
    parts = partition.label_skew(y, WRITERS, SKEW, rng)
    return [(_written(images[rows], s), y[rows]) for s, rows in enumerate(parts)]


def _written(images: Array, s: int) -> Array:
    """The style of writer s: a contrast, every second one leaning, every fourth one blurred."""
    styled = images * (1.0 - 0.08 * s)
    if s % 2:
        styled = np.stack([np.roll(styled[:, row], (row < 4), axis=1) for row in range(8)], axis=1)
    if s % 4 == 2:
        styled = (styled + np.roll(styled, 1, axis=1) + np.roll(styled, 1, axis=2)) / 3.0
    return np.asarray(styled.reshape(len(styled), -1))


def _tables(name: str, rng: np.random.Generator) -> list[Rows]:
    """The hospitals; otherwise rows divided by the widest feature, with some noise in the order."""
    if name == "four hospitals":
        found = patients()
        X = np.where(np.isnan(found.X), np.nanmean(found.X, axis=0), found.X)
        y, hospital = (found.y > 0.0).astype(np.float64), found.hospital
        return [(X[hospital == who], y[hospital == who]) for who in np.unique(hospital)]
    bunch = load_abalone() if name == "abalone" else load_breast_cancer()
    keep = rng.permutation(len(bunch.target))[:MOST]
    X, y = bunch.data[keep], bunch.target[keep].astype(np.float64)
    y = y if name in NUMBERS else (y > np.median(np.unique(y))).astype(np.float64)
    by = X[:, int(np.argmax(X.std(axis=0)))]
    rank = np.argsort(np.argsort(by + 0.5 * by.std() * rng.normal(size=len(y))))
    owner = TABLES * rank // len(y)
    return [(X[owner == s], y[owner == s]) for s in range(TABLES)]


def _standardised(found: Split, *, numbers: bool) -> Split:
    """By means and deviations of the training rows; numbers as well."""
    X, y = (np.concatenate(part) for part in zip(*found.fitting, strict=True))
    mean, scale = X.mean(axis=0), X.std(axis=0)
    scale[scale == 0.0] = 1.0
    shift, unit = (float(y.mean()), float(y.std())) if numbers else (0.0, 1.0)

    def moved(part: list[Rows]) -> list[Rows]:
        return [((a - mean) / scale, (b - shift) / unit) for a, b in part]

    return Split(moved(found.fitting), moved(found.choosing), moved(found.testing))


def noisy(part: list[Rows], deviation: float, seed: int) -> list[Rows]:
    """The same rows with noise in their features."""
    rng: np.random.Generator = np.random.default_rng([seed, 77])
    return [(X + deviation * rng.normal(size=X.shape), y) for X, y in part]


def right(outputs: NDArray[np.floating], y: Array) -> float:
    """The share of classes that are right."""
    return float(np.mean(outputs.argmax(axis=1) == y))
