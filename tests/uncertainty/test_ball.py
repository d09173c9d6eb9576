"""The ball of one client: a checked, frozen record."""

import math
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from drfl import Ball, Box, Polyhedron
from drfl.norms import NORMS
from drfl.supports import WholeSpace


def test_defaults():
    ball = Ball()
    assert (ball.radius, ball.label_cost) == (0.0, math.inf)
    assert ball.norm is NORMS["l1"]
    assert ball.support == WholeSpace()


def test_a_ball_is_a_value():
    ball = Ball(np.float64(1), "l2", 3, Box(0, 1))
    assert (type(ball.radius), type(ball.label_cost)) == (float, float)
    assert ball == Ball(1.0, NORMS["l2"], 3.0, Box(0, 1)) == pickle.loads(pickle.dumps(ball))
    assert hash(ball) == hash(Ball(1, "l2", 3, Box(0, 1)))
    for other in (
        Ball(2, "l2", 3, Box(0, 1)),
        Ball(1, "l1", 3, Box(0, 1)),
        Ball(1, "l2", 4, Box(0, 1)),
        Ball(1, "l2", 3, Box(0, 2)),
        Ball(1, "l2", 3),
    ):
        assert other != ball
    with pytest.raises(FrozenInstanceError):
        ball.radius = 2.0


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"radius": -1e-9}, ValueError, "radius must be a finite number >= 0, got -1e-09"),
        ({"radius": math.inf}, ValueError, "radius must be a finite number >= 0, got inf"),
        ({"radius": math.nan}, ValueError, "radius must be a finite number >= 0, got nan"),
        ({"radius": "1"}, TypeError, "radius must be a number, got '1'"),
        ({"radius": None}, TypeError, "radius must be a number, got None"),
        ({"label_cost": 0.0}, ValueError, "label_cost must be a number > 0 or inf"),
        ({"label_cost": -1.0}, ValueError, "label_cost must be a number > 0 or inf, got -1.0"),
        ({"label_cost": math.nan}, ValueError, "label_cost must be a number > 0 or inf, got nan"),
        ({"label_cost": "inf"}, TypeError, "label_cost must be a number, got 'inf'"),
        ({"norm": "l3"}, ValueError, "unknown norm 'l3'"),
        ({"norm": math.inf}, TypeError, "norm must be a name"),
        ({"support": "box"}, TypeError, "support must be a Box, a Polyhedron or None .* got str"),
        ({"support": (0, 1)}, TypeError, "support must be a Box, a Polyhedron or None"),
        ({"support": Box}, TypeError, "support must be a Box, a Polyhedron or None"),
    ],
)
def test_impossible_balls_are_refused(change, error, sentence):
    with pytest.raises(error, match=sentence):
        Ball(**change)


@pytest.mark.parametrize("support", [WholeSpace(), Box(0, 1), Polyhedron([[1.0]], [1.0])])
def test_every_support_fits(support):
    assert Ball(support=support).support is support
