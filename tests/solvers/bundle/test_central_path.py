"""The central path of losses with corners: its steps, its cuts, its ends, and who does not follow.

The path is for many columns; here it is switched on for few, so that every case is quick.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

import drfl
from drfl.client import Client, Site
from drfl.losses import make_loss
from drfl.losses.base import Line, Loss
from drfl.solvers.bundle import (
    Bundle,
    central_path,
    client_cache,
    messages,
    plausibility,
    state,
)
from drfl.solvers.bundle.client_half import path_proof, path_rows
from drfl.solvers.bundle.client_half.evaluation import make_evaluator
from drfl.solvers.bundle.client_half.path_proof import rounded, settled
from drfl.solvers.bundle.client_half.path_rows import PathRows, PathStep, follow
from drfl.solvers.bundle.messages import PathRequest
from drfl.solvers.bundle.planning import plan
from drfl.wire import WireError
from drfl.wire.schema import unpack_triangle
from kit.lossy import ChangingEngine, losing, with_arrays

LOSSES = [
    make_loss("hinge"),
    make_loss("pinball", quantile=0.3),
    make_loss("epsilon_insensitive", epsilon=0.4),
]
rng = np.random.default_rng(0)
N, n, S = 420, 12, 3
X = rng.normal(size=(N, n))
target = X @ rng.normal(size=n) / np.sqrt(n) + 0.7 * rng.normal(size=N)


@pytest.fixture(autouse=True)
def few_columns(monkeypatch):
    monkeypatch.setattr(state, "PATH_ABOVE", 0)


def labels(loss):
    return np.where(target > 0.0, 1.0, -1.0) if loss.task == "classification" else target


def clients(loss, count=S, **policy):
    y = labels(loss)
    some = drfl.Policy(**policy)
    return [Client(f"c{s}", X[s::count], y[s::count], policy=some) for s in range(count)]


def problem(loss, norm="l1", radius=0.01, label_cost=np.inf, **more):
    ball = drfl.Ball(radius, norm=norm, label_cost=label_cost)
    return drfl.Problem(loss, ball, drfl.Mixture(radius=0.1, p=1), **more)


# ---------------------------------------------------------------------- corners and steps
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_a_loss_is_the_sum_of_its_corners(loss):
    z = np.linspace(-3.0, 3.0, 601)
    total = sum(c.weight * np.maximum(c.sign * (z - c.kink), 0.0) for c in loss.corners)
    np.testing.assert_allclose(total, loss.value(z), atol=1e-14)


def test_a_loss_without_corners_or_that_never_vanishes_has_none():
    class Raised(Loss):
        name, task = "raised", "regression"
        pieces = (Line(-1.0, 0.5), Line(1.0, 0.5))
        value = slope = conjugate = None

    assert make_loss("logistic").corners == ()
    assert Raised.corners.fget(Raised) == ()


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("mu", [1e-6, 0.3])
def test_centred_rows_have_equal_products_and_stay_where_nothing_changes(loss, mu):
    z = rng.normal(size=50)
    rows = PathRows.centred(loss.corners, z, mu)
    step = PathStep.of(loss.corners, rows)
    np.testing.assert_allclose(rows.alpha * (rows.height - step.u), mu, rtol=1e-7)
    np.testing.assert_allclose((1.0 - rows.alpha) * rows.height, mu, rtol=1e-7)
    np.testing.assert_allclose(step.slopes(mu, 0.0 * step.u), rows.alpha, rtol=1e-7, atol=1e-12)
    again = step.taken(loss.corners, z, mu)
    np.testing.assert_allclose(again.height, rows.height, rtol=1e-6)


def test_a_step_solves_the_linearised_products():
    loss, z = LOSSES[2], rng.normal(size=50)
    rows = PathRows.centred(loss.corners, z, 0.1)
    step, mu = PathStep.of(loss.corners, rows), 0.07
    moved = 0.01 * rng.normal(size=50)
    du = np.array([c.sign * moved for c in loss.corners])
    alpha = step.slopes(mu, du) - rows.alpha
    height = step.taken(loss.corners, z + moved, mu).height - rows.height
    slack = rows.height - step.u
    one = rows.alpha * slack + slack * alpha + rows.alpha * (height - du)
    two = (1.0 - rows.alpha) * (rows.height + height) - rows.height * alpha
    kept = step.d > 0.0  # rows of negligible curvature do not move
    np.testing.assert_allclose(one[kept], mu, rtol=1e-6)
    np.testing.assert_allclose(two[kept], mu, rtol=1e-6)


def test_rows_that_go_too_far_stay_inside():
    loss, z = LOSSES[0], rng.normal(size=200)
    rows = PathRows.centred(loss.corners, z, 1e-3)
    far = PathStep.of(loss.corners, rows).taken(loss.corners, z + 5.0 * rng.normal(size=200), 1e-5)
    u = 1.0 - far.arguments
    assert (far.alpha > 0.0).all()
    assert (far.alpha < 1.0).all()
    assert (far.height > np.maximum(u, 0.0)).all()


def told(loss, some, task, tilt, mu=0.2, groups=1):
    site = Site(some, task, debug=True)
    evaluator = make_evaluator(site.oracle)
    first = follow(site, evaluator, PathRequest(mu), 0, evaluator.arguments(np.zeros(n), 0.0))
    w = 0.3 * rng.normal(size=n)
    asked = PathRequest(mu, tilt, (), groups, base=0)
    then = follow(site, evaluator, asked, 1, evaluator.arguments(w, 0.1))
    return site, first, then


@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_the_cuts_of_both_sides_are_below_the_loss_everywhere(loss, groups):
    """Whatever the tilt, together and each against 0."""
    some = clients(loss, 1)[0]
    for scale in (0.0, 0.1, 10.0):
        tilt = scale * rng.normal(size=n + 1)
        site, _, then = told(loss, some, problem(loss), tilt, groups=groups)
        assert len(then["sides"]) > 2 * (groups > 1)
        for _ in range(20):
            w, b = rng.normal(size=n), float(rng.normal())
            scores = X @ w + b
            z = scores * site.rows.y if loss.task == "classification" else scores - site.rows.y
            parts = then["sides"] @ np.concatenate([[1.0], w, [b]])
            assert np.maximum(parts, 0.0).sum() <= loss.value(z).mean() + 1e-12
        assert then["sides"][0, -1] <= 0.0 <= then["sides"][-1, -1]


def test_cuts_of_groups_add_up_to_those_of_all_rows():
    loss, tilt = LOSSES[0], 0.1 * np.ones(n + 1)
    some, sums = Client("a", X, np.where(np.arange(N) % 2, 1.0, -1.0)), []
    for groups in (1, 3):
        site = Site(some, problem(loss), debug=True)
        evaluator = make_evaluator(site.oracle)
        for k, e in enumerate((None, tilt)):
            asked = PathRequest(0.2, e, (), groups, base=k - 1)
            then = follow(site, evaluator, asked, k, evaluator.arguments(np.zeros(n), 0.1))
        assert then["sides"].shape == (2 * groups, 2 + n)
        sums.append(then["sides"].reshape(2, groups, -1).sum(axis=1))
    np.testing.assert_allclose(*sums, atol=1e-14)


def test_every_group_has_fifty_rows_on_both_sides():
    """However many are wanted, and however uneven rows of both sides are spread."""
    for share in (0.2, 0.5):
        rising = (rng.random(N) < share)[None]
        found = [path_proof._enough(rising, wanted) for wanted in range(1, 9)]
        assert found[0] == 1
        for groups in set(found) - {1}:
            counts = [
                (side[0, k::groups]).sum() for side in (rising, ~rising) for k in range(groups)
            ]
            assert min(counts) >= 50
    assert max(found) > 2
    assert path_proof._enough(np.zeros((1, N), bool), 99) == N // 50  # one side alone
    assert path_proof._enough(np.zeros((1, 60), bool), 99) == 1


def test_cuts_of_groups_prove_earlier(monkeypatch):
    """Of six clients with few rows for each column, who cannot settle what stopping takes."""
    own = np.random.default_rng(0)
    Z = own.normal(size=(3000, 210))
    y = np.where(Z @ own.normal(size=210) / 210**0.5 + 0.7 * own.normal(size=3000) > 0.0, 1.0, -1.0)
    some, rounds = [Client(f"c{s}", Z[s::6], y[s::6]) for s in range(6)], []
    for share in (0.0, central_path.SHARE):
        monkeypatch.setattr(central_path, "SHARE", share)
        result = drfl.solve(problem("hinge"), some, solver="bundle", tol=1e-3)
        assert result.status.kind == "certified"
        rounds.append(result.rounds)
    assert rounds[1] < rounds[0]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_mended_cuts_are_below_the_loss_and_lean_as_far_as_their_slopes_had_room(loss):
    site, _, then = told(loss, clients(loss, 1)[0], problem(loss), 0.1 * rng.normal(size=n + 1))
    evaluator, room = make_evaluator(site.oracle), unpack_triangle(then["room"][0], n + 1)
    rows, w = site.memory["path"], 0.2 * rng.normal(size=n)
    for size in (1e-4, 1.0, 100.0):
        e = size * rng.normal(size=n + 1)
        site.memory["path"] = rows
        asked = PathRequest(0.1, np.zeros(n + 1), (e,), base=1)
        last = follow(site, evaluator, asked, 2, evaluator.arguments(w, 0.0))["mended"]
        for _ in range(20):
            v, b = rng.normal(size=n), float(rng.normal())
            scores = X @ v + b
            z = scores * site.rows.y if loss.task == "classification" else scores - site.rows.y
            parts = last @ np.concatenate([[1.0], v, [b]])
            assert np.maximum(parts, 0.0).sum() <= loss.value(z).mean() + 1e-12
        if size == 1e-4:  # so little that nearly no slope gets to its end
            change = (last - then["sides"])[:, 1:].sum(axis=0)
            np.testing.assert_allclose(change, room @ e, atol=1e-6 * size)


def test_what_stopping_took_from_a_proof_is_given_back_a_round_later(monkeypatch):
    """The bound is far below where it would be if the slopes added up; mended they nearly do."""
    monkeypatch.setattr(central_path, "LATE", math.inf)  # no master over the cuts of all rounds
    monkeypatch.setattr(path_proof, "TRIES", 0)  # nor settled at once
    assert rounds_to_prove(1e-2) < rounds_to_prove(1e-2, mended=None)


def test_what_mending_stopped_is_given_back_by_mending_again(monkeypatch):
    monkeypatch.setattr(central_path, "LATE", math.inf)
    monkeypatch.setattr(path_proof, "TRIES", 0)
    twice = rounds_to_prove(1e-4)
    for module in (central_path, client_cache, messages, path_rows, plausibility):
        monkeypatch.setattr(module, "MOST_MENDS", 1)
    assert twice < rounds_to_prove(1e-4)


def rounds_to_prove(gap, count=S, **change):
    """Rounds, where clients' answers are changed."""
    result = drfl.solve(
        problem("hinge", radius=1e-3),
        clients(LOSSES[0], count),
        solver="bundle",
        engine=ChangingEngine(lambda client, reply: with_arrays(reply, **change)),
    )
    assert result.status.kind == "certified"
    return next(record.round for record in result.history if record.gap <= gap)


# ---------------------------------------------------------------------- rounding
@pytest.mark.parametrize("corners", [1, 2])
def test_rows_with_little_room_are_rounded_and_those_with_the_most_stay(corners):
    alpha = np.where(np.arange(N) < 60, 0.5, 0.001) * rng.uniform(0.9, 1.0, (corners, N))
    alpha = np.where(rng.random((corners, N)) < 0.5, alpha, 1.0 - alpha)
    found = rounded(alpha, 60)
    np.testing.assert_array_equal(found[:, :60], alpha[:, :60])
    np.testing.assert_array_equal(found[:, 60:], np.round(alpha[:, 60:]))
    # Fewer stay if asked, but none that has more than little room.
    np.testing.assert_array_equal(rounded(alpha, 20), found)
    assert (rounded(alpha, 100) != np.round(alpha)).any(axis=0).sum() == 100
    assert rounded(alpha, N) is alpha


def test_a_row_at_one_of_its_corners_keeps_both_slopes():
    alpha = np.array([[0.5] * 40 + [0.999] * 380, [0.0] * 200 + [0.999] * 220])
    found = rounded(alpha, 40)
    np.testing.assert_array_equal(found[:, :40], alpha[:, :40])
    np.testing.assert_array_equal(found[0, 40:], 1.0)


def test_nothing_is_rounded_where_the_others_could_not_make_up_for_it():
    alpha = np.where(np.arange(N) < 20, 0.5, 0.04)[None]
    assert rounded(alpha, 20) is alpha


@pytest.mark.parametrize("count", [1, 6])
def test_rounded_slopes_prove_earlier(count, monkeypatch):
    """The proof is no longer late by what rows far from their corners cost."""
    gaps = {}
    for inside in (1.5, 0.0):
        monkeypatch.setattr(central_path, "INSIDE", inside)
        task, some = problem("hinge", radius=1e-3), clients(LOSSES[0], count)
        result = drfl.solve(task, some, solver="bundle", tol=1e-6)
        assert result.status.kind == "certified"
        gaps[inside] = [record.gap for record in result.history[8:12]]
    assert np.less(gaps[1.5], gaps[0.0]).sum() >= 3


def test_the_proved_gap_follows_the_true_one_within_two_rounds():
    """Of seven clients with fewer rows than half of the columns."""
    own = np.random.default_rng(0)
    Z = own.normal(size=(2000, 210))
    y = np.where(Z @ own.normal(size=210) / 210**0.5 + 0.7 * own.normal(size=2000) > 0.0, 1.0, -1.0)
    some, task = [Client(f"c{s}", Z[s::7], y[s::7]) for s in range(7)], problem("hinge")
    result = drfl.solve(task, some, solver="bundle", tol=1e-6)
    exact = drfl.solve(task, some, solver="local", tol=1e-8)
    optimum = 0.5 * (exact.objective + exact.lower_bound)
    for gap in (1e-2, 1e-3, 1e-4, 1e-6):
        level = optimum * (1.0 + gap)
        true = next(r.round for r in result.history if r.objective <= level)
        assert next(r.round for r in result.history if r.gap <= gap) <= true + 2


def test_a_small_client_beside_large_ones_does_not_spoil_the_proof(monkeypatch):
    """Where no row was stopped its slopes are as they should be, and it could not settle others."""
    own = np.random.default_rng(0)
    sizes = np.array([1500, 1500, 60, 60])
    Z = own.normal(size=(sizes.sum(), 205))
    y = np.where(
        Z @ own.normal(size=205) / 205**0.5 + 0.7 * own.normal(size=len(Z)) > 0.0, 1.0, -1.0
    )
    ends = np.cumsum(sizes)[:-1]
    some = [
        Client(f"c{s}", *rows)
        for s, rows in enumerate(zip(np.split(Z, ends), np.split(y, ends), strict=True))
    ]
    result = drfl.solve(problem("hinge", radius=1e-3), some, solver="bundle", tol=1e-6)
    assert result.status.kind == "certified"
    assert result.rounds <= 30


# ---------------------------------------------------------------------- settling at once
def rows_of(loss):
    return make_evaluator(Site(clients(loss, 1)[0], problem(loss), debug=True).oracle)


def sum_of(evaluator, corners, alpha):
    """Of slopes, as a slope of the mean loss, by hand."""
    v = sum(c.weight * c.sign * a for c, a in zip(corners, alpha, strict=True))
    v = v * (evaluator.rows.y if evaluator.oracle.is_margin else 1.0)
    return np.append(v @ X, v.sum()) / N


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_rows_that_have_room_give_what_stopping_took(loss):
    evaluator, corners = rows_of(loss), loss.corners
    alpha = rng.uniform(0.1, 0.9, size=(len(corners), N))
    alpha[:, :20] += rng.choice([-1.0, 1.0], size=20)
    found, wanted = settled(evaluator, corners, alpha), sum_of(evaluator, corners, alpha)
    stopped = sum_of(evaluator, corners, np.clip(alpha, 0.0, 1.0))
    assert (found >= 0.0).all()
    assert (found <= 1.0).all()
    assert np.abs(stopped - wanted).max() > 1e-3
    np.testing.assert_allclose(sum_of(evaluator, corners, found), wanted, atol=1e-9)


@pytest.mark.parametrize("inside", [0, n // 2])
def test_slopes_do_not_move_for_nothing(inside):
    """Fewer rows inside than there are columns cannot give it; none at all have no room."""
    evaluator, corners = rows_of(LOSSES[0]), LOSSES[0].corners
    alpha = rng.choice([-0.5, 0.0, 1.0, 1.5], size=(1, N))
    alpha[0, :inside] = 0.5
    found = settled(evaluator, corners, alpha)
    np.testing.assert_array_equal(found, np.clip(alpha, 0.0, 1.0))


def test_settled_slopes_prove_earlier(monkeypatch):
    monkeypatch.setattr(central_path, "LATE", math.inf)
    at_once = rounds_to_prove(1e-3, 1)
    monkeypatch.setattr(path_proof, "TRIES", 0)
    assert at_once < rounds_to_prove(1e-3, 1)


def test_the_cuts_of_all_rounds_prove_more_than_the_last_ones(monkeypatch):
    monkeypatch.setattr(path_proof, "TRIES", 0)  # nothing is settled at once,
    monkeypatch.setattr(central_path, "_mends", lambda *_: ())  # nor mended
    rounds = {}
    for late in (central_path.LATE, math.inf):
        monkeypatch.setattr(central_path, "LATE", late)
        task = problem("hinge", radius=1e-3)
        result = drfl.solve(task, clients(LOSSES[0], 6), solver="bundle", tol=1e-6)
        assert result.status.kind == "certified"
        rounds[late] = next(record.round for record in result.history if record.gap <= 1e-3)
    assert rounds.pop(math.inf) > min(rounds.values())


def test_with_many_columns_nothing_is_settled_or_mended(monkeypatch):
    for module in (path_proof, path_rows, central_path):
        monkeypatch.setattr(module, "FEW_COLUMNS", 0)
    told = set()

    def seen(client, reply):
        told.update(reply.arrays)
        return reply

    task, engine = problem("hinge", radius=1e-3), ChangingEngine(seen)
    result = drfl.solve(task, clients(LOSSES[0]), solver="bundle", engine=engine)
    assert result.status.kind == "certified"
    assert "sides" in told
    assert not {"room", "mended"} & told


def test_a_class_of_few_rows_is_not_told_alone():
    y = np.where(np.arange(N) < 20, 1.0, -1.0)
    _, _, then = told(LOSSES[0], Client("a", X, y), problem("hinge"), np.zeros(n + 1))
    assert not then["sides"][1].any()
    assert then["sides"][0].any()


@pytest.mark.parametrize("policy", [{"curvature": False}, {"groups": False}, {"dual_cuts": False}])
def test_a_client_may_refuse_the_path_and_the_run_goes_on(policy):
    loss = LOSSES[0]
    assert not told(loss, clients(loss, 1, **policy)[0], problem(loss), np.zeros(n + 1))[2]
    some = [*clients(loss)[:2], clients(loss, **policy)[2]]
    result = drfl.solve(problem(loss), some, solver=Bundle(), tol=1e-4)
    assert result.status.kind == "certified"


# ---------------------------------------------------------------------- whole runs
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.sampled(2)
def test_the_path_ends_at_the_optimum(loss, norm, count, monkeypatch):
    monkeypatch.setattr("drfl.solvers.bundle.session.plan", _never)
    task = problem(loss, norm)
    result = drfl.solve(task, clients(loss, count), solver="bundle", tol=1e-6)
    local = drfl.solve(task, clients(loss, count), solver="local", tol=1e-8)
    assert result.status.kind == "certified"
    assert result.rounds <= 25
    assert result.lower_bound <= local.objective * (1.0 + 1e-10)
    assert result.objective >= local.lower_bound * (1.0 - 1e-10)


def _never(*_):
    raise AssertionError("the path was left")


@pytest.mark.parametrize(
    ("radius", "more"),
    [(1e-4, {}), (1.0, {}), (0.01, {"intercept": "none"}), (0.3, {"mixture_p": 2})],
)
def test_radii_sets_and_no_intercept(radius, more):
    p = more.pop("mixture_p", np.inf)
    ball = drfl.Ball(radius, norm="l1", label_cost=np.inf)
    task = drfl.Problem("hinge", ball, drfl.Mixture(radius=0.2, p=p), **more)
    result = drfl.solve(task, clients(LOSSES[0]), solver="bundle", tol=1e-6)
    local = drfl.solve(task, clients(LOSSES[0]), solver="local", tol=1e-8)
    assert result.status.kind == "certified"
    assert result.lower_bound <= local.objective * (1.0 + 1e-10)


@pytest.mark.parametrize("loss", LOSSES[1:], ids=lambda loss: loss.name)
def test_honest_slopes_of_both_sides_are_not_refused(loss):
    """A row may have a large slope at both of its corners: together they are those of the loss."""
    own, seen = np.random.default_rng(0), []
    Z = own.normal(size=(60, 201))
    t = Z @ own.normal(size=201) / 201**0.5 + 0.3 * own.normal(size=60)
    result = drfl.solve(
        problem(loss, "l2", 1e-3),
        [Client(f"c{s}", Z[s::4], t[s::4]) for s in range(4)],
        solver="bundle",
        callbacks=[lambda record: seen.append(dict(record.failures))],
    )
    assert result.status.kind == "certified"
    assert not any(seen)


def test_labels_that_flip_end_the_path(monkeypatch):
    left = []
    task = problem("hinge", radius=0.2, label_cost=0.1)
    monkeypatch.setattr(
        "drfl.solvers.bundle.session.plan", lambda s, p: (left.append(s.path), plan(s, p))
    )
    result = drfl.solve(task, clients(LOSSES[0]), solver="bundle", tol=1e-5)
    assert left
    assert left[0] is None
    assert result.status.kind == "certified"


@pytest.mark.parametrize("share", [0.2, 0.4])
def test_lost_answers_cost_rounds_and_nothing_else(share):
    task = problem("hinge")
    engine = losing(share, 3)
    result = drfl.solve(task, clients(LOSSES[0]), solver="bundle", tol=1e-5, engine=engine)
    local = drfl.solve(task, clients(LOSSES[0]), solver="local", tol=1e-8)
    assert result.status.kind == "certified"
    assert result.lower_bound <= local.objective * (1.0 + 1e-10)


def test_a_resumed_run_ends_where_it_would_have(tmp_path):
    task = problem("hinge")
    drfl.solve(task, clients(LOSSES[0]), solver="bundle", max_rounds=6, checkpoint=tmp_path / "r")
    resumed = drfl.solve(task, clients(LOSSES[0]), solver="bundle", checkpoint=tmp_path / "r")
    straight = drfl.solve(task, clients(LOSSES[0]), solver="bundle")
    assert resumed.coef.tobytes() == straight.coef.tobytes()
    assert resumed.rounds == straight.rounds


def test_a_step_begins_where_the_server_knows_the_rows_to_be():
    """An answer that did not arrive is as if it had never been asked for."""
    loss = LOSSES[0]
    tilt = 0.1 * rng.normal(size=n + 1)
    site, _, _ = told(loss, clients(loss, 1)[0], problem(loss), tilt)
    evaluator, before = make_evaluator(site.oracle), site.memory["path"]
    answers = []
    for lost in (False, True):
        site.memory["path"] = before
        if lost:
            far = evaluator.arguments(rng.normal(size=n), 0.3)
            follow(site, evaluator, PathRequest(0.1, 3.0 * tilt, base=1), 2, far)
        asked = PathRequest(0.1, tilt, (tilt,), base=1)
        answers.append(follow(site, evaluator, asked, 3, evaluator.arguments(np.zeros(n), 0.2)))
    for name, array in answers[0].items():
        np.testing.assert_array_equal(array, answers[1][name])


def test_a_run_with_refused_answers_is_resumed_to_the_bit(tmp_path):
    """What a client answered in vain is no part of the run."""

    def spoilt(client, reply):
        if client == "c1" and reply.round in (3, 4, 7):
            return with_arrays(reply, path=-reply.arrays["path"])
        return reply

    runs = []
    for rounds in ((6, 40), (40,)):
        for most in rounds:
            result = drfl.solve(
                problem("hinge"),
                clients(LOSSES[0]),
                solver="bundle",
                tol=1e-6,
                max_rounds=most,
                engine=ChangingEngine(spoilt),
                checkpoint=tmp_path / str(len(rounds)),
            )
        runs.append((result.coef.tobytes(), result.rounds, result.lower_bound))
    assert runs[0] == runs[1]


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a[:-1],
        lambda a: np.append(a, a[-n - 1 :]),
        lambda a: np.concatenate([[-1.0], a[1:]]),
        lambda a: np.concatenate([a[:1], [0.0], a[2:]]),
        lambda a: np.concatenate([a[:2], [-1.0], a[3:]]),
        lambda a: np.concatenate([a[:2], [1e308], a[3:]]),
    ],
)
def test_a_step_that_cannot_be_is_refused_by_the_client(change):
    step = PathRequest(0.1, np.zeros(n + 1), (np.zeros(n + 1),) * 2, base=1)
    asked = messages.CutRequest(np.ones((1, n + 1)), (2,), (False,), path=step)
    message = asked.message(2)
    read = messages.CutRequest.read(message, n + 1).path
    assert (read.mu, read.base, len(read.mends)) == (0.1, 1, 2)
    changed = {**message.arrays, "path": change(message.arrays["path"])}
    with pytest.raises(WireError, match="step along the path"):
        messages.CutRequest.read(replace(message, arrays=changed), n + 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda a: a[:, :-1],
        lambda a: -a,
        lambda a: a + 5.0 * np.eye(1, a.shape[1], 2),
    ],
)
def test_steps_that_cannot_be_are_not_gone_again(change):
    mirror = client_cache.CacheMirror(lifted=False)
    asked = messages.CutRequest(np.ones((1, n + 1)), (0,), (False,), path=PathRequest(0.1))
    mirror.note({0: asked})
    message = mirror.message(0, 1)
    site = Site(clients(LOSSES[0], 1)[0], problem(LOSSES[0]), debug=True)
    client_cache.recall(site, message)
    assert list(site.memory["path"]) == [0]
    changed = {**message.arrays, "path": change(message.arrays["path"])}
    with pytest.raises(WireError, match="along the path"):
        client_cache.recall(site, replace(message, arrays=changed))


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("sides", lambda a: a + [[0.5], [0.0]] * np.eye(1, a.shape[1]), "above its own values"),
        ("sides", lambda a: a[:, 1:], "do not fit"),
        ("sides", lambda a: np.vstack([a, a]), "at most 1 groups"),
        ("sides", lambda a: 50.0 * a, "steeper"),
        ("room", lambda a: a[:, 1:], "does not fit"),
        ("room", lambda a: np.vstack([a, a]), "does not fit"),
        ("mended", lambda a: np.vstack([a, a, a]), "are mended, or none"),
        ("mended", lambda a: a[:1], "are mended, or none"),
        ("mended", lambda a: 50.0 * a, "steeper"),
        ("path", lambda a: -a, "cannot be"),
        ("path", lambda a: a[:, 2:], "does not fit"),
        ("bend", lambda a: -a, "semidefinite"),
    ],
)
def test_what_cannot_be_is_refused(name, change, why):
    def spoilt(client, reply):
        if client == "c0" and name in reply.arrays and "sides" in reply.arrays:
            return with_arrays(reply, **{name: change(reply.arrays[name])})
        return reply

    seen = []
    drfl.solve(
        problem("hinge"),
        clients(LOSSES[0]),
        solver="bundle",
        max_rounds=4,
        engine=ChangingEngine(spoilt),
        callbacks=[lambda record: seen.append(dict(record.failures))],
    )
    assert any(why in str(failures.get("c0", "")) for failures in seen)
