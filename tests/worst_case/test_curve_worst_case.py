"""The exact worst case of an additive model, against brute force over a grid."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from drfl import Ball, Problem
from drfl.curves import Curves
from drfl.losses import make_loss
from drfl.rows import Rows
from drfl.worst_case.curves import end_rates

CASES = [
    (loss, kappa, norm)
    for loss in ("hinge", "logistic", "smooth_hinge", "huber")
    for kappa in (math.inf, 0.8)
    for norm in ("l1", "linf")
]


def _least(loss, curves, w, labels, norm, kappa):
    """The price below which some row would go to infinity."""
    rate = {s: end_rates(curves, w, s) for s in (-1.0, 1.0)}
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
        curves = Curves([sorted(rng.normal(size=k).tolist()) for k in (3, 2)])
        X, w, b = 1.5 * rng.normal(size=(4, 2)), rng.normal(size=curves.n_slopes), rng.normal()
        y = rng.normal(size=4) if loss.task == "regression" else rng.choice([-1.0, 1.0], 4)
        rho = float(rng.choice([0.05, 0.3, 1.0]))
        problem = Problem(loss, Ball(rho, norm, kappa), curves=curves)
        rows = Rows(X, y)
        worst = problem.oracle(rows, "a").evaluate(w, float(b))
        best = _brute(loss, problem, rows, w, float(b), rho, kappa, norm)
        np.testing.assert_allclose(worst.value, best, rtol=2e-7, atol=1e-9)
        # The ramps bound it, and the adversary's atoms say how it comes about.
        dual = problem.norm.dual(w)
        z, margin = problem.scores(rows, w, float(b)), loss.task == "classification"
        losses = loss.value(y * z if margin else z - y)
        if math.isinf(kappa) or not margin:
            price = loss.lipschitz * max(dual, 0.0 if margin else 1.0 / kappa)
            assert worst.value <= losses.mean() + rho * price + 1e-9
        d = worst.distribution()
        assert d.cost <= rho * (1.0 + 1e-9)
        np.testing.assert_allclose(d.mass.sum(), 1.0, rtol=1e-9)
        assert d.expected_loss <= worst.value + 1e-9
        assert worst.value - d.expected_loss <= max(d.tolerance, 1e-9) + 1e-6 * worst.value


def test_a_straight_curve_has_the_worst_case_of_a_line():
    rng = np.random.default_rng(0)
    X, y, w = rng.normal(size=(9, 2)), rng.choice([-1.0, 1.0], 9), rng.normal(size=2)
    line = Problem("logistic", Ball(0.3, "l1", 2.0))
    curve = Problem("logistic", Ball(0.3, "l1", 2.0), curves=Curves([[], []]))
    one, other = (p.oracle(Rows(X, y), "a").evaluate(w, 0.2) for p in (line, curve))
    np.testing.assert_allclose(one.value, other.value, rtol=1e-9)
    np.testing.assert_allclose(one.gradient, other.gradient, atol=1e-4)
