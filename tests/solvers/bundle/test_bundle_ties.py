"""With radius 0 the optimum is often not unique: the smallest one is returned."""

import math
import warnings
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from drfl import Ball, Mixture
from drfl.losses import make_loss
from drfl.solvers import StatusKind
from kit.cases import Case, uniform_case

TOL = 1e-6
FINISHED = (StatusKind.CERTIFIED, StatusKind.LOCAL)


def _case(loss, seed, *, S=3, n=4, N=5, theta=0.3, p=1, **changes):
    """Fewer rows than an optimum needs to be unique: piecewise-linear and half-flat losses."""
    loss, rng = make_loss(loss), np.random.default_rng(seed)
    model, data = rng.normal(size=n), []
    for _ in range(S):
        X = rng.normal(size=(N, n))
        X[:, -1] = X[:, 0]  # a column twice: its weight can be shared in any proportion
        target = X @ model + 0.3 * rng.normal(size=N)
        regression = loss.task == "regression"
        data.append((X, target if regression else np.where(target > 0.0, 1.0, -1.0)))
    mixture = Mixture(radius=theta, p=p)
    return uniform_case(loss, data, Ball(0.0), mixture, **changes)


def _mean_loss(loss, X, y, w, b):
    """The mean loss of a client as a cvxpy expression."""
    z = X @ w + b - y if loss.task == "regression" else y[:, None] * X @ w + y * b
    values = {
        "hinge": lambda: cp.pos(1.0 - z),
        "smooth_hinge": lambda: cp.huber(cp.pos(1.0 - z), 1.0) / 2.0,
        "epsilon_insensitive": lambda: cp.pos(cp.abs(z) - loss.epsilon),
        "pinball": lambda: cp.maximum(-loss.quantile * z, (1.0 - loss.quantile) * z),
    }[loss.name]()
    return cp.sum(values) / len(y)


def _smallest_norm(case, level):
    """min ||w||_2 over the models whose objective is within the level, theta = 0 or the simplex."""
    w, b = cp.Variable(case.n), cp.Variable() if case.intercept == "shared" else 0.0
    losses = [_mean_loss(case.loss, X, y, w, b) for X, y in case.data]
    if case.mixture.radius == 0.0:
        objective = sum(losses) / len(losses)
    else:
        assert case.resolved.is_simplex
        objective = cp.maximum(*losses) if len(losses) > 1 else losses[0]
    problem = cp.Problem(cp.Minimize(cp.norm(w)), [objective <= level])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # levels near 0 are reached less exactly than it wants
        problem.solve(solver="CLARABEL")
    return float(problem.value)


@pytest.mark.parametrize("theta", [0.0, math.inf])
@pytest.mark.parametrize("loss", ["hinge", "smooth_hinge", "epsilon_insensitive", "pinball"])
@pytest.mark.parametrize("intercept", ["shared", "none"])
@pytest.mark.sampled(2)
def test_the_smallest_of_the_optimal_models_is_returned(loss, theta, intercept):
    case = _case(loss, 1, theta=theta, intercept=intercept)
    result = case.solve(tol=TOL)
    assert result.status.kind in FINISHED
    optimum = case.exact(case.at(case.reference()))
    scale = max(optimum, 1e-3 * case.exact(np.zeros(case.dimension)))
    assert result.objective <= optimum + 1.01 * TOL * scale
    length = float(np.linalg.norm(result.coef))
    # Exactly optimal models are no smaller; those within the tolerance may be.
    assert length <= 1.011 * _smallest_norm(case, optimum + 1e-9 * scale) + 1e-9
    assert length >= _smallest_norm(case, optimum + 1.1 * TOL * scale) * (1.0 - 1e-4) - 1e-9
    assert length > 0.05


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
@pytest.mark.parametrize("theta", [0.3, math.inf])
def test_the_answer_does_not_depend_on_the_order(loss, theta):
    case, rng = _case(loss, 2, theta=theta), np.random.default_rng(0)
    one = case.solve(tol=TOL)
    orders = [rng.permutation(len(y)) for _, y in case.data]
    rows = tuple((X[o], y[o]) for (X, y), o in zip(case.data, orders, strict=True))
    for data in (rows, case.data[::-1]):
        other = replace(case, data=data).solve(tol=TOL)
        scale = max(one.objective, 1e-3 * case.exact(np.zeros(case.dimension)))
        assert abs(one.objective - other.objective) <= 2 * TOL * scale
        difference = np.linalg.norm(one.coef - other.coef) / np.linalg.norm(one.coef)
        # Both norms are within 1 % of the same smallest one, hence both models near it.
        assert difference <= 0.15


def test_equal_columns_share_their_weight():
    """The smallest of all solutions that two equal columns allow gives them equal parts."""
    result = _case("hinge", 3, theta=0.0).solve(tol=TOL)
    first, last = result.coef[0], result.coef[-1]
    assert abs(first) > 1e-2
    assert abs(first - last) <= 0.15 * np.linalg.norm(result.coef)


def test_separable_data_give_the_widest_margin():
    """Optimum 0: the smallest w with all margins at least 1 is the hard-margin classifier."""
    X = np.array([[2.0, 0.0], [3.0, 1.0], [-2.0, 0.5], [-4.0, -1.0]])
    y = np.array([1.0, 1.0, -1.0, -1.0])
    case = uniform_case("hinge", [(X[:2], y[:2]), (X[2:], y[2:])], Ball(0.0))
    result = case.solve(tol=TOL)
    w, b = cp.Variable(2), cp.Variable()
    margins = [cp.multiply(y, X @ w + b) >= 1.0]
    widest = cp.Problem(cp.Minimize(cp.norm(w)), margins)
    widest.solve(solver="CLARABEL")
    assert result.objective <= TOL
    np.testing.assert_allclose(np.linalg.norm(result.coef), widest.value, rtol=0.0101)


def test_a_unique_optimum_stays():
    """Logistic loss on data that overlap: one minimiser, found as it is."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(40, 2))
    y = np.where(X[:, 0] + rng.normal(size=40) > 0.0, 1.0, -1.0)
    case = Case(make_loss("logistic"), ((X, y),), (Ball(0.0),))
    result = case.solve(tol=1e-9)
    np.testing.assert_allclose(case.at(result), case.at(case.reference()), atol=1e-4)
