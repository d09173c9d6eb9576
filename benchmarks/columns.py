"""Many sparse columns: rounds, bytes and processor time of the first-order method.

python -m benchmarks.columns [rows columns]

Rows have 50 to 60 words, columns are as frequent as 1/rank, entries weigh rare words more and rows
have length 1. The radius is a share of the norm of the slope at w = 0. Beside the federated run
(five clients, certified 1e-3) stands the local solver, and scikit-learn's saga at equal accuracy:
its loosest tolerance whose objective is within 1e-3 of our lower bound.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

import drfl

SHARES = {"linf": (0.1, 0.03, 0.01), "l2": (0.1, 0.03, 0.01)}


def text(rows: int, columns: int, words: int = 50, seed: int = 0):
    """Rows like texts, and labels of a linear rule with noise."""
    rng = np.random.default_rng(seed)
    shares = 1.0 / np.arange(1, columns + 1)
    lengths = rng.poisson(1.3 * words, rows) + 3
    places = rng.choice(columns, size=lengths.sum(), p=shares / shares.sum())
    owners = np.repeat(np.arange(rows), lengths)
    X = sparse.csr_matrix((np.ones(len(places)), (owners, places)), shape=(rows, columns))
    X.data = np.log1p(X.data)
    X = X @ sparse.diags(np.log((rows + 1) / (1 + np.bincount(X.indices, minlength=columns))) + 1)
    X = sparse.csr_matrix(sparse.diags(1.0 / np.sqrt(X.multiply(X).sum(axis=1).A1)) @ X)
    rule = np.where(rng.random(columns) < 0.05, 6.0 * rng.normal(size=columns), 0.0)
    z = X @ rule
    y = np.where(z + 0.5 * z.std() * rng.normal(size=rows) > np.median(z), 1.0, -1.0)
    return X, y


def seconds(work):
    """Processor seconds, and the result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def objective(X, y, w, b, radius, norm):
    """Mean loss plus radius times the dual norm."""
    size = np.abs(w).sum() if norm == "linf" else np.linalg.norm(w)
    return np.logaddexp(0.0, -y * (X @ w + b)).mean() + radius * size


def scikit_learn(X, y, radius, norm, target, size):
    """Processor seconds of the loosest tolerance that reaches the target; infinity: none does."""
    strength = len(y) * radius if norm == "linf" else len(y) * radius / size
    for tol in (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 1e-4, 1e-5):
        model = LogisticRegression(
            l1_ratio=1.0 if norm == "linf" else 0.0,
            C=1.0 / strength,
            solver="saga",
            tol=tol,
            max_iter=300,
            random_state=0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            taken, _ = seconds(lambda model=model: model.fit(X, y))
        value = objective(X, y, model.coef_[0], model.intercept_[0], radius, norm)
        if value <= target * (1.0 + 1e-9):
            return taken
    return np.inf


def main() -> None:
    """Print a table."""
    rows, columns = (int(word) for word in sys.argv[1:3]) if len(sys.argv) > 2 else (20_000, 50_000)
    X, y = text(rows, columns)
    slope = X.T @ (-0.5 * y) / rows
    part = np.random.default_rng(5).integers(0, 5, rows)
    five = [drfl.Client(f"c{s}", X[part == s], y[part == s]) for s in range(5)]
    print("norm, share of slope | rounds, MB up, MB down, s | local s, saga s | columns used")
    for norm, shares in SHARES.items():
        for share in shares:
            radius = share * float(np.abs(slope).max() if norm == "linf" else np.linalg.norm(slope))
            problem = drfl.Problem("logistic", drfl.Ball(radius, norm))
            far, run = seconds(lambda problem=problem: drfl.solve(problem, five, tol=1e-3))
            pooled = [drfl.Client("all", X, y)]
            near, alone = seconds(
                lambda problem=problem, pooled=pooled: drfl.solve(
                    problem, pooled, solver="local", tol=1e-3
                )
            )
            size = float(np.linalg.norm(alone.coef))
            theirs = scikit_learn(X, y, radius, norm, 1.001 * alone.lower_bound, size)
            up, down = (
                max(each.values()) / 1e6
                for each in (run.history[-1].bytes_up, run.history[-1].bytes_down)
            )
            print(
                f"{norm}, {share} | {run.rounds} ({run.status.kind}), {up:.1f}, {down:.1f}, "
                f"{far:.1f} | {near:.1f} ({alone.status.kind}), {theirs:.1f} | "
                f"{np.count_nonzero(run.coef)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
