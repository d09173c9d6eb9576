"""Every bad input of a solve with the bundle method is refused with a sentence, before any work."""

import math

import numpy as np
import pytest

import drfl
from drfl import Ball, Box, Client, Mixture, Policy, Polyhedron, Problem
from drfl.engines import SerialEngine
from drfl.solvers.bundle import Bundle

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 2))
LABELS = np.where(X[:, 0] > 0.0, 1.0, -1.0)
TARGET = X @ [1.0, 2.0]
TRIANGLE = Polyhedron([[1, 1], [-1, 0], [0, -1]], [9, 9, 9])


class Counting(SerialEngine):
    rounds = 0

    def map(self, messages, deadline):
        self.rounds += 1
        return super().map(messages, deadline)


def _solve(problem=None, clients=None, **settings):
    clients = [Client("a", X, LABELS)] if clients is None else clients
    return drfl.solve(problem or Problem("hinge", Ball(0.1)), clients, **settings)


def _with(problem, y=LABELS, x=X):
    return {"problem": problem, "clients": [Client("a", x, y)]}


BAD = [
    # settings of the run
    ({"problem": "hinge"}, TypeError, "problem must be a Problem"),
    ({"clients": []}, ValueError, "at least one"),
    ({"clients": "ab"}, TypeError, "list of drfl.Client"),
    ({"tol": -1e-6}, ValueError, "tol must be a finite number > 0"),
    ({"tol": math.nan}, ValueError, "tol must be a finite number > 0"),
    ({"max_rounds": 0}, ValueError, "max_rounds must be a whole number >= 1"),
    ({"max_rounds": 2.5}, TypeError, "max_rounds must be a whole number >= 1"),
    ({"deadline": -1.0}, ValueError, "deadline must be"),
    ({"solver": "bundel"}, ValueError, "did you mean 'bundle'"),
    ({"engine": "seriel"}, ValueError, "did you mean 'serial'"),
    ({"callbacks": [None]}, TypeError, "callbacks must be a list of callables"),
    # clients that do not fit together, or the problem
    (
        {"clients": [Client("a", X, LABELS), Client("a", X, LABELS)]},
        ValueError,
        "two clients are called 'a'",
    ),
    (
        {"clients": [Client("a", X, LABELS), Client("b", X[:, :1], LABELS)]},
        ValueError,
        "'b' has 1 columns, but 'a' has 2",
    ),
    (_with(Problem("hinge", {"b": Ball(0.1)})), ValueError, "'b', but there is no such client"),
    (
        _with(Problem("hinge", Ball(0.1), Mixture([0.5, 0.5]))),
        ValueError,
        "2 weights, but 1 client",
    ),
    # data that do not fit the loss or the support
    (_with(Problem("hinge", Ball(0.1)), TARGET), ValueError, "'a'.*labels -1 and \\+1"),
    (_with(Problem("logistic", Ball(0.1)), (LABELS > 0).astype(float)), ValueError, "-1 and \\+1"),
    (_with(Problem("hinge", Ball(0.1, support=Box(-0.1, 0.1)))), ValueError, "outside the box"),
    (
        _with(Problem("hinge", Ball(0.1, support=Polyhedron([[1.0, 0.0]], [0.0])))),
        ValueError,
        "outside the polyhedron",
    ),
    (_with(Problem("hinge", Ball(0.1, support=Box([-9.0] * 3, 9.0)))), ValueError, "3 columns"),
    (
        _with(Problem("pinball", Ball(0.1, support=TRIANGLE)), TARGET),
        ValueError,
        "C has 2 columns but regression with 2 features needs 3, y last",
    ),
    (
        _with(Problem("hinge", Ball(0.1, support=Box(-9.0, 9.0, y_low=0.0)))),
        ValueError,
        "y_low and y_high bound the target of a regression",
    ),
]


@pytest.mark.parametrize(("given", "error", "why"), BAD, ids=[why[:40] for _, _, why in BAD])
def test_bad_input_is_refused_before_any_round(given, error, why):
    engine = Counting()
    with pytest.raises(error, match=why) as caught:
        _solve(**{"engine": engine} | given)
    assert engine.rounds == 0
    assert "\n" not in str(caught.value)  # one sentence


@pytest.mark.parametrize(
    ("build", "error", "why"),
    [
        (lambda: Bundle(curvature="always"), ValueError, "curvature must be 'auto' or 'never'"),
        (lambda: Bundle(groups=0), ValueError, "groups must be None or a whole number >= 1"),
        (lambda: Client("", X, LABELS), ValueError, "name of a client must not be empty"),
        (lambda: Client(3, X, LABELS), TypeError, "name of a client must be a string"),
        (lambda: Client("a", X, LABELS[:3]), ValueError, "3|rows"),
        (lambda: Client("a", X * math.nan, LABELS), ValueError, "finite|NaN|missing"),
        (lambda: Client("a", X[:0], LABELS[:0]), ValueError, "row"),
        (lambda: Client("a", X, LABELS, sample_weight=-np.ones(12)), ValueError, "weight"),
        (lambda: Client("a", X, LABELS, sample_weight=np.zeros(12)), ValueError, "weight"),
        (
            lambda: Client("a", X, LABELS, policy=Policy(min_rows=99)),
            ValueError,
            "cannot take part",
        ),
        (lambda: Ball(-1.0), ValueError, "radius must be a finite number >= 0"),
        (lambda: Ball(0.1, label_cost=0.0), ValueError, "label_cost must be a number > 0 or inf"),
        (lambda: Ball(0.1, "l3"), ValueError, "l3"),
        (lambda: Mixture(radius=-0.1), ValueError, "radius of a mixture"),
        (lambda: Mixture(p=3), ValueError, "p of a mixture must be"),
        (lambda: Mixture([0.5, 0.6]), ValueError, "sum to 1"),
        # pairs that have no oracle
        (
            lambda: Problem("logistic", Ball(0.1, "l2", support=Box(-9.0, 9.0))),
            ValueError,
            "l1 norm only",
        ),
        (lambda: Problem("huber", Ball(0.1, "linf", support=Box(-9.0, 9.0))), ValueError, "l1"),
        (lambda: Problem("smooth_hinge", Ball(0.1, support=TRIANGLE)), ValueError, "not solved"),
        (lambda: Problem("hingee"), ValueError, "did you mean 'hinge'"),
        (lambda: Problem("huber", epsilon=-1.0), ValueError, "epsilon"),
        (lambda: Problem("pinball", quantile=1.0), ValueError, "quantile"),
        (lambda: Problem("hinge", {}), ValueError, "one Ball per client"),
    ],
)
def test_bad_parts_are_refused_where_they_are_made(build, error, why):
    with pytest.raises(error, match=why) as caught:
        build()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "settings", [{"groups": 2.5}, {"groups": True}, {"groups": "3"}, {"dual_cuts": "no"}]
)
def test_settings_of_the_wrong_type_are_refused(settings):
    with pytest.raises((TypeError, ValueError), match=next(iter(settings))):
        Bundle(**settings)


def test_a_feature_that_says_nothing_leaves_the_best_constant():
    clients = [Client("a", np.zeros((4, 1)), np.array([1.0, 1.0, 1.0, -1.0]))]
    result = _solve(Problem("hinge", Ball(0.1)), clients)
    np.testing.assert_allclose(result.objective, 0.5, rtol=1e-6)
    np.testing.assert_allclose(result.coef, [0.0], atol=1e-9)
