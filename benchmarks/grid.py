"""A whole grid of fits: the paper's, for the heart data and three clients.

    python benchmarks/grid.py [--sample 30] [--check]

15 radii, 10 label costs, 6 mixture radii and 5 folds make 4,500 fits with a proved gap of 1e-5.
They are timed in two ways: as `drfl.select` fits them, by ``local`` along a path, where a model
that is proved to be optimal at another grid point too is not computed again; and one by one, each
from nothing. A sample is also solved with cvxpy and Clarabel, one by one: on the whole space, and
in a box around the rows, compactly and as the paper writes it down. On the whole space the
objectives have to agree. The paper's box changes nothing where labels are cheap to flip; how often
that is so is printed as well. Processor time, one thread, everything from rows to models included.
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
from drfl.engines import SerialEngine
from drfl.estimators.client_table import ClientTable
from drfl.selection.grid import candidate
from drfl.selection.path import Fit, follow
from drfl.solvers.local import Local

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


def whole_grid(data: Data, fold: int) -> tuple[float, dict[Point, Fit]]:
    """Seconds and fits of all grid points of a fold, as a selection makes them."""
    start = time.process_time()
    clients = [drfl.Client(f"c{s}", X, y) for s, (X, y) in enumerate(data)]
    names = np.repeat([client.name for client in clients], [len(y) for _, y in data])
    table = ClientTable.of(*(np.concatenate(part) for part in zip(*data, strict=True)), names, None)
    model = drfl.DRFLClassifier(solver="local", mixture_norm=1, tol=TOL)
    points = {}
    for rho, kappa, theta in product(RADII, LABEL_COSTS, MIXTURE_RADII):
        params = {"radius": rho, "label_cost": kappa, "mixture_radius": theta}
        points[rho, kappa, theta, fold] = candidate(model, params, table)
    order = sorted(enumerate(points.values()), key=lambda pair: pair[1].order)
    path = [(number, point, point.problem) for number, point in order]
    fits = follow(path, clients, Local(), SerialEngine(), lambda rounds: None)
    found = {point: fits[number] for number, point in enumerate(points)}
    return time.process_time() - start, found


def sampled(data: list[Data], points: list[Point]) -> dict[str, np.ndarray]:
    """Seconds and objectives (fits, 2) of every way to solve a few of the fits, one by one."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ("local", *RIVALS)}
    for point in points:
        seconds, result = local(data[point[3]], point)
        found["local"].append((seconds, result.objective))
        for name in RIVALS:
            found[name].append(rival(data[point[3]], point, name))
    return {name: np.array(values) for name, values in found.items()}


def compare(sample: dict[str, np.ndarray], each: float) -> list[str]:
    """Print how much slower the others are than a fit of the grid; who misses its target."""
    print("| cvxpy + Clarabel | ms per fit | slower than the grid | than single fits | target |")
    print("|---|---|---|---|---|")
    missed = []
    for name in RIVALS:
        mean, target = sample[name][:, 0].mean(), TARGETS.get(name, 0.0)
        ratios = f"{mean / each:.1f} | {mean / sample['local'][:, 0].mean():.1f}"
        print(f"| {name} | {1e3 * mean:.0f} | {ratios} | {f'{target:g}' if target else ''} |")
        if mean / each < target:
            missed.append(name)
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sample", type=int, default=30, help="fits that cvxpy repeats")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    options = parser.parse_args()
    data, rng = folds(), np.random.default_rng(1)
    grid: list[Point] = list(product(RADII, LABEL_COSTS, MIXTURE_RADII, range(FOLDS)))
    points = [grid[k] for k in rng.permutation(len(grid))[: options.sample]]
    for solve in (local, lambda *case: rival(*case, "paper, box")):
        solve(data[0], grid[0])  # imports
    sample = sampled(data, points)
    runs = [whole_grid(some, fold) for fold, some in enumerate(data)]
    total = sum(seconds for seconds, _ in runs)
    fits = {point: fit for _, found in runs for point, fit in found.items()}
    print(f"{options.sample} fits with cvxpy {_version('cvxpy')}, Clarabel {_version('clarabel')}")
    missed = compare(sample, total / len(fits))
    truth = sample["whole space"][:, 1]
    ours = np.array([fits[point].result.objective for point in points])
    worst = float(np.max([_errors(ours, truth), _errors(sample["local"][:, 1], truth)]))
    changed = int((_errors(sample["paper, box"][:, 1], truth) > TOL).sum())
    proved = sum(fit.result.gap <= TOL for fit in fits.values())
    solved = sum(fit.rounds > 0 for fit in fits.values())
    single = 1e3 * sample["local"][:, 0]
    print(
        f"{len(fits)} fits in {total:.1f} s, {1e3 * total / len(fits):.1f} ms each, {solved} of "
        f"them computed; {proved} proved to {TOL:g}"
    )
    print(f"single fits: {single.mean():.1f} ms each, {single.max():.0f} ms at most")
    print(f"largest relative difference of the objectives on the whole space: {worst:.1e}")
    print(f"the box changes the optimum by more than {TOL:g} in {changed} fits")
    bad = missed or worst > TOL or proved < len(fits)
    return 1 if options.check and bad else 0


def _errors(values: np.ndarray, truth: np.ndarray) -> np.ndarray:
    return np.abs(values - truth) / np.maximum(np.abs(truth), 1e-3)


def _version(package: str) -> str:
    from importlib.metadata import version

    return version(package)


if __name__ == "__main__":
    sys.exit(main())
