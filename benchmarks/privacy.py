"""What a guard costs, and what goes without one.

    python benchmarks/privacy.py [--rows N ...] [--features n ...] [--guards k ...] [--seeds 5]
                                 [--records FILE] [--check] [--losses]

Three clients with N rows each, synthetic, hinge, l1, radius 0.01, label cost inf, mixture radius
0.1, with an intercept. One row per N, n and k, medians over the seeds: the certified relative gap,
the rounds, how many rows of the three clients some linear combination of their cuts isolates, and
how many lower bounds were above the optimum, which a run without a guard gives to 1e-8. Without a
guard (k = 0) the clients send cuts of all rows and nothing else, up to a certified 1e-6. A file of
records gets a line of JSON per run; a run that is in it already is not made again. With
``--losses``: two clients of N = 200 rows, n = 4, k = 5, radius 0.05, every loss that a guard knows,
with and without labels (targets) that move: the least and the largest gap, and invalid bounds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is loaded

import numpy as np

import drfl
from drfl.engines import SerialEngine
from drfl.privacy import Guard

CLIENTS, GUARDS = 3, (0, 3, 5, 10)
# The certified gap at k = 5, n = 13.
TARGETS = {(1000, 13, 5): 1.5e-3, (10_000, 13, 5): 2e-5}
HEAD = (
    "|      N |   n |    k | runs | certified gap | 90 % below | rounds | rows isolated | invalid "
    "| seconds | target |"
)


class Recording(SerialEngine):
    """Keeps the points that every client evaluates."""

    def __init__(self):
        super().__init__()
        self.points = {}

    def map(self, messages, deadline):
        for name, message in messages.items():
            if message.kind == "bundle":
                self.points.setdefault(name, []).extend(message.arrays.get("x", []))
        return super().map(messages, deadline)


def make_data(N, n, seed, clients=CLIENTS, regression=False):
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=n)
    direction /= np.linalg.norm(direction)
    for _ in range(clients):
        X = rng.normal(size=(N, n))
        score = X @ direction + 0.5 * rng.normal(size=N)
        yield X, score if regression else np.where(score > 0.0, 1.0, -1.0)


def isolated(client, points):
    """Rows that some linear combination of the cuts consists of."""
    y, sent = client.rows.y, []
    if client.ledger is not None:
        sent = [e.arrays["weights"] for e in client.ledger.entries if "weights" in e.arrays]
    else:
        for x in points:
            sent.append(-y * (y * client.rows.scores(x[:-1], float(x[-1])) < 1.0))
    U, s, _ = np.linalg.svd(np.array([np.ones_like(y), y, *sent]).T, full_matrices=False)
    return int(((U[:, s > 1e-9 * s[0]] ** 2).sum(axis=1) > 1.0 - 1e-9).sum())


def measure(N, n, k, seed):
    """Certified gap, rounds, rows isolated, whether the lower bound is false, processor seconds."""
    ball, mixture = drfl.Ball(0.01, "l1"), drfl.Mixture(radius=0.1, p=1)
    problem = drfl.Problem("hinge", ball, mixture, intercept="shared")
    return _measured(problem, list(make_data(N, n, seed)), k, seed)


def measure_loss(loss, label_cost, seed):
    """The same of a loss, on few rows."""
    ball, mixture = drfl.Ball(0.05, "l1", label_cost), drfl.Mixture(radius=0.1, p=1)
    problem = drfl.Problem(loss, ball, mixture, intercept="shared")
    regression = problem.loss.task == "regression"
    return _measured(problem, list(make_data(200, 4, seed, 2, regression)), 5, seed)


def _measured(problem, data, k, seed):
    plain = [drfl.Client(f"c{s}", X, y) for s, (X, y) in enumerate(data)]
    optimum = drfl.solve(problem, plain, tol=1e-8).objective
    policy = drfl.Policy(curvature=False, groups=False, dual_cuts=False)
    guard = Guard(k, secret=bytes([seed])) if k else None
    clients = [
        drfl.Client(f"c{s}", X, y, policy=policy, guard=guard) for s, (X, y) in enumerate(data)
    ]
    engine, start = Recording(), time.process_time()
    result = drfl.solve(problem, clients, engine=engine, tol=1e-6, max_rounds=150)
    seconds = time.process_time() - start
    rows = sum(isolated(client, engine.points[client.name]) for client in clients)
    return result.gap, result.rounds, rows, result.lower_bound > optimum * (1.0 + 1e-7), seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100, 300, 1000, 10_000])
    parser.add_argument("--features", type=int, nargs="+", default=[13, 100])
    parser.add_argument("--guards", type=int, nargs="+", default=GUARDS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--records", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--losses", action="store_true")
    options, missed = parser.parse_args(), []
    if options.losses:
        wrong = losses(options.seeds, options.records)
        sys.exit(bool(wrong and options.check))
    print(HEAD, "|---" * (HEAD.count("|") - 1) + "|", sep="\n")
    for n in options.features:
        for N in options.rows:
            for k in options.guards:
                missed += line(N, n, k, options.seeds, options.records)
    if options.check and missed:
        sys.exit(1)


def losses(seeds, records):
    """Print a row per loss; how many lower bounds were false."""
    print("| Loss | label cost inf | label cost 1 | runs | invalid |", "|---" * 5 + "|", sep="\n")
    wrong = 0
    for loss in drfl.losses.LOSSES:
        cells, invalid = [], 0
        for cost in (np.inf, 1.0):
            runs = list(runs_of(measure_loss, (loss, cost), seeds, records))
            cells.append(f"{min(run[0] for run in runs):.1e} to {max(run[0] for run in runs):.1e}")
            invalid += sum(run[3] for run in runs)
        print(f"| {loss} | {' | '.join(cells)} | {2 * seeds} | {invalid} |", flush=True)
        wrong += invalid
    return wrong


def runs_of(measure, case, seeds, records):
    """Measure every seed of a case, or take it from the records."""
    kept = {}
    if records is not None and records.exists():
        for text in records.read_text(encoding="utf-8").splitlines():
            key, run = json.loads(text)
            kept[tuple(key)] = tuple(run)
    for seed in range(seeds):
        key = (*case, seed)
        if key not in kept:
            kept[key] = measure(*key)
            if records is not None:
                with records.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([key, kept[key]]) + "\n")
        yield kept[key]


def line(N, n, k, seeds, records):
    """Print a row; what it misses."""
    name = f"| {N:6} | {n:3} | {k or 'none':>4} |"
    try:
        runs = list(runs_of(measure, (N, n, k), seeds, records))
    except ValueError as error:
        print(f"{name} refused: {str(error).split(': ', 1)[1]} |", flush=True)
        return []
    gap, rounds, rows, _, seconds = (
        statistics.median(column) for column in zip(*runs, strict=True)
    )
    high = float(np.quantile([run[0] for run in runs], 0.9))
    invalid, target = sum(run[3] for run in runs), TARGETS.get((N, n, k))
    met = "" if target is None else f"{target:.1e} {'met' if gap <= target else 'MISSED'}"
    print(
        f"{name} {len(runs):4} | {gap:13.1e} | {high:10.1e} | {rounds:6.0f} | {rows:13.0f} "
        f"| {invalid:7} | {seconds:7.1f} | {met} |",
        flush=True,
    )
    return [name] if invalid or (target is not None and gap > target) else []


if __name__ == "__main__":
    main()
