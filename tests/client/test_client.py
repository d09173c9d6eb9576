"""Clients: what they own, what they allow, and that nothing of their rows gets out."""

import math

import numpy as np
import pytest

from drfl.client import Checked, Client, Policy, RefusedError, Site, WithheldError, row_shaped
from drfl.problem import Problem
from drfl.uncertainty import Ball
from drfl.wire import Failure, Field, Message, validate
from drfl.worst_case import make_oracle
from kit.cutting_plane import CuttingPlane

N, n = 17, 3  # no other length of these tests is 17
SECRET = "patient 4711"


def make_client(repeat=1, **changes):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, n))
    y = np.where(X[:, 0] + rng.normal(size=N) > 0.0, 1.0, -1.0)
    return Client("north", np.repeat(X, repeat, axis=0), np.repeat(y, repeat), **changes)


def site(debug=False, **changes):
    return Site(make_client(**changes), Problem("hinge", Ball(0.1, "l2", 1.0)), debug=debug)


def one(site, handler, arrays=None, kind="ask"):
    return site.answer(Message(kind, 3, arrays or {}), {"ask": handler})


# ---------------------------------------------------------------------------- clients
def test_a_client_passes_its_data_to_rows():
    weights = np.arange(1.0, N + 1.0)
    client = make_client(sample_weight=weights, shift=np.ones(n), scale=np.full(n, 2.0))
    assert client.rows.total == weights.sum()
    plain = make_client().rows
    np.testing.assert_allclose(
        client.rows.scores(np.ones(n), 0.5), plain.scores(np.ones(n) / 2.0, 0.5 - n / 2.0)
    )
    assert repr(client) == "<client 'north': 17 rows, 3 features>"


@pytest.mark.parametrize(
    ("changes", "error", "why"),
    [
        ({"name": 3}, TypeError, "must be a string, got int"),
        ({"name": " "}, ValueError, "must not be empty"),
        ({"policy": True}, TypeError, "must be a Policy, got bool"),
        ({"policy": Policy(min_rows=3)}, ValueError, "'a' has 2 rows, but its policy asks for"),
        ({"y": [1.0]}, ValueError, "one y per row"),
    ],
)
def test_bad_clients_are_refused(changes, error, why):
    given = {"name": "a", "X": [[0.0], [1.0]], "y": [1.0, -1.0]} | changes
    with pytest.raises(error, match=why):
        Client(given.pop("name"), given.pop("X"), given.pop("y"), **given)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"curvature": 1}, TypeError),
        ({"groups": "no"}, TypeError),
        ({"dual_cuts": None}, TypeError),
        ({"min_rows": 2.0}, TypeError),
        ({"min_rows": True}, TypeError),
        ({"min_rows": 0}, ValueError),
    ],
)
def test_bad_policies_are_refused(changes, error):
    with pytest.raises(error, match=next(iter(changes))):
        Policy(**changes)


def test_a_policy_allows_everything_unless_told():
    assert Policy() == Policy(curvature=True, groups=True, dual_cuts=True, min_rows=1)


# ---------------------------------------------------------------------------- sites
@pytest.mark.parametrize("intercept", ["shared", "none"])
def test_a_site_binds_a_client_to_a_problem(intercept):
    policy = Policy(curvature=False)
    client = make_client(policy=policy)
    ball = Ball(0.3, "l1", 2.0)
    here = Site(client, Problem("logistic", {"north": ball}, intercept=intercept))
    assert (here.name, here.policy, here.rows) == ("north", policy, client.rows)
    assert (here.n_features, here.dimension) == (n, n + (intercept == "shared"))
    d = n + (intercept == "shared")
    triangle = d * (d + 1) // 2
    assert here.sizes == {"n": n, "d": d, "t": triangle, "f": d, "u": triangle, "C": 1}
    assert here.memory == {}
    w = np.array([0.5, -1.0, 0.2])
    expected = make_oracle(client.rows, Problem("logistic").loss, ball).evaluate(w, 0.1)
    assert here.oracle.evaluate(w, 0.1).value == expected.value


def test_a_problem_that_does_not_fit_is_refused_with_the_name():
    with pytest.raises(ValueError, match=r"client 'north': there is no radius .* only for 'south'"):
        Site(make_client(), Problem("hinge", {"south": Ball()}))


def test_an_answer_is_of_the_same_round():
    reply = one(site(), lambda site, message: {"twice": 2.0 * message.arrays["x"]}, {"x": 1.5})
    assert reply == Message("ask/reply", 3, {"twice": np.array(3.0)})


def test_memory_lasts_from_message_to_message():
    def count(site, message):
        site.memory["count"] = site.memory.get("count", 0) + 1
        return {"count": np.array(site.memory["count"])}

    here = site()
    assert [int(one(here, count).arrays["count"]) for _ in range(3)] == [1, 2, 3]
    assert int(one(site(), count).arrays["count"]) == 1


class OwnError(ArithmeticError):
    """An exception class of somebody's own."""


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ValueError(SECRET), Failure.ERROR),
        (OwnError(SECRET), Failure.ERROR),
        (KeyError(SECRET), Failure.ERROR),
        (np.linalg.LinAlgError(SECRET), Failure.ERROR),
        (RecursionError(SECRET), Failure.ERROR),
        (MemoryError(SECRET), Failure.MEMORY),
        (RefusedError(SECRET), Failure.REFUSED),
        (WithheldError(SECRET), Failure.WITHHELD),
    ],
)
def test_an_exception_becomes_a_code_without_its_text(error, failure):
    def broken(site, message):
        raise error

    reply = one(site(), broken)
    assert reply == Message(f"failure/{failure}", 3)
    with pytest.raises(type(error), match=SECRET):
        one(site(debug=True), broken)


def test_an_interrupt_is_not_swallowed():
    def interrupted(site, message):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        one(site(), interrupted)


def test_an_unknown_kind_is_a_failure():
    assert Failure.of(one(site(), None, kind="other")) is Failure.UNKNOWN_KIND


def test_a_request_of_the_wrong_form_is_a_failure():
    def strict(site, message):
        validate(message, "ask", None, {"x": Field("float64", ("n",))}, site.sizes)
        return {}

    assert Failure.of(one(site(), strict, {"x": np.ones(n + 1)})) is Failure.BAD_REQUEST
    assert Failure.of(one(site(), strict, {"x": np.ones(n)})) is None


@pytest.mark.parametrize(
    "arrays",
    [
        {"x": np.array([True])},
        {"x": np.array([SECRET])},
        {"X": np.ones(1)},
        {"x": [[1.0], [1.0, 2.0]]},
        {"x": np.ones((1, 1, 1, 1))},
        None,
        [1.0],
    ],
)
def test_what_is_no_message_does_not_leave(arrays):
    assert Failure.of(one(site(), lambda site, message: arrays)) is Failure.WITHHELD
    with pytest.raises(WithheldError):
        one(site(debug=True), lambda site, message: arrays)


# ---------------------------------------------------------------------------- private by shape
def test_row_shaped_finds_every_axis():
    arrays = {"a": np.ones((2, N)), "b": np.ones((N, 1, 2)), "c": np.ones(N + 1), "d": np.ones(())}
    assert row_shaped(arrays, N, {1, n, n + 1}) == ["a", "b"]
    assert row_shaped(arrays, N, {N}) == []


LEAKS = {
    "scores": lambda site, message: {"scores": site.rows.scores(np.ones(n))},
    "gram": lambda site, message: {"k": site.rows.take(slice(None)) @ np.ones((n, 2))},
    "labels": lambda site, message: {"y": site.rows.y.astype(np.int64)},
}


@pytest.mark.parametrize("leak", LEAKS.values(), ids=LEAKS)
def test_the_guard_catches_a_planted_leak(leak):
    with pytest.raises(WithheldError, match="as long as the client has rows"):
        one(site(debug=True), leak)


def test_the_guard_lets_legitimate_lengths_pass():
    answer = {"w": np.ones(n), "x": np.ones(n + 1), "asked": np.ones(N), "one": np.ones(1)}
    request = {"points": np.ones((N, n))}
    assert Failure.of(one(site(debug=True), lambda *_: answer, request)) is None
    # A client with as many rows as features cannot be told from one that keeps to itself.
    square = Client("north", np.eye(n), [1.0, -1.0, 1.0])
    here = Site(square, Problem("hinge"), debug=True)
    assert Failure.of(one(here, lambda *_: {"w": np.ones(n)})) is None


CHECKED = Checked(
    lambda site, message: {"y": message.arrays["x"] * site.memory.get("factor", 1.0)},
    request={"x": Field("float64", ("K", "d"))},
    reply={"y": Field("float64", ("K", "d"))},
)


@pytest.mark.parametrize(
    ("shape", "factor", "failure"),
    [
        ((2, n + 1), 1.0, None),
        ((2, n), 1.0, Failure.BAD_REQUEST),
        ((2, n + 1), math.nan, Failure.WITHHELD),
        ((1, n + 1), np.ones((N, 1)), Failure.WITHHELD),
        ((1, n + 1), np.ones(n + 1, np.float32), None),
    ],
)
def test_a_checked_handler_keeps_to_its_schemas(shape, factor, failure):
    here = site()
    here.memory["factor"] = factor
    assert Failure.of(one(here, CHECKED, {"x": np.ones(shape)})) is failure


def shapes_of_replies(solver, requests, repeat):
    """The shapes of a method's replies if every row of the client is there ``repeat`` times."""
    here = site(debug=True, repeat=repeat)
    return [
        {name: array.shape for name, array in here.answer(m, solver.handlers).arrays.items()}
        for m in requests
    ]


def test_shapes_do_not_depend_on_the_number_of_rows():
    requests = [Message("evaluate", k, {"x": np.full(n + 1, float(k))}) for k in range(2)]
    single, double = (shapes_of_replies(CuttingPlane(), requests, k) for k in (1, 2))
    assert single == double
    assert single[0] == {"value": (), "slope": (n + 1,), "multiplier": ()}
