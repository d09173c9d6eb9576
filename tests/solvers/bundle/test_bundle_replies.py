"""Answers that are missing, late, wrong or poisoned: the result stays what it says it is."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from drfl import Ball, Box, Mixture
from drfl.datasets import load_heart, partition
from drfl.losses import Hinge, Logistic, make_loss
from drfl.solvers import StatusKind
from drfl.solvers.bundle import Bundle, stacks
from drfl.wire import Failure
from kit.cases import Case, uniform_case
from kit.lossy import ChangingEngine, losing, with_arrays
from kit.optimality import assert_bounded, assert_honest, assert_optimal

INF = math.inf


def _heart(seed=0, S=10):
    heart = load_heart()
    parts = partition.random(len(heart.target), S, np.random.default_rng(seed))
    data = [(heart.data[rows], heart.target[rows].astype(float)) for rows in parts]
    mixture = Mixture(radius=0.1, p=1)
    return uniform_case("hinge", data, Ball(0.01, "l1", 1e3), mixture, intercept="none")


def _small(loss="hinge", kappa=2.0, support=None, S=3, N=160):
    loss, rng = make_loss(loss), np.random.default_rng(5)
    model, data = rng.normal(size=3), []
    for _ in range(S):
        X = np.clip(rng.normal(size=(N, 3)), -3.0, 3.0)
        z = X @ model + 0.5 * rng.normal(size=N)
        data.append((X, z if loss.task == "regression" else np.where(z > 0.0, 1.0, -1.0)))
    return uniform_case(loss, data, Ball(0.05, "l1", kappa, support), Mixture(radius=0.3))


# ---------------------------------------------------------------------------- lost answers
@pytest.mark.parametrize(("share", "most"), [(0.2, 17), (0.4, 27)])
@pytest.mark.sampled(2)
def test_lost_answers_cost_rounds_and_nothing_else(share, most):
    case, rounds = _heart(), []
    best = case.solve(tol=1e-8)
    for seed in range(5):
        result = case.solve(engine=losing(share, seed))
        assert_optimal(case, result, case.at(best))
        lost = sum(len(record.failures) for record in result.history)
        assert lost > 0.5 * share * 10 * result.rounds
        rounds.append(result.rounds)
    assert np.median(rounds) <= most, rounds


LOSSY = {
    "logistic": _small("logistic"),
    "logistic, fixed labels": _small("logistic", INF),
    "huber": _small("huber"),
    "pinball": _small("pinball", INF),
    "hinge in a box": _small("hinge", 2.0, Box(-3.0, 3.0)),
    "epsilon in a box": _small("epsilon_insensitive", 2.0, Box(-3.0, 3.0)),
    "logistic in a box": _small("logistic", INF, Box(-3.0, 3.0), N=20),
}


@pytest.mark.parametrize("name", LOSSY)
@pytest.mark.sampled(2)
def test_lost_answers_of_every_kind_of_cut(name):
    case = LOSSY[name]
    result = case.solve(engine=losing(0.3, 1))
    assert_optimal(case, result, case.at(case.solve(tol=1e-7)))


def test_a_bound_without_everyone_is_not_called_certified():
    """As long as somebody has not evaluated any point, there is no objective."""
    case = _heart()
    seen = []
    engine = ChangingEngine(lambda name, reply: None if name == "c7" else reply)
    case.solve(engine=engine, max_rounds=4, callbacks=[seen.append])
    assert len(seen) == 4
    for record in seen:
        assert record.objective == math.inf
        assert record.gap == math.inf
        assert record.failures == {"c7": Failure.DEADLINE}


# ---------------------------------------------------------------------------- who falls silent
def test_a_client_that_never_answers_is_named():
    case = _small()
    engine = ChangingEngine(lambda name, reply: None if name == "c1" else reply)
    result = case.solve(engine=engine)
    assert result.status.kind in (StatusKind.PARTIAL, StatusKind.FAILED)
    assert "c1" in result.status.message
    if result.status.kind is StatusKind.PARTIAL:
        _check_without(case, result, 1)


def _check_without(case, result, gone):
    """The result is that of the problem without a client, and says so."""
    others = [s for s in range(len(case.data)) if s != gone]
    rest = Case(
        case.loss,
        tuple(case.data[s] for s in others),
        tuple(case.balls[s] for s in others),
        case.mixture,
        case.intercept,
    )
    assert math.isnan(result.client_losses[f"c{gone}"])
    best = rest.solve(tol=1e-7)
    np.testing.assert_allclose(result.objective, rest.exact(rest.at(result)), rtol=1e-9)
    np.testing.assert_allclose(result.objective, best.objective, rtol=2e-6)
    assert result.lower_bound <= best.objective * (1.0 + 1e-9)


def test_when_nobody_answers_the_run_fails_and_names_them():
    result = _small().solve(engine=ChangingEngine(lambda name, reply: None))
    assert result.status.kind is StatusKind.FAILED
    for name in ("c0", "c1", "c2"):
        assert name in result.status.message
    assert result.objective == result.gap == math.inf
    result.to_json()


def test_a_client_that_is_left_out_is_named_also_where_the_tolerance_is_not_reached():
    case = _small()
    engine = ChangingEngine(lambda name, reply: None if name == "c1" else reply)
    result = case.solve(engine=engine, tol=1e-13, max_rounds=11)
    assert result.gap > 1e-13
    assert math.isnan(result.client_losses["c1"])
    assert result.status.kind is StatusKind.PARTIAL
    assert "c1 fell silent" in result.status.message
    assert "left out" in result.status.message


def test_a_run_that_a_callback_stops_names_who_is_left_out():
    engine = ChangingEngine(lambda name, reply: None if name == "c1" else reply)
    result = _small().solve(engine=engine, tol=1e-13, callbacks=[lambda record: record.round > 10])
    assert result.status.kind is StatusKind.STOPPED
    assert result.status.message.endswith(", of the problem without c1")


@pytest.mark.parametrize("after", [2, 5, 7])
def test_a_client_that_falls_silent_is_named_and_nothing_false_is_claimed(after):
    case = _heart()
    engine = ChangingEngine(
        lambda name, reply: None if name == "c3" and reply.round >= after else reply
    )
    result = case.solve(engine=engine)
    assert result.status.kind is StatusKind.PARTIAL
    assert "c3" in result.status.message
    if "left out" in result.status.message:
        _check_without(case, result, 3)
    else:
        assert_honest(case, result)
        assert_bounded(case, result, case.at(case.solve(tol=1e-7)))


def test_a_client_that_comes_back_is_heard():
    case = _heart()
    engine = ChangingEngine(
        lambda name, reply: None if name == "c3" and 3 <= reply.round <= 7 else reply
    )
    result = case.solve(engine=engine)
    assert_optimal(case, result, case.at(case.solve(tol=1e-7)))


# ---------------------------------------------------------------------------- poisoned answers
def _poke(name, index, value):
    """Replace one entry of an array."""

    def change(reply):
        array = reply.arrays[name].copy()
        array[index] = value
        return with_arrays(reply, **{name: array})

    return change


POISON = {
    "a NaN value": _poke("value", (0, 0), math.nan),
    "an infinite value": _poke("value", (0, 0), math.inf),
    "a NaN in a cut": _poke("cuts", (0, 0, 1), math.nan),
    "a value below its cuts": lambda r: with_arrays(
        r, value=r.arrays["value"] - 10.0 * (np.arange(r.arrays["value"].shape[1]) == 0)
    ),
    "cuts above its value": lambda r: with_arrays(
        r, cuts=r.arrays["cuts"] + 10.0 * (np.arange(r.arrays["cuts"].shape[2]) == 0)
    ),
    "cuts of another length": lambda r: with_arrays(r, cuts=r.arrays["cuts"][:, :, :-2]),
    "cuts of too many groups": lambda r: with_arrays(r, cuts=np.tile(r.arrays["cuts"], (1, 2, 1))),
    "cuts of no group": lambda r: with_arrays(r, cuts=r.arrays["cuts"][:, :0]),
    "a point too few": lambda r: with_arrays(
        r, value=r.arrays["value"][:0], cuts=r.arrays["cuts"][:0]
    ),
    "values without a column": lambda r: with_arrays(r, value=r.arrays["value"][:, :0]),
    "numbers of another type": lambda r: with_arrays(r, value=r.arrays["value"].astype(np.float32)),
    "no cuts": lambda r: with_arrays(r, cuts=None),
    "an array nobody knows": lambda r: with_arrays(r, extra=np.zeros(3)),
    "a stale round": lambda r: replace(r, round=max(r.round - 1, 0) if r.round else 7),
    "a round to come": lambda r: replace(r, round=r.round + 1),
    "another kind": lambda r: replace(r, kind="other/reply"),
    "curvature of another size": lambda r: with_arrays(
        r, factor=None, scale=None, hess=np.ones((1, 3), np.float32)
    ),
    "half of a factor": lambda r: with_arrays(
        r, factor=np.ones((1, 4), np.float16), scale=np.ones((1, 4), np.float32), hess=None
    ),
    "more factors than scales": lambda r: with_arrays(
        r, factor=np.ones((2, 10), np.float16), scale=np.ones((1, 4), np.float32), hess=None
    ),
    "negative curvature": lambda r: with_arrays(
        r,
        factor=None,
        scale=None,
        hess=-1e3 * np.eye(4, dtype=np.float32)[np.tril_indices(4)][None],
    ),
    "a dual cut of another length": lambda r: with_arrays(r, dual=np.ones(2)),
    "a dual cut above the loss": lambda r: with_arrays(r, dual=np.array([1e3, 0, 0, 0, 0.0])),
    "shares nobody asked for": lambda r: with_arrays(r, share=np.array([5.0])),
    "sizes again": lambda r: with_arrays(r, about=np.array([1e9, 1.0])),
}
FIRST = {
    "no sizes": lambda r: with_arrays(r, about=None),
    "a size of 0": _poke("about", 0, 0.0),
    "a negative size": _poke("about", 0, -5.0),
    "features of size 0": _poke("about", 1, 0.0),
    "features of negative size": _poke("about", 1, -1.0),
    "a huge local optimum": lambda r: with_arrays(r, local=np.full(4, 1e30, np.float32)),
}
ONCE = {(name, 0): change for name, change in {**POISON, **FIRST}.items()}
ONCE |= {(name, 2): change for name, change in POISON.items()}


@cache
def _optimum(loss):
    case = _small(loss)
    return case, case.at(case.solve(tol=1e-7))


def _poisoned(case, change, rounds, **settings):
    def poison(name, reply):
        return change(reply) if name == "c1" and reply.round in rounds else reply

    return case.solve(engine=ChangingEngine(poison), **settings)


@pytest.mark.parametrize(("name", "round"), ONCE)
@pytest.mark.parametrize("loss", [Hinge(), Logistic()], ids=lambda loss: loss.name)
@pytest.mark.sampled(11)
def test_a_poisoned_answer_does_not_change_the_result(loss, name, round):
    case, best = _optimum(loss)
    assert_optimal(case, _poisoned(case, ONCE[name, round], {round}), best)


@pytest.mark.parametrize("name", POISON)
@pytest.mark.sampled(7)
def test_a_client_that_is_always_poisoned_never_corrupts(name):
    """It is left out by name, or what it adds is harmless."""
    case, best = _optimum(Hinge())
    result = _poisoned(case, POISON[name], range(1, 10_000))
    if result.status.kind is StatusKind.CERTIFIED:
        assert_optimal(case, result, best)
        return
    assert "c1" in result.status.message
    if "left out" in result.status.message:
        _check_without(case, result, 1)
    elif result.status.kind is not StatusKind.FAILED:
        assert_honest(case, result)


REASONS = {
    "a NaN value": "NaN or infinite",
    "a value below its cuts": "below its own earlier cuts",
    "cuts of another length": "do not fit",
    "cuts of too many groups": "were not asked for",
    "no cuts": "is missing",
    "an array nobody knows": "was not expected",
    "a stale round": "expected a message of round",
    "another kind": "expected a message of kind",
}


@pytest.mark.parametrize("name", REASONS)
@pytest.mark.sampled(2)
def test_a_refused_answer_is_recorded_with_its_reason(name):
    result = _poisoned(_small(), POISON[name], {2})
    assert REASONS[name] in result.history[2].failures["c1"]
    assert [record.round for record in result.history if record.failures] == [3]


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize("name", POISON)
@pytest.mark.sampled(10)
def test_replies_are_refused_as_one_as_they_are_one_by_one(loss, name, monkeypatch):
    """Replies of the same form are read as one array: the guilty is named, nothing else moves."""
    case = _small(loss, S=4)
    together = _poisoned(case, POISON[name], {2})
    monkeypatch.setattr(stacks, "BYTES", 1)  # a stack for every reply
    alone = _poisoned(case, POISON[name], {2})
    assert [r.failures for r in together.history] == [r.failures for r in alone.history]
    assert together.coef.tobytes() == alone.coef.tobytes()
    assert (together.objective, together.lower_bound) == (alone.objective, alone.lower_bound)


SHARES = {
    "no shares": None,
    "negative shares": np.array([-0.5, 0.75, 0.75]),
    "shares above 1": np.array([1.0, 1.0, 1.0]),
    "too few shares": np.array([0.5, 0.5]),
}


@pytest.mark.parametrize("name", SHARES)
def test_wrong_shares_of_groups_do_not_change_the_result(name):
    """Shares weigh the cuts of groups: too large ones would be a false lower bound."""
    (case, best), asked = _optimum(Hinge()), []

    def poison(client, reply):
        if client == "c1" and "share" in reply.arrays:
            asked.append(reply.round)
            return with_arrays(reply, share=SHARES[name])
        return reply

    settings = {"solver": Bundle(groups=3), "tol": 1e-9}
    result = case.solve(engine=ChangingEngine(poison), **settings)
    assert asked
    assert_bounded(case, result, best)
    if result.status.kind is StatusKind.CERTIFIED:
        assert_optimal(case, result, best)


def _boasting(factor, radius=1.0):
    """A client that calls its loss more curved than it is, and all of that certain."""

    def change(reply):
        if "reach" not in reply.arrays:
            return reply
        reach = reply.arrays["reach"] * [radius * math.sqrt(factor), 0.0] + [0.0, 1.0]
        return with_arrays(reply, bend=factor * reply.arrays["bend"], reach=reach)

    return change


@pytest.mark.parametrize("factor", [2.0, 1e2, 1e4, 1e8])
@pytest.mark.parametrize("loss", ["logistic", "huber"])
@pytest.mark.sampled(4)
def test_curvature_that_is_boasted_of_does_not_raise_the_bound(loss, factor):
    """Cuts from curvature are proofs: they are held against every value the client has told."""
    case = _small(loss, INF)
    best = case.solve(tol=1e-9).objective
    for radius in (0.01, 1.0, 100.0):
        result = _poisoned(case, _boasting(factor, radius), range(10_000))
        assert result.lower_bound <= best + 1e-6 * abs(best)
        if factor >= 1e2 and radius == 1.0:
            assert "above its own values" in str([r.failures for r in result.history])


REACHES = {
    "how far its curvature reaches cannot be": [
        np.array([[-1.0, 0.5]]),
        np.array([[1.0, 1.5]]),
        np.array([[1.0, -0.5]]),
    ],
    "NaN or infinite": [np.array([[INF, 0.5]])],
    "goes with its digits": [None],
}


@pytest.mark.parametrize("reason", REACHES)
def test_a_reach_that_cannot_be_is_refused(reason):
    case = _small("logistic", INF)
    best = case.at(case.solve(tol=1e-7))
    for table in REACHES[reason]:
        told = []

        def change(reply, table=table, told=told):
            if "reach" not in reply.arrays:
                return reply
            told.append(reply.round)
            if table is None:
                return with_arrays(reply, bend=None)
            return with_arrays(reply, reach=table)

        result = _poisoned(case, change, range(3))
        assert told
        assert reason in str([record.failures for record in result.history])
        assert_optimal(case, result, best)


def test_wrong_facts_of_a_box_are_refused():
    """The anchors of a box are made of what clients tell in their first answer."""
    case = _small("hinge", 2.0, Box(-3.0, 3.0))
    for change in (
        lambda r: with_arrays(r, facts=None),
        lambda r: with_arrays(r, facts=np.zeros((3, 2))),
    ):
        result = _poisoned(case, change, {0})
        assert_optimal(case, result, case.at(case.solve(tol=1e-7)))


def test_a_client_whose_computation_fails_is_missing():
    """An exception at a client is a code, and the run goes on with the others."""
    case = _small()
    engine = ChangingEngine(
        lambda name, reply: Failure.ERROR.message(reply.round) if name == "c2" else reply
    )
    result = case.solve(engine=engine)
    assert result.status.kind in (StatusKind.PARTIAL, StatusKind.FAILED)
    assert "c2" in result.status.message
