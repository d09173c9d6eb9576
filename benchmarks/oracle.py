"""How much F_s and its gradient cost, as multiples of one ``X @ w`` plus one ``X.T @ v``.

    python benchmarks/oracle.py [--rows 1000000] [--repeats 9] [--check]

One thread. The repeats go round all cases, so that a busy machine is unfair to all alike, and the
best repeat of each counts. Memory is what one evaluation allocates at its peak beyond the rows, in
vectors of length N; one block of rows comes on top of the four vectors that are allowed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"  # before NumPy is loaded

import numpy as np
from scipy import sparse

from drfl.ball import Ball
from drfl.losses import make_loss
from drfl.rows import BLOCK_ELEMENTS, Rows
from drfl.supports import Box
from drfl.worst_case import make_oracle

VECTORS = 4


@dataclass
class Case:
    """Something to be timed, and the floor it is compared with."""

    name: str
    run: Callable[[], object]
    target: float
    floor: Case | None
    vector: int
    seconds: float = field(default=float("inf"))

    def time(self) -> None:
        start = time.perf_counter()
        self.run()
        self.seconds = min(self.seconds, time.perf_counter() - start)

    @property
    def ratio(self) -> float:
        return self.seconds / self.floor.seconds if self.floor else 1.0

    def peak(self) -> float:
        """What one run allocates at its peak, in vectors."""
        tracemalloc.start()
        self.run()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak / self.vector

    @property
    def allowed(self) -> float:
        return VECTORS + 8 * BLOCK_ELEMENTS / self.vector


def dense_cases(N: int, rng: np.random.Generator) -> list[Case]:
    n = 50
    X, w = rng.uniform(-1.0, 1.0, size=(N, n)), rng.normal(size=n) / 4.0
    score = X @ w
    signs = np.where(score + rng.normal(size=N) > 0.0, 1.0, -1.0)
    targets = score + rng.normal(size=N)
    weights = rng.uniform(0.5, 1.5, size=N)
    floor = floor_of("dense", X, w, targets)
    plain, weighted = Rows(X, signs), Rows(X, signs, weights=weights)
    far, box = Ball(0.01), Box(-1.0, 1.0)
    binding = Ball(1.0, support=box)
    return [
        floor,
        case("hinge", plain, w, "hinge", far, 1.15, floor),
        case("logistic", plain, w, "logistic", far, 1.6, floor),
        case("Huber", Rows(X, targets), w, "huber", far, 1.3, floor),
        case("hinge, label cost 1", plain, w, "hinge", Ball(0.01, "l1", 1.0), 1.2, floor),
        case("hinge, l1 box that binds", plain, w, "hinge", binding, 5.0, floor, binds=True),
        # No target of their own: for their memory, and to be seen.
        case("hinge, every label flips", plain, w, "hinge", Ball(9.0, "l1", 1.0), np.inf, floor),
        case("weighted, label cost 1", weighted, w, "hinge", Ball(0.01, "l1", 1.0), np.inf, floor),
    ]


def sparse_cases(N: int, rng: np.random.Generator) -> list[Case]:
    n = 200
    X = sparse.random_array((N, n), density=0.05, format="csr", rng=rng)
    w = rng.normal(size=n)
    signs = np.where(X @ w + rng.normal(size=N) > 0.0, 1.0, -1.0)
    floor = floor_of("sparse", X, w, signs)
    rows, ball = Rows(X, signs), Ball(0.01)
    return [
        floor,
        case("sparse hinge", rows, w, "hinge", ball, 1.7, floor),
        case("sparse logistic", rows, w, "logistic", ball, 2.8, floor),
    ]


def floor_of(kind: str, X: np.ndarray, w: np.ndarray, v: np.ndarray) -> Case:
    name = f"{kind} X @ w plus X.T @ v, {X.shape[0]:,} x {X.shape[1]}"
    return Case(name, lambda: (X @ w, X.T @ v), np.inf, None, 8 * X.shape[0])


def case(
    name: str,
    rows: Rows,
    w: np.ndarray,
    loss: str,
    ball: Ball,
    target: float,
    floor: Case,
    *,
    binds: bool = False,
) -> Case:
    oracle = make_oracle(rows, make_loss(loss), ball)
    if binds and not 0.0 < oracle.evaluate(w, 0.1).multiplier < np.abs(w).max():
        sys.exit(f"{name}: the box does not bind, so that nothing has to be searched")
    return Case(name, lambda: oracle.evaluate(w, 0.1), target, floor, 8 * rows.n_rows)


def report(cases: list[Case]) -> bool:
    """Print the table; whether every target is met."""
    print(f"{'':42} {'ms':>7} {'ratio':>6} {'target':>6} {'vectors':>8} {'allowed':>8}")
    met = True
    for item in cases:
        vectors = item.peak() if item.floor else None
        good = item.ratio <= item.target and (vectors is None or vectors <= item.allowed)
        met = met and good
        target = f"{item.target:6.2f}" if np.isfinite(item.target) else " " * 6
        memory = f"{vectors:8.2f} {item.allowed:8.2f}" if vectors is not None else ""
        missed = "" if good else "  MISSED"
        print(
            f"{item.name:42} {1e3 * item.seconds:7.1f} {item.ratio:6.2f} {target} {memory}{missed}"
        )
    return met


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the dense cases")
    parser.add_argument("--repeats", type=int, default=9)
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
