"""More than two classes: which problems have all of them, and why others have not."""

import math

import pytest

from drfl import Ball, Box
from drfl.losses import make_loss
from drfl.problem.multiclass import AT_ONCE, AUTO, OVR, together

APART = {
    "the loss 'smooth_hinge' is of one score": {"loss": make_loss("smooth_hinge")},
    "with a support there is one score": {"ball": Ball(support=Box(-1.0, 1.0))},
    "one ball for all clients": {"shared_ball": True},
    "where labels move": {"intercept": "per_client", "ball": Ball(label_cost=1.0)},
    "the solver 'local' is for one score": {"solver": "local"},
    "confidence": {"radius": "confidence"},
    "3 classes with 700 coefficients each are more than 2000": {"slopes": 700},
}


def asked(wish, classes=3, slopes=600, **changes):
    given = {
        "loss": make_loss("logistic"),
        "ball": Ball(norm="l2", label_cost=math.inf),
        "intercept": "shared",
        "solver": "auto",
        "radius": 0.1,
    }
    return together(classes, slopes, wish, **{**given, **changes})


@pytest.mark.parametrize("why", APART)
def test_auto_says_why_each_class_is_told_from_the_rest(why):
    several, reason = asked(AUTO, **APART[why])
    assert several is None
    assert why in reason
    assert asked(AT_ONCE, **APART[why]) == (3, "")  # what cannot be is refused where it is stated
    assert asked(OVR, **APART[why]) == (None, "")


def test_otherwise_all_are_in_one_problem():
    assert asked(AUTO) == asked(AT_ONCE) == (3, "")
    assert asked(OVR) == asked(AUTO, classes=2) == asked(AUTO, classes=None) == (None, "")
    assert asked(AUTO, ball=Ball(norm="linf")) == (3, "")
    assert asked(AUTO, intercept="per_client") == (3, "")
    assert asked(AUTO, classes=4, slopes=500) == (4, "")


def test_rules_for_shapes_are_for_two_classes_at_most():
    for wish in (AUTO, AT_ONCE, OVR):
        with pytest.raises(ValueError, match="leave out the rules"):
            asked(wish, shaped=True)
        assert asked(wish, classes=2, shaped=True) == (None, "")
