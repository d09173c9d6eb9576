"""A whole grid of fits: the paper's, for the heart data and three clients.

    python benchmarks/grid.py [--sample 30] [--fits 4500] [--check]

15 radii, 10 label costs, 6 mixture radii and 5 folds make 4,500 fits, solved by ``local`` one after
the other with a proved gap of 1e-5. A sample of them is also solved with cvxpy and Clarabel: on the
whole space, and in a box around the rows, compactly and as the paper writes it down. On the whole
space the objectives have to agree. The paper's box changes nothing where labels are cheap to flip;
how often that is so is printed as well. One thread.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from itertools import product

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is loaded
os.environ["MKL_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np

import drfl
from drfl import reference
from drfl.datasets import load_heart, partition

RADII = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 2e-6, 2e-5, 2e-4, 2e-3, 2e-2, 5e-6, 5e-4, 5e-2, 5e-1, 1.0)
LABEL_COSTS = tuple(k / 10 for k in range(1, 11))
MIXTURE_RADII = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
FOLDS, CLIENTS, NOISE, TOL = 5, 3, 0.5, 1e-5
# The least that cvxpy and Clarabel must take, in units of `local`. On the whole space the paper's
# formulation is the compact one, and small.
RIVALS = ("paper, box", "compact, box", "whole space")
TARGETS = {"paper, box": 30.0, "compact, box": 8.0}
Point = tuple[float, float, float, int]
Data = list[tuple[np.ndarray, np.ndarray]]


def folds() -> list[Data]:
    """The training rows of every fold, divided into clients; the first one measures with noise."""
    heart, rng = load_heart(), np.random.default_rng(0)
    fold = rng.permutation(len(heart.target)) % FOLDS
    made = []
    for k in range(FOLDS):
        rows = np.flatnonzero(fold != k)
        parts = [rows[part] for part in partition.random(len(rows), CLIENTS, rng)]
        data = [(heart.data[part], heart.target[part]) for part in parts]
        noise = rng.normal(0.0, NOISE, data[0][0].shape)
        made.append([(data[0][0] + noise, data[0][1]), *data[1:]])
    return made


def local(data: Data, point: Point) -> tuple[float, drfl.Result]:
    """Seconds and result, the making of the clients included."""
    radius, label_cost, theta, _ = point
    start = time.process_time()
    clients = [drfl.Client(f"c{s}", X, y) for s, (X, y) in enumerate(data)]
    ball, mixture = drfl.Ball(radius, "l1", label_cost), drfl.Mixture(radius=theta, p=1)
    result = drfl.solve(drfl.Problem("hinge", ball, mixture), clients, solver="local", tol=TOL)
    return time.process_time() - start, result


def rival(data: Data, point: Point, name: str) -> tuple[float, float]:
    """Seconds and objective of a formulation in cvxpy."""
    radius, label_cost, theta, _ = point
    low = np.min([X.min(axis=0) for X, _ in data], axis=0)
    high = np.max([X.max(axis=0) for X, _ in data], axis=0)
    start = time.process_time()
    answer = reference.solve(
        "hinge",
        data,
        radius=radius,
        label_cost=label_cost,
        norm="l1",
        support=drfl.Box(low, high) if "box" in name else None,
        mixture_radius=theta,
        p=1,
        formulation="paper" if "paper" in name else "compact",
    )
    return time.process_time() - start, answer.objective


def compare(data: list[Data], points: list[Point]) -> tuple[dict[str, float], float, int]:
    """Ratios of seconds, the largest disagreement, and how often the box changes something."""
    seconds, worst, changed = dict.fromkeys(("local", *RIVALS), 0.0), 0.0, 0
    for point in points:
        own, result = local(data[point[3]], point)
        seconds["local"] += own
        scale = max(abs(result.objective), 1e-3)
        for name in RIVALS:
            spent, objective = rival(data[point[3]], point, name)
            seconds[name] += spent
            error = abs(result.objective - objective) / scale
            if "whole" in name:
                worst = max(worst, error)
            elif "paper" in name:
                changed += error > TOL
    return {name: seconds[name] / seconds["local"] for name in RIVALS}, worst, changed


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sample", type=int, default=30, help="fits that cvxpy repeats")
    parser.add_argument("--fits", type=int, default=4500, help="how many of the fits are timed")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    options = parser.parse_args()
    data, rng = folds(), np.random.default_rng(1)
    grid: list[Point] = list(product(RADII, LABEL_COSTS, MIXTURE_RADII, range(FOLDS)))
    order = [grid[k] for k in rng.permutation(len(grid))]
    local(data[0], grid[0])  # imports
    ratios, worst, changed = compare(data, order[: options.sample])
    print(f"{options.sample} fits with cvxpy {_version('cvxpy')}, Clarabel {_version('clarabel')}")
    print("| cvxpy + Clarabel | times slower | target |")
    print("|---|---|---|")
    for name in RIVALS:
        print(f"| {name} | {ratios[name]:.1f} | {TARGETS.get(name, '')} |")
    print(f"largest relative difference of the objectives on the whole space: {worst:.1e}")
    print(f"the box changes the optimum by more than {TOL:g} in {changed} fits")
    timed = [local(data[point[3]], point) for point in order[: options.fits]]
    spent = np.array([own for own, _ in timed])
    proved = sum(result.gap <= TOL for _, result in timed)
    print(
        f"{len(timed)} fits: {spent.sum():.1f} s, {1e3 * np.median(spent):.1f} ms each (median), "
        f"{1e3 * spent.max():.0f} ms at most; {proved} proved to {TOL:g}"
    )
    missed = [name for name, target in TARGETS.items() if ratios[name] < target]
    bad = missed or worst > TOL or proved < len(timed)
    return 1 if options.check and bad else 0


def _version(package: str) -> str:
    from importlib.metadata import version

    return version(package)


if __name__ == "__main__":
    sys.exit(main())
