"""The local solver finds the optimum of every problem on the whole space, and proves it."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy import sparse

import drfl
from drfl.losses import EpsilonInsensitive, Hinge, Huber, Logistic, Pinball, SmoothHinge
from drfl.supports import WholeSpace
from kit.cases import Case, in_units
from kit.problems import NASTY, clients
from kit.random_cases import random_case

LOSSES = [Hinge(), SmoothHinge(), Logistic(), Huber(0.7), EpsilonInsensitive(0.1), Pinball(0.3)]
TOL = 1e-6


def make(loss, norm, label_cost, S, seed, **changes):
    rng = np.random.default_rng(seed)
    data = tuple(clients(loss.task, rng, S=S, n=3, N=10))
    radii = rng.choice([0.02, 0.1, 0.3], S)
    balls = tuple(drfl.Ball(rho, norm, label_cost) for rho in radii)
    mixture = drfl.Mixture(radius=[0.2, 0.4, math.inf][seed % 3], p=[1, 2, math.inf][seed % 3])
    return Case(loss, data, balls, mixture, intercept="shared" if seed % 4 else "none", **changes)


def scale_of(case, value):
    return max(abs(value), 1e-3 * case.exact(np.zeros(case.dimension)))


def check(case, result, optimum, tol=TOL):
    """Certified, with honest numbers, and bounds on the two sides of the optimum."""
    scale = scale_of(case, optimum)
    assert result.status.kind == "certified"
    assert result.gap <= tol
    assert result.objective == pytest.approx(case.exact(case.at(result)), rel=1e-10, abs=1e-12)
    assert result.lower_bound <= optimum + 1e-7 * scale
    assert result.objective <= optimum + 2.0 * tol * scale
    losses = np.array(list(result.client_losses.values()))
    weights = np.array(list(result.weights.values()))
    assert case.resolved.contains(weights)
    assert weights @ losses == pytest.approx(result.objective, rel=1e-9, abs=1e-12)


def method(result):
    return result.history[-1].info["method"]


@pytest.mark.parametrize(
    ("loss", "norm", "label_cost", "S"),
    [
        pytest.param(*case, id=f"{case[0].name}-{case[1]}-{case[2]}-{case[3]}")
        for case in product(LOSSES, ["l1", "l2", "linf"], [math.inf, 0.4], [1, 3])
    ],
)
@pytest.mark.sampled(2)
def test_every_loss_norm_and_label_cost(loss, norm, label_cost, S):
    seed = LOSSES.index(loss) + len(norm) + 3 * S
    case = make(loss, norm, label_cost, S, seed)
    result = case.solve(solver="local", tol=TOL)
    check(case, result, case.reference().objective)
    descent = norm == "l2" or (norm == "linf" and not loss.pieces)
    descent = descent and label_cost == math.inf and S == 1
    if not (descent and loss.pieces):  # few rows of those are left to interior points
        assert method(result) == ("descent" if descent else "interior point")


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.sampled(2)
def test_random_problems_agree_with_the_bundle_method(seed):
    case = random_case(1000 + seed)
    if not isinstance(case.balls[0].support, WholeSpace) or not any(b.radius for b in case.balls):
        case = make(LOSSES[seed % 6], ["l1", "l2", "linf"][seed % 3], 1.0, 2, seed)
    other = case.solve(tol=1e-7)
    check(case, case.solve(solver="local", tol=TOL), other.objective)


@pytest.mark.parametrize("kind", sorted(NASTY))
@pytest.mark.parametrize("loss", [Hinge(), Logistic(), Pinball(0.5)], ids=lambda loss: loss.name)
def test_nasty_data(loss, kind):
    rng = np.random.default_rng(5)
    data = (NASTY[kind](loss.task, rng, 2),)
    case = Case(loss, data, (drfl.Ball(0.1, "l1", 2.0),))
    check(case, case.solve(solver="local", tol=TOL), case.reference().objective)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.sampled(2)
def test_units_do_not_matter(loss, unit):
    case = make(loss, "l2", 0.5, 3, seed=4)
    other = in_units(case, unit)
    first, second = case.solve(solver="local", tol=TOL), other.solve(solver="local", tol=TOL)
    assert second.objective == pytest.approx(first.objective, rel=2.0 * TOL)
    assert second.gap <= TOL


@pytest.mark.parametrize("loss", [Hinge(), Huber(1.0), Logistic()], ids=lambda loss: loss.name)
def test_a_weight_is_a_number_of_copies(loss):
    rng = np.random.default_rng(8)
    X, y = clients(loss.task, rng, S=1, n=3, N=12)[0]
    times = rng.integers(0, 4, len(y))
    ball = drfl.Ball(0.05, "l1", 0.7)
    weighted = Case(loss, ((X, y),), (ball,), weights=(times.astype(float),))
    copied = Case(loss, ((np.repeat(X, times, axis=0), np.repeat(y, times)),), (ball,))
    one, two = (case.solve(solver="local", tol=1e-8) for case in (weighted, copied))
    assert one.objective == pytest.approx(two.objective, rel=1e-7)
    assert weighted.exact(weighted.at(two)) == pytest.approx(one.objective, rel=1e-7)


@pytest.mark.parametrize("density", [0.05, 0.5])
@pytest.mark.parametrize("loss", [Hinge(), SmoothHinge(), Pinball(0.5)], ids=lambda loss: loss.name)
def test_sparse_rows(loss, density):
    rng = np.random.default_rng(2)
    X = sparse.random_array((60, 12), density=density, rng=rng, format="csr")
    z = X @ rng.normal(size=12) + 0.1 * rng.normal(size=60)
    y = np.where(z > 0, 1.0, -1.0) if loss.task == "classification" else z
    problem = drfl.Problem(loss, drfl.Ball(0.01, "linf", 1.0))
    dense, thin = (
        drfl.solve(problem, [drfl.Client("a", rows, y)], solver="local", tol=1e-8)
        for rows in (X.toarray(), X)
    )
    assert thin.objective == pytest.approx(dense.objective, rel=2e-8)
    assert thin.gap <= 1e-8


@pytest.mark.parametrize("loss", [Hinge(), Huber()], ids=lambda loss: loss.name)
def test_sparse_columns_that_are_never_seen(loss):
    """Their coefficients are 0: what makes matrices regular must not go to a copy of them."""
    rng = np.random.default_rng(4)
    X = sparse.random_array((60, 12), density=0.1, rng=rng, format="csr")
    z = X @ rng.normal(size=12) + 0.1 * rng.normal(size=60)
    y = np.where(z > 0, 1.0, -1.0) if loss.task == "classification" else z
    problem = drfl.Problem(loss, drfl.Ball(0.01))
    wide = sparse.hstack([X, sparse.csr_array((60, 60))], format="csr")
    dense, thin = (
        drfl.solve(problem, [drfl.Client("a", rows, y)], solver="local", tol=1e-8)
        for rows in (X.toarray(), wide)
    )
    assert thin.objective == pytest.approx(dense.objective, rel=2e-8)


def test_more_columns_than_rows():
    rng = np.random.default_rng(3)
    case = make(Hinge(), "l1", 1.0, 1, seed=5)
    X = rng.normal(size=(20, 60))
    case = replace(case, data=((X, np.where(X[:, 0] > 0.0, 1.0, -1.0)),))
    check(case, case.solve(solver="local", tol=TOL), case.reference().objective)


def test_shifted_and_scaled_rows_are_those_rows():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(50, 3)) * [1.0, 10.0, 0.1] + 5.0
    y = np.where(X[:, 0] > 5.0, 1.0, -1.0)
    shift, scale = X.mean(axis=0), X.std(axis=0)
    problem = drfl.Problem("hinge", drfl.Ball(0.05, "l2", 1.0))
    folded = drfl.Client("a", X, y, shift=shift, scale=scale)
    plain = drfl.Client("a", (X - shift) / scale, y)
    one, two = (drfl.solve(problem, [c], solver="local", tol=1e-8) for c in (folded, plain))
    assert one.objective == pytest.approx(two.objective, rel=1e-7)
    assert one.coef == pytest.approx(two.coef, abs=1e-3)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_columns_of_zeros_alone(norm):
    problem = drfl.Problem("hinge", drfl.Ball(0.1, norm))
    client = drfl.Client("a", np.zeros((5, 2)), np.array([1.0, 1.0, 1.0, -1.0, -1.0]))
    result = drfl.solve(problem, [client], solver="local")
    assert result.status.kind == "certified"
    assert result.objective == pytest.approx(0.8, rel=1e-3)
