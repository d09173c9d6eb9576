"""The first-order method finds the optimum, and its bounds hold: against cvxpy and a referee."""

from itertools import product

import numpy as np
import pytest
from scipy import sparse

import drfl
from drfl import reference
from drfl.losses import Huber, Logistic, SmoothHinge
from drfl.solvers.first_order import FirstOrder
from kit import problems
from kit.referee import Referee

LOSSES = {"logistic": Logistic(), "smooth_hinge": SmoothHinge(), "huber": Huber(0.5)}
SETS = [(0.0, 1), (0.4, 1), (0.3, 2), (0.2, np.inf), (np.inf, 1)]


def sparse_rows(task, rng, n=30, N=25):
    """Few entries per row, columns that some rows have and most have not; one is empty."""
    X = sparse.random(N, n, density=0.15, format="csr", random_state=rng).tolil()
    X[:, 3] = 0.0
    X = sparse.csr_matrix(X)
    score = X @ rng.normal(size=n) + 0.3 * rng.normal(size=N) + 0.2
    return X, np.where(score > 0.0, 1.0, -1.0) if task == "classification" else score


def sparse_clients(task, seed, S=3):
    rng = np.random.default_rng(seed)
    return {f"c{s}": sparse_rows(task, rng, N=20 + 3 * s) for s in range(S)}


def parties(data):
    return [drfl.Client(name, X, y) for name, (X, y) in data.items()]


def cases():
    """Without curvature, or with that of few columns, Huber and linf take many rounds: slow."""
    for loss, newton, norm, (theta, p) in product(LOSSES, (0, 4, 1500), ("l2", "linf"), SETS):
        long = (loss, norm) == ("huber", "linf") and newton < 1500 and theta > 0.0
        yield pytest.param(loss, norm, theta, p, newton, marks=[pytest.mark.slow] if long else [])


@pytest.mark.parametrize(("loss", "norm", "theta", "p", "newton"), list(cases()))
@pytest.mark.sampled(11)
def test_the_optimum_is_that_of_cvxpy(loss, norm, theta, p, newton):
    loss = LOSSES[loss]
    data = sparse_clients(loss.task, seed=int(10 * min(theta, 9)))
    ball = {name: drfl.Ball(0.01 + 0.01 * s, norm) for s, name in enumerate(data)}
    problem = drfl.Problem(loss, ball, drfl.Mixture("proportional", theta, p))
    tol = 1e-3 if theta else 1e-5
    result = drfl.solve(problem, parties(data), solver=FirstOrder(newton=newton), tol=tol)
    best = reference.solve(
        loss,
        [(X.toarray(), y) for X, y in data.values()],
        radius=[each.radius for each in ball.values()],
        norm=norm,
        center="proportional",
        mixture_radius=theta,
        p=p,
    ).objective
    assert result.status.kind == "certified"
    assert result.lower_bound <= best * (1.0 + 1e-7)
    assert best * (1.0 - 1e-7) <= result.objective <= best * (1.0 + tol)


def drawn(seed):
    """A random problem that the method knows, rows of any kind."""
    rng = np.random.default_rng(seed)
    loss = list(LOSSES.values())[rng.integers(3)]
    data = problems.clients(
        loss.task, rng, S=int(rng.integers(1, 4)), n=int(rng.integers(1, 6)), N=12
    )
    theta, p = SETS[rng.integers(len(SETS))]
    ball = drfl.Ball(float(rng.choice([0.01, 0.05, 0.5])), str(rng.choice(["l2", "linf"])))
    center = str(rng.choice(["uniform", "proportional"]))
    intercept = "shared" if rng.random() < 0.7 else "none"
    problem = drfl.Problem(loss, ball, drfl.Mixture(center, theta, p), intercept=intercept)
    return problem, {f"c{s}": rows for s, rows in enumerate(data)}


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.sampled(2)
def test_no_bound_is_ever_wrong(seed):
    """After few rounds as well as after many; whatever the rows are."""
    problem, data = drawn(seed)
    referee = Referee.of(problem, data)
    best = referee.optimum()
    newton = (0, 5, 1500)[seed % 3]
    for rounds in (2, 5, 60):
        result = drfl.solve(
            problem, parties(data), solver=FirstOrder(newton=newton), tol=1e-6, max_rounds=rounds
        )
        assert referee.judge(result, np.inf, best) == []
    assert result.gap <= 1e-2, result.status


def test_nothing_pays_where_the_radius_is_large():
    """The optimum is w = 0 with an intercept, and that is proved."""
    data = sparse_clients("classification", 1)
    for norm in ("l2", "linf"):
        problem = drfl.Problem("logistic", drfl.Ball(50.0, norm))
        result = drfl.solve(problem, parties(data), solver="first_order", tol=1e-6)
        assert result.status.kind == "certified"
        assert not result.coef.any()
        assert result.intercept != 0.0


def test_columns_that_do_not_pay_are_exactly_zero():
    data = sparse_clients("classification", 2)
    problem = drfl.Problem("logistic", drfl.Ball(0.03, "linf"))
    result = drfl.solve(problem, parties(data), solver="first_order", tol=1e-6)
    best = drfl.solve(problem, parties(data), tol=1e-9)
    assert 0 < np.count_nonzero(result.coef) < len(result.coef) / 2
    np.testing.assert_array_equal(result.coef != 0.0, np.abs(best.coef) > 1e-6)


def test_scaled_and_weighted_rows_are_those_of_the_dense_ones():
    rng = np.random.default_rng(5)
    X, y = sparse_rows("classification", rng, N=40)
    weights = rng.uniform(0.5, 2.0, size=40)
    shift, scale = rng.normal(size=30), rng.uniform(0.5, 2.0, size=30)
    problem = drfl.Problem("logistic", drfl.Ball(0.02, "linf"))
    made = []
    for features in (X, X.toarray()):
        client = drfl.Client("a", features, y, sample_weight=weights, shift=shift, scale=scale)
        made.append(drfl.solve(problem, [client], solver="first_order", tol=1e-8))
    other = drfl.solve(problem, [client], tol=1e-8)
    assert made[0].objective == pytest.approx(made[1].objective, rel=1e-9)
    assert made[0].objective == pytest.approx(other.objective, rel=1e-7)
