"""Cuts from curvature: they lie below the loss everywhere, and a step proves what it promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drfl
from drfl.client import Client, Site
from drfl.datasets import partition
from drfl.solvers import StatusKind
from drfl.solvers.bundle.client_half.curvature import density, hessian, may_reach, reaches
from drfl.solvers.bundle.client_half.evaluation import make_evaluator
from drfl.solvers.bundle.dual_cuts import are_whole
from drfl.solvers.certificate.curved import Reach
from drfl.solvers.certificate.cuts import Pool
from kit.optimality import assert_bounded
from kit.pools import family_cuts
from kit.random_cases import random_case

LOSSES = ("logistic", "smooth_hinge", "huber")


def site_of(loss, X, y, weights=None):
    return Site(Client("c", X, y, sample_weight=weights), drfl.Problem(loss, drfl.Ball(0.1)))


def rows_of(loss, N, n, rng, copies=0):
    X = rng.normal(size=(N, n)) * rng.choice([0.1, 1.0, 20.0], size=n)
    X = np.hstack([X, X[:, :copies] @ rng.normal(size=(copies, copies))])
    z = X[:, 0] / np.abs(X[:, 0]).mean() + rng.logistic(size=N)
    return X, z if loss == "huber" else np.where(z > 0.0, 1.0, -1.0)


def told(loss, X, y, x, weights=None, wanted=0.0):
    """The mean loss as a function, its tangent at x, and how far its curvature reaches."""
    site = site_of(loss, X, y, weights)
    oracle, evaluator = site.oracle, make_evaluator(site.oracle)
    at = evaluator.evaluate(x, 1)
    H = hessian(oracle, at, density(oracle, at.arguments, None), None, len(x))
    pairs = reaches(oracle, at.arguments, H, wanted)
    mass = oracle.rows.mass()

    def u(point):
        m = evaluator.arguments(point[:-1], point[-1])
        return float((mass * oracle.loss.value(m)).sum())

    reach = None if pairs is None else Reach(0, H, pairs[:, 0], pairs[:, 1])
    return u, np.asarray(at.cuts[0]), reach


def steps(H, rows, rng):
    """Directions at random, of the curvature's ends, and those that move one row most."""
    d = len(H)
    w, V = np.linalg.eigh(H)
    kept = w > 1e-9 * w[-1]
    inverse = (V[:, kept] / w[kept]) @ V[:, kept].T
    some = np.column_stack([rows, np.ones(len(rows))])
    levers = np.argsort((some @ inverse * some).sum(axis=1))[-5:]
    found = [*rng.normal(size=(10, d)), *V[:, kept].T, *(inverse @ some[levers].T).T]
    lengths = [np.sqrt(max(v @ H @ v, 1e-300)) for v in found]
    return [v / length for v, length in zip(found, lengths, strict=True) if length > 1e-9]


@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**20), copies=st.integers(0, 2), weighted=st.booleans())
@pytest.mark.sampled(2)
def test_within_its_reach_curvature_is_as_large_as_told(loss, seed, copies, weighted):
    rng = np.random.default_rng(seed)
    X, y = rows_of(loss, 60, 4, rng, copies)
    weights = rng.exponential(size=60) * (rng.random(60) < 0.9) if weighted else None
    x = np.append(rng.normal(size=X.shape[1]) / np.abs(X).mean(axis=0) / 3.0, 0.3)
    u, cut, reach = told(loss, X, y, x, weights)
    if reach is None:
        return
    for direction in steps(reach.H, X, rng):
        for R, c in zip(reach.radii, reach.factors, strict=True):
            for share in (1.0, -1.0, 0.5):
                d = share * R * direction
                tangent = cut[0] + cut[1:] @ (x + d)
                room = 1e-12 * (1.0 + np.abs(cut[1:]) @ np.abs(x + d))
                assert u(x + d) >= tangent + 0.5 * c * d @ reach.H @ d - room
                # The same that the server holds against what it is told.
                assert u(x + d) >= tangent + reach.gain(d) - room


@pytest.mark.parametrize("loss", LOSSES)
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**20))
@pytest.mark.sampled(2)
def test_moved_cuts_are_below_the_loss_everywhere(loss, seed):
    rng = np.random.default_rng(seed)
    X, y = rows_of(loss, 60, 4, rng)
    x = np.append(rng.normal(size=4) / np.abs(X).mean(axis=0) / 3.0, 0.3)
    u, cut, reach = told(loss, X, y, x)
    if reach is None:
        return
    directions = steps(reach.H, X, rng)
    for R in reach.radii:
        e = 0.499 * R * directions[seed % len(directions)]
        moved = reach.moved(cut, x, e, reach.factor(e))
        for direction in directions:
            for length in (-1e3, -1.0, -0.1, 0.3, 1.0, 3.0, 1e3):
                at = x + max(R, 1e-6) * length * direction
                room = 1e-12 * (1.0 + np.abs(moved[1:]) @ np.abs(at))
                assert u(at) >= moved[0] + moved[1:] @ at - room


@pytest.mark.parametrize("loss", LOSSES)
def test_a_factor_or_a_reach_that_is_too_large_would_be_seen(loss):
    """The checks above can fail: curvature that is told too large is above the loss."""
    rng = np.random.default_rng(3)
    X, y = rows_of(loss, 400, 3, rng)
    x = np.append(np.zeros(3), 0.3)
    u, cut, reach = told(loss, X, y, x)
    wrong = 0
    for direction in steps(reach.H, X, rng):
        for R, c in ((reach.radii[-1], 1.5), (400.0 * reach.radii[0], 1.0)):
            d = R * direction
            wrong += u(x + d) < cut[0] + cut[1:] @ (x + d) + 0.5 * c * d @ reach.H @ d - 1e-12
    assert wrong


def test_columns_that_repeat_others_do_not_matter():
    rng = np.random.default_rng(0)
    X, y = rows_of("logistic", 200, 4, rng)
    x = np.append(np.zeros(4), 0.1)
    alone = told("logistic", X, y, x)[2]
    twice = told("logistic", np.hstack([X, X]), y, np.append(np.zeros(8), 0.1))[2]
    np.testing.assert_allclose(twice.radii, alone.radii, rtol=1e-6)
    np.testing.assert_allclose(twice.factors, alone.factors, rtol=1e-6)


def test_what_reaches_less_than_wanted_is_not_told():
    rng = np.random.default_rng(0)
    X, y = rows_of("huber", 200, 4, rng)
    x = np.zeros(5)
    reach = told("huber", X, y, x)[2]
    assert told("huber", X, y, x, wanted=2.0 * reach.radii.max())[2] is None


def test_rows_beyond_what_the_curvature_shows_are_not_told_of():
    """A row so flat that its direction is lost in rounding: how far H reaches is unknown."""
    rng = np.random.default_rng(0)
    X, y = rows_of("logistic", 100, 3, rng)
    X, x = np.hstack([X, np.zeros((100, 1))]), np.zeros(5)
    X[0, 3], x[3] = 1.0, 30.0
    assert told("logistic", X, y, x)[2] is None


@pytest.mark.parametrize("parts", [1, 2])
def test_only_tangents_of_all_groups_are_bent(parts):
    """A forgotten group counts as 0, which may be above its tangent; one told twice, twice."""
    pool, groups = Pool(2, 1), 3
    shape = 2, 1, groups * parts
    told = np.broadcast_to(np.arange(groups * parts) < groups, shape)
    pool.add([family_cuts([0, 1], np.zeros(shape), np.ones((*shape, 1)), kept=told)])
    parts, cuts = np.full(2, parts), pool.cuts
    assert are_whole(pool, cuts, parts)
    for k in range(len(cuts)):
        assert not are_whole(pool, cuts.where(np.arange(len(cuts)) != k), parts)
        assert not are_whole(pool, cuts.joined([cuts.where(np.arange(len(cuts)) == k)]), parts)
    assert not are_whole(pool, cuts.where(cuts.piece < 0), parts)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.sampled(2)
def test_curvature_saves_rounds(norm, monkeypatch):
    """The same optimum, and its proof comes earlier; every bound on the way is below it."""
    saved = []
    for loss in LOSSES:
        X, y = rows_of(loss, 900, 5, np.random.default_rng(1))
        X = X / X.std(axis=0)
        clients = [
            Client(f"c{s}", X[rows], y[rows])
            for s, rows in enumerate(partition.random(900, 3, np.random.default_rng(0)))
        ]
        ball = drfl.Ball(0.02, norm=norm, label_cost=np.inf)
        task = drfl.Problem(loss, ball, drfl.Mixture(radius=0.2))
        exact = drfl.solve(task, clients, solver="local", tol=1e-9)
        result = drfl.solve(task, clients, tol=1e-6)
        with monkeypatch.context() as patch:
            patch.setattr("drfl.solvers.bundle.planning.prove_by_curvature", lambda *_: None)
            without = drfl.solve(task, clients, tol=1e-6)
        assert result.status.kind == without.status.kind == "certified"
        assert result.lower_bound <= exact.objective * (1.0 + 1e-12)
        saved.append(without.rounds - result.rounds)
    assert min(saved) >= 0
    assert max(saved) >= 1


def test_a_step_that_is_all_rounding_reaches_nowhere():
    """Along the flat of H a step may be long; what rounding makes of He then proves nothing."""
    column = np.array([1.0, 0.3, -0.7])
    H = np.outer(column, column)
    reach = Reach(0, H, np.array([1.0]), np.array([1.0]))
    flat = np.array([0.3, -1.0, 0.0])
    assert reach.factor(0.4 * column / (column @ column)) == 1.0
    assert reach.factor(1e3 * flat) == 1.0
    for size in (1e8, 1e12, 1e16, 1e20):
        assert reach.factor(size * flat) == 0.0


def test_rows_in_single_precision_prove_nothing_by_curvature():
    X, y = rows_of("logistic", 60, 3, np.random.default_rng(0))
    for dtype, proves in ((np.float64, True), (np.float32, False)):
        site = site_of("logistic", X.astype(dtype), y)
        assert may_reach(site, make_evaluator(site.oracle).evaluate(np.zeros(4), 1)) is proves


def test_a_client_with_one_curved_row_and_hardly_any_weight_proves_nothing_false():
    """The step is as long as its weight is small, along directions in which it is flat."""
    case = random_case(630)
    result = case.solve(max_rounds=60)
    assert result.status.kind is StatusKind.CERTIFIED
    assert_bounded(case, result)
