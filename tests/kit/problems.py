"""Random clients, the nasty ones included, and supports that contain their rows."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from drfl.supports import Box, Polyhedron

Array = NDArray[np.float64]
Rows = tuple[Array, Array]
Generator = np.random.Generator


def rows(task: str, rng: Generator, N: int = 8, n: int = 2, noise: float = 0.7) -> Rows:
    """Return Gaussian features and a noisy linear target; both classes if N > 1."""
    X = rng.normal(size=(N, n))
    target = X @ rng.normal(size=n) + noise * rng.normal(size=N)
    if task == "regression":
        return X, target
    y = np.where(target > np.median(target), 1.0, -1.0)
    return X, y


def clients(task: str, rng: Generator, S: int = 3, n: int = 2, N: int = 8) -> list[Rows]:
    """Return S clients of N to 2N rows, each with a model and a mean of its own."""
    made = []
    for _ in range(S):
        X, y = rows(task, rng, int(rng.integers(N, 2 * N + 1)), n)
        made.append((X + 0.5 * rng.normal(size=n), y))
    return made


def _separable(task: str, rng: Generator, n: int) -> Rows:
    X, y = rows(task, rng, n=n, noise=0.0)
    if task == "classification":
        X[:, 0] = y * (1.0 + np.abs(X[:, 0]))
    return X, y


def _duplicates(task: str, rng: Generator, n: int) -> Rows:
    X, y = rows(task, rng, n=n)
    X = np.repeat(X[:3], 3, axis=0)
    y = np.repeat(y[:3], 3)
    y[0] = -y[0]  # the same features with two answers
    return X, y


def _constant_column(task: str, rng: Generator, n: int) -> Rows:
    X, y = rows(task, rng, n=n)
    X[:, -1] = 1.0
    return X, y


def _zero_column(task: str, rng: Generator, n: int) -> Rows:
    X, y = rows(task, rng, n=n)
    X[:, -1] = 0.0
    return X, y


def _collinear(task: str, rng: Generator, n: int) -> Rows:
    X, y = rows(task, rng, n=n)
    X[:, -1] = 2.0 * X[:, 0]
    return X, y


def _one_row(task: str, rng: Generator, n: int) -> Rows:
    return rows(task, rng, N=1, n=n)


def _one_class(task: str, rng: Generator, n: int) -> Rows:
    X, y = rows(task, rng, n=n)
    return X, np.ones_like(y)


def _tiny(task: str, rng: Generator, n: int) -> Rows:
    X, y = rows(task, rng, n=n)
    return 1e-6 * X, y


def _huge(task: str, rng: Generator, n: int) -> Rows:
    X, y = rows(task, rng, n=n)
    return 1e6 * X, y


NASTY: dict[str, Callable[[str, Generator, int], Rows]] = {
    "separable": _separable,
    "duplicates": _duplicates,
    "constant_column": _constant_column,
    "zero_column": _zero_column,
    "collinear": _collinear,
    "one_row": _one_row,
    "one_class": _one_class,
    "tiny": _tiny,
    "huge": _huge,
}


def box_around(
    rng: Generator, task: str, X: Array, y: Array, *, room: float = 0.5, infinite: float = 0.0
) -> Box:
    """Return a box that contains the rows; in regression it bounds the target too.

    About half of its sides touch a row, the others leave up to ``room``; each side is infinite
    with the probability ``infinite``.
    """
    joint = np.column_stack([X, y])
    k = joint.shape[1]
    low = joint.min(axis=0) - room * rng.random(k) * rng.integers(0, 2, k)
    high = joint.max(axis=0) + room * rng.random(k) * rng.integers(0, 2, k)
    low[rng.random(k) < infinite] = -math.inf
    high[rng.random(k) < infinite] = math.inf
    if task == "classification":
        return Box(low[:-1], high[:-1])
    return Box(low[:-1], high[:-1], float(low[-1]), float(high[-1]))


def polyhedron_around(
    rng: Generator, task: str, X: Array, y: Array, *, sides: int = 3, room: float = 0.5
) -> Polyhedron:
    """Return a bounded polyhedron that contains the rows; some sides touch a row.

    In regression it lives in (x, y), with y last. A box of room 1 makes it bounded; the oblique
    sides cut it.
    """
    points = np.column_stack([X, y]) if task == "regression" else X
    k = points.shape[1]
    oblique = rng.normal(size=(sides, k))
    C = np.vstack([oblique, np.eye(k), -np.eye(k)])
    slack = np.concatenate([room * rng.random(sides) * rng.integers(0, 2, sides), np.ones(2 * k)])
    return Polyhedron(C, (points @ C.T).max(axis=0) + slack)
