"""Many sparse columns: rounds, bytes, memory and processor time of the first-order method.

    python -m benchmarks.columns [--rows 20000] [--columns 50000] [--check]

Rows have 50 to 60 words, columns are as frequent as 1/rank, entries weigh rare words more and rows
have length 1. The radius is a share of the norm of the slope at w = 0. Beside the federated run
(five clients, certified 1e-3) stands the local solver, and scikit-learn at equal accuracy: saga and
liblinear, and LinearSVC for the hinge loss, each at its loosest tolerance whose objective is within
1e-3 of our lower bound. Memory is the most that was held while the server worked, beside what the
page says; a run of its own measures it. The last rows have 2,000 columns, which the
local solver alone takes. One thread; modules are loaded before the clock starts; the best of five
runs counts, of fewer where they take long.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is loaded
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import drfl
from drfl.losses import make_loss
from drfl.solvers.base import Assignment, Session, Standing
from drfl.solvers.first_order import FirstOrder
from drfl.wire import Message

SHARES = (0.1, 0.03, 0.01)
TOL, CLIENTS, NARROW = 1e-3, 5, 2000
LADDER = (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 1e-4, 1e-5)
MOST_ROUNDS = {"linf": 40, "l2": 60}
RUNS, LONG = 5, 2.0  # of a measurement, at most; seconds after which it is not repeated
MOST_RATIO = 3.0  # local solver to the fastest of the others
# What the page says of the server: the 40 vectors of the steps, five times while a step is
# computed, eight of every client; and the curvature of the columns at work, three of every client.
MOST_VECTORS, MOST_MATRICES = 5 * 40 + 8 * CLIENTS, 3 * CLIENTS
HEAD = "loss, columns, norm, share | rounds | MB up, down | on the server | s | local s | theirs, s"


def text(rows: int, columns: int, words: int = 50, seed: int = 0) -> tuple[Any, np.ndarray]:
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


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds, and the result: the best of five runs, of fewer where they take long."""
    taken: list[float] = []
    while len(taken) < RUNS and sum(taken) < LONG:
        start = time.process_time()
        result = work()
        taken.append(time.process_time() - start)
    return min(taken), result


# ---------------------------------------------------------------------- memory
class Watched(Session):
    """Remembers the most that was held while the server worked."""

    def __init__(self, session: Session) -> None:
        self.session, self.peak = session, 0

    def propose(self) -> dict[str, Message]:
        tracemalloc.reset_peak()
        messages = self.session.propose()
        self._look()
        return messages

    def absorb(self, replies: Mapping[str, Message], failures: Mapping[str, str]) -> None:
        tracemalloc.reset_peak()
        self.session.absorb(replies, failures)
        self._look()

    def _look(self) -> None:
        self.peak = max(self.peak, tracemalloc.get_traced_memory()[1])

    @property
    def standing(self) -> Standing:
        return self.session.standing


class WatchedSolver(FirstOrder):
    """Every array from the start of the run on is seen; the clients' rows were there before."""

    def start(self, task: Assignment) -> Session:
        watched = Watched(super().start(task))
        object.__setattr__(self, "watched", watched)
        return watched


def server_memory(problem: drfl.Problem, clients: list[drfl.Client]) -> tuple[int, int]:
    """Bytes held at most, what clients send included, and what the page says.

    Clients keep nothing between rounds.
    """
    solver = WatchedSolver()
    tracemalloc.start()
    try:
        run = drfl.solve(problem, clients, solver=solver, tol=TOL)
    finally:
        tracemalloc.stop()
    curved = max(record.info["curved_columns"] for record in run.history)
    said = 8 * (MOST_VECTORS * clients[0].n_features + MOST_MATRICES * (curved + 1) ** 2)
    return int(solver.watched.peak), said  # type: ignore[attr-defined]


# ---------------------------------------------------------------------- the others
@dataclass(frozen=True)
class Task:
    """One problem, and what is expected of it."""

    X: Any
    y: np.ndarray
    loss: str
    norm: str
    share: float

    @property
    def radius(self) -> float:
        slope = self.X.T @ (make_loss(self.loss).slope(np.zeros(1))[0] * self.y) / len(self.y)
        size = np.abs(slope).max() if self.norm == "linf" else np.linalg.norm(slope)
        return self.share * float(size)

    @property
    def problem(self) -> drfl.Problem:
        # LinearSVC would penalise an intercept.
        intercept = "none" if self.loss == "hinge" else "shared"
        return drfl.Problem(self.loss, drfl.Ball(self.radius, self.norm), intercept=intercept)

    def objective(self, w: np.ndarray, b: float) -> float:
        """Mean loss plus radius times the dual norm."""
        size = np.abs(w).sum() if self.norm == "linf" else np.linalg.norm(w)
        losses = make_loss(self.loss).value(self.y * (self.X @ w + b))
        return float(losses.mean() + self.radius * size)

    def rivals(self, size: float) -> Iterator[tuple[str, Callable[[float], Any]]]:
        """By name an estimator by its tolerance; ``size``: the l2 norm of the solution."""
        C = (1.0 if self.norm == "linf" else size) / (len(self.y) * self.radius)
        if self.loss == "hinge":
            yield (
                "LinearSVC",
                lambda tol: LinearSVC(
                    loss="hinge", C=C, tol=tol, fit_intercept=False, max_iter=20_000, random_state=0
                ),
            )
            return
        mixed = 1.0 if self.norm == "linf" else 0.0
        for name, more in {
            "saga": {"max_iter": 300},
            "liblinear": {"max_iter": 1000, "intercept_scaling": 10.0},
        }.items():
            yield (
                name,
                lambda tol, name=name, more=more: LogisticRegression(
                    l1_ratio=mixed, C=C, solver=name, tol=tol, random_state=0, **more
                ),
            )

    def their_seconds(self, make: Callable[[float], Any], target: float) -> float:
        """Of the loosest tolerance that reaches the target; infinity: none does."""
        for tol in LADDER:
            model = make(tol)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                taken, _ = seconds(lambda model=model: model.fit(self.X, self.y))
            b = float(np.ravel(model.intercept_)[0]) if model.fit_intercept else 0.0
            if self.objective(model.coef_[0], b) <= target * (1.0 + 1e-9):
                return taken
        return math.inf


# ---------------------------------------------------------------------- the table
class Report:
    """Prints a row for each task, remembers what was missed."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def row(self, task: Task, *, federated: bool) -> None:
        name = f"{task.loss} {task.X.shape[1]:,} {task.norm}, {task.share}"
        pooled = [drfl.Client("all", task.X, task.y)]
        near, alone = seconds(lambda: drfl.solve(task.problem, pooled, solver="local", tol=TOL))
        self._require(name, f"local: {alone.status.kind}", alone.status.kind == "certified")
        theirs = {
            rival: task.their_seconds(make, (1.0 + TOL) * alone.lower_bound)
            for rival, make in task.rivals(float(np.linalg.norm(alone.coef)))
        }
        ratio = near / min(theirs.values())  # 0 if nobody gets there
        self._require(name, f"local / the fastest {ratio:.2f}", ratio <= MOST_RATIO)
        said = ", ".join(f"{rival} {taken:.2f}" for rival, taken in theirs.items())
        far = self._far(name, task) if federated else "-"
        used = np.count_nonzero(alone.coef)
        print(f"{name} | {far} | {near:.2f} | {said} | {ratio:.2f} | {used}", flush=True)

    def _far(self, name: str, task: Task) -> str:
        part = np.random.default_rng(5).integers(0, CLIENTS, len(task.y))
        clients = [
            drfl.Client(f"c{s}", task.X[part == s], task.y[part == s]) for s in range(CLIENTS)
        ]
        taken, run = seconds(lambda: drfl.solve(task.problem, clients, tol=TOL))
        most = MOST_ROUNDS[task.norm]
        certified = run.status.kind == "certified" and run.rounds <= most
        self._require(name, f"{run.status.kind} in {run.rounds} rounds of {most}", certified)
        held, said = server_memory(task.problem, clients)
        memory = f"{held / 1e6:.0f} MB of {said / 1e6:.0f}"
        self._require(name, f"{memory} on the server", held <= said)
        last = run.history[-1]
        up, down = (max(each.values()) / 1e6 for each in (last.bytes_up, last.bytes_down))
        return f"{run.rounds} | {up:.1f}, {down:.1f} | {memory} | {taken:.1f}"

    def _require(self, name: str, what: str, met: bool) -> None:
        if not met:
            self.missed.append(f"{name}: {what}")


def load_modules() -> None:
    """The first run of a process loads what it needs; theirs were loaded with scikit-learn."""
    pooled = [drfl.Client("all", np.eye(4), [1.0, -1.0, 1.0, -1.0])]
    drfl.solve(drfl.Problem("logistic", drfl.Ball(0.01, "l2")), pooled, solver="local")


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=50_000)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    options = parser.parse_args()
    report = Report()
    load_modules()
    print(HEAD, "| ratio | columns used")
    X, y = text(options.rows, options.columns)
    for norm in MOST_ROUNDS:
        for share in SHARES:
            report.row(Task(X, y, "logistic", norm, share), federated=True)
    X, y = text(options.rows, NARROW)
    for loss in ("logistic", "hinge"):
        report.row(Task(X, y, loss, "l2", 0.03), federated=False)
    print(f"\n{len(report.missed)} missed", *report.missed, sep="\n  ")
    if options.check and report.missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
