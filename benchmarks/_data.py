"""Data sets of the benchmarks, and how they are divided into clients."""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import arff
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_svmlight_file,
    load_wine,
)

from drfl import datasets
from drfl.datasets import partition

Data = tuple[Any, np.ndarray]

# Denser than this, or small, a file is read into a plain array.
SPARSE_BELOW, SMALL = 0.05, 10_000_000
SKEW = 0.25
SEVERAL = {"iris": load_iris, "wine": load_wine, "digits": load_digits}


class MissingFileError(Exception):
    """The file of a data set was not given."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--libsvm", type=Path, metavar="PATH", help="a LIBSVM file of two classes")
    parser.add_argument("--features", type=int, help="its number of features (123 for a9a)")
    parser.add_argument(
        "--arff",
        type=Path,
        metavar="PATH",
        help="a regression file, ARFF or CSV with a header (California housing)",
    )
    parser.add_argument("--target", default="medianHouseValue", help="the column to be predicted")


def load(data: str | tuple[int, int], options: argparse.Namespace) -> Data:
    """A data set by its name, or synthetic data by their numbers of rows and features."""
    if data == "sparse300":
        return binary(49_749, 300, np.random.default_rng(0))
    if isinstance(data, tuple):
        return synthetic(*data, np.random.default_rng(0))
    if data in ("heart", "heart-standard"):
        bunch = datasets.load_heart()
        return bunch.data if data == "heart" else standardised(bunch.data), bunch.target
    if data in SEVERAL:
        X, y = SEVERAL[data](return_X_y=True)
        return standardised(X), y.astype(float)
    if data == "five classes":
        return five_classes(np.random.default_rng(5))
    if data == "wisconsin":
        bunch = datasets.load_breast_cancer()
        return bunch.data, bunch.target
    if data == "breast-cancer":
        bunch = load_breast_cancer()
        return standardised(bunch.data), 2.0 * bunch.target - 1.0
    if data == "abalone":
        bunch = datasets.load_abalone()
        table = standardised(np.column_stack([bunch.data, bunch.target]))
        return table[:, :-1], table[:, -1]
    if data == "additive":
        sys.path.append(str(Path(__file__).parents[1]))  # a script sees its own folder alone
        from experiments.additive import synthetic as curved

        X, y = curved()
        return standardised(X), y
    if data == "libsvm":
        return _libsvm(options.libsvm, options.features)
    return _regression(options.arff, options.target)


def synthetic(n_rows: int, n_features: int, rng: np.random.Generator) -> Data:
    """Gaussian rows, labelled by a noisy plane through 0."""
    w = rng.normal(size=n_features) / np.sqrt(n_features)
    X = rng.normal(size=(n_rows, n_features))
    return X, np.where(X @ w + 0.7 * rng.normal(size=n_rows) > 0.0, 1.0, -1.0)


def five_classes(rng: np.random.Generator) -> Data:
    """20,000 rows of 50 columns, labelled by a softmax of scores."""
    K, n, N = 5, 50, 20_000
    W, X = 2.0 * rng.normal(size=(K, n)) / np.sqrt(n), rng.normal(size=(N, n))
    return X, (X @ W.T + rng.gumbel(size=(N, K))).argmax(axis=1).astype(float)


def binary(n_rows: int, n_features: int, rng: np.random.Generator) -> Data:
    """Columns of 0 and 1, ever rarer, and 3 % of the rows of one class."""
    shares = np.clip(0.3 / np.arange(1, n_features + 1) ** 0.7, 0.002, 0.5)
    X = (rng.random((n_rows, n_features)) < shares).astype(np.float64)
    z = X @ (1.5 * rng.normal(size=n_features)) + rng.logistic(size=n_rows)
    return X, np.where(z > np.quantile(z, 0.97), 1.0, -1.0)


def standardised(X: np.ndarray) -> np.ndarray:
    """In standard units; constant columns are 0."""
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)


def split(kind: str, y: np.ndarray, n_clients: int, seed: int) -> list[np.ndarray]:
    """Row numbers of each client: "random", or "skew", sorted by the label plus noise."""
    rng = np.random.default_rng(seed)
    if kind == "random":
        return partition.random(len(y), n_clients, rng)
    return partition.sorted_skew(y, n_clients, SKEW, rng)


def _libsvm(path: Path | None, n_features: int | None) -> Data:
    if path is None:
        raise MissingFileError("--libsvm PATH")
    X, y = load_svmlight_file(str(path), n_features=n_features)
    classes = np.unique(y)
    if len(classes) != 2:
        raise SystemExit(f"{path.name} has {len(classes)} classes: two are needed")
    size = X.shape[0] * X.shape[1]
    if size <= SMALL or X.nnz > SPARSE_BELOW * size:
        X = X.toarray()
    return X, np.where(y == classes[1], 1.0, -1.0)


def _regression(path: Path | None, target: str) -> Data:
    if path is None:
        raise MissingFileError("--arff PATH")
    names, table = _read_csv(path) if path.suffix == ".csv" else _read_arff(path)
    if target not in names:
        raise SystemExit(f"{path.name} has no column {target!r}: --target is one of {names}")
    table, k = standardised(table), names.index(target)
    return np.delete(table, k, axis=1), table[:, k]


def _read_arff(path: Path) -> tuple[list[str], np.ndarray]:
    rows, meta = arff.loadarff(path)
    return meta.names(), np.array(rows.tolist(), dtype=np.float64)


def _read_csv(path: Path) -> tuple[list[str], np.ndarray]:
    with path.open(newline="") as file:
        names, *rows = csv.reader(file)
    return names, np.array(rows, dtype=np.float64)
