"""Whatever the multipliers are, what the certificate makes of them is below the objective."""

import math

import numpy as np
import pytest

from drfl import Ball, Box, Mixture
from drfl.losses import make_loss
from drfl.solvers.certificate.cuts import Solution
from drfl.solvers.certificate.proof import aggregate, share
from kit.bundle_runs import norm_excess, random_points, session_after
from kit.cases import Case, uniform_case
from kit.optimality import assert_bounded, assert_honest, assert_optimal
from kit.problems import box_around, polyhedron_around

S, N, INF = 3, 12, math.inf


def _data(task, rng, n=2, rows=N):
    model = rng.normal(size=n)
    made = []
    for _ in range(S):
        X = rng.normal(size=(rows, n)) + 0.5 * rng.normal(size=n)
        target = X @ model + 0.7 * rng.normal(size=rows)
        made.append((X, target if task == "regression" else np.where(target > 0.0, 1.0, -1.0)))
    return tuple(made)


def _case(loss, norm="l1", radii=(0.1,) * S, costs=(1.0,) * S, place=None, p=1, **changes):
    loss = make_loss(loss)
    rng = np.random.default_rng(7)
    rows = changes.pop("rows", 5 if place == "polyhedron" else N)
    data = _data(loss.task, rng, rows=rows)
    X, y = np.vstack([X for X, _ in data]), np.concatenate([y for _, y in data])
    support = None
    if place == "box":
        box = box_around(rng, loss.task, X, y)
        support = Box(box.low, box.high)  # the target is free
    elif place == "bounded target":
        support = box_around(rng, loss.task, X, y)
    elif place == "half open":  # one column has no bounds
        support = Box([-INF, X[:, 1].min() - 0.2], [INF, X[:, 1].max() + 0.2])
    elif place == "polyhedron":
        support = polyhedron_around(rng, loss.task, X, y)
    balls = tuple(Ball(r, norm, k, support) for r, k in zip(radii, costs, strict=True))
    return Case(loss, data, balls, Mixture(radius=0.4, p=p), **changes)


NORM = {
    "hinge l1": _case("hinge", costs=(INF,) * S),
    "hinge l2": _case("hinge", "l2", costs=(INF,) * S, p=2),
    "hinge linf, some radii 0": _case("hinge", "linf", (0.0, 0.3, 0.05), (INF,) * S, p=INF),
    "logistic": _case("logistic", costs=(INF,) * S, intercept="none"),
    "smooth hinge": _case("smooth_hinge", "l2", costs=(INF,) * S),
    "huber, Lipschitz above 1": _case("huber", "l1", (0.2,) * S, (0.5,) * S),
    "pinball": _case("pinball", "linf", (0.1, 0.2, 0.4), (2.0,) * S),
    "epsilon": _case("epsilon_insensitive", "l2", costs=(INF,) * S, intercept="none"),
}
FLIPS = {
    "hinge": _case("hinge", costs=(0.5, 1.0, 10.0)),
    "hinge, groups": _case("hinge", "l2", costs=(1.0,) * S, rows=160),
    "logistic, one label fixed": _case("logistic", "linf", (0.1, 0.3, 0.2), (INF, 0.5, 1.0)),
    "smooth hinge, some radii 0": _case("smooth_hinge", "l1", (0.0, 0.3, 0.1), (0.2, 1.0, 5.0)),
    "huber, own floors": _case("huber", "l1", (0.2, 0.1, 0.3), (0.1, 0.5, INF)),
    "pinball, own floors": _case("pinball", "l2", (0.2, 0.0, 0.3), (0.1, 0.5, 3.0), p=2),
}
BOX = {
    "hinge": _case("hinge", place="box"),
    "hinge, groups": _case("hinge", place="box", costs=(INF,) * S, rows=160),
    "hinge, some radii 0": _case("hinge", "l1", (0.0, 0.5, 0.1), (0.5, 1.0, INF), place="box"),
    "epsilon": _case("epsilon_insensitive", "l1", (0.3,) * S, (2.0,) * S, place="box"),
    "epsilon, fixed target": _case(
        "epsilon_insensitive", "l1", (0.3,) * S, (INF,) * S, place="box", intercept="none"
    ),
}
PLAIN = {
    "pinball in a box": _case("pinball", "l1", (0.3,) * S, place="box"),
    "epsilon, bounded target": _case("epsilon_insensitive", place="bounded target"),
    "logistic in a box": _case("logistic", place="box"),
    "huber in a box": _case("huber", costs=(INF,) * S, place="box"),
    "hinge in a box, l2": _case("hinge", "l2", place="box"),
    "hinge in a box, linf, own radii": _case("hinge", "linf", (0.0, 0.3, 0.1), place="box"),
    "hinge, half open": _case("hinge", "l1", (0.3,) * S, (5.0,) * S, place="half open"),
    "epsilon, half open": _case("epsilon_insensitive", "l2", place="half open"),
    "hinge in a polyhedron": _case("hinge", "l1", place="polyhedron"),
    "pinball in a polyhedron": _case("pinball", "linf", (0.2,) * S, place="polyhedron"),
}
KINDS = {"norm": NORM, "flips": FLIPS, "box": BOX, "plain": PLAIN}
CASES = [(kind, name) for kind, cases in KINDS.items() for name in cases]


def _session(case, rounds=4):
    session = session_after(case, rounds, groups=3)
    # Cuts of all kinds: of one group and of three, of points near and far.
    assert len(session.state.pool.cuts) >= rounds
    return session


def _solutions(session, rng, count):
    """Multipliers as a master gives them, disturbed ones, and garbage."""
    pool, terms = session.state.pool, session.state.server
    K, J = len(pool.cuts), len(pool.family_client)
    D = np.diag(session.state.metric.diagonal)
    centre = session.state.points.at[session.state.points.best].x
    good = session.state.master.solve(pool, pool.cuts, centre, 1e-8 * D, eps=1e-11)
    assert good.usable
    yield good
    for trial in range(count):
        if trial % 3 == 0:
            noise = [
                np.exp(10.0 ** rng.uniform(-6, 0) * rng.normal(size=size)) for size in (K, J, S)
            ]
            a, y, q = good.cuts * noise[0], good.families * noise[1], good.weights * noise[2]
            clipping = good.clipping * (1.0 + 0.3 * rng.normal(size=good.clipping.shape))
        else:
            size = 10.0 ** rng.choice([-300.0, -6.0, 0.0, 0.0, 6.0, 150.0])
            a, y, q = (size * rng.exponential(size=k) * (rng.random(k) < 0.6) for k in (K, J, S))
            clipping = size * rng.normal(size=(S, terms.n))
        yield Solution(centre, math.nan, a, y, q, clipping)


def _lines(total, terms, points, kind):
    """The minorant of an aggregate at all points."""
    X = np.array(points)
    lines = (
        total.constant + X[:, : terms.n] @ total.g + X[:, terms.n :][:, : len(total.gb)] @ total.gb
    )
    if kind in ("norm", "flips"):
        lines += np.array([norm_excess(terms, x) for x in points]) @ total.B
    return lines


def _count(name, kind):
    """How many points; oracles on supports solve a program per row or per price."""
    return 12 if name.endswith("polyhedron") else 40 if kind == "plain" else 200


@pytest.mark.parametrize(("kind", "name"), CASES)
@pytest.mark.sampled(7)
def test_any_multipliers_give_a_minorant(kind, name):
    case, rng = KINDS[kind][name], np.random.default_rng(11)
    session = _session(case)
    certificate, pool, terms = session.state.certificate, session.state.pool, session.state.server
    assert terms.kind == kind
    assert certificate.everywhere
    points = random_points(case, rng, _count(name, kind), case.at(session.standing))
    values = np.array([case.exact(x) for x in points])
    slack = 1e-9 * np.maximum.reduce([np.ones(len(points)), values, np.abs(points).max(axis=1)])
    least = min(float(values.min()), session.standing.objective)
    for solution in _solutions(session, rng, 20):
        for polished in (False, True):
            bound = certificate.bound(pool, pool.cuts, solution, polished=polished)
            assert 0.0 <= bound <= least * (1.0 + 1e-9)
        for balanced in (True, False):
            minorants, q = share(terms, pool, pool.cuts, solution)
            total = aggregate(terms, minorants, q, balanced=balanced)
            assert case.resolved.contains(total.q)
            assert (total.B >= 0.0).all()
            assert (_lines(total, terms, points, kind) <= values + slack).all()


@pytest.mark.parametrize(("kind", "name"), CASES)
@pytest.mark.sampled(2)
def test_negative_multipliers_do_no_harm(kind, name):
    """Solvers return small negative multipliers; nothing must depend on who cleans them."""
    case, rng = KINDS[kind][name], np.random.default_rng(12)
    session = _session(case)
    pool = session.state.pool
    for solution in _solutions(session, rng, 15):
        signs = [rng.choice([-1.0, 1.0], size=len(v)) for v in (solution.cuts, solution.families)]
        negative = Solution(
            solution.x,
            math.nan,
            solution.cuts * signs[0],
            solution.families * signs[1],
            solution.weights * rng.choice([-1.0, 1.0], size=S),
            solution.clipping,
        )
        bound = session.state.certificate.bound(pool, pool.cuts, negative)
        assert 0.0 <= bound <= session.standing.objective * (1.0 + 1e-9)


# ---------------------------------------------------------------------------- anchors
def _assert_anchors(case, points):
    """Check that each of the three minorants is below f at the points."""
    anchors = session_after(case, 1).state.certificate.anchors
    if anchors is None:  # nothing is claimed
        return
    for x in points:
        f, w, b = case.exact(x), x[: case.n], float(x[case.n :].sum())
        reach = float(anchors.half @ np.abs(w))
        slack = 1e-9 * max(1.0, f, float(np.abs(x).max()))
        for side in (*anchors.leaning, anchors.level):
            assert side.e + side.u @ w + side.beta * b + side.omega * reach <= f + slack
        away = np.where(anchors.unbounded, w, 0.0)
        price = anchors.price * case.balls[0].norm.dual(away)
        assert price <= f + slack, "the price of unbounded columns is not a minorant"


@pytest.mark.parametrize("name", [*BOX, *PLAIN])
@pytest.mark.sampled(4)
def test_anchors_hold_everywhere(name):
    case, rng = (BOX | PLAIN)[name], np.random.default_rng(13)
    assert session_after(case, 1).state.certificate.anchors is not None
    _assert_anchors(case, random_points(case, rng, _count(name, "plain")))


def _far_apart(intercept):
    """A bounded column of noise, and an unbounded one that tells the classes apart."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(N) % 2, 1.0, -1.0)
    X = np.column_stack([rng.uniform(-1.0, 1.0, N), 100.0 * y + rng.normal(size=N)])
    ball = Ball(0.5, "l1", INF, Box([-1.0, -INF], [1.0, INF]))
    return Case(make_loss("hinge"), ((X, y),), (ball,), intercept=intercept)


def _one_sided(loss, label, norm):
    """Rows can only move up, and their label or target does not move."""
    rng = np.random.default_rng(1)
    X = np.abs(rng.normal(size=(8, 2))) + 0.5
    y = np.full(8, label) if loss.task == "classification" else label * X.sum(axis=1)
    ball = Ball(0.5, norm, INF, Box(0.0, INF))
    return Case(loss, ((X, y),), (ball,), intercept="none")


OPEN = {
    "classes far apart, intercept": _far_apart("shared"),
    "classes far apart, none": _far_apart("none"),
    "hinge, one class, l1": _one_sided(make_loss("hinge"), 1.0, "l1"),
    "hinge, one class, linf": _one_sided(make_loss("hinge"), 1.0, "linf"),
    "pinball, steep side closed": _one_sided(make_loss("pinball", quantile=0.9), 1.0, "l1"),
}


@pytest.mark.parametrize("name", OPEN)
def test_anchors_hold_where_sides_are_infinite(name):
    case, rng = OPEN[name], np.random.default_rng(14)
    _assert_anchors(case, random_points(case, rng, 300, case.at(case.reference())))


@pytest.mark.parametrize("name", OPEN)
def test_no_false_proof_where_sides_are_infinite(name):
    case = OPEN[name]
    result, best = case.solve(), case.at(case.reference())
    # Where no anchor prices w the statement may be local.
    assert result.status.kind in ("certified", "local")
    assert_honest(case, result)
    assert_bounded(case, result, best)
    np.testing.assert_allclose(result.objective, case.exact(best), rtol=2e-6, atol=2e-9)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sampled(2)
def test_boxes_that_bound_some_columns_are_certified(norm, seed):
    """The classes' means differ in the open columns, and nothing but the radius prices w there."""
    rng, data = np.random.default_rng(seed), []
    model = rng.normal(size=4)
    for _ in range(3):
        X = rng.normal(size=(30, 4)) + 0.5 * rng.normal(size=4)
        X[:, :2] = np.clip(X[:, :2], -2.0, 2.0)
        data.append((X, np.where(X @ model + 0.7 * rng.normal(size=30) > 0.0, 1.0, -1.0)))
    side = np.array([2.0, 2.0, math.inf, math.inf])
    ball = Ball(0.1, norm, math.inf, Box(-side, side))
    case = uniform_case("hinge", data, ball, Mixture(radius=0.2))
    assert_optimal(case, case.solve(), case.at(case.reference()))
