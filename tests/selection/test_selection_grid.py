"""The grid: its points, and which of them cannot differ."""

import math

import numpy as np
import pytest

from drfl import Ball, Box, Mixture, Problem
from drfl.baselines import WAFLClassifier
from drfl.estimators.client_table import ClientTable
from drfl.selection.clients import SelectionClients
from drfl.selection.grid import anchor_params, candidate, default_grid, for_clients, grid_points
from kit.paper import classifier, paper, regressor

X = np.array([[-1.0, 0.3], [1.0, 0.5], [-0.4, 0.2], [0.8, -0.1], [-1.2, 0.1], [0.3, 0.9]])
Y = np.array([-1.0, 1.0] * 3)
CLIENTS = SelectionClients.of(
    ClientTable.of(X, Y, ["a", "b", "c"] * 2, [1, 1, 1, 3, 1, 1]), [Y], named=True
)


def key(estimator=None, **params):
    return candidate(estimator or classifier(), params, CLIENTS).key


def test_all_combinations_the_last_varies_fastest():
    points = grid_points({"radius": [0.0, 0.1], "norm": ("l1", "l2")})
    assert [list(p.values()) for p in points] == [
        [0.0, "l1"],
        [0.0, "l2"],
        [0.1, "l1"],
        [0.1, "l2"],
    ]


def test_the_default_grid_fits_rows_and_columns():
    # 2 columns and a total weight of 8: the root of 2/8 is 0.5.
    params = classifier().get_params()
    grid = default_grid(CLIENTS, params, "mean")
    assert grid == {"radius": [0.0, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0]}
    assert anchor_params(CLIENTS, grid) == {"radius": 0.1}
    wider = default_grid(CLIENTS, params, "new_client")
    assert wider == {"mixture_radius": [0.0, 0.2, 1.0], **grid}
    assert anchor_params(CLIENTS, wider) == {"mixture_radius": 0.0, "radius": 0.1}
    assert anchor_params(CLIENTS, wider) in grid_points(wider)
    assert default_grid(CLIENTS, WAFLClassifier().get_params(), "new_client") == grid


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"radius": 0.0, "label_cost": 1.0}, {"radius": 0.0}),
        ({"radius": 0.0, "norm": "l2"}, {"radius": 0.0, "norm": "linf"}),
        ({"radius": 0.0, "support": Box(-3.0, 3.0)}, {"radius": 0.0}),
        ({"radius": 0.1}, {"radius": [0.1, 0.1, 0.1]}),
        ({"radius": {"a": 0.1, "b": 0.2, "c": 0.0}}, {"radius": [0.1, 0.2, 0.0]}),
        ({"mixture_radius": 0.0, "mixture_norm": 2}, {"mixture_radius": 0.0}),
        ({"mixture_radius": 2.0}, {"mixture_radius": math.inf, "mixture_norm": 2}),
        ({"mixture_center": (0.5, 0.2, 0.3)}, {"mixture_center": [0.5, 0.2, 0.3]}),
    ],
)
def test_points_that_cannot_differ_have_one_key(one, other):
    assert key(**one) == key(**other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"radius": 0.1, "label_cost": 1.0}, {"radius": 0.1}),
        ({"radius": 0.1, "norm": "l2"}, {"radius": 0.1}),
        ({"radius": [0.1, 0.2, 0.3]}, {"radius": [0.1, 0.3, 0.2]}),
        ({"loss": "hinge"}, {"loss": "logistic"}),
        ({"mixture_radius": 0.5, "mixture_norm": 2}, {"mixture_radius": 0.5}),
        ({"intercept": "none"}, {"intercept": "shared"}),
        ({"radius": 0.0, "mixture_center": "proportional"}, {"radius": 0.0}),
    ],
)
def test_points_that_may_differ_have_two(one, other):
    assert key(**one) != key(**other)


def test_one_client_has_no_weights_to_speak_of():
    alone = SelectionClients.of(ClientTable.of(X, Y, None, None), [Y], named=False)
    keys = {
        candidate(classifier(radius=0.1), {"mixture_radius": theta}, alone).key
        for theta in (0.0, 0.3, 5.0)
    }
    wafl = candidate(paper(WAFLClassifier, "hinge"), {"radius": 0.1}, alone).key
    assert keys == {wafl}


def test_the_problem_of_some_of_the_clients():
    problem = Problem(
        "hinge",
        {"a": Ball(0.1), "b": Ball(0.2), "c": Ball(0.3)},
        Mixture([0.5, 0.2, 0.3], radius=0.1),
    )
    some = for_clients(problem, CLIENTS, [1, 2], ["b/0", "c/0"])
    assert some.mixture.center == pytest.approx((0.4, 0.6))
    assert [some.ball_of(name).radius for name in ("b/0", "c/0")] == [0.2, 0.3]
    certain = Problem("hinge", mixture=Mixture([1.0, 0.0, 0.0]))
    others = for_clients(certain, CLIENTS, [1, 2], ["b", "c"]).mixture
    assert others.resolve([2.0, 1.0]).weights.tolist() == [0.5, 0.5]


def test_the_order_of_the_path():
    params = [{"radius": r, "mixture_radius": t} for t in (0.5, 0.0) for r in (0.2, 0.1, 0.3)]
    points = [candidate(regressor(), p, CLIENTS) for p in params]
    ordered = [p.params for p in sorted(points, key=lambda point: point.order)]
    assert [p["radius"] for p in ordered] == [0.1, 0.2, 0.3] * 2
    assert [p["mixture_radius"] for p in ordered] == [0.0] * 3 + [0.5] * 3
