"""What the named problems fix, stated for a problem and for an estimator alike."""

import math
from dataclasses import replace

import numpy as np
import pytest

from drfl import Ball, Mixture, Problem, baselines
from drfl.named_problems import NAMED_PROBLEMS, restated, with_radius
from drfl.report.measure.refits import with_radii

ROWS = [30, 10]
GENERAL = Problem(
    "logistic", {"a": Ball(0.2, "l2"), "b": Ball(0.6, "l2")}, Mixture([0.3, 0.7], 0.1, 2)
)


@pytest.mark.parametrize("name", NAMED_PROBLEMS)
@pytest.mark.filterwarnings("ignore::drfl.estimators.NothingLearnedWarning")
def test_a_problem_and_an_estimator_fix_the_same(name):
    rng = np.random.default_rng(0)
    X, y, clients = rng.normal(size=(40, 2)), np.arange(40) % 2, np.repeat(["a", "b"], ROWS)
    kind = getattr(baselines, f"{name.upper()}Classifier")
    wishes = {
        "loss": "logistic",
        "radius": 0.3,
        "norm": "l2",
        "mixture_radius": 0.1,
        "mixture_norm": 2,
        "mixture_center": [0.3, 0.7],
    }
    known = kind().get_params()
    model = kind(**{key: value for key, value in wishes.items() if key in known})
    model.fit(X, y, clients=clients)
    stated = restated(GENERAL, name, ROWS)  # (30 * 0.2 + 10 * 0.6) / 40 = 0.3
    assert model.problem_.shared_ball == stated.shared_ball == (name == "wafl")
    assert model.problem_.mixture.radius == stated.mixture.radius
    assert model.problem_.mixture.center == stated.mixture.center
    for client in "ab":
        one, other = model.problem_.ball_of(client), stated.ball_of(client)
        assert one.radius == pytest.approx(other.radius)
    assert stated.loss == GENERAL.loss


def test_what_is_not_named_stays():
    shared = restated(replace(GENERAL, intercept="none"), "wafl", ROWS)
    assert shared.shared_ball
    assert not shared.shared_intercept
    for changed in (with_radius(shared, 0.5), with_radii(shared, 2.0)):
        assert changed.shared_ball
        assert not changed.shared_intercept
    assert with_radii(shared, 2.0).ball.radius == pytest.approx(0.6)


def test_one_client_has_its_own_ball():
    one = Problem("hinge", Ball(0.2), Mixture(radius=math.inf))
    assert not restated(one, "wafl", [30]).shared_ball


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="unknown problem 'erv': did you mean 'erm'"):
        restated(GENERAL, "erv", ROWS)
