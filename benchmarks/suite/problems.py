"""The data and problems of the comparisons, and how good a model is."""

from __future__ import annotations

import numpy as np

import drfl
from drfl.client import Client
from drfl.rows import Rows
from drfl.run import Result
from drfl.worst_case import make_oracle

TOL, EXACT = 1e-4, 1e-7
RADIUS = 0.01
TALL = (50_000, 50)


def two_classes(n_rows: int, n_features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian rows, labelled by a noisy plane through 0; made in blocks, to need no memory."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=n_features) / np.sqrt(n_features)
    X, y = np.empty((n_rows, n_features)), np.empty(n_rows)
    for start in range(0, n_rows, 100_000):
        part = X[start : start + 100_000]
        part[:] = rng.normal(size=part.shape)
        y[start : start + 100_000] = np.where(
            part @ w + 0.7 * rng.normal(size=len(part)) > 0, 1, -1
        )
    return X, y


def targets(n_rows: int, n_features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian rows and a linear target with noise of heavy tails."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=n_features) / np.sqrt(n_features)
    X = rng.normal(size=(n_rows, n_features))
    return X, X @ w + 0.5 * rng.standard_t(3, size=n_rows)


def solved(
    problem: drfl.Problem, X: np.ndarray, y: np.ndarray, tol: float = TOL, solver: str = "local"
) -> Result:
    """One client, from its arrays to a certified model; refuses anything less."""
    result = drfl.solve(problem, [Client("one", X, y)], tol=tol, solver=solver)
    if result.gap > tol:
        raise RuntimeError(f"drfl proved {result.gap:.1e} only: {result.status}")
    return result


def excess(
    problem: drfl.Problem, X: np.ndarray, y: np.ndarray, w: np.ndarray, b: float, solver: str
) -> float:
    """How far the worst-case loss of a model is above the optimum, relative to it."""
    best = solved(problem, X, y, tol=EXACT, solver=solver)
    oracle = make_oracle(Rows(X, y), problem.loss, problem.ball_of("one"))
    return oracle.evaluate(w, b).value / best.lower_bound - 1.0
