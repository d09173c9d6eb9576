"""The client half: every cut is below the loss it stands for, and no message betrays the rows."""

import math

import numpy as np
import pytest

from drfl import Ball, Box, Mixture, Policy
from drfl.engines import SerialEngine
from drfl.losses import EpsilonInsensitive, Hinge, Huber, Logistic, Pinball, SmoothHinge
from drfl.rows import Rows
from drfl.solvers.bundle import Bundle
from drfl.solvers.bundle.client_half.answers import dual_cut
from drfl.solvers.bundle.client_half.curvature import (
    density,
    hessian,
    pack_factor,
    sketch,
    unpack_factor,
    unpack_sketch,
)
from drfl.solvers.bundle.client_half.evaluation import make_evaluator
from drfl.wire.schema import pack_triangle, unpack_triangle
from drfl.worst_case import make_oracle
from kit.cases import uniform_case

INF = math.inf
LOSSES = [Hinge(), SmoothHinge(), Logistic(), Huber(0.3), EpsilonInsensitive(0.2), Pinball(0.3)]
MARGIN = [loss for loss in LOSSES if loss.task == "classification"]
n, N, GROUPS = 3, 41, 4


def _rows(loss, seed=0, weights=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, n))
    target = X @ rng.normal(size=n) + 0.7 * rng.normal(size=N)
    y = target if loss.task == "regression" else np.where(target > 0.0, 1.0, -1.0)
    return Rows(X, y, weights=weights)


def _points(rng, count):
    return [10.0 ** rng.uniform(-2.0, 2.0) * rng.normal(size=n + 1) for _ in range(count)]


def _group_means(rows, values, groups):
    """The mean over each group, by the masses of its rows."""
    p = np.broadcast_to(rows.mass(), (rows.n_rows,))
    return np.array([p[k::groups] @ values[k::groups] / p[k::groups].sum() for k in range(groups)])


def _arguments(loss, rows, x):
    z = rows.take(slice(None)) @ x[:n] + x[n]
    return z - rows.y if loss.task == "regression" else rows.y * z


# ---------------------------------------------------------------------------- tangent cuts
@pytest.mark.parametrize("kappa", [0.5, 5.0, INF])
@pytest.mark.parametrize("groups", [1, GROUPS])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.sampled(2)
def test_group_cuts_are_below_every_group_at_every_price(loss, groups, kappa):
    """u_g(x, lam) = mean over the group of max(L(m), L(-m) - kappa lam), for any x and lam."""
    rng = np.random.default_rng(1)
    rows = _rows(loss, weights=rng.random(N))
    ball = Ball(0.2, "l2", kappa)
    evaluator = make_evaluator(make_oracle(rows, loss, ball))
    flips = loss.task == "classification" and math.isfinite(kappa)
    points = _points(rng, 25)
    for x in points:
        at = evaluator.evaluate(x, groups)
        parts = 2 if flips and loss.linear_gain else 1
        assert at.cuts.shape == (parts * groups, n + 2 + flips)
        np.testing.assert_allclose(at.share.sum(), 1.0)
        for other in [x, *points, *(x + 1e-3 * rng.normal(size=n + 1) for _ in range(3))]:
            for lam in (at.multiplier, 0.0, float(np.abs(rng.normal()))):
                m = _arguments(loss, rows, other)
                u = loss.value(m)
                if flips:
                    u = np.maximum(u, loss.value(-m) - kappa * lam)
                line = at.cuts[:, 0] + at.cuts[:, -n - 1 :] @ other
                if flips:
                    line += at.cuts[:, 1] * lam
                exact = _group_means(rows, u, groups)
                if parts == 2:  # losses and what flips add are bounded each, and so is their sum
                    base = _group_means(rows, loss.value(m), groups)
                    exact = np.append(base, exact - base)
                assert (line <= exact + 1e-9 * np.maximum(1.0, exact)).all()


@pytest.mark.parametrize("kappa", [0.5, INF])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_cuts_touch_where_they_were_made(loss, kappa):
    """The cuts of all groups add up to F at their own point: value, multiplier, shares."""
    rng = np.random.default_rng(2)
    rows, ball = _rows(loss), Ball(0.3, "l1", kappa)
    oracle = make_oracle(rows, loss, ball)
    evaluator = make_evaluator(oracle)
    for x in _points(rng, 20):
        at, worst = evaluator.evaluate(x, GROUPS), oracle.evaluate(x[:n], float(x[n]))
        np.testing.assert_allclose(at.value, worst.value, rtol=1e-12)
        np.testing.assert_allclose(at.multiplier, worst.multiplier, rtol=1e-12)
        line = at.cuts[:, 0] + at.cuts[:, -n - 1 :] @ x
        if at.cuts.shape[1] == n + 3:
            line += at.cuts[:, 1] * at.multiplier
        total = ball.radius * at.multiplier + np.resize(at.share, len(line)) @ line
        np.testing.assert_allclose(total, worst.value, rtol=1e-9)


# ---------------------------------------------------------------------------- cuts in a box
BOXED = [
    (Hinge(), 0.7),
    (Hinge(), INF),
    (EpsilonInsensitive(0.2), 2.0),
    (EpsilonInsensitive(0.2), INF),
]


def _lifted_rows(loss, rows, box, x, omega, tau, lam, kappa):
    """What each row is worth at any clipped model: the largest of its pieces."""
    low, high = box.bounds(n)
    middle = (low + high) / 2.0
    X, y = rows.take(slice(None)), rows.y
    s = middle @ x[:n] + x[n] + (X - middle) @ omega
    if loss.task == "regression":
        r = s - y
        return np.maximum.reduce([r + tau - loss.epsilon, -r + tau - loss.epsilon, 0.0 * r])
    worth = np.maximum(0.0, 1.0 + tau - y * s)
    if math.isfinite(kappa):
        worth = np.maximum(worth, 1.0 + tau + y * s - kappa * lam)
    return worth


@pytest.mark.parametrize("radius", [0.0, 0.05, 0.5])
@pytest.mark.parametrize(("loss", "kappa"), BOXED)
@pytest.mark.parametrize("groups", [1, GROUPS])
@pytest.mark.sampled(2)
def test_lifted_cuts_are_below_at_any_clipped_model(loss, kappa, radius, groups):
    """For all (w, b) and every omega, tau, lam with |omega| <= lam, tau >= h'|w - omega|."""
    rng = np.random.default_rng(3)
    rows = _rows(loss)
    box = Box(rows.take(slice(None)).min(axis=0) - 0.1, rows.take(slice(None)).max(axis=0) + 0.3)
    low, high = box.bounds(n)
    half = (high - low) / 2.0
    evaluator = make_evaluator(make_oracle(rows, loss, Ball(radius, "l1", kappa, box)))
    points = _points(rng, 12)
    checked = 0
    for x in points:
        at = evaluator.evaluate(x, groups)
        assert at.cuts.shape == (groups, 2 + n + 1 + n + 1)
        for other in [x, *points]:
            for lam in (
                0.0,
                at.multiplier,
                *(float(np.abs(other[:n]).max()) * rng.random(2) * 1.5),
            ):
                clipped = np.clip(other[:n], -lam, lam)
                for omega in (clipped, clipped * rng.random(n), lam * rng.uniform(-1, 1, n)):
                    if radius == 0.0:
                        omega = other[:n]  # nothing is clipped, at any price
                    tau = float(half @ np.abs(other[:n] - omega)) * rng.choice([1.0, 1.3])
                    line = (
                        at.cuts[:, 0]
                        + at.cuts[:, 1] * lam
                        + at.cuts[:, 2 : 2 + n] @ omega
                        + at.cuts[:, 2 + n] * tau
                        + at.cuts[:, 3 + n :] @ other
                    )
                    worth = _lifted_rows(loss, rows, box, other, omega, tau, lam, kappa)
                    exact = _group_means(rows, worth, groups)
                    assert (line <= exact + 1e-9 * np.maximum(1.0, exact)).all()
                    checked += 1
    assert checked > 1000


@pytest.mark.parametrize("radius", [0.0, 0.05, 0.5, 50.0])
@pytest.mark.parametrize(("loss", "kappa"), BOXED)
@pytest.mark.sampled(2)
def test_lifted_cuts_touch_where_they_were_made(loss, kappa, radius):
    rng = np.random.default_rng(4)
    rows = _rows(loss)
    X = rows.take(slice(None))
    box = Box(X.min(axis=0), X.max(axis=0) + 0.2)
    half = (np.array(box.high) - np.array(box.low)) / 2.0
    oracle = make_oracle(rows, loss, Ball(radius, "l1", kappa, box))
    evaluator = make_evaluator(oracle)
    for x in _points(rng, 25):
        at, worst = evaluator.evaluate(x, GROUPS), oracle.evaluate(x[:n], float(x[n]))
        lam = at.multiplier
        omega = np.clip(x[:n], -lam, lam)
        tau = float(half @ np.abs(x[:n] - omega))
        line = at.cuts[:, 0] + at.cuts[:, 1] * lam + at.cuts[:, 2 : 2 + n] @ omega
        line = line + at.cuts[:, 2 + n] * tau + at.cuts[:, 3 + n :] @ x
        total = radius * lam + at.share @ line
        np.testing.assert_allclose(total, worst.value, rtol=1e-8, atol=1e-9)


# ---------------------------------------------------------------------------- dual cuts
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_a_dual_cut_of_any_slopes_is_below_the_mean_loss(loss):
    rng = np.random.default_rng(5)
    rows = _rows(loss, weights=rng.random(N))
    evaluator = make_evaluator(make_oracle(rows, loss, Ball(0.1, "l2", INF)))
    points = _points(rng, 60)
    for size in (0.0, 0.3, 1.0, 100.0):
        v = size * rng.normal(size=N) - 0.3
        cut = dual_cut(evaluator, np.zeros((1, n + 1)), lambda block, _, v=v: v[block])
        for x in points:
            mean = rows.mean(loss.value(_arguments(loss, rows, x)))
            assert cut[0] + cut[1:] @ x <= mean + 1e-9 * max(1.0, mean)


@pytest.mark.parametrize(
    "loss", [SmoothHinge(), Logistic(), Huber(0.3)], ids=lambda loss: loss.name
)
def test_the_dual_cut_of_the_slopes_is_the_tangent(loss):
    rng = np.random.default_rng(6)
    rows = _rows(loss)
    evaluator = make_evaluator(make_oracle(rows, loss, Ball(0.1, "l2", INF)))
    for x in _points(rng, 10):
        at = evaluator.evaluate(x, 1)
        cut = dual_cut(evaluator, x[None], lambda _, m: loss.slope(m[0]))
        np.testing.assert_allclose(cut, at.cuts[0], atol=1e-9)


# ---------------------------------------------------------------------------- curvature
A = np.random.default_rng(7).normal(size=(30, 8))
SCALES = np.diag(10.0 ** np.linspace(-6, 6, 8))
MATRICES = {
    "regular": A.T @ A,
    "of rank 1": np.outer(A[0], A[0]),
    "ill-scaled": SCALES @ A.T @ A @ SCALES,
    "with a zero column": np.pad(A[:, :7].T @ A[:, :7], (0, 1)),
    "0": np.zeros((8, 8)),
    "tiny": 1e-20 * A.T @ A,
    "huge": 1e20 * A.T @ A,
    "all ones": np.ones((8, 8)),
    "1 by 1": np.array([[2.0]]),
}


@pytest.mark.parametrize("name", MATRICES)
def test_packed_curvature_is_positive_whatever_the_rounding(name):
    H = MATRICES[name]
    back = unpack_factor(*pack_factor(H))
    assert np.isfinite(back).all()
    np.testing.assert_array_equal(back, back.T)
    d = np.sqrt(np.maximum(np.diag(back), 1e-300))
    assert np.linalg.eigvalsh(back / np.outer(d, d)).min() >= -1e-14
    top = np.sqrt(np.outer(np.diag(H), np.diag(H))) + 1e-11 * np.diag(H).max()
    assert (np.abs(back - H) <= 4e-3 * top).all()
    stacked = unpack_factor(*(np.stack([part, part]) for part in pack_factor(H)))
    np.testing.assert_array_equal(stacked, np.stack([back, back]))


def test_the_triangle_is_as_accurate_as_float32():
    H = MATRICES["regular"]
    np.testing.assert_allclose(unpack_triangle(pack_triangle(H), len(H)), H, rtol=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_curvature_is_positive_and_of_the_right_size(loss):
    """The mean over many steps of a slope's change is what the stand-in promises, roughly."""
    rng = np.random.default_rng(9)
    rows = _rows(loss)
    oracle = make_oracle(rows, loss, Ball(0.2, "l1", 1.0))
    evaluator = make_evaluator(oracle)
    x, before = 0.3 * rng.normal(size=n + 1), 0.3 * rng.normal(size=n + 1)
    at, previous = evaluator.evaluate(x, 1), evaluator.evaluate(before, 1)
    for seen in (None, previous.arguments):
        d = density(oracle, at.arguments, seen)
        H = hessian(oracle, at, d, seen, n + 1)
        assert (d >= 0.0).all()
        assert d.any()
        assert np.linalg.eigvalsh(H).min() >= -1e-12 * np.trace(H)


def test_the_sketch_of_a_matrix_of_low_rank_is_exact():
    rng = np.random.default_rng(10)
    d = 60
    X = rng.normal(size=(50, 10)) @ rng.normal(size=(10, d))
    rows = Rows(X, np.where(rng.random(50) > 0.5, 1.0, -1.0))
    oracle = make_oracle(rows, Logistic(), Ball(0.1))
    weights = rng.random(50)
    H = rows.gram(weights * rows.mass())
    back = unpack_sketch(sketch(oracle, weights, d + 1).astype(np.float32))
    np.testing.assert_allclose(back, H, atol=1e-4 * np.abs(H).max())
    assert np.linalg.eigvalsh(back).min() >= -1e-6 * np.trace(back)


def test_the_sketch_has_the_diagonal_of_the_matrix():
    rng = np.random.default_rng(11)
    rows = Rows(rng.normal(size=(300, 120)), np.where(rng.random(300) > 0.5, 1.0, -1.0))
    oracle = make_oracle(rows, Logistic(), Ball(0.1))
    weights = rng.random(300)
    H = rows.gram(weights * rows.mass())
    back = unpack_sketch(sketch(oracle, weights, 121).astype(np.float32))
    np.testing.assert_allclose(np.diag(back), np.diag(H), rtol=1e-4)


# ---------------------------------------------------------------------------- what leaves
class Watch(SerialEngine):
    """Keeps every message that leaves a client."""

    def __init__(self):
        super().__init__(debug=True)
        self.replies = []

    def map(self, messages, deadline):
        answers = super().map(messages, deadline)
        self.replies += [(messages[name], reply) for name, reply in answers.replies.items()]
        return answers


def _federation(loss, support=None, kappa=1.0, rows=(211, 223), radius=0.05):
    rng = np.random.default_rng(12)
    model, data = rng.normal(size=n), []
    for size in rows:
        X = np.clip(rng.normal(size=(size, n)), -3.0, 3.0)
        target = X @ model + 0.5 * rng.normal(size=size)
        data.append((X, target if loss.task == "regression" else np.where(target > 0.0, 1.0, -1.0)))
    return uniform_case(loss, data, Ball(radius, "l1", kappa, support), Mixture(radius=0.2))


PLACES = {"whole": None, "box": Box(-3.0, 3.0)}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.sampled(2)
def test_no_message_is_as_long_as_the_client_has_rows(loss, place):
    engine = Watch()
    case = _federation(loss, PLACES[place])
    result = case.solve(engine=engine, solver=Bundle(groups=3))
    assert result.status.kind == "certified"
    lengths = {
        length
        for messages in engine.replies
        for message in messages
        for array in message.arrays.values()
        for length in array.shape
    }
    assert not lengths & {211, 223}
    assert max(lengths) < 60  # nor a multiple: everything is by coefficient, group or point


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.sampled(2)
def test_strict_clients_are_served_too(loss, place):
    """No curvature, no groups, no dual cuts: the same optimum, certified."""
    strict = Policy(curvature=False, groups=False, dual_cuts=False)
    case, engine = _federation(loss, PLACES[place], rows=(53, 61)), Watch()
    result = case.solve(policy=strict, engine=engine, solver=Bundle(groups=3), max_rounds=300)
    assert result.status.kind == "certified", str(result.status)
    for _, reply in engine.replies:
        assert not {"hess", "factor", "sketch", "dual", "share"} & set(reply.arrays)
        assert reply.arrays["cuts"].shape[1] == 1
    free = case.solve()
    np.testing.assert_allclose(result.objective, free.objective, rtol=2e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {"curvature": "never"},
        {"dual_cuts": False},
        {"second_point": False},
        {"warm_start": False},
        {"groups": 1},
    ],
)
@pytest.mark.parametrize("loss", [Hinge(), Logistic()], ids=lambda loss: loss.name)
@pytest.mark.sampled(2)
def test_every_refinement_can_be_left_out(loss, settings):
    case = _federation(loss, rows=(53, 61))
    result = case.solve(solver=Bundle(**settings))
    assert result.status.kind == "certified"
    np.testing.assert_allclose(result.objective, case.solve().objective, rtol=2e-6)


def test_heavy_rows_do_not_make_small_groups():
    """A group of one row would tell that row: weights must not pass for rows."""
    case = _federation(Hinge(), rows=(30, 31))
    heavy = tuple(np.full(len(y), 1e4) for _, y in case.data)
    engine = Watch()
    uniform_case(Hinge(), case.data, case.balls[0], case.mixture, weights=heavy).solve(
        engine=engine, solver=Bundle(groups=20)
    )
    assert max(reply.arrays["cuts"].shape[1] for _, reply in engine.replies) == 1
