"""What differential privacy costs.

    python benchmarks/privacy_dp.py [--runs 10] [--check]

Three clients with N rows each, synthetic, logistic, n = 13, l2, radius 0.003, delta 1e-6, with an
intercept. Rows are normal and cut to a length of sqrt(13); the true coefficients have length 1.5
("easy", an objective of about 0.52) or 2.5 ("hard", 0.41) and differ a little between clients. Per
line, medians over the runs: the excess of the model over the optimum of the cut rows, which a run
without noise gives to 1e-8; the excess that is proved with probability 99 %; the proved gap, which
holds the noise of the value too; in how many runs that holds for all models, in the others for
those in a region, and the gap is that of the region; and in how many runs something was not true.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is loaded

import numpy as np

import drfl
from drfl.privacy.dp import DifferentialPrivacy
from drfl.worst_case import make_oracle

CLIENTS, FEATURES = 3, 13
PROBLEM = drfl.Problem("logistic", drfl.Ball(0.003, "l2"))
LENGTHS = {"easy": 1.5, "hard": 2.5}
# What the excess and the proved gap are to be at most.
TARGETS = {
    (10_000, 1.0): (0.008, 0.23),
    (10_000, 3.0): (0.001, 0.08),
    (100_000, 1.0): (3e-4, 0.022),
}
HEAD = (
    "|       N | epsilon | data | excess | proved excess | proved gap | for all models | false | "
    "seconds |"
)


def data_of(rows: int, kind: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows and labels of every client."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=FEATURES)
    w *= LENGTHS[kind] / np.linalg.norm(w)
    found = []
    for _ in range(CLIENTS):
        X = rng.normal(size=(rows, FEATURES))
        score = X @ (w + 0.1 * rng.normal(size=FEATURES)) + 0.3
        found.append((X, np.where(rng.random(rows) < 1.0 / (1.0 + np.exp(-score)), 1.0, -1.0)))
    return found


def clients_of(data, epsilon: float, seed: int) -> list[drfl.Client]:
    """Clients with a budget of their own and repeatable noise."""
    return [
        drfl.Client(
            f"client{s}",
            X,
            y,
            privacy=DifferentialPrivacy(
                epsilon,
                norm=FEATURES**0.5,
                draw=np.random.default_rng((seed, s)).standard_normal,
            ),
        )
        for s, (X, y) in enumerate(data)
    ]


def measure(
    rows: int, epsilon: float, kind: str, runs: int
) -> tuple[float, float, float, int, int]:
    """Medians of true excess, proved excess and gap; runs proved for all models; false ones."""
    data = data_of(rows, kind)
    cut = [client.rows for client in clients_of(data, epsilon, 0)]
    plain = [drfl.Client(f"client{s}", part.X, part.y) for s, part in enumerate(cut)]
    best = drfl.solve(PROBLEM, plain, tol=1e-8).objective
    oracles = [make_oracle(part, PROBLEM.loss, PROBLEM.ball) for part in cut]
    lines, everywhere, false = [], 0, 0
    for seed in range(runs):
        result = drfl.solve(PROBLEM, clients_of(data, epsilon, seed), solver="private")
        value = statistics.fmean(o.evaluate(result.coef, result.intercept).value for o in oracles)
        last = result.history[-1].info
        proved, margin = last["excess"], last["value_margin"]
        gap = min(1.0, (2.0 * margin + proved) / result.objective)
        lines.append((value / best - 1.0, proved / result.objective, gap))
        everywhere += result.status.kind == "private"
        false += value > result.objective or value - best > proved or result.lower_bound > best
    excess, proved, gap = (statistics.median(column) for column in zip(*lines, strict=True))
    return excess, proved, gap, everywhere, false


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--check", action="store_true", help="fail if a target is missed")
    options = parser.parse_args()
    missed = []
    print(HEAD)
    print("|" + "---|" * (HEAD.count("|") - 1))
    for (rows, epsilon), targets in TARGETS.items():
        for kind in LENGTHS:
            start = time.process_time()
            excess, proved, gap, everywhere, false = measure(rows, epsilon, kind, options.runs)
            seconds = (time.process_time() - start) / options.runs
            print(
                f"| {rows:7,} | {epsilon:g} | {kind} | {excess:.3%} | {proved:.2%} | {gap:.2%} | "
                f"{everywhere} of {options.runs} | {false} | {seconds:.2f} |",
                flush=True,
            )
            if excess > targets[0] or gap > targets[1] or false > 1:
                missed.append((rows, epsilon, kind))
    if options.check and missed:
        print(f"missed: {missed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
