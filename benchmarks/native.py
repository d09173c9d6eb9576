"""What the methods that the field knows need to be as good as the exact optimum.

    python benchmarks/native.py [--rounds 1000] [--losses smooth_hinge hinge] [--methods afl ...]

First for all methods: rounds and kilobytes per client (up and down) until the worst client's loss
is within 1e-2, 1e-3 and 1e-4 (relative) of the exact optimum of min max_s F_s, beside ``bundle``.
Methods for the mean of the losses have another minimum and need not come near: the last column says
where they end (WAFL's losses are those of moved rows). So second, for those whose problem is the
mean: the same until the mean is near its own optimum. Settings are the defaults, and a round is an
exchange: DRFA and SCAFF-PD use two for each of their own. One thread.
"""

from __future__ import annotations

import argparse
import math
import os

for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"  # before NumPy is loaded

import numpy as np

import drfl
from drfl.datasets import partition
from drfl.native import METHODS
from drfl.result import Result

LEVELS = (1e-2, 1e-3, 1e-4)
WORST = drfl.Mixture(radius=math.inf)
MEAN = ("fedavg", "fedprox", "scaffold", "fedadmm")


def heart(n_clients: int = 5) -> list[drfl.Client]:
    """Standardised, divided so that the clients' shares of the classes differ."""
    bunch = drfl.datasets.load_heart()
    X = (bunch.data - bunch.data.mean(axis=0)) / bunch.data.std(axis=0)
    parts = partition.sorted_skew(bunch.target, n_clients, 0.25, np.random.default_rng(0))
    return [drfl.Client(f"heart {s}", X[i], bunch.target[i]) for s, i in enumerate(parts)]


def synthetic(n_clients: int = 8, n_features: int = 10) -> list[drfl.Client]:
    """Clients with rows, a mean, a spread and a model of their own."""
    rng = np.random.default_rng(0)
    common, clients = rng.normal(size=n_features), []
    for s in range(n_clients):
        spread, mean = np.exp(0.3 * rng.normal(size=n_features)), 0.3 * rng.normal(size=n_features)
        X = rng.normal(size=(int(rng.integers(40, 160)), n_features)) * spread + mean
        w = (common + 0.7 * rng.normal(size=n_features)) / math.sqrt(n_features)
        clients.append(drfl.Client(f"c{s}", X, np.sign(X @ w + 0.5 * rng.normal(size=len(X)))))
    return clients


DATA = {"heart": heart, "synthetic": synthetic}


class Progress:
    """The relative distance from the best value, with what it cost to get there."""

    def __init__(self, result: Result, best: float, worst: bool) -> None:
        self.seen = []
        for record in result.history:
            value = record.info.get("worst_loss", record.objective) if worst else record.objective
            size = sum(record.bytes_up.values()) + sum(record.bytes_down.values())
            if math.isfinite(value):
                kilobytes = size / len(record.bytes_up) / 1e3
                self.seen.append((value / best - 1.0, record.round, kilobytes))

    def cells(self) -> list[str]:
        cells = []
        for level in LEVELS:
            first = next((entry for entry in self.seen if entry[0] <= level), None)
            cells.append(f"{first[1]:6d} {first[2]:8.1f}" if first else f"{'-':>6} {'-':>8}")
        return [*cells, f"{self.seen[-1][0]:9.1e}"]


def run(method: str, problem: drfl.Problem, clients: list[drfl.Client], rounds: int) -> Result:
    solver = METHODS[method]() if method in METHODS else method
    return drfl.solve(problem, clients, solver=solver, tol=1e-7, max_rounds=rounds)


def print_tables(loss: str, clients: list[drfl.Client], methods: list[str], rounds: int) -> None:
    mean, worst = (drfl.Problem(loss, mixture=mixture) for mixture in (drfl.Mixture(), WORST))
    bests = [drfl.solve(problem, clients, tol=1e-8).objective for problem in (worst, mean)]
    head = " | ".join([f"{'method':10}", *(f"{f'{level:g}':>15}" for level in LEVELS), "    final"])
    print(f"worst client's loss, at best {bests[0]:.6f}: rounds and kB per client to come within")
    print(head)
    results = {}
    for method in methods:
        robust = method not in METHODS or METHODS[method].robust
        results[method] = run(method, worst if robust else mean, clients, rounds)
        cells = Progress(results[method], bests[0], worst=True).cells()
        print(" | ".join([f"{method:10}", *cells]), flush=True)
    print(f"mean loss, at best {bests[1]:.6f}:")
    print(head)
    if "bundle" in methods:
        results["bundle"] = run("bundle", mean, clients, rounds)
    for method in (name for name in methods if name in ("bundle", *MEAN)):
        cells = Progress(results[method], bests[1], worst=False).cells()
        print(" | ".join([f"{method:10}", *cells]), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1000, help="the most that a method may use")
    parser.add_argument("--losses", nargs="+", default=["smooth_hinge", "hinge"])
    parser.add_argument("--methods", nargs="+", default=["bundle", *METHODS])
    parser.add_argument("--data", nargs="+", default=list(DATA), choices=list(DATA))
    options = parser.parse_args()
    for data in options.data:
        for loss in options.losses:
            clients = DATA[data]()
            print(f"\n{data}, {loss}, {len(clients)} clients")
            print_tables(loss, clients, options.methods, options.rounds)


if __name__ == "__main__":
    main()
