"""The state of a run is data: a copy of it goes on alike."""

import copy

import numpy as np
import pytest

import drfl
from drfl.client import Site
from drfl.solvers import Assignment
from drfl.solvers.bundle import Bundle
from drfl.solvers.bundle.points import MOST_MISSED
from drfl.solvers.bundle.session import BundleSession, let_go
from drfl.solvers.bundle.state import begin
from kit.cases import uniform_case
from kit.random_cases import random_case

SEEDS = [0, 3, 7, 11]


def _sites(case):
    return {c.name: Site(c, case.problem) for c in case.clients()}


def _round(session, sites):
    messages = session.propose()
    handlers = Bundle.handlers
    session.absorb({name: sites[name].answer(m, handlers) for name, m in messages.items()}, {})


def _round_without(session, sites, silent):
    """What clients were asked, by name, in a round in which some stay silent."""
    messages = session.propose()
    heard = {n: sites[n].answer(m, Bundle.handlers) for n, m in messages.items() if n not in silent}
    session.absorb(heard, {})
    return {name: message.arrays["id"].tolist() for name, message in messages.items()}


def _begun(case, rounds):
    sites = _sites(case)
    task = Assignment(case.problem, case.names, case.n, tol=1e-9, max_rounds=30)
    session = BundleSession(begin(Bundle(), task, case.names))
    for _ in range(rounds):
        if session.state.status is None:
            _round(session, sites)
    return session, sites


@pytest.mark.parametrize("seed", SEEDS)
def test_a_copy_of_the_state_goes_on_alike(seed):
    """Nothing that matters is kept outside of it."""
    session, sites = _begun(random_case(seed), 3)
    other, others = BundleSession(copy.deepcopy(session.state)), copy.deepcopy(sites)
    while session.state.status is None:
        _round(session, sites)
        _round(other, others)
        one, two = session.standing, other.standing
        np.testing.assert_array_equal(one.coef, two.coef)
        assert (one.objective, one.lower_bound) == (two.objective, two.lower_bound)
    assert session.state.status == other.state.status


def test_the_clients_caches_are_known_to_the_server():
    """What recall sends makes a fresh client remember the same points."""
    session, sites = _begun(random_case(3), 4)
    fresh = _sites(random_case(3))
    for name, message in session.recall().items():
        fresh[name].answer(message, Bundle.handlers)
        mine, theirs = sites[name].memory["bundle"].seen, fresh[name].memory["bundle"].seen
        assert mine.keys() == theirs.keys()
        for identity, kept in mine.items():
            np.testing.assert_array_equal(kept.x, theirs[identity].x)
            np.testing.assert_array_equal(kept.sample, theirs[identity].sample)
            assert (kept.groups, kept.flips, kept.curved) == (
                theirs[identity].groups,
                theirs[identity].flips,
                theirs[identity].curved,
            )


def _of_two_points():
    """A case in which every round has two points, and the centre moves."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(240, 4))
    y = np.where(X @ rng.normal(size=4) + rng.normal(size=240) > 0.0, 1.0, -1.0)
    data = [(X[s::3], y[s::3]) for s in range(3)]
    ball, mixture = drfl.Ball(0.05, "l1", 1e3), drfl.Mixture(radius=0.1)
    return uniform_case("hinge", data, ball, mixture, intercept="none")


def test_who_has_missed_points_is_asked_for_them_again():
    """All of them, not the centre alone: each may become the upper bound."""
    session, sites = _begun(_of_two_points(), 1)
    late, *others = sites
    first = _round_without(session, sites, {late})
    second = _round_without(session, sites, {late})
    assert second[late] == [*second[others[0]], *first[late]]
    points = session.state.points
    before, missed = session.state.bounds.upper, [*first[late], *second[others[0]]]
    assert not any(points.at[i].complete for i in missed)
    third = _round_without(session, sites, set())
    assert sorted(third[late]) == sorted({*third[others[0]], *missed})
    assert len(third[others[0]]) == 2
    assert session.state.points.best in {*missed, *third[others[0]]}
    assert session.state.bounds.upper < before
    fourth = _round_without(session, sites, set())
    assert fourth[late] == fourth[others[0]]


def test_what_was_missed_is_asked_for_within_limits():
    session, sites = _begun(_of_two_points(), 1)
    late, *others = sites
    for _ in range(7):
        asked = _round_without(session, sites, {late})
    missed = set(asked[late]) - set(asked[others[0]])
    assert len(missed - {session.state.points.centre}) <= MOST_MISSED
    assert len(missed) >= MOST_MISSED


def test_a_run_begins_again_without_who_is_lost():
    case = next(c for c in map(random_case, range(60)) if len(c.names) > 2)
    session, _ = _begun(case, 1)
    state = session.state
    state.clients.misses[0] = 99
    rest = let_go(state)
    assert rest.clients.names == tuple(case.names[1:])
    assert rest.task.names == state.task.names
    assert rest.round == state.round
    assert not rest.begun
    assert len(rest.asked.requests) == len(case.names) - 1
    state.clients.misses[:] = 99  # without anybody there is nothing to go on with
    assert let_go(state) is state


@pytest.mark.parametrize(("radius", "groups"), [(1e-4, 6), (0.1, 2)])
def test_where_the_norm_costs_little_the_groups_are_finer(radius, groups):
    """2n/S for n/2S: a bound loses C v/(r + v) to a slope v that the price r does not pay."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 6))
    y = np.where(X[:, 0] + rng.normal(size=800) > 0.0, 1.0, -1.0)
    clients = [drfl.Client(f"c{s}", X[s::2], y[s::2]) for s in range(2)]
    problem = drfl.Problem("hinge", drfl.Ball(radius, "l1"), drfl.Mixture(radius=0.1))
    result = drfl.solve(problem, clients, tol=1e-6)
    assert result.status.kind == "certified"
    cuts = [sent.arrays["cuts"] for sent in result.sent if "cuts" in sent.arrays]
    assert [shape[1] for shape in cuts] == [groups] * 2


def test_where_the_norm_costs_little_cuts_are_asked_for_where_the_bound_is_attained():
    """Nothing keeps that point near the model, and around the model no cut is missing."""
    rng = np.random.default_rng(3)
    levels = (3, 5, 8, 4, 6, 7, 9)
    codes = [rng.choice(k, 3000, p=rng.dirichlet(np.ones(k))) for k in levels]
    X = np.hstack([np.eye(k)[code] for k, code in zip(levels, codes, strict=True)])
    score = X @ rng.normal(size=X.shape[1])
    y = np.where(score - np.quantile(score, 0.7) + rng.normal(size=3000) > 0.0, 1.0, -1.0)
    clients = [drfl.Client(f"c{s}", X[s::5], y[s::5]) for s in range(5)]
    ball, mixture = drfl.Ball(1e-5, "l1"), drfl.Mixture(radius=0.1)
    problem = drfl.Problem("hinge", ball, mixture, intercept="shared")
    result = drfl.solve(problem, clients, tol=1e-6)
    assert result.status.kind == "certified"
    assert result.rounds <= 8  # 9 with another point near the model


@pytest.mark.parametrize(("seed", "alike"), [(0, True), (1, False)])
def test_who_is_asked_the_same_shares_one_message_and_one_memory(seed, alike):
    """Thousands of clients: only dual cuts, with multipliers of one's own, are asked one by one."""
    case = random_case(seed)
    session, _ = _begun(case, 3)
    state = session.state
    assert state.status is None
    assert bool(state.asked.dual) is not alike
    count = 1 if alike else len(case.names)
    assert len({id(message) for message in session.propose().values()}) == count
    assert len({id(memory) for memory in state.clients.cache.of.values()}) == count
    assert state.clients.cache.of.keys() == set(range(len(case.names)))
