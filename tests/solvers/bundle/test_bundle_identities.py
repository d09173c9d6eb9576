"""What must be equal is: identities between problems, special cases, symmetries."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.linear_model import LogisticRegression, QuantileRegressor

from drfl import Ball, Box, Mixture
from drfl.losses import EpsilonInsensitive, Hinge, Huber, Logistic, Pinball, SmoothHinge
from kit.cases import Case, uniform_case

INF = math.inf
TOL = 1e-7


def _data(task, seed, S=3, n=3, N=15):
    rng = np.random.default_rng(seed)
    model, made = rng.normal(size=n), []
    for _ in range(S):
        X = rng.normal(size=(N, n)) + 0.5 * rng.normal(size=n)
        target = X @ model + 0.7 * rng.normal(size=N)
        made.append((X, target if task == "regression" else np.where(target > 0.0, 1.0, -1.0)))
    return made


def _mean_losses(case, x):
    """h of the clients' ordinary mean losses: AFL's objective."""
    plain = replace(case, balls=tuple(replace_radius(ball, 0.0) for ball in case.balls))
    return plain.exact(x)


def replace_radius(ball, radius):
    return Ball(radius, ball.norm, ball.label_cost, ball.support)


# ---------------------------------------------------------------------------- radius and norm
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("kappa", [0.3, 2.0, INF])
@pytest.mark.parametrize("loss", [Huber(1.35), EpsilonInsensitive(0.1), Pinball(0.3)])
@pytest.mark.sampled(4)
def test_regression_is_afl_plus_the_price_of_the_norm(loss, kappa, norm):
    rho = 0.2
    case = uniform_case(
        loss, _data("regression", 1), Ball(rho, norm, kappa), Mixture(radius=0.4, p=2)
    )
    result = case.solve(tol=TOL)
    length = case.balls[0].norm.dual(result.coef)
    price = rho * loss.lipschitz * max(length, 1.0 / kappa)
    np.testing.assert_allclose(
        result.objective, _mean_losses(case, case.at(result)) + price, rtol=1e-9
    )
    # Where the norm is free, the optimum is AFL's: the radius has no effect (erratum 8).
    if length < 0.999 / kappa:
        zero = replace(case, balls=tuple(replace_radius(b, 0.0) for b in case.balls))
        free = zero.solve(tol=TOL).objective
        np.testing.assert_allclose(result.objective, free + price, rtol=1e-6)


def test_a_free_norm_was_among_them():
    case = uniform_case("pinball", _data("regression", 1), Ball(0.2, "l1", 0.3))
    assert np.abs(case.solve().coef).max() < 1.0 / 0.3


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("loss", [Hinge(), SmoothHinge(), Logistic()])
@pytest.mark.sampled(2)
def test_margin_losses_with_fixed_labels_are_afl_plus_the_price_of_the_norm(loss, norm):
    rho = 0.1
    case = uniform_case(loss, _data("classification", 2), Ball(rho, norm, INF), Mixture(radius=0.3))
    result = case.solve(tol=TOL)
    price = rho * case.balls[0].norm.dual(result.coef)
    assert price > 1e-3
    np.testing.assert_allclose(
        result.objective, _mean_losses(case, case.at(result)) + price, rtol=1e-9
    )


# ---------------------------------------------------------------------------- ERM
def _pooled(data):
    return np.vstack([X for X, _ in data]), np.concatenate([y for _, y in data])


def _hinge_lp(X, y):
    """The smallest mean hinge loss, with an intercept."""
    N, n = X.shape
    rows = np.hstack([-y[:, None] * X, -y[:, None], -np.eye(N)])
    cost = np.concatenate([np.zeros(n + 1), np.full(N, 1.0 / N)])
    bounds = [(None, None)] * (n + 1) + [(0.0, None)] * N
    return linprog(cost, rows, -np.ones(N), bounds=bounds, method="highs").fun


def test_without_robustness_the_hinge_is_a_linear_program():
    data = _data("classification", 3)
    result = uniform_case("hinge", data, Ball(0.0), Mixture("proportional")).solve()
    np.testing.assert_allclose(result.objective, _hinge_lp(*_pooled(data)), rtol=2e-6)


def test_without_robustness_the_logistic_loss_is_logistic_regression():
    data = _data("classification", 4)
    case = uniform_case("logistic", data, Ball(0.0), Mixture("proportional"))
    result = case.solve(tol=1e-8)
    fit = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(*_pooled(data))
    np.testing.assert_allclose(result.coef, fit.coef_[0], rtol=1e-3)
    np.testing.assert_allclose(result.intercept, fit.intercept_[0], rtol=1e-3, atol=1e-3)


def test_without_robustness_pinball_is_quantile_regression():
    data = _data("regression", 5)
    case = uniform_case(Pinball(0.3), data, Ball(0.0), Mixture("proportional"))
    result = case.solve()
    X, y = _pooled(data)
    fit = QuantileRegressor(quantile=0.3, alpha=0.0).fit(X, y)
    expected = case.exact(np.append(fit.coef_, fit.intercept_))
    np.testing.assert_allclose(result.objective, expected, rtol=2e-6)


# ---------------------------------------------------------------------------- symmetries
@pytest.mark.parametrize("loss", [Hinge(), Logistic(), Huber(1.35)])
@pytest.mark.parametrize("p", [1, 2, INF])
@pytest.mark.sampled(2)
def test_permuting_clients_permutes_their_weights(loss, p):
    data = _data(loss.task, 6, S=4)
    balls = tuple(Ball(r, "l1", 2.0) for r in (0.02, 0.1, 0.3, 0.05))
    case = Case(loss, tuple(data), balls, Mixture((0.4, 0.3, 0.2, 0.1), radius=0.3, p=p))
    order = [2, 0, 3, 1]
    turned = replace(
        case,
        data=tuple(case.data[s] for s in order),
        balls=tuple(balls[s] for s in order),
        mixture=replace(case.mixture, center=[case.mixture.center[s] for s in order]),
    )
    one, other = case.solve(tol=TOL), turned.solve(tol=TOL)
    np.testing.assert_allclose(one.objective, other.objective, rtol=2 * TOL)
    for values in ("client_losses", "weights"):
        first = np.array(list(getattr(one, values).values()))
        second = np.array(list(getattr(other, values).values()))
        np.testing.assert_allclose(first[order], second, atol=2e-3)


@pytest.mark.parametrize("loss", [Hinge(), Logistic(), Pinball(0.3)])
def test_splitting_a_client_changes_nothing(loss):
    """Two halves that share the client's weight: theta = 0, fixed labels, the whole space."""
    data = _data(loss.task, 7, S=2, N=20)
    ball = Ball(0.1, "l2", INF)
    whole = Case(loss, tuple(data), (ball,) * 2, Mixture((0.7, 0.3)))
    X, y = data[0]
    halves = ((X[::2], y[::2]), (X[1::2], y[1::2]), data[1])
    split = Case(loss, halves, (ball,) * 3, Mixture((0.35, 0.35, 0.3)))
    one, other = whole.solve(tol=TOL), split.solve(tol=TOL)
    np.testing.assert_allclose(one.objective, other.objective, rtol=2 * TOL)
    x = np.append(one.coef, one.intercept)
    np.testing.assert_allclose(whole.exact(x), split.exact(x), rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e6])
@pytest.mark.parametrize("loss", [Hinge(), Logistic(), Huber(1.35), Pinball(0.5)])
@pytest.mark.sampled(4)
def test_units_do_not_matter(loss, scale):
    """Features, radius and label cost in other units: the same losses, w in inverse units."""
    data = _data(loss.task, 8)
    one = uniform_case(loss, data, Ball(0.1, "l1", 1.0), Mixture(radius=0.2)).solve(tol=TOL)
    scaled = [(scale * X, y) for X, y in data]
    ball = Ball(scale * 0.1, "l1", scale * 1.0)
    other = uniform_case(loss, scaled, ball, Mixture(radius=0.2)).solve(tol=TOL)
    assert other.status.kind == "certified"
    np.testing.assert_allclose(one.objective, other.objective, rtol=2 * TOL)


def test_weights_of_rows_are_repetitions():
    X, y = _data("classification", 9, S=1)[0]
    times = np.arange(len(y)) % 3
    ball = Ball(0.1, "l1", 1.0)
    weighted = Case(Hinge(), ((X, y),), (ball,), weights=(times.astype(float),)).solve(tol=TOL)
    repeated = (np.repeat(X, times, axis=0), np.repeat(y, times))
    one = Case(Hinge(), (repeated,), (ball,)).solve(tol=TOL)
    np.testing.assert_allclose(weighted.objective, one.objective, rtol=2 * TOL)


# ---------------------------------------------------------------------------- boxes
def test_a_box_that_changes_the_optimum():
    """Erratum 7, first problem: .2 in the box [-1, 1], 1 on the whole space."""
    X = np.array([[1.0], [-1.0]])
    data, y = [(X, X[:, 0])] * 2, X[:, 0]
    assert set(y) == {-1.0, 1.0}

    def case(support):
        balls = tuple(Ball(rho, "l1", INF, support) for rho in (0.0, 100.0))
        return Case(Hinge(), tuple(data), balls, Mixture((0.9, 0.1)))

    np.testing.assert_allclose(case(Box(-1.0, 1.0)).solve().objective, 0.2, rtol=1e-6)
    np.testing.assert_allclose(case(None).solve().objective, 1.0, rtol=1e-6)


PINNED = [(Hinge(), "l1"), (Hinge(), "l2"), (Logistic(), "l1"), (Pinball(0.3), "linf")]


@pytest.mark.parametrize("intercept", ["none", "shared", "per_client"])
@pytest.mark.parametrize(("loss", "norm"), PINNED)
@pytest.mark.sampled(2)
def test_a_column_with_one_value_in_the_box_is_an_intercept(loss, norm, intercept):
    """No row can leave the value, so that its coefficient is free, and the proof has to see it."""
    data, value = _data(loss.task, 5), 3.7
    with_it = [(np.column_stack([X, np.full(len(X), value)]), y) for X, y in data]
    low, high = np.full(4, -9.0), np.full(4, 9.0)
    low[3] = high[3] = value
    there = uniform_case(loss, with_it, Ball(0.1, norm, 2.0, Box(low, high)))
    found = replace(there, intercept=intercept).solve(tol=1e-6)
    assert found.status.kind == "certified"
    without = uniform_case(loss, data, Ball(0.1, norm, 2.0, Box(low[:3], high[:3])))
    instead = "shared" if intercept == "none" else intercept
    same = replace(without, intercept=instead).solve(tol=1e-6)
    np.testing.assert_allclose(found.objective, same.objective, rtol=2e-6)
    assert found.lower_bound <= same.objective * (1.0 + 1e-9)
    assert same.lower_bound <= found.objective * (1.0 + 1e-9)


def test_a_box_in_which_nothing_can_go_wrong():
    """Erratum 7, second problem: no intercept, box [.9, 1], y = +1: the optimum is 0."""
    X, y = np.array([[0.9], [0.95], [1.0]]), np.ones(3)
    boxed = uniform_case("hinge", [(X, y)], Ball(100.0, "l1", INF, Box(0.9, 1.0)), intercept="none")
    result = boxed.solve()
    assert result.objective <= 1e-6
    assert 0.9 * result.coef[0] >= 1.0 - 1e-6
    free = uniform_case("hinge", [(X, y)], Ball(100.0, "l1", INF), intercept="none")
    np.testing.assert_allclose(free.solve().objective, 1.0, rtol=1e-6)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive(0.1), Pinball(0.3)])
@pytest.mark.sampled(2)
def test_a_far_box_is_the_whole_space(loss, norm):
    data = _data(loss.task, 10, S=2, N=8)
    inside = {
        far: uniform_case(loss, data, Ball(0.1, norm, 2.0, far and Box(-far, far)))
        for far in (None, 1e5)
    }
    results = {far: case.solve(tol=TOL) for far, case in inside.items()}
    assert results[1e5].status.kind == "certified"
    np.testing.assert_allclose(results[1e5].objective, results[None].objective, rtol=1e-6)


@pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive(0.1)])
def test_a_larger_box_is_worse(loss):
    """With a radius that covers the box; with small ones erratum 7 says that nothing changes."""
    data = tuple(_data(loss.task, 11, S=2))
    far = max(float(np.abs(X).max()) for X, _ in data)
    values = []
    for size in (1.0, 2.0, 8.0):
        balls = tuple(Ball(rho, "l1", INF, Box(-size * far, size * far)) for rho in (0.0, 50.0))
        values.append(Case(loss, data, balls, Mixture((0.95, 0.05))).solve().objective)
    assert values[0] < 0.99 * values[1] < 0.98 * values[2]


# ---------------------------------------------------------------------------- more robustness
@pytest.mark.parametrize("p", [1, 2, INF])
@pytest.mark.sampled(2)
def test_the_objective_grows_with_the_uncertainty(p):
    data = _data("classification", 12)

    def objective(rho, theta):
        return (
            uniform_case("hinge", data, Ball(rho, "l1", 1.0), Mixture(radius=theta, p=p))
            .solve()
            .objective
        )

    for values in (
        [objective(rho, 0.2) for rho in (0.0, 0.01, 0.1, 1.0)],
        [objective(0.05, theta) for theta in (0.0, 0.1, 0.5, INF)],
    ):
        assert all(a <= b * (1.0 + 2e-6) for a, b in itertools.pairwise(values))
        assert values[0] < values[-1]
