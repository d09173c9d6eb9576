"""Runs of the ADMMs: lost answers and bad ones."""

from dataclasses import replace

import numpy as np
import pytest
from admm_kit import PROBLEM, ROUNDS, SOLVERS, clients, solve

import drfl
from drfl.client import Site
from drfl.solvers import Assignment
from drfl.solvers.admm import Admm
from kit.lossy import ChangingEngine, losing, with_arrays


@pytest.fixture(scope="module")
def best():
    return drfl.solve(PROBLEM, clients())


# ---------------------------------------------------------------------------- lost answers
@pytest.mark.parametrize("share", [0.2, 0.4])
@pytest.mark.parametrize("name", SOLVERS)
def test_lost_answers_cost_rounds_not_the_optimum(name, share, best):
    result = solve(SOLVERS[name], engine=losing(share, 0), max_rounds=2 * ROUNDS)
    assert result.status.kind == "certified"
    assert best.lower_bound <= result.objective * (1.0 + 1e-9)
    assert result.objective <= best.objective * (1.0 + 1e-3)
    assert result.lower_bound <= best.objective * (1.0 + 1e-9)


@pytest.mark.parametrize("name", SOLVERS)
def test_who_does_not_answer_is_represented_by_its_last_answer(name):
    solver, made = SOLVERS[name], clients()
    sites = {c.name: Site(c, PROBLEM, debug=True) for c in made}
    session = solver.start(Assignment(PROBLEM, tuple(sites), 3, tol=1e-9, max_rounds=50))
    for round in range(12):
        messages = session.propose()
        answers = {k: sites[k].answer(m, solver.handlers) for k, m in messages.items()}
        state = session.dual[1].copy(), session.last[1].copy()
        if round in (7, 8):
            answers.pop("c1")
        session.absorb(answers, {})
        changed = not np.array_equal(session.last[1], state[1])
        assert changed == (round > 0 and round not in (7, 8)) or round == 0
        if round in (7, 8):
            np.testing.assert_array_equal(session.dual[1], state[0])
            again = session.propose()["c1"].arrays
            # Nobody knows what it did in between: it is told its multipliers.
            np.testing.assert_array_equal(again["duals"][0], session.dual[1][:-1])
            np.testing.assert_array_equal(again["pair"], [session.dual[1][-1], session.last[1][-1]])
    # With everyone there, both sides agree on the multipliers without sending them.
    for s, site in enumerate(sites.values()):
        np.testing.assert_array_equal(site.memory["admm"].state.dual, session.dual[s])


@pytest.mark.parametrize("name", SOLVERS)
def test_a_client_that_never_answers_is_named(name):
    mute = ChangingEngine(lambda name, reply: None if name == "c2" else reply)
    result = solve(SOLVERS[name], engine=mute, max_rounds=30)
    assert result.status.kind == "failed"
    assert "c2: no answer" in result.status.message
    assert "c0" not in result.status.message


@pytest.mark.parametrize("name", SOLVERS)
def test_nothing_is_certified_without_everybody(name):
    # From round 3 on c1 is silent: no later point becomes an upper bound.
    rounds = iter(range(10_000))
    count = {"c1": 0}

    def change(who, reply):
        next(rounds)
        count["c1"] += who == "c1"
        return None if who == "c1" and count["c1"] > 3 else reply

    result = solve(SOLVERS[name], engine=ChangingEngine(change), max_rounds=60)
    assert result.status.kind == "max_rounds"
    w, b = result.coef, result.intercept
    oracles = [Site(c, PROBLEM).oracle for c in clients()]
    exact = PROBLEM.mixture.resolve([1.0] * 3).support([o.evaluate(w, b).value for o in oracles])
    assert result.objective == pytest.approx(exact, rel=1e-9)


# ---------------------------------------------------------------------------- bad answers
def poisoned(field, value, who="c1", after=3):
    seen = {"n": 0}

    def change(name, reply):
        seen["n"] += name == who
        if name != who or seen["n"] <= after or seen["n"] % 3 or field not in reply.arrays:
            return reply
        return with_arrays(reply, **{field: value(reply.arrays[field])})

    return ChangingEngine(change)


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("model", lambda a: np.full_like(a, np.nan), "finite"),
        ("model", lambda a: a[:-1], "shape"),
        ("pi", lambda a: -1.0 - a, "negative"),
        ("pi", lambda a: None, "step is missing"),
        ("value", lambda a: a - 0.5, "below its own earlier cuts"),
    ],
)
@pytest.mark.sampled(2)
def test_a_bad_answer_counts_as_missing(name, field, value, word, best):
    result = solve(SOLVERS[name], engine=poisoned(field, value), max_rounds=2 * ROUNDS)
    reasons = {r for record in result.history for r in record.failures.values()}
    assert any(word in reason for reason in reasons), reasons
    assert result.status.kind == "certified"
    assert result.objective <= best.objective * (1.0 + 1e-3)
    assert result.lower_bound <= best.objective * (1.0 + 1e-9)


def test_a_stale_answer_is_refused(best):
    kept = {}

    def change(name, reply):
        old = kept.setdefault(name, reply)
        return replace(reply, arrays=old.arrays, round=old.round) if reply.round % 7 == 6 else reply

    result = solve(Admm(), engine=ChangingEngine(change))
    assert result.status.kind == "certified"
    assert result.objective <= best.objective * (1.0 + 1e-3)
    assert any("round" in r for record in result.history for r in record.failures.values())


@pytest.mark.parametrize("solver", ["admm", "ad_lpmm"])
@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
def test_a_client_without_a_radius_among_others_in_a_box(solver, loss):
    X, y = np.array([[0.0], [0.5]]), np.array([1.0, -1.0])
    box = drfl.Box(-1.0, 1.0)
    balls = {"a": drfl.Ball(0.0, "l1", 10.0, box), "b": drfl.Ball(0.3, "l1", 10.0, box)}
    problem = drfl.Problem(loss, balls)
    clients = [drfl.Client(name, X, y) for name in balls]
    exact = drfl.solve(problem, clients)
    result = drfl.solve(problem, clients, solver=solver, max_rounds=100, tol=1e-2)
    assert result.status.kind == "certified"
    assert result.lower_bound <= exact.objective * (1.0 + 1e-6)
    assert exact.lower_bound <= result.objective * (1.0 + 1e-6)
