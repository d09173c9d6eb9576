"""The exact worst case of an additive model, against brute force over a grid."""

import math
import tracemalloc
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import drfl.rows.operator
from drfl import Ball, Problem
from drfl.curves import Curves
from drfl.losses import LOSSES, make_loss
from drfl.rows import Rows
from drfl.worst_case.curves import end_rates

CASES = [
    (loss, kappa, norm) for loss in LOSSES for kappa in (math.inf, 0.8) for norm in ("l1", "linf")
]


ONE_LABEL = [case for case in CASES if case[0] in ("hinge", "logistic", "smooth_hinge")]


def _least(loss, curves, w, labels, norm, kappa):
    """The price below which some row would go to infinity."""
    rate = {s: end_rates(curves, s * w) for s in (-1.0, 1.0)}
    total = {s: float(r.max() if norm == "l1" else r.sum()) for s, r in rate.items()}
    if loss.task == "classification":
        return max(total[-y] for y in labels)
    low, high = loss.slope_range
    return max(high * total[1.0], -low * total[-1.0], loss.lipschitz / kappa)


def _brute(loss, problem, rows, w, b, rho, kappa, norm):
    """min over lambda of rho lambda + mean of the best point of a grid with all knots in it."""
    curves, X = problem.curves, rows.take(slice(None))
    margin = loss.task == "classification"
    flips = margin and math.isfinite(kappa)
    tables = []
    for x, y in zip(X, rows.y, strict=True):
        if norm == "l1":
            reach = [
                np.unique(np.concatenate([t, [v], np.linspace(-5.0, 5.0, 21)]))
                for v, t in zip(x, curves.knots, strict=True)
            ]
        else:
            near = [np.abs(np.array(t) - v) for v, t in zip(x, curves.knots, strict=True)]
            steps = np.unique(np.concatenate([[0.0], *near]))
            reach = [
                np.unique(np.concatenate([v - steps, v + steps, t]))
                for v, t in zip(x, curves.knots, strict=True)
            ]
        P = np.array(list(product(*reach)))
        step = np.abs(P - x)
        cost = step.sum(axis=1) if norm == "l1" else step.max(axis=1)
        z = curves.expand(P) @ w + b
        pairs = [(loss.value(y * z if margin else z - y), cost)]
        if flips:
            pairs.append((loss.value(-y * z), cost + kappa))
        tables.append(tuple(np.concatenate(part) for part in zip(*pairs, strict=True)))
    labels = {-1.0, 1.0} if flips else set(rows.y.tolist())
    least = _least(loss, curves, w, labels, norm, kappa)

    def phi(lam):
        return rho * lam + np.mean([(v - lam * c).max() for v, c in tables])

    most = max(10.0 * least, 30.0)
    found = minimize_scalar(phi, bounds=(least, most), method="bounded", options={"xatol": 1e-13})
    return min(found.fun, phi(least), phi(most))


@pytest.mark.parametrize(("name", "kappa", "norm"), CASES)
def test_the_exact_worst_case_is_that_of_brute_force(name, kappa, norm):
    loss = make_loss(name)
    for seed in range(4):
        rng = np.random.default_rng([seed, CASES.index((name, kappa, norm))])
        X, curves, w, b = drawn(rng)
        y = rng.normal(size=4) if loss.task == "regression" else rng.choice([-1.0, 1.0], 4)
        judge(loss, kappa, norm, rng, curves, Rows(X, y), w, b)


@pytest.mark.parametrize(("name", "kappa", "norm"), ONE_LABEL)
def test_so_it_is_where_all_rows_have_one_label(name, kappa, norm):
    for label in (-1.0, 1.0):
        rng = np.random.default_rng([5, ONE_LABEL.index((name, kappa, norm))])
        X, curves, w, b = drawn(rng)
        rows = Rows(X, np.full(4, label))
        judge(make_loss(name), kappa, norm, rng, curves, rows, w, b)


def drawn(rng):
    """Four rows of two columns, curves of them, slopes and an intercept."""
    curves = Curves([sorted(rng.normal(size=k).tolist()) for k in (3, 2)])
    X, w, b = 1.5 * rng.normal(size=(4, 2)), rng.normal(size=curves.n_slopes), rng.normal()
    return X, curves, w, float(b)


def judge(loss, kappa, norm, rng, curves, rows, w, b):
    """The value is that of brute force, at most that of the ramps, and what the atoms lose."""
    rho = float(rng.choice([0.05, 0.3, 1.0]))
    problem = Problem(loss, Ball(rho, norm, kappa), curves=curves)
    worst = problem.oracle(rows, "a").evaluate(w, b)
    best = _brute(loss, problem, rows, w, b, rho, kappa, norm)
    np.testing.assert_allclose(worst.value, best, rtol=2e-7, atol=1e-9)
    # The ramps bound it, and the adversary's atoms say how it comes about.
    dual = problem.norm.dual(w)
    z, margin = problem.scores(rows, w, b), loss.task == "classification"
    losses = loss.value(rows.y * z if margin else z - rows.y)
    if math.isinf(kappa) or not margin:
        price = loss.lipschitz * max(dual, 0.0 if margin else 1.0 / kappa)
        assert worst.value <= losses.mean() + rho * price + 1e-9
    d = worst.distribution()
    assert d.cost <= rho * (1.0 + 1e-9)
    np.testing.assert_allclose(d.mass.sum(), 1.0, rtol=1e-9)
    assert d.expected_loss <= worst.value + 1e-9
    assert worst.value - d.expected_loss <= max(d.tolerance, 1e-9) + 1e-6 * worst.value


@pytest.mark.parametrize("norm", ["l1", "linf"])
def test_without_a_budget_rows_stay(norm):
    X, curves, w, b = drawn(np.random.default_rng(0))
    w[[0, 3, 4, 6]] *= 0.01  # the end pieces, so that knots are worth more
    problem = Problem("logistic", Ball(0.0, norm, 0.1), curves=curves)
    rows = Rows(X, np.array([1.0, -1.0, 1.0, 1.0]))
    worst = problem.oracle(rows, "a").evaluate(w, b)
    losses = problem.loss.value(rows.y * problem.scores(rows, w, b))
    np.testing.assert_allclose(worst.value, losses.mean(), rtol=1e-14)
    np.testing.assert_array_equal(worst.distribution().x, X)


@pytest.mark.parametrize("norm", ["l1", "linf"])
def test_a_row_without_mass_does_not_count(norm):
    # A row with the label -1 could be pushed to the right for ever; no other can be at that rate.
    curves, w = Curves([[0.0]]), np.array([0.1, 5.0])
    problem = Problem("logistic", Ball(0.3, norm), curves=curves)
    X, y = np.array([[-0.5], [0.5], [1.0]]), np.array([1.0, 1.0, -1.0])
    two = problem.oracle(Rows(X[:2], y[:2]), "a").evaluate(w, 0.2)
    three = problem.oracle(Rows(X, y, weights=np.array([1.0, 1.0, 0.0])), "a").evaluate(w, 0.2)
    np.testing.assert_allclose(three.value, two.value, rtol=1e-12)
    assert three.distribution().expected_loss == pytest.approx(two.value, rel=1e-6)


@pytest.mark.parametrize("norm", ["l1", "linf"])
@pytest.mark.parametrize("radius", [0.01, 0.3, 30.0])
def test_blocks_of_rows_do_not_matter(norm, radius, monkeypatch):
    rng = np.random.default_rng(0)
    curves = Curves([[-1.0, 0.0, 0.5], [], [0.2]])
    X, y = rng.normal(size=(500, 3)), rng.choice([-1.0, 1.0], 500)
    problem = Problem("logistic", Ball(radius, norm, 0.7), curves=curves)
    oracle = problem.oracle(Rows(X, y), "a")
    w = 3.0 * rng.normal(size=curves.n_slopes)
    whole = oracle.evaluate(w, 0.1)
    monkeypatch.setattr(drfl.rows.operator, "BLOCK_ELEMENTS", 1)  # 64 rows
    parts = oracle.evaluate(w, 0.1)
    np.testing.assert_allclose(parts.value, whole.value, rtol=1e-13)
    np.testing.assert_allclose(parts.multiplier, whole.multiplier, rtol=1e-12)
    np.testing.assert_allclose(parts.distribution().x, whole.distribution().x, rtol=1e-6)


@pytest.mark.parametrize("norm", ["l1", "linf"])
def test_memory_per_row_is_far_from_that_of_the_ramps(norm, monkeypatch):
    monkeypatch.setattr(drfl.rows.operator, "BLOCK_ELEMENTS", 40_000)
    rng = np.random.default_rng(0)
    curves = Curves([np.linspace(-2.0, 2.0, 50)] * 4)
    problem = Problem("logistic", Ball(0.1, norm), curves=curves)
    w, peaks = rng.normal(size=curves.n_slopes), []
    for count in (1000, 2000):
        rows = Rows(rng.normal(size=(count, 4)), rng.choice([-1.0, 1.0], count))
        oracle = problem.oracle(rows, "a")
        tracemalloc.start()
        oracle.evaluate(w, 0.0)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    # Blocks apart: some arrays like X, but none with a number for every slope.
    assert peaks[1] - peaks[0] < 1000 * 8 * curves.n_slopes / 2


def test_a_straight_curve_has_the_worst_case_of_a_line():
    rng = np.random.default_rng(0)
    X, y, w = rng.normal(size=(9, 2)), rng.choice([-1.0, 1.0], 9), rng.normal(size=2)
    line = Problem("logistic", Ball(0.3, "l1", 2.0))
    curve = Problem("logistic", Ball(0.3, "l1", 2.0), curves=Curves([[], []]))
    one, other = (p.oracle(Rows(X, y), "a").evaluate(w, 0.2) for p in (line, curve))
    np.testing.assert_allclose(one.value, other.value, rtol=1e-9)
    np.testing.assert_allclose(one.gradient, other.gradient, atol=1e-4)
