"""Several classes at once: answers that are lost, wrong or poisoned."""

import math
import re
from functools import cache

import numpy as np
import pytest

import drfl
from drfl.solvers import StatusKind
from drfl.solvers.bundle import Bundle
from kit.joint_referee import JointReferee
from kit.lossy import ChangingEngine, losing, with_arrays

LOSSES = {"logistic": 1.0, "hinge": math.inf}  # with the cost of a label


@cache
def case(loss, clients=3, N=30):
    """A problem of three classes, its data, and its optimum by an independent way."""
    rng, data = np.random.default_rng(3), {}
    for s in range(clients):
        y = np.arange(N) % 3
        data[f"c{s}"] = (rng.normal(size=(N, 2)) + np.eye(3, 2)[y], y.astype(float))
    ball, mixture = drfl.Ball(0.05, "l1", LOSSES[loss]), drfl.Mixture("uniform", 0.3, 1)
    problem = drfl.Problem(loss, ball, mixture, classes=3)
    return problem, data, JointReferee.of(problem, data).optimum()


def solved(loss, engine):
    problem, data, _ = case(loss)
    clients = [drfl.Client(name, X, y) for name, (X, y) in data.items()]
    # The sizes of the columns are known beforehand, as in a training of files.
    sizes = {name: np.sqrt((X**2).mean(axis=0)).tolist() for name, (X, _) in data.items()}
    solver = Bundle(column_sizes=sizes)
    return drfl.solve(problem, clients, engine=engine, solver=solver, max_rounds=100)


def is_right(loss, result):
    problem, data, best = case(loss)
    assert result.status.kind is StatusKind.CERTIFIED
    assert JointReferee.of(problem, data).judge(result, 1e-6, best) == []


def poisoned(loss, change, wrong=lambda number: True):
    """A run in which one client's answers are changed, in some of the rounds."""

    def poison(name, reply):
        return change(reply) if name == "c1" and wrong(reply.round) else reply

    return solved(loss, ChangingEngine(poison))


def among_others(loss, result):
    """The result is that of the problem without the client that was left out."""
    problem, data, _ = case(loss)
    rest = {name: rows for name, rows in data.items() if name != "c1"}
    best = JointReferee.of(problem, rest).optimum()
    assert math.isnan(result.client_losses["c1"])
    assert result.objective == pytest.approx(best, rel=2e-6)
    assert result.lower_bound <= best * (1.0 + 1e-6)


# ---------------------------------------------------------------------------- lost answers
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("share", [0.2, 0.4])
def test_lost_answers_cost_rounds_and_nothing_else(loss, share):
    for seed in range(2):
        result = solved(loss, losing(share, seed))
        is_right(loss, result)
        assert sum(len(record.failures) for record in result.history) > 0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("after", [0, 2])
def test_a_client_that_falls_silent_is_named(loss, after):
    result = solved(
        loss, ChangingEngine(lambda name, r: None if name == "c1" and r.round >= after else r)
    )
    assert result.status.kind in (StatusKind.PARTIAL, StatusKind.FAILED)
    assert "c1" in result.status.message
    if result.status.kind is StatusKind.PARTIAL:
        among_others(loss, result)


# ---------------------------------------------------------------------------- poisoned answers
def poke(name, index, value):
    """Replace one entry of an array, where it is sent."""

    def change(reply):
        array = reply.arrays[name].copy()
        array[index] = value
        return with_arrays(reply, **{name: array})

    return change


def added(name, amount):
    """Add to the first entry of the last axis."""

    def change(reply):
        array = reply.arrays[name].copy()
        array[..., 0] += amount
        return with_arrays(reply, **{name: array})

    return change


POISON = {
    "a NaN value": (poke("value", (0, 0), math.nan), "NaN or infinite"),
    "a NaN in a cut": (poke("cuts", (0, 0, 4), math.nan), "NaN or infinite"),
    "a value below its cuts": (
        added("value", -10.0),
        "its value at w = 0|its own earlier cuts",
    ),
    "cuts above its value": (added("cuts", 10.0), "value"),
    "no cuts": (lambda r: with_arrays(r, cuts=None), "is missing"),
    "a class too few in the cuts": (
        lambda r: with_arrays(r, cuts=r.arrays["cuts"][:, :, :-3]),
        "do not fit",
    ),
    "a slope that no rows have": (poke("cuts", (0, 0, 3), 1e6), "slope"),
    "curvature of a class too few": (
        lambda r: with_arrays(r, hess=np.ones((1, 6), np.float32)),
        "does not fit 9 coefficients",
    ),
    "negative curvature between two classes": (
        lambda r: with_arrays(r, hess=np.full((1, 18), -1.0, np.float32)),
        "positive semidefinite",
    ),
    "a dual cut of another length": (lambda r: with_arrays(r, dual=np.ones(4)), "dual"),
}
FIRST = {
    "no shares of classes": (lambda r: with_arrays(r, classes=None), "classes do not fit"),
    "a class too few": (
        lambda r: with_arrays(r, classes=r.arrays["classes"][:-1]),
        "classes",
    ),
    "negative shares": (poke("classes", (0, 0), -0.5), "are not shares of 1"),
    "shares above 1": (poke("classes", (0, 0), 1.5), "are not shares of 1"),
    "means beyond the columns": (poke("classes", (1, 1), 1e6), "larger than its columns allow"),
    "a size of 0": (poke("about", 0, 0.0), "how many rows it has"),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("name", "number"), [*((name, 0) for name in {**POISON, **FIRST}), *((n, 1) for n in POISON)]
)
@pytest.mark.sampled(5)
def test_a_poisoned_answer_is_refused_with_its_reason(loss, name, number):
    change, why = {**POISON, **FIRST}[name]
    result = poisoned(loss, change, lambda at: at == number)
    assert re.search(why, result.history[number].failures["c1"])
    assert [record.round for record in result.history if record.failures] == [number + 1]
    is_right(loss, result)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", POISON)
@pytest.mark.sampled(4)
def test_a_client_that_is_always_poisoned_never_corrupts(loss, name):
    """It is left out by name, or what it adds is harmless."""
    result = poisoned(loss, POISON[name][0], lambda at: at > 0)
    assert result.status.kind in (StatusKind.PARTIAL, StatusKind.FAILED)
    assert "c1" in result.status.message
    if result.status.kind is StatusKind.PARTIAL:
        among_others(loss, result)
