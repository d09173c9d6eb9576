"""The specification: what it refuses, and that it can be written down and read back."""

import copy
import dataclasses
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drfl.curves import Curves
from drfl.losses import LOSSES, Hinge, Huber
from drfl.named_problems import restated, with_radius
from drfl.norms import L1, L2, NORMS, LInf, Norm
from drfl.problem import INTERCEPTS, Problem, from_json, to_json
from drfl.supports import Box, Polyhedron, Support, WholeSpace
from drfl.uncertainty import Ball, Mixture
from drfl.worst_case.boxes.box_moves import BoxMoves
from drfl.worst_case.gains import MOVES

losses = st.one_of(
    st.sampled_from([kind() for kind in LOSSES.values()]),
    st.builds(Huber, st.floats(1e-300, 1e300)),
)
sides = st.one_of(
    st.floats(-5, 0), st.just(-math.inf), st.lists(st.floats(-5, 0), min_size=2, max_size=2)
)
supports = {
    "whole space": st.just(WholeSpace()),
    "box": st.builds(lambda low, y: Box(low, -np.asarray(low), y, 7.0), sides, st.floats(-5, 7)),
    "polyhedron": st.builds(
        lambda d: Polyhedron(np.vstack([np.eye(2), -np.eye(2)]), d),
        st.lists(st.floats(0, 5), min_size=4, max_size=4),
    ),
}
mixtures = st.builds(
    Mixture,
    st.sampled_from(["uniform", "proportional", (0.25, 0.75), (0.1, 0.2, 0.7)]),
    st.one_of(st.floats(0, 3), st.just(math.inf)),
    st.sampled_from([1, 2, math.inf]),
)


@st.composite
def losses_with_balls(draw, names):
    """A loss, and one ball or one for each name: with one norm and one kind of support."""
    loss = draw(losses)
    norm, kind = draw(st.sampled_from(sorted(NORMS))), draw(st.sampled_from(sorted(supports)))
    if not loss.pieces:  # what has no closed form is refused
        kind = kind if norm == "l1" and kind == "box" else "whole space"

    def ball():
        cost = draw(st.one_of(st.floats(1e-9, 1e9), st.just(math.inf)))
        return Ball(draw(st.floats(0, 1e6)), norm, cost, draw(supports[kind]))

    return loss, ({name: ball() for name in names} if draw(st.booleans()) else ball())


@given(losses_with_balls(["north", "inf", "ö"]), mixtures, st.sampled_from(INTERCEPTS))
def test_json_round_trip_is_exact(loss_and_ball, mixture, intercept):
    loss, ball = loss_and_ball
    problem = Problem(loss, ball, mixture, intercept=intercept)
    text = json.dumps(problem.to_dict(), allow_nan=False)
    again = Problem.from_dict(json.loads(text))
    assert again == problem
    assert again.to_dict() == problem.to_dict()
    assert pickle.loads(pickle.dumps(problem)).to_dict() == problem.to_dict()


def test_the_written_form():
    ball = Ball(0.5, "l2", support=Box([0, -math.inf], 1))
    problem = Problem("pinball", {"north": ball}, Mixture([0.5, 0.5], 0.1, math.inf), quantile=0.9)
    assert problem.to_dict() == {
        "loss": {"name": "pinball", "quantile": 0.9},
        "balls": {
            "north": {
                "radius": 0.5,
                "norm": "l2",
                "label_cost": "inf",
                "support": {
                    "name": "box",
                    "low": [0.0, "-inf"],
                    "high": 1.0,
                    "y_low": "-inf",
                    "y_high": "inf",
                },
            }
        },
        "mixture": {"center": [0.5, 0.5], "radius": 0.1, "p": "inf"},
        "intercept": "shared",
        "shared_ball": False,
    }


def test_shared_ball_is_written_too():
    problem = Problem(ball=Ball(0.1), shared_ball=True)
    assert Problem.from_dict(problem.to_dict()).shared_ball


def test_defaults():
    problem = Problem()
    assert problem == Problem(Hinge(), Ball(), Mixture(), intercept="shared", shared_ball=False)
    assert Problem("huber", epsilon=2.0).loss == Huber(2.0)
    assert (problem.norm.name, problem.support_kind) == ("l1", WholeSpace)


def test_ball_of_a_client():
    near, far = Ball(0.1, "l2"), Ball(0.2, "l2")
    problem = Problem(ball={"north": near, "south": far})
    assert (problem.ball_of("north"), problem.ball_of("south")) == (near, far)
    assert problem.norm.name == "l2"
    assert Problem(ball=near).ball_of("anyone") == near
    with pytest.raises(ValueError, match=r"no radius for client 'east', only for 'north', 'south'"):
        problem.ball_of("east")


def test_a_problem_is_frozen_and_keeps_its_own_balls():
    balls = {"north": Ball(0.1)}
    problem = Problem(ball=balls)
    balls["south"] = Ball(0.2)
    assert list(problem.ball) == ["north"]
    with pytest.raises(AttributeError):
        problem.loss = Huber()


@pytest.mark.parametrize(
    ("arguments", "error", "why"),
    [
        ({"loss": "hing"}, ValueError, "did you mean 'hinge'"),
        ({"loss": "hinge", "epsilon": 1.0}, TypeError, "takes no parameter"),
        ({"ball": 0.1}, TypeError, "ball must be a Ball, or a mapping"),
        ({"ball": {"a": 0.1}}, TypeError, "mapping from client names to Balls"),
        ({"ball": {3: Ball()}}, TypeError, "mapping from client names to Balls"),
        ({"ball": {}}, ValueError, "empty mapping"),
        (
            {"ball": {"a": Ball(norm="l1"), "b": Ball(norm="l2")}},
            ValueError,
            "same norm, got 'l1', 'l2'",
        ),
        (
            {"ball": {"a": Ball(), "b": Ball(support=Box(0, 1))}},
            ValueError,
            "same kind of support, got 'box', 'whole space'",
        ),
        ({"mixture": 0.1}, TypeError, "mixture must be a Mixture, got float"),
        ({"mixture": None}, TypeError, "mixture must be a Mixture"),
        ({"intercept": "own"}, ValueError, "unknown intercept"),
        (
            {"intercept": "per_client", "shared_ball": True, "ball": Ball(0.1)},
            ValueError,
            "moves rows between them",
        ),
        ({"shared_ball": "yes"}, TypeError, "shared_ball must be a bool"),
        ({"shared_ball": True, "ball": {"a": Ball()}}, ValueError, "one ball for all clients"),
    ],
)
def test_bad_problems_are_refused(arguments, error, why):
    with pytest.raises(error, match=why):
        Problem(**arguments)


GOOD = Problem("huber", Ball(0.1, support=Box(0, 1))).to_dict()


def changed(path, value):
    data = copy.deepcopy(GOOD)
    *parents, last = path
    inner = data
    for key in parents:
        inner = inner[key]
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    return data


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ([], "a problem must be an object with exactly the fields"),
        ({}, "a problem must be an object with exactly the fields"),
        (changed(["extra"], 1), "a problem must be an object"),
        (changed(["balls"], {}), "a problem must be an object"),
        (changed(["mixture"], None), "a problem must be an object"),
        (changed(["loss"], "huber"), "a loss must be an object with the field 'name'"),
        (changed(["loss", "name"], "hubber"), "did you mean 'huber'"),
        (changed(["loss", "name"], "hinge"), "a loss must be an object with exactly"),
        (changed(["loss", "epsilon"], None), "a loss must be an object with exactly"),
        (changed(["loss", "epsilon"], -1), "epsilon of huber must be a finite number > 0"),
        (changed(["loss", "epsilon"], "much"), "a loss has a field of the wrong type"),
        (changed(["loss", "epsilon"], True), "'epsilon' of a loss must not be true or false"),
        (changed(["ball"], 3), "a ball must be an object"),
        (changed(["ball", "radius"], -1), "radius must be"),
        (changed(["ball", "radius"], "inf"), "radius must be a finite"),
        (changed(["ball", "radius"], []), "a ball has a field of the wrong type"),
        (changed(["ball", "norm"], "l3"), "unknown norm 'l3'"),
        (changed(["ball", "support"], None), "a ball must be an object"),
        (changed(["ball", "support", "name"], "boxx"), "did you mean 'box'"),
        (changed(["ball", "support", "low"], None), "a support must be an object"),
        (changed(["ball", "support", "low"], 2), "the box is empty"),
        (changed(["ball", "support", "low"], [[0]]), "low must be a number"),
        (changed(["ball", "support", "low"], "zero"), "could not convert"),
        (changed(["mixture", "p"], 3), "p of a mixture"),
        (changed(["mixture", "radius"], "nan"), "radius of a mixture"),
        (changed(["mixture", "radius"], True), "'radius' of a mixture must not be"),
        (changed(["mixture", "center"], [0.5, 0.6]), "sum to 1"),
        (changed(["mixture", "center"], {}), "a mixture has a field of the wrong type"),
    ],
)
def test_bad_files_are_refused(data, why):
    with pytest.raises(ValueError, match=why):
        Problem.from_dict(data)


@pytest.mark.parametrize("path", [["ball", "norm"], ["loss", "name"], ["intercept"]])
def test_wrong_types_in_files_are_refused(path):
    with pytest.raises(TypeError, match="must be"):
        Problem.from_dict(changed(path, 3))


def test_balls_by_name_are_checked_too():
    data = Problem(ball={"a": Ball()}).to_dict()
    with pytest.raises(ValueError, match="from client names to balls"):
        Problem.from_dict(data | {"balls": [1]})
    with pytest.raises(ValueError, match="empty mapping"):
        Problem.from_dict(data | {"balls": {}})


class OwnHinge(Hinge):
    """Not registered, though it kept the name."""


class OwnNorm(Norm):
    """Not registered, though it has the name of one that is."""

    name = "l1"
    __call__ = L1.__call__
    dual, steepest, project_ball = L1.dual, L1.steepest, L1.project_ball


class OwnSupport(Support):
    name = "own"
    check, distance = WholeSpace.check, WholeSpace.distance
    is_bounded, widened = WholeSpace.is_bounded, WholeSpace.widened


@pytest.mark.parametrize(
    ("known", "base"),
    [
        *((kind, "Norm") for kind in (L1, L2, LInf)),
        *((kind, "Support") for kind in (Box, Polyhedron, WholeSpace)),
    ],
)
def test_what_is_known_of_a_class_is_not_taken_for_granted_of_another(known, base):
    with pytest.raises(TypeError, match=f"Other cannot derive from {known.__name__}.*from {base}"):
        type("Other", (known,), {})


def test_a_norm_with_a_known_name_is_not_the_known_one():
    with pytest.raises(ValueError, match="the norm 'l1' does not state"):
        Problem(ball=Ball(norm=OwnNorm(), support=Box(0, 1)))
    with pytest.raises(ValueError, match="solved with the l1 norm only"):
        Problem("logistic", ball=Ball(norm=OwnNorm(), support=Box(0, 1)))
    with pytest.raises(ValueError, match="additive models need norm='l1'"):
        Problem(ball=Ball(norm=OwnNorm()), curves=Curves(((0.0,),)))
    with pytest.raises(ValueError, match="all balls must have the same norm"):
        Problem(ball={"a": Ball(0.1, OwnNorm()), "b": Ball(0.1, "l1")})


def test_a_loss_with_a_known_name_is_not_the_known_one():
    with pytest.raises(ValueError, match="several classes at once have the losses"):
        Problem(OwnHinge(), classes=3)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"loss": OwnHinge()}, "the loss 'hinge' cannot be written down"),
        ({"ball": Ball(norm=OwnNorm())}, "the norm 'l1' cannot be written down"),
        ({"ball": Ball(support=OwnSupport())}, "the support 'own' cannot be written down"),
    ],
)
def test_what_a_reader_could_not_know_is_not_written(fields, why, monkeypatch):
    monkeypatch.setitem(MOVES, OwnSupport, lambda loss, ball: BoxMoves)
    with pytest.raises(ValueError, match=why):
        Problem(**fields).to_dict()


def test_json_helpers():
    value = {"a": np.array([1.0, math.inf]), "b": (np.float64(-math.inf), 2, None, "x"), "c": True}
    plain = to_json(value)
    assert plain == {"a": [1.0, "inf"], "b": ["-inf", 2, None, "x"], "c": True}
    assert from_json(plain) == {"a": [1.0, math.inf], "b": [-math.inf, 2, None, "x"], "c": True}
    assert math.isnan(from_json(to_json(math.nan)))


# ---------------------------------------------------------------------------- copies
SHARED = Problem(
    "huber", Ball(0.2, "l2", 3.0), Mixture(radius=0.1), intercept="none", shared_ball=True
)


@pytest.mark.parametrize(
    "copy_of",
    [
        lambda problem: dataclasses.replace(problem, mixture=Mixture(radius=0.2)),
        lambda problem: with_radius(problem, 0.3),
        lambda problem: restated(problem, "wafl", [5, 6]),
        lambda problem: Problem.from_dict(problem.to_dict()),
        lambda problem: pickle.loads(pickle.dumps(problem)),
        copy.deepcopy,
    ],
)
def test_a_copy_of_a_problem_keeps_what_it_does_not_change(copy_of):
    made = copy_of(SHARED)
    assert (made.shared_ball, made.intercept) == (True, "none")
    assert made.loss == SHARED.loss
    assert (made.norm.name, made.balls[0].label_cost) == ("l2", 3.0)


def test_some_of_the_clients_keep_balls_and_proportions_under_other_names():
    balls = {"a": Ball(0.1), "b": Ball(0.2), "c": Ball(0.3)}
    problem = Problem("hinge", balls, Mixture([0.5, 0.25, 0.25], 0.4))
    some = problem.among({"a": 10, "b": 20, "c": 30}, {"c/1": "c", "a/1": "a"})
    assert some.ball == {"c/1": Ball(0.3), "a/1": Ball(0.1)}
    assert some.mixture.weights.tolist() == pytest.approx([1 / 3, 2 / 3])
    assert some.mixture.radius == 0.4
    shared = Problem("hinge", Ball(0.1), Mixture("proportional"))
    assert shared.among({"a": 10, "b": 20}, {"b": "b"}) == shared
