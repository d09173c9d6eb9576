"""The bundle method finds the optimum of the pooled problem: every loss, norm, support and p."""

import math
from itertools import product

import numpy as np
import pytest

from drfl import Ball, Mixture
from drfl.losses import LOSSES, make_loss
from drfl.norms import make_norm
from drfl.solvers.bundle import Bundle
from kit.cases import uniform_case
from kit.cutting_plane import CuttingPlane
from kit.optimality import assert_optimal
from kit.problems import box_around, polyhedron_around

NORMS = ("l1", "l2", "linf")
# Radius and label cost: the norm binds, the label binds, both or neither.
PRICES = ((0.05, math.inf), (0.1, 10.0), (0.02, 0.5), (0.2, 1e3))
THETAS = (0.1, 0.5, 0.0, math.inf)


def _supports(loss, norm):
    """The supports on which a loss and a norm are solved."""
    pieces = bool(make_loss(loss).pieces)
    return ["whole"] + ["box"] * (pieces or norm == "l1") + ["polyhedron"] * pieces


TRIPLES = [
    (loss, norm, support) for loss in LOSSES for norm in NORMS for support in _supports(loss, norm)
]


def _clients(rng, task, S, n, N):
    """Clients that share a model, so that the optimum is not w = 0."""
    model = np.sign(rng.normal(size=n)) * (1.0 + rng.random(n))
    made = []
    for _ in range(S):
        X = rng.normal(size=(N, n)) + 0.3 * rng.normal(size=n)
        target = X @ model + 0.5 * rng.normal(size=N)
        made.append((X, target if task == "regression" else np.where(target > 0.0, 1.0, -1.0)))
    return made


def _case(loss, norm, place, p, S, seed, *, size=1.0):
    rng = np.random.default_rng([seed, S])
    task = make_loss(loss).task
    small = place == "polyhedron"
    n, N = (2, 4) if small else (int(rng.integers(2, 5)), int(rng.integers(8, 16) * size))
    if place == "box" and not make_loss(loss).pieces:
        n = 2  # cutting planes, the yardstick there, are slow beyond
    data = _clients(rng, task, S, n, N)
    rho, kappa = PRICES[seed % len(PRICES)]
    support = None
    if place != "whole":
        X, y = np.vstack([X for X, _ in data]), np.concatenate([y for _, y in data])
        support = (polyhedron_around if small else box_around)(rng, task, X, y)
    return uniform_case(
        loss,
        data,
        Ball(rho, norm, kappa, support),
        Mixture(radius=THETAS[(seed // 3) % len(THETAS)], p=p),
        intercept="shared" if seed % 5 else "none",
    )


def _other_model(case):
    """The model of the reference; of cutting planes where it has no such program."""
    if case.loss.pieces or case.balls[0].support.name == "whole space":
        return case.at(case.reference())
    found = case.solve(solver=CuttingPlane(region=20.0), tol=2e-7, max_rounds=500)
    assert found.gap <= 2e-7
    assert np.abs(case.at(found)).max() < 19.0
    return case.at(found)


def _check(case):
    result = case.solve()
    assert_optimal(case, result, _other_model(case))
    # A problem that w = 0 solves would show nothing. Where flips set the price, w is of the size of
    # one over the label cost, of which the largest is 1000.
    assert np.abs(result.coef).max() > 1e-4


# Every triple with every p; the numbers of clients take turns, and so do the other settings. Of the
# three p of a triple one is fast.
DESIGN = [
    pytest.param(
        *triple,
        p,
        (1, 3, 10)[(k + j) % 3],
        3 * k + j,
        marks=[] if j == k % 3 else pytest.mark.slow,
    )
    for k, triple in enumerate(TRIPLES)
    for j, p in enumerate((1, 2, math.inf))
    if triple[2] != "polyhedron"
]
POLYHEDRA = [
    (*triple, (1, 2, math.inf)[k % 3], (1, 3)[k % 2], 3 * k)
    for k, triple in enumerate(triple for triple in TRIPLES if triple[2] == "polyhedron")
]


@pytest.mark.parametrize(("loss", "norm", "place", "p", "S", "seed"), DESIGN)
@pytest.mark.sampled(7)
def test_the_optimum_is_that_of_the_pooled_problem(loss, norm, place, p, S, seed):
    _check(_case(loss, norm, place, p, S, seed))


@pytest.mark.parametrize(("loss", "norm", "place", "p", "S", "seed"), POLYHEDRA)
@pytest.mark.sampled(5)
def test_the_optimum_in_a_polyhedron_is_that_of_the_pooled_problem(loss, norm, place, p, S, seed):
    _check(_case(loss, norm, place, p, S, seed))


@pytest.mark.slow
@pytest.mark.parametrize("S", [1, 3, 10])
@pytest.mark.parametrize("p", [1, 2, math.inf])
@pytest.mark.parametrize(("loss", "norm", "place"), TRIPLES)
def test_the_whole_grid(loss, norm, place, p, S):
    grid = list(product(TRIPLES, (1, 2, math.inf), (1, 3, 10)))
    seed = 1000 + grid.index(((loss, norm, place), p, S))
    _check(_case(loss, norm, place, p, S, seed, size=2.0))


@pytest.mark.parametrize("norm", NORMS)
def test_split_flips_in_groups_find_the_optimum(norm):
    """Cuts of the losses and of what flips add, group by group, with dual cuts: one optimum."""
    data = _clients(np.random.default_rng(7), "classification", 2, 3, 110)
    case = uniform_case("logistic", data, Ball(0.05, norm, 0.7), Mixture(radius=0.3, p=1))
    result = case.solve(solver=Bundle(groups=2), max_rounds=40)
    # Flips set the price of some client: their cuts are not all 0.
    dual = make_norm(norm).dual(result.coef)
    assert max(result.client_multipliers.values()) > 1.001 * dual
    assert_optimal(case, result, case.at(case.reference()))
