"""From settings to the problem: what is refused before any file is read, and what methods state."""

import pytest

import drfl
from drfl.named_problems import NAMED_PROBLEMS
from drfl.solvers.bundle import Bundle
from drfl.training.problems import (
    COMPARED,
    check_before_reading,
    check_guard,
    known_methods,
    native_methods,
    stated,
)
from drfl.training.settings import read_settings


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"privacy_epsilon": None}, "needs --privacy-epsilon"),
        ({"privacy_epsilon": "-1"}, "epsilon of differential privacy must be"),
        ({"privacy_delta": "2"}, "delta of differential privacy must be"),
        ({"solver": "bundle"}, "does not know the solver 'bundle'"),
        ({"ranges": None}, "needs public --ranges"),
        ({"select": "mean"}, "no noise for --select"),
        ({"guard": None, "solver": "private", "ranges": None}, "needs public --ranges"),
    ],
)
def test_bad_settings_are_one_sentence_before_any_file_is_read(flags, sentence):
    good = {"target": "ill", "guard": "dp", "privacy_epsilon": "1", "ranges": "age=20:90"}
    with pytest.raises(ValueError, match=sentence) as caught:
        check_before_reading(read_settings(None, good | flags, ["a.csv"]))
    assert "\n" not in str(caught.value)


UNKNOWN = [
    ({"guard": "1"}, "--guard must be a whole number >= 2, got 1"),
    ({"solver": "admm"}, "a guard does not know the solver 'admm': take bundle, or no guard"),
    ({"support": "age=0:200"}, "a guard does not know a support: leave out"),
    ({"compare": "fedavg"}, "a guard does not let 'fedavg' be compared, it knows erm, afl, drfa"),
]


@pytest.mark.parametrize(("flags", "sentence"), UNKNOWN)
def test_settings_that_a_guard_does_not_know_are_refused(flags, sentence):
    settings = read_settings(None, {"target": "ill", "guard": "5", **flags}, ["a.csv"])
    with pytest.raises(ValueError, match=f"^{sentence}"):
        check_guard(settings)


def test_under_a_guard_the_named_problems_without_a_shared_ball_are_compared():
    assert COMPARED == ["erm", "afl", "drfa"]
    good = {"target": "ill", "guard": "5", "compare": ",".join(COMPARED)}
    check_guard(read_settings(None, good, ["a.csv"]))


@pytest.mark.parametrize("name", known_methods())
def test_every_method_states_its_problem(name):
    problem = drfl.Problem("hinge", drfl.Ball(0.1, "l1"), drfl.Mixture(radius=0.4))
    found, solver = stated(name, problem, [30, 10], seed=7)
    native = native_methods().get(name)
    assert isinstance(solver, native or Bundle)
    fixed = NAMED_PROBLEMS[name if native is None else native.problem].fixed
    assert found.shared_ball == fixed["shared_ball"]
    radius = found.ball.radius if isinstance(found.ball, drfl.Ball) else None
    assert radius == fixed.get("radius", 0.1)
    assert found.mixture.radius == fixed.get("mixture_radius", 0.4)
    if native is not None:
        assert solver.seed == 7
        solver.refuse(found, ["a", "b"])  # it is one of this method
