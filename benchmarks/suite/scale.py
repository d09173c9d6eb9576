r"""100,000 clients of 20 rows, of whom 1 % answer in a round, under a tree of aggregators.

An aggregator asks its 1,000 clients and answers the root as if it were one client: values, cuts and
curvature are means with the weights of the rows. Where no label moves, everybody's multiplier is
the norm of the model, and a mean of cuts is a cut of the mean: bounds stay proved. The mean of the
answers is the answer of a client who holds all these rows, which is checked here on a small group
and then used, so that the simulation takes minutes instead of hours.

An aggregator answers when all its clients have. If those asked are those who have not answered yet,
1 % per round, that takes 100 rounds for each of the root's; if clients come at random, 1 % of all
per round, it takes until the last one has come.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

import drfl
from benchmarks.suite.incremental import Incremental
from benchmarks.suite.problems import RADIUS, two_classes
from benchmarks.suite.row import Row
from drfl.client import Site
from drfl.solvers.bundle import Bundle

SECTION = "scale"
FEATURES, CLIENT_ROWS = 20, 20
GROUPS, GROUP_SIZE = 100, 1_000
SHARE = 0.01
DRIFT = 0.5  # how much the groups' models differ
TOL = 1e-4


def rows(options: argparse.Namespace) -> Iterator[Row]:
    _require_pooling()
    groups = [_group(seed, GROUP_SIZE) for seed in range(GROUPS)]
    for theta in (0.0, 0.1):
        yield from _tree(groups, theta)
    if not options.check:
        yield from _incremental(groups)


def _group(seed: int, n_clients: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a group's clients, one after the other; every group has a drift of its own."""
    X, y = two_classes(n_clients * CLIENT_ROWS, FEATURES, seed)
    rng = np.random.default_rng([seed, 1])
    common = np.random.default_rng(0).normal(size=FEATURES) / np.sqrt(FEATURES)
    w = common + DRIFT * rng.normal(size=FEATURES) / np.sqrt(FEATURES)
    return X, np.where(X @ w + 0.7 * rng.normal(size=len(y)) > 0.0, 1.0, -1.0)


def _tree(groups: list[tuple[np.ndarray, np.ndarray]], theta: float) -> Iterator[Row]:
    clients = [drfl.Client(f"group {k}", X, y) for k, (X, y) in enumerate(groups)]
    problem = drfl.Problem("hinge", drfl.Ball(RADIUS), drfl.Mixture(radius=theta))
    # Clients with 20 rows have no local optimum worth sending, so none is asked for.
    result = drfl.solve(problem, clients, solver=Bundle(warm_start=False), tol=TOL)
    traffic = sum(result.bytes_up.values()) + sum(result.bytes_down.values())
    random = _until_everybody(np.random.default_rng(0), result.rounds)
    facts = {
        "gap": result.gap,
        "rounds": result.rounds,
        "root_bytes": traffic,
        "flat_bytes": traffic * GROUP_SIZE,
        "cohort_rounds": result.rounds * round(1 / SHARE),
        "random_rounds": random,
    }
    detail = (
        f"{result.rounds} rounds of the root: {facts['cohort_rounds']:,} in which 1 % answer, "
        f"{random:,} if 1 % come at random; {traffic / 1e6:.2f} MB at the root, "
        f"{traffic * GROUP_SIZE / 1e9:.2f} GB without aggregators"
    )
    yield Row(
        SECTION,
        f"100,000 clients, tree, theta = {theta:g}: certified gap",
        result.gap,
        at_most=TOL,
        guarded=False,
        detail=detail,
        facts=facts,
    )


def _until_everybody(rng: np.random.Generator, root_rounds: int) -> int:
    """Rounds in which each client comes with probability 1 %, until all have, for every answer."""
    return sum(int(rng.geometric(SHARE, GROUPS * GROUP_SIZE).max()) for _ in range(root_rounds))


def _incremental(groups: list[tuple[np.ndarray, np.ndarray]]) -> Iterator[Row]:
    """Nobody waits: every round takes the answers of 1 % and keeps the old ones of the others."""
    run = Incremental(groups, CLIENT_ROWS, RADIUS, SHARE)
    found = run.until(TOL, passes=20)
    yield Row(
        SECTION,
        "100,000 clients, old answers kept, theta = 0: certified gap",
        found.gap,
        more_is_better=False,
        guarded=False,
        detail=(
            f"after {found.rounds:,} rounds in which 1 % come at random; "
            f"{found.root_bytes / 1e6:.1f} MB at the root with {GROUPS} aggregators"
        ),
        facts={"gaps": found.gaps, "rounds": found.rounds, "root_bytes": found.root_bytes},
    )


def _require_pooling() -> None:
    """The mean of a group's answers has to be the answer of a client with all its rows."""
    X, y = _group(0, 30)
    problem = drfl.Problem("hinge", drfl.Ball(RADIUS))
    leaves = [slice(k, k + CLIENT_ROWS) for k in range(0, len(y), CLIENT_ROWS)]
    point = np.random.default_rng(1).normal(size=FEATURES + 1)
    alone = [_answer(problem, X[rows], y[rows], point) for rows in leaves]
    together = _answer(problem, X, y, point)
    for name in ("value", "cuts"):
        mean = np.mean([answer[name] for answer in alone], axis=0)
        if not np.allclose(mean, together[name], rtol=1e-12, atol=1e-12):
            raise RuntimeError(f"the mean of the clients' {name} is not that of their rows")


def _answer(
    problem: drfl.Problem, X: np.ndarray, y: np.ndarray, point: np.ndarray
) -> Mapping[str, Any]:
    oracle = Site(drfl.Client("one", X, y), problem).oracle
    at = oracle.evaluate(point[:-1], float(point[-1]))
    g = np.append(at.gradient, at.intercept_gradient)
    return {"value": np.array([at.value]), "cuts": np.append(at.value - g @ point, g)}
