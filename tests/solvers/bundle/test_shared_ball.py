"""WAFL's exact problem: one ball around the mixture, one multiplier for all clients."""

import math

import numpy as np
import pytest

import drfl
from drfl import reference

CASES = [
    ("hinge", "l1", 1.0, None),
    ("hinge", "l2", 0.3, None),
    ("hinge", "linf", math.inf, None),
    ("hinge", "l1", 1.0, drfl.Box(-3.0, 3.0)),
    ("logistic", "l2", 1.0, None),
    ("smooth_hinge", "l1", 0.5, None),
    ("huber", "linf", 5.0, None),
    ("epsilon_insensitive", "l2", 0.3, None),
    ("pinball", "l1", 1.0, None),
]


def data(loss, seed=0):
    rng = np.random.default_rng(seed)
    w = rng.normal(size=3)
    out = []
    for _ in range(3):
        X = np.clip(rng.normal(size=(25, 3)), -3.0, 3.0)
        z = X @ w + 0.5 * rng.normal(size=25)
        regression = loss in ("huber", "epsilon_insensitive", "pinball")
        out.append((X, z if regression else np.where(z > 0.0, 1.0, -1.0)))
    return out


def solve(loss, clients, ball, *, shared, **settings):
    problem = drfl.Problem(loss, ball, drfl.Mixture(), shared_ball=shared, **settings)
    return drfl.solve(problem, [drfl.Client(f"c{s}", *c) for s, c in enumerate(clients)])


@pytest.mark.parametrize("intercept", ["shared", "none"])
@pytest.mark.parametrize(("loss", "norm", "label_cost", "support"), CASES)
@pytest.mark.sampled(2)
def test_against_the_reference(loss, norm, label_cost, support, intercept):
    clients, ball = data(loss), drfl.Ball(0.1, norm, label_cost, support)
    result = solve(loss, clients, ball, shared=True, intercept=intercept)
    truth = reference.solve(
        loss,
        clients,
        radius=0.1,
        label_cost=label_cost,
        norm=norm,
        support=support,
        intercept=intercept,
        shared=True,
    )
    assert result.status.kind == "certified"
    assert result.objective == pytest.approx(truth.objective, rel=2e-6)
    assert result.lower_bound <= truth.objective * (1.0 + 1e-6)


@pytest.mark.parametrize(("loss", "norm", "label_cost", "support"), CASES)
@pytest.mark.sampled(2)
def test_a_ball_for_each_client_is_not_worse(loss, norm, label_cost, support):
    clients, ball = data(loss, seed=1), drfl.Ball(0.05, norm, label_cost, support)
    each = solve(loss, clients, ball, shared=False)
    one = solve(loss, clients, ball, shared=True)
    assert each.lower_bound <= one.objective
    assert each.objective <= one.objective * (1.0 + 2e-6)


def test_the_two_differ_where_labels_flip():
    # A shared budget goes where flips gain most; separate ones are spent at every client.
    clients, ball = data("hinge", seed=1), drfl.Ball(0.01, "l1", 1.0)
    each = solve("hinge", clients, ball, shared=False)
    one = solve("hinge", clients, ball, shared=True)
    assert one.lower_bound > each.objective * (1.0 + 1e-4)


@pytest.mark.parametrize(
    ("loss", "label_cost", "support"),
    [
        ("hinge", 1.0, drfl.Box(-3.0, math.inf)),
        ("pinball", 1.0, drfl.Box(-3.0, 3.0)),
        ("hinge", 1.0, drfl.Polyhedron([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]], [3.0, 3.0])),
    ],
)
def test_supports_with_open_sides_are_refused(loss, label_cost, support):
    with pytest.raises(ValueError, match="finite sides"):
        drfl.Problem(loss, drfl.Ball(0.1, "l1", label_cost, support), shared_ball=True)


def test_bounded_polyhedra_are_taken():
    box = drfl.Polyhedron(np.vstack([np.eye(3), -np.eye(3)]), np.full(6, 3.0))
    clients = data("hinge")
    as_box, as_rows = (
        solve("hinge", clients, drfl.Ball(0.1, "l1", 1.0, support), shared=True)
        for support in (drfl.Box(-3.0, 3.0), box)
    )
    assert as_rows.objective == pytest.approx(as_box.objective, rel=3e-6)


@pytest.mark.parametrize("loss", ["hinge", "pinball"])
def test_a_shared_ball_of_radius_0_is_no_ball(loss):
    clients = data(loss)
    shared, own = (solve(loss, clients, drfl.Ball(0.0), shared=flag) for flag in (True, False))
    np.testing.assert_array_equal(shared.coef, own.coef)
    assert shared.status.kind == own.status.kind
