"""Several additive scores at once: the adversary in x against brute force, and the whole method."""

from itertools import product

import numpy as np
import pytest

import drfl
from drfl.curves import Curves
from drfl.losses.joint import JOINT
from drfl.rows import Rows
from drfl.worst_case.curves import JointCurveOracle
from drfl.worst_case.joint import JointOracle
from kit.joint_referee import JointReferee, losses

KNOTS = [[-0.5, 0.4, 1.1], [0.2]]
K = 3


def drawn(seed, cost, norm="l1", radius=0.3):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(5, 2)), np.array([0.0, 1.0, 2.0, 1.0, 0.0])
    curves = Curves(KNOTS)
    W, b = rng.normal(size=(K, curves.n_slopes)), rng.normal(size=K)
    return X, y, curves, W, b, drfl.Ball(radius, norm, cost)


def by_brute_force(X, y, curves, W, b, ball, name):
    """min over prices of the best of all products of knots and of staying, with every label."""
    ends = np.array([W[:, [curves.of(j).start, curves.of(j).stop - 1]] for j in range(curves.n)])
    signed = ends * np.array([-1.0, 1.0])
    labels = range(K) if np.isfinite(ball.label_cost) else set(y.astype(int))
    rates = [(signed - signed[:, [k]]).max(axis=2, initial=0.0) for k in labels]  # (n, K)
    least = max((r.max(axis=0) if ball.norm.name == "l1" else r.sum(axis=0)).max() for r in rates)
    gains, costs = [], []
    for x, own in zip(X, y.astype(int), strict=True):
        away = [abs(v - t) for v, own in zip(x, KNOTS, strict=True) for t in own]
        steps = [] if ball.norm.name == "l1" else [side * r for r in away for side in (-1.0, 1.0)]
        columns = [[v, *t, *(v + r for r in steps)] for v, t in zip(x, KNOTS, strict=True)]
        places = np.array(list(product(*columns)))
        every = losses(name, curves.expand(places) @ W.T + b)
        moved = np.abs(places - x)
        moved = moved.sum(axis=1) if ball.norm.name == "l1" else moved.max(axis=1)
        cost = moved[:, None] + np.where(np.arange(K) == own, 0.0, ball.label_cost)
        gains.append(every.ravel())
        costs.append(cost.ravel())

    def phi(price):
        worth = [
            np.where(np.isfinite(c), g - price * np.where(np.isfinite(c), c, 0.0), -np.inf).max()
            for g, c in zip(gains, costs, strict=True)
        ]
        return ball.radius * price + np.mean(worth)

    low, high = least, least + 100.0
    for _ in range(200):
        a, c = low + (high - low) / 3.0, high - (high - low) / 3.0
        low, high = (low, c) if phi(a) <= phi(c) else (a, high)
    return phi(0.5 * (low + high))


@pytest.mark.parametrize("norm", ["l1", "linf"])
@pytest.mark.parametrize("cost", [np.inf, 0.8])
@pytest.mark.parametrize("name", list(JOINT))
@pytest.mark.sampled(2)
def test_what_is_found_is_the_best_of_brute_force_and_within_the_bound(name, cost, norm):
    exact = 0
    for seed in range(6):
        X, y, curves, W, b, ball = drawn(seed, cost, norm)
        ball = drfl.Problem("hinge", ball, curves=curves).ball_of("a")  # between ramps
        oracle = JointCurveOracle(Rows(X, y), JOINT[name], ball, curves, K)
        worst = oracle.evaluate(W, b)
        best = by_brute_force(X, y, curves, W, b, ball, name)
        ramps = JointOracle(Rows(curves.expand(X), y), JOINT[name], ball, K).evaluate(W, b).value
        assert worst.value <= best * (1.0 + 1e-9)
        assert best <= ramps * (1.0 + 1e-9)
        if name == "hinge":
            assert worst.value == pytest.approx(best, rel=1e-7)
            assert worst.bound is None  # exact, and said to be
        else:
            assert worst.bound == pytest.approx(ramps, rel=1e-8)
        exact += worst.value >= best * (1.0 - 1e-4)
        d = worst.distribution()
        assert d.cost <= ball.radius * (1.0 + 1e-9)
        assert d.mass.sum() == pytest.approx(1.0)
        z = curves.expand(d.x) @ W.T + b
        told = losses(name, z)[np.arange(len(d.y)), d.y.astype(int)]
        assert d.expected_loss == pytest.approx(float(d.mass @ told), rel=1e-9)
        assert d.expected_loss >= worst.value - d.tolerance - 1e-7 * worst.value
    assert exact >= 4


@pytest.mark.parametrize(
    ("loss", "cost", "norm", "intercept"),
    [
        ("logistic", 1.0, "l1", "shared"),
        ("logistic", 1.0, "linf", "shared"),
        ("logistic", np.inf, "linf", "per_client"),
        ("hinge", 0.5, "linf", "none"),
    ],
)
def test_the_optimum_is_that_of_the_ramps(loss, cost, norm, intercept):
    rng = np.random.default_rng(0)
    curves = Curves(KNOTS)
    data = {}
    for name in "ab":
        X = rng.normal(size=(40, 2))
        data[name] = X, np.digitize(X[:, 0] ** 2 + 0.3 * rng.normal(size=40), [0.3, 1.2]) * 1.0
    ball, mixture = drfl.Ball(0.05, norm, cost), drfl.Mixture("uniform", 0.2, 1)
    problem = drfl.Problem(loss, ball, mixture, curves=curves, classes=K, intercept=intercept)
    assert drfl.Problem.from_dict(problem.to_dict()) == problem
    clients = [drfl.Client(name, X, y) for name, (X, y) in data.items()]
    result = drfl.solve(problem, clients, tol=1e-6)
    assert result.status.kind == "certified"
    assert result.coef.shape == (K, curves.n_slopes)
    ramps = {name: (curves.expand(X), y) for name, (X, y) in data.items()}
    assert JointReferee.of(problem, ramps).judge(result, 1e-6) == []


@pytest.mark.parametrize("norm", ["l1", "linf"])
def test_what_differences_of_scores_do_not_have_is_refused(norm):
    curves = Curves(KNOTS, [["increasing"], []])
    with pytest.raises(ValueError, match="no rules for the shapes of curves"):
        drfl.Problem("logistic", drfl.Ball(0.1, norm), curves=curves, classes=3)
