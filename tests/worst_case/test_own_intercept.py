"""The intercept that a client finds for itself: against brute force, for every loss."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from drfl.losses import LOSSES, make_loss
from drfl.rows import Rows
from drfl.supports import Box
from drfl.uncertainty import Ball
from drfl.worst_case import make_oracle
from drfl.worst_case.own_intercept import middle_intercept, own_intercept

SETTINGS = {"huber": {"epsilon": 0.3}, "epsilon_insensitive": {"epsilon": 0.3}}


def drawn(name, seed, support=None):
    """An oracle with ties among its rows now and then, and a model."""
    rng, loss = np.random.default_rng(seed), make_loss(name, **SETTINGS.get(name, {}))
    N = int(rng.integers(3, 40))
    X = rng.normal(size=(N, 2)).clip(-2.0, 2.0)
    X = np.round(X) if seed % 3 == 0 else X
    y = 5.0 + 3.0 * rng.normal(size=N)
    cost = float(rng.choice([1.0, math.inf])) if support is None else math.inf
    if loss.task == "classification":
        y = rng.choice([-1.0, 1.0], N)
        y[:2] = 1.0, -1.0
        cost = float(rng.choice([0.5, 2.0, math.inf]))
    weights = rng.random(N) + 0.1 if seed % 2 else None
    ball = Ball(float(rng.choice([0.0, 0.1, 0.5])), "l1", cost, support)
    return make_oracle(Rows(X, y, weights=weights), loss, ball), rng.normal(size=2)


def mixed(oracle, w, around):
    """The cut (c, g_w) that tangents at these intercepts make, and its slope in b."""
    at = [oracle.evaluate(w, b) for b in around]
    slopes = np.array([worst.intercept_gradient for worst in at])
    share = np.ones(1)
    if len(at) == 2:
        assert slopes[0] < 0.0 < slopes[1]
        share = np.array([slopes[1], -slopes[0]]) / (slopes[1] - slopes[0])
    constants = [
        worst.value - worst.gradient @ w - worst.intercept_gradient * b
        for worst, b in zip(at, around, strict=True)
    ]
    g = share @ np.array([worst.gradient for worst in at])
    return float(share @ constants), g, float(share @ slopes)


@pytest.mark.parametrize("support", [None, Box(-2.0, 2.0)], ids=["whole space", "box"])
@pytest.mark.parametrize("name", sorted(LOSSES))
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.sampled(5)
def test_it_is_the_minimiser_and_its_cut_touches_and_holds(name, seed, support):
    oracle, w = drawn(name, seed, support)
    found = own_intercept(oracle, w)

    def worst(b):
        return oracle.evaluate(w, b).value

    brute = minimize_scalar(worst, bracket=(found.b - 1.0, found.b + 1.3), tol=1e-10).fun
    value = worst(found.b)
    assert value <= brute + 1e-9
    c, g, slope = mixed(oracle, w, found.around)
    assert abs(slope) <= 1e-13
    assert value - (c + g @ w) <= 1e-9
    rng = np.random.default_rng(seed)
    for _ in range(20):  # whatever the model and the intercept
        other, b = w + rng.normal(size=2), found.b + 5.0 * rng.normal()
        assert oracle.evaluate(other, b).value >= c + g @ other - 1e-10
    assert abs(worst(middle_intercept(oracle, w)) - value) <= 1e-9


@pytest.mark.parametrize(
    ("y", "middle"),
    [
        # Margins of rows at 0: everything between is equally good.
        ([1.0, -1.0], 0.0),
        # One class only: the end that is finite.
        ([1.0, 1.0], 1.0),
        ([-1.0, -1.0], -1.0),
    ],
)
def test_the_middle_of_equally_good_intercepts(y, middle):
    rows = Rows(np.zeros((2, 1)), np.array(y))
    for name in ("hinge", "smooth_hinge"):
        oracle = make_oracle(rows, make_loss(name), Ball(0.1))
        assert middle_intercept(oracle, np.zeros(1)) == pytest.approx(middle, abs=1e-6)


def test_one_class_has_an_intercept_as_large_as_it_takes():
    rows = Rows(np.array([[0.0], [1.0]]), np.ones(2))
    oracle = make_oracle(rows, make_loss("logistic"), Ball(0.2))
    found = own_intercept(oracle, np.array([0.5]))
    assert oracle.evaluate(np.array([0.5]), found.b).value == pytest.approx(0.1, abs=1e-12)
    assert found.b > 20.0
    # Labels that may flip keep it finite.
    flips = make_oracle(rows, make_loss("logistic"), Ball(0.2, "l1", 1.0))
    assert abs(own_intercept(flips, np.array([0.5])).b) < 20.0
