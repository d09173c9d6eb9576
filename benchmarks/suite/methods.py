r"""Rounds and kilobytes: Algorithm 1, the methods of the field, and FedNL's published figures.

Algorithm 1 and consensus ADMM have the very problem of the bundle method; Algorithm 1 gets the best
step size of a grid. AFL, DRFA and SCAFF-PD look for the model whose worst client is best. FedNL is
l2-regularised logistic regression: :math:`\min\ \text{mean loss}+\tfrac12\lambda\|w\|_2^2` has the
solution of the robust problem with radius :math:`\rho=\lambda\|w^*\|_2`, which is what is solved
here; its figures are those of its published prototype on a9a with 3 clients and
:math:`\lambda=10^{-3}`, and are not measured again.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_svmlight_file

import drfl
from benchmarks.native import WORST, Run, heart
from benchmarks.suite.row import Line, Row, Skipped
from drfl.datasets import load_heart, partition
from drfl.run import Result
from drfl.solvers.admm import AdLpmm, Admm

SECTION = "methods"
STEP_SIZES = (0.01, 0.03, 0.1, 0.3)
LEVELS = (1e-2, 1e-3, 1e-4)
ROUNDS = 400
RIDGE = 1e-3
# Rounds to relative gaps, and kilobytes per client to the first and the last of them.
FEDNL_LEVELS = (1e-4, 1e-6, 1e-9)
FEDNL = {
    "full Hessians": ((8, 9, 10), (458, None, 580)),
    "rank-one updates": ((12, 19, 30), (41, None, 59)),
}


def rows(options: argparse.Namespace) -> Iterator[Line]:
    yield from _exact()
    yield from _field()
    yield from _fednl(options)


def _exact() -> Iterator[Row]:
    """Solvers of the same problem on heart, ten clients: rounds to a true gap."""
    bunch = load_heart()
    parts = partition.random(len(bunch.target), 10, np.random.default_rng(0))
    clients = [drfl.Client(f"c{s}", bunch.data[i], bunch.target[i]) for s, i in enumerate(parts)]
    problem = drfl.Problem("hinge", drfl.Ball(0.01, "l1", 1e3), drfl.Mixture(radius=0.1))
    best = drfl.solve(problem, clients, tol=1e-8)
    optimum = (best.objective + best.lower_bound) / 2.0

    def reach(solver: object) -> list[tuple[float, float]]:
        result = drfl.solve(problem, clients, solver=solver, tol=1e-5, max_rounds=ROUNDS)
        return [_cost(result, optimum * (1.0 + level)) for level in LEVELS]

    ours = reach("bundle")
    rivals = {
        "Algorithm 1": min((reach(AdLpmm(c=c)) for c in STEP_SIZES), key=lambda r: r[::-1]),
        "its tight version": min(
            (reach(AdLpmm(c=c, tight=True)) for c in STEP_SIZES), key=lambda r: r[::-1]
        ),
        "consensus ADMM": reach(Admm()),
    }
    for name, theirs in rivals.items():
        yield from _compared(f"heart, 10 clients, {name}", ours, theirs)


def _field() -> Iterator[Row]:
    """Native methods on heart, five clients: the worst client's loss, smooth hinge."""
    clients, loss = heart(), "smooth_hinge"
    best = drfl.solve(drfl.Problem(loss, mixture=WORST), clients, tol=1e-8).objective
    names = ("bundle", "afl", "drfa", "scaff_pd")
    found = {
        name: Run(name, loss, WORST, clients, ROUNDS).reached(best, worst=True) for name in names
    }
    ours = found.pop("bundle")
    for name, theirs in found.items():
        yield from _compared(f"heart, worst of 5 clients, {name}", ours, theirs)


def _compared(
    name: str, ours: list[tuple[float, float]], theirs: list[tuple[float, float]]
) -> Iterator[Row]:
    """One row for the tightest level that both reach; how far the rival came is told."""
    common = [k for k, cost in enumerate(theirs) if math.isfinite(cost[0] + ours[k][0])]
    if not common:
        detail = f"never within {LEVELS[0]:g} in {ROUNDS} rounds; drfl in {ours[0][0]:.0f}"
        ratio = ROUNDS / ours[0][0]
        yield Row(SECTION, f"{name}: rounds", ratio, guarded=False, detail=detail)
        return
    k = common[-1]
    rounds, size = (theirs[k][j] / ours[k][j] for j in (0, 1))
    missed = "" if k == len(LEVELS) - 1 else f", {LEVELS[k + 1]:g} not in {ROUNDS}"
    level = f"to {LEVELS[k]:g}"
    detail = f"{theirs[k][0]:.0f} rounds against {ours[k][0]:.0f} {level}{missed}"
    yield Row(SECTION, f"{name}: rounds", rounds, detail=detail)
    detail = f"{theirs[k][1]:.1f} kB per client against {ours[k][1]:.1f} {level}"
    yield Row(SECTION, f"{name}: kilobytes", size, detail=detail)


def _fednl(options: argparse.Namespace) -> Iterator[Line]:
    name = "a9a, 3 clients, logistic, FedNL's figures"
    if options.libsvm is None:
        yield Skipped(SECTION, name, "it needs LIBSVM's file a9a: --libsvm PATH")
        return
    X, y = load_svmlight_file(str(options.libsvm), n_features=123)
    X = X.toarray()
    parts = partition.random(len(y), 3, np.random.default_rng(0))
    ball = drfl.Ball(RIDGE * _norm(X, y), "l2")
    problem = drfl.Problem("logistic", ball, intercept="none")
    clients = [drfl.Client(f"c{s}", X[i], y[i]) for s, i in enumerate(parts)]
    result = drfl.solve(problem, clients, tol=FEDNL_LEVELS[-1])
    for kind, figures in FEDNL.items():
        yield from _beside_fednl(f"a9a, FedNL with {kind}", result, *figures)


def _beside_fednl(
    name: str, result: Result, rounds: tuple[int, ...], sizes: tuple[int | None, ...]
) -> Iterator[Row]:
    optimum = (result.objective + result.lower_bound) / 2.0
    for level, theirs, size in zip(FEDNL_LEVELS, rounds, sizes, strict=True):
        ours, kilobytes = _cost(result, optimum * (1.0 + level))
        proved = next((r.round for r in result.history if r.gap <= level), None)
        said = f"proved in {proved}" if proved else "not proved"
        yield Row(
            SECTION,
            f"{name}, to {level:g}: rounds",
            theirs / ours,
            detail=f"{theirs} rounds against {ours:.0f} ({said})",
        )
        if size is not None:
            detail = f"{size} kB per client against {kilobytes:.0f}"
            yield Row(SECTION, f"{name}, to {level:g}: kilobytes", size / kilobytes, detail=detail)


def _norm(X: np.ndarray, y: np.ndarray) -> float:
    r""":math:`\|w^*\|_2` of the ridge problem, by Newton's method."""
    w = np.zeros(X.shape[1])
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(y * (X @ w)))
        g = -X.T @ (p * y) / len(y) + RIDGE * w
        H = (X * (p * (1.0 - p))[:, None]).T @ X / len(y) + RIDGE * np.eye(len(w))
        step = np.linalg.solve(H, g)
        w -= step
        if np.linalg.norm(step) < 1e-12:
            break
    return float(np.linalg.norm(w))


def _cost(result: Result, level: float) -> tuple[float, float]:
    """The first round whose objective is at most that, and kilobytes per client until then."""
    for record in result.history:
        if record.objective <= level:
            size = sum(record.bytes_up.values()) + sum(record.bytes_down.values())
            return float(record.round), size / len(record.bytes_up) / 1e3
    return math.inf, math.inf
