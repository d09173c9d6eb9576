"""What the client step keeps and knows: old cuts save time only, and no cut is above F."""

import math

import numpy as np
import pytest
from admm_kit import TRIPLES, oracle_of, value_of

from drfl import Ball, Box
from drfl.losses import make_loss
from drfl.rows import Rows
from drfl.solvers.admm.client_step import ClientStep
from drfl.worst_case import make_oracle
from kit.problems import rows


# ---------------------------------------------------------------------------- warm starts
@pytest.mark.parametrize(
    ("loss", "norm", "place"),
    [("hinge", "l1", "box"), ("hinge", "l2", "whole"), ("logistic", "linf", "whole")],
)
def test_warm_starts_change_time_only(loss, norm, place):
    oracle, rng = oracle_of(loss, norm, place, 2.0, N=200, n=5), np.random.default_rng(1)
    warm, a, e = ClientStep(oracle, 6), rng.normal(size=6), 0.2
    passes = np.zeros(2)
    for _ in range(12):
        a, e = a + 0.01 * rng.normal(size=6), e + 0.001 * rng.normal()
        one, other = warm.project(a, e), ClientStep(oracle, 6).project(a, e)
        np.testing.assert_allclose(one.v, other.v, atol=2e-6)
        np.testing.assert_allclose(one.value, other.value, atol=1e-8)
        passes += one.passes, other.passes
    assert passes[0] < 0.7 * passes[1]


def test_old_cuts_are_forgotten():
    oracle, rng = oracle_of("hinge", "l1", "whole", 2.0, N=200, n=5), np.random.default_rng(1)
    step = ClientStep(oracle, 6)
    for _ in range(40):
        step.project(3.0 * rng.normal(size=6), 0.1)
    assert len(step.right) < 120


def test_one_pass_suffices_where_nothing_changed():
    oracle = oracle_of("hinge", "l1", "box", 2.0, N=100, n=4)
    step, a = ClientStep(oracle, 5), np.array([1.0, -1.0, 0.5, 0.0, 0.2])
    assert step.project(a, 0.1).passes > 1
    assert step.project(a, 0.1).passes == 1


# ---------------------------------------------------------------------------- frames
@pytest.mark.parametrize(("loss", "norm", "place"), TRIPLES)
@pytest.mark.sampled(2)
def test_cuts_of_a_frame_are_valid_and_tight(loss, norm, place):
    oracle = oracle_of(loss, norm, place, 0.8, N=8, n=2)
    step, F, rng = ClientStep(oracle, 3), value_of(oracle, 3), np.random.default_rng(2)
    frame = step.frame
    touches = [frame.touch(frame.start(rng.normal(size=3))) for _ in range(10)]
    for _ in range(10):
        x = 2.0 * rng.normal(size=3)
        y = frame.start(x)
        y[3] = frame.touch(y).value
        assert y[3] >= F(x) - 1e-9
        assert (frame.A @ y <= frame.b + 1e-9).all(), "the start violates the exact rows"
        for touch in touches:
            assert (touch.rows @ y <= touch.right + 1e-9).all(), "a cut is above F"
        # The frame's minimum over its extra variables is F: project from far below.
        found = step.project(x, F(x) - 1.0, 1e8)
        np.testing.assert_allclose(found.value, F(x), atol=1e-5)


def test_a_box_frame_knows_the_price_of_the_oracle():
    # At the optimal multiplier the value is F itself: the box binds in this case.
    rng = np.random.default_rng(0)
    X, y = rows("classification", rng, N=60, n=4)
    X = np.clip(X, -1.0, 1.0)
    oracle = make_oracle(Rows(X, y), make_loss("hinge"), Ball(0.3, "l1", math.inf, Box(-1.0, 1.0)))
    frame = ClientStep(oracle, 4).frame
    bound = 0
    for _ in range(20):
        w = 2.0 * rng.normal(size=4)
        worst = oracle.evaluate(w, 0.0)
        point = frame.start(w)
        point[frame.lam] = worst.multiplier
        np.testing.assert_allclose(frame.touch(point).value, worst.value, rtol=1e-10)
        bound += worst.multiplier < np.abs(w).max() - 1e-9
    assert bound >= 5
