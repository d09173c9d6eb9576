"""The double loop: its gradients are subgradients, and it gets to the optimum, slowly."""

import numpy as np
import pytest

from drfl import Ball, Mixture, Problem, solve
from drfl.client import Site
from experiments.convergence import divided
from experiments.double_loop import DoubleLoop, RobustLoss

PROBLEM = Problem("hinge", Ball(0.02, "l1", 0.5), Mixture(radius=0.5))


@pytest.mark.parametrize("label_cost", [0.3, 1.0, np.inf])
def test_many_steps_find_the_closed_form(label_cost):
    problem = Problem("hinge", Ball(0.05, "l1", label_cost))
    loss = RobustLoss(Site(divided(3, 0)[0], problem))
    rng = np.random.default_rng(0)
    for x in rng.normal(size=(5, 14)):
        exact = loss.value(x)
        rough, *_ = loss.priced(x, 0.0, 2)
        fine, slope, price = loss.priced(x, 0.0, 4000)
        assert exact - 1e-9 <= fine <= rough + 1e-9
        assert fine == pytest.approx(exact, rel=0.02)
        # At a fixed multiplier the loss is convex; the multiplier follows the norm.
        for other in x + 0.1 * rng.normal(size=(5, 14)):
            value, *_ = loss.priced(other, price, 4000)
            assert value >= fine + slope @ (other - x) - 0.02 * fine


def test_it_gets_there_slowly():
    clients = divided(3, 0)
    best = solve(PROBLEM, clients, tol=1e-6)
    short, long = (
        solve(PROBLEM, clients, solver=DoubleLoop(), max_rounds=rounds).objective
        for rounds in (50, 800)
    )
    assert best.lower_bound <= long < short
    assert long <= 1.15 * best.objective
    assert short > 1.01 * best.objective


def test_what_it_does_not_know_is_refused():
    with pytest.raises(ValueError, match="classification"):
        solve(Problem("huber"), divided(3, 0), solver=DoubleLoop())
    with pytest.raises(ValueError, match="weight_steps"):
        DoubleLoop(weight_steps=0)
