"""How much F_s and its gradient cost, as multiples of one ``X @ w`` plus one ``X.T @ v``.

    python benchmarks/oracle.py [--rows 1000000] [--repeats 15] [--check]

One thread, CPU time: on an idle machine that is the time, on a busy one it comes close. The repeats
go round all cases, so that other work on the machine is unfair to all alike; the best counts.
Memory is what one evaluation allocates at its peak beyond the rows, in vectors of length N; one
block of rows comes on top of the four vectors that are allowed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"  # before NumPy is loaded

import numpy as np
from scipy import sparse

from drfl.losses import make_loss
from drfl.rows import Rows
from drfl.rows.operator import BLOCK_ELEMENTS
from drfl.supports import Box
from drfl.uncertainty import Ball
from drfl.worst_case import make_oracle

VECTORS = 4
UNSET = float("inf")  # no target: to be seen, and for its memory


@dataclass
class Case:
    """Something to be timed, and the floor it is compared with."""

    name: str
    run: Callable[[], object]
    n_rows: int
    floor: Case | None = None
    target: float = UNSET
    seconds: float = float("inf")

    def time(self) -> None:
        start = time.process_time()
        self.run()
        self.seconds = min(self.seconds, time.process_time() - start)

    @property
    def ratio(self) -> float:
        return self.seconds / self.floor.seconds if self.floor else 1.0

    def peak(self) -> float:
        """What one run allocates at its peak, in vectors."""
        tracemalloc.start()
        self.run()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak / (8 * self.n_rows)

    @property
    def allowed(self) -> float:
        return VECTORS + BLOCK_ELEMENTS / self.n_rows


@dataclass
class Data:
    """Rows of one kind, a model, and the floor of both."""

    X: Any
    w: np.ndarray
    rng: np.random.Generator

    def __post_init__(self) -> None:
        X, w = self.X, self.w
        self.n_rows, n = X.shape
        self.targets = X @ w + self.rng.normal(size=self.n_rows)
        self.signs = np.where(self.targets > 0.0, 1.0, -1.0)
        kind = "sparse" if sparse.issparse(X) else "dense"
        name = f"{kind} X @ w plus X.T @ v, {self.n_rows:,} x {n}"
        self.floor = Case(name, lambda: (X @ w, X.T @ self.targets), self.n_rows)

    def case(
        self,
        name: str,
        loss: str,
        ball: Ball,
        target: float = UNSET,
        *,
        weights: np.ndarray | None = None,
        binds: bool = False,
    ) -> Case:
        """Value and gradient of a client with these rows."""
        kind, w = make_loss(loss), self.w
        y = self.signs if kind.task == "classification" else self.targets
        oracle = make_oracle(Rows(self.X, y, weights=weights), kind, ball)
        if binds and not 0.0 < oracle.evaluate(w, 0.1).multiplier < ball.norm.dual(w):
            sys.exit(f"{name}: the box does not bind, so that nothing has to be searched")
        return Case(name, lambda: oracle.evaluate(w, 0.1), self.n_rows, self.floor, target)


def dense_cases(N: int, rng: np.random.Generator) -> list[Case]:
    n = 50
    data = Data(rng.uniform(-1.0, 1.0, size=(N, n)), rng.normal(size=n) / 4.0, rng)
    # The searches that have no closed form take tens of passes: fewer rows.
    few = Data(data.X[: max(1, N // 50)], data.w, rng)
    small, labels, box = Ball(0.01), Ball(0.01, "l1", 1.0), Box(-1.0, 1.0)
    weights = rng.uniform(0.5, 1.5, size=N)
    return [
        data.floor,
        data.case("hinge", "hinge", small, 1.15),
        data.case("logistic", "logistic", small, 1.6),
        data.case("Huber", "huber", small, 1.3),
        data.case("hinge, label cost 1", "hinge", labels, 1.2),
        data.case("hinge, l1 box that binds", "hinge", Ball(1.0, support=box), 5.0, binds=True),
        data.case("same, labels flip too", "hinge", Ball(2.0, "l1", 4.0, box), binds=True),
        data.case("logistic, label cost 1", "logistic", labels),
        data.case("hinge, label cost 1, weighted", "hinge", labels, weights=weights),
        data.case("hinge, every label may flip", "hinge", Ball(9.0, "l1", 1.0)),
        few.floor,
        few.case("logistic, l1 box", "logistic", Ball(1.0, support=box), binds=True),
        few.case("hinge, l2 box", "hinge", Ball(0.3, "l2", support=box), binds=True),
    ]


def sparse_cases(N: int, rng: np.random.Generator) -> list[Case]:
    n = 200
    X = sparse.random_array((N, n), density=0.05, format="csr", rng=rng)
    data, small = Data(X, rng.normal(size=n), rng), Ball(0.01)
    return [
        data.floor,
        data.case("sparse hinge", "hinge", small, 1.7),
        data.case("sparse logistic", "logistic", small, 2.8),
        data.case("sparse hinge, label cost 1", "hinge", Ball(0.01, "l1", 1.0)),
    ]


def report(cases: list[Case]) -> bool:
    """Print the table; whether every target is met."""
    print(f"{'':42} {'ms':>7} {'ratio':>7} {'target':>6} {'vectors':>8} {'allowed':>8}")
    met = True
    for item in cases:
        line = f"{item.name:42} {1e3 * item.seconds:7.1f} {item.ratio:7.2f}"
        if item.floor:
            vectors = item.peak()
            good = item.ratio <= item.target and vectors <= item.allowed
            met = met and good
            target = "" if item.target == UNSET else f"{item.target:.2f}"
            line += f" {target:>6} {vectors:8.2f} {item.allowed:8.2f}{'' if good else '  MISSED'}"
        print(line)
    return met


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the dense cases")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    cases = dense_cases(options.rows, rng) + sparse_cases(max(1, options.rows // 10), rng)
    for _ in range(options.repeats):
        for item in cases:
            item.time()
    met = report(cases)
    if options.check and not met:
        sys.exit(1)


if __name__ == "__main__":
    main()
