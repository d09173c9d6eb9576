"""The kit itself: right answers pass, planted errors fail."""

import math

import numpy as np
import pytest
from scipy.optimize import linprog

from drfl.losses import make_loss
from drfl.supports import Box, Polyhedron
from kit import brute, problems
from kit.checks import (
    assert_convex_on_segment,
    assert_gradient,
    assert_kkt,
    assert_subgradient,
    numeric_gradient,
)

TASKS = ("classification", "regression")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


# Checkers


def l1(x):
    return float(np.abs(x).sum())


def test_a_subgradient_at_a_kink_passes(rng):
    x = np.array([1.0, 0.0, -2.0])
    for middle in (-1.0, 0.3, 1.0):
        assert_subgradient(l1, x, np.array([1.0, middle, -1.0]), rng)


@pytest.mark.parametrize(
    "g",
    [
        [1.0, 1.01, -1.0],  # a little too steep, in one entry
        [1.0, 0.0, 1.0],  # a wrong sign
        [0.99, 0.0, -1.0],  # too flat
        [1.0 + 1e-6, 0.0, -1.0],  # shows only above the tolerance
    ],
)
def test_a_wrong_subgradient_fails(rng, g):
    with pytest.raises(AssertionError, match="not a subgradient"):
        assert_subgradient(l1, np.array([1.0, 0.0, -2.0]), np.array(g), rng)


def test_a_subgradient_of_another_shape_fails(rng):
    with pytest.raises(AssertionError, match="shape"):
        assert_subgradient(l1, np.zeros(3), np.zeros(2), rng)


def test_a_nonconvex_function_has_no_subgradient(rng):
    with pytest.raises(AssertionError, match="not a subgradient"):
        assert_subgradient(lambda x: float(np.sin(x[0])), np.zeros(1), np.ones(1), rng)


def test_differences_are_of_order_four():
    x = np.array([0.3, -0.7])

    def error(step):
        numeric = numeric_gradient(lambda v: float(np.exp(v).sum()), x, step)
        return np.abs(numeric - np.exp(x)).max()

    assert error(0.05) < 1e-6
    assert 14.0 < error(0.1) / error(0.05) < 18.0  # 2^4


def test_a_wrong_gradient_fails():
    def f(v):
        return float(v[0] ** 3 + v[0] * v[1])

    x, g = np.array([1.0, 2.0]), np.array([5.0, 1.0])
    assert_gradient(f, x, g)
    for wrong in (g + 1e-6, -g, g[::-1]):
        with pytest.raises(AssertionError, match="gradient is off"):
            assert_gradient(f, x, wrong)


def test_convexity_is_told_from_concavity():
    a, b = np.array([-1.0, 0.0]), np.array([2.0, 1.0])
    assert_convex_on_segment(l1, a, b)
    with pytest.raises(AssertionError, match="not convex"):
        assert_convex_on_segment(lambda x: -l1(x), a, b)
    with pytest.raises(AssertionError, match="not convex"):  # a dent, convex elsewhere
        assert_convex_on_segment(lambda x: l1(x) + 1e-3 * math.sin(20 * x[0]), a, b, points=41)


# min |x - c|^2/2 subject to x <= 1 and sum x = 1, with c = (3, 0, -1): x = (1, .5, -.5).
KKT = {
    "gradient": np.array([-2.0, 0.5, 0.5]),
    "x": np.array([1.0, 0.5, -0.5]),
    "G": np.eye(3),
    "h": np.ones(3),
    "dual": np.array([2.5, 0.0, 0.0]),
    "A": np.ones((1, 3)),
    "b": np.ones(1),
    "dual_eq": np.array([-0.5]),
}


def test_an_optimum_satisfies_kkt():
    assert_kkt(**KKT)


@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("feasibility", {"h": np.array([0.9, 1.0, 1.0])}),
        ("sign", {"dual": np.array([2.5, -0.1, 0.0])}),
        ("complementarity", {"dual": np.array([2.5, 0.1, 0.0])}),
        ("equality", {"b": np.array([1.1])}),
        ("stationarity", {"gradient": np.array([-2.0, 0.5, 0.6])}),
        ("stationarity", {"dual_eq": np.array([0.5])}),
    ],
)
def test_each_condition_of_kkt_is_checked(name, planted):
    with pytest.raises(AssertionError, match=name):
        assert_kkt(**(KKT | planted))


# The exhaustive worst case


def test_the_transport_lp_spends_its_budget_where_it_pays():
    share, row = np.array([0.5, 0.5]), np.array([0, 0, 1, 1])
    gain, cost = np.array([0.0, 3.0, 0.0, 2.0]), np.array([0.0, 1.0, 0.0, 1.0])
    value, lam, alpha = brute.transport_lp(share, row, gain, cost, 0.6)
    assert value == pytest.approx(0.5 * 3 + 0.1 * 2)
    assert lam == pytest.approx(2.0)
    assert value == pytest.approx(0.6 * lam + share @ alpha)


def test_mass_out_of_reach_is_infeasible():
    value, _, _ = brute.transport_lp(np.ones(1), np.zeros(1, int), np.ones(1), np.ones(1), 0.5)
    assert value == -math.inf


def test_escaping_mass_earns_the_recession_slope():
    one = np.ones(1)
    value, lam, _ = brute.transport_lp(one, np.zeros(1, int), one, 0 * one, 2.0, 3 * one, 4 * one)
    assert value == pytest.approx(1.0 + 2.0 * 3.0 / 4.0)
    assert lam == pytest.approx(0.75)


def test_corners_of_a_square():
    planes = np.vstack([np.eye(2), -np.eye(2)])
    corners = brute.corners_of(planes, np.ones(4), planes, np.ones(4))
    assert sorted(map(tuple, corners.round(12))) == [(-1, -1), (-1, 1), (1, -1), (1, 1)]


@pytest.mark.parametrize(("norm", "dual"), [("l1", 2.0), ("l2", math.sqrt(5)), ("linf", 3.0)])
def test_the_hinge_on_the_whole_space_costs_the_dual_norm(norm, dual):
    X, y, w = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0]), np.array([1.0, -2.0])
    value = brute.worst_case_loss(X, y, w, loss="hinge", radius=0.5, norm=norm)
    assert value == pytest.approx(0.0 + 0.5 * dual)


def test_by_hand_on_a_box():
    # One row at 0 with margin 1; the box leaves room .5 downwards, where the loss is .5.
    row = {"X": np.zeros((1, 1)), "y": np.ones(1), "coef": np.ones(1), "intercept": 1.0}
    box = Box(-0.5, 2.0)
    for radius, value in ((0.0, 0.0), (0.2, 0.2), (0.5, 0.5), (9.0, 0.5)):
        got = brute.worst_case_loss(**row, loss="hinge", radius=radius, support=box)
        assert got == pytest.approx(value)
    # A flip at cost 1 gains 2, and 5 with x moved up by 2, which costs 3 in all.
    got = brute.worst_case_loss(**row, loss="hinge", radius=0.5, label_cost=1.0, support=box)
    assert got == pytest.approx(1.0)
    got = brute.worst_case_loss(**row, loss="hinge", radius=9.0, label_cost=1.0, support=box)
    assert got == pytest.approx(4.0)


def test_a_target_that_never_moves_is_not_moved():
    row = {"X": np.zeros((1, 1)), "y": np.ones(1), "coef": np.ones(1), "radius": 1.0}
    pinned = brute.worst_case_loss(**row, loss="huber", support=Box(0.0, 0.0, -5.0, 5.0))
    assert pinned == pytest.approx(0.5)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("name", ["hinge", "logistic", "huber", "pinball"])
def test_no_grid_beats_it_and_a_fine_grid_comes_close(rng, name, norm):
    """A grid of atoms is feasible, so it stays below; it misses at most Lip |w| h of the loss."""
    loss = make_loss(name)
    X, y = problems.rows(loss.task, rng, N=3, n=2)
    box = problems.box_around(rng, "classification", X, y)
    w, b, radius, label_cost = np.array([1.0, -0.6]), 0.2, 0.4, math.inf
    if loss.task == "classification":
        label_cost = 0.7
    exact = brute.worst_case_loss(
        X, y, w, b, loss=loss, radius=radius, label_cost=label_cost, norm=norm, support=box
    )
    axes = [np.linspace(lo, hi, 41) for lo, hi in zip(box.low, box.high, strict=True)]
    grid = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    row, gain, cost = [], [], []
    order = {"l1": 1, "l2": 2, "linf": math.inf}[norm]
    for i in range(len(y)):
        x = np.vstack([X[i], grid])
        away = np.linalg.norm(x - X[i], order, axis=1)
        score = x @ w + b
        if loss.task == "classification":
            values = [loss.value(y[i] * score), loss.value(-y[i] * score)]
            costs = [away, away + label_cost]
        else:
            values, costs = [loss.value(score - y[i])], [away]
        gain += values
        cost += costs
        row.append(np.full(len(x) * len(values), i))
    share = np.full(len(y), 1 / len(y))
    coarse, _, _ = brute.transport_lp(
        share, np.concatenate(row), np.concatenate(gain), np.concatenate(cost), radius
    )
    width = max(axis[1] - axis[0] for axis in axes)
    assert coarse <= exact + 1e-8
    assert coarse >= exact - 2 * loss.lipschitz * np.abs(w).sum() * width


def test_a_missing_maximiser_shows(rng, monkeypatch):
    """The planted error: without one corner of the box the value drops."""
    X, y, w = np.zeros((1, 2)), np.ones(1), np.array([1.0, 1.0])
    game = {"loss": "hinge", "radius": 9.0, "support": Box(-1.0, 1.0)}
    assert brute.worst_case_loss(X, y, w, **game) == pytest.approx(3.0)
    whole = brute.corners_of
    monkeypatch.setattr(
        brute, "corners_of", lambda *args: np.array([c for c in whole(*args) if c.sum() > -2])
    )
    assert brute.worst_case_loss(X, y, w, **game) == pytest.approx(2.0)


# Problems


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("kind", problems.NASTY)
def test_nasty_rows_are_what_they_say(rng, kind, task):
    X, y = problems.NASTY[kind](task, rng, 3)
    assert X.shape == (len(y), 3)
    assert np.isfinite(X).all()
    if task == "classification":
        assert set(y) <= {-1.0, 1.0}
    promise = {
        "separable": _separable(task, X, y),
        "duplicates": len(np.unique(X, axis=0)) < len(np.unique(np.column_stack([X, y]), axis=0)),
        "constant_column": (X[:, -1] == 1).all(),
        "zero_column": not X[:, -1].any(),
        "collinear": np.linalg.matrix_rank(X) == 2,
        "one_row": len(y) == 1,
        "one_class": len(set(y)) == 1,
        "tiny": np.abs(X).max() < 1e-5,
        "huge": np.abs(X).max() > 1e5,
    }
    assert promise[kind]
    if kind not in ("one_row", "one_class"):
        assert len(set(y)) > 1


def _separable(task, X, y):
    """Whether a linear model without intercept has no loss."""
    if task == "regression":
        return np.linalg.lstsq(X, y, rcond=None)[0] @ X.T == pytest.approx(y)
    n = X.shape[1]
    return linprog(np.zeros(n), -y[:, None] * X, -np.ones(len(y)), bounds=(None, None)).status == 0


@pytest.mark.parametrize("task", TASKS)
def test_clients_differ_and_repeat_with_the_seed(task):
    one, same = (problems.clients(task, np.random.default_rng(5), S=3) for _ in range(2))
    assert len(one) == 3
    assert len({X.tobytes() for X, _ in one}) == 3
    for (X, y), (X2, y2) in zip(one, same, strict=True):
        assert (X == X2).all()
        assert (y == y2).all()


@pytest.mark.parametrize("task", TASKS)
def test_supports_contain_the_rows_and_touch_some(rng, task):
    box_touched = polyhedron_touched = 0
    for _ in range(10):
        X, y = problems.rows(task, rng)
        box = problems.box_around(rng, task, X, y)
        room = np.column_stack([X - box.low, box.high - X])
        assert room.min() >= 0.0
        box_touched += (room == 0.0).any()
        assert math.isfinite(box.y_low) == (task == "regression")
        assert box.y_low <= y.min()
        assert box.y_high >= y.max()
        polyhedron = problems.polyhedron_around(rng, task, X, y)
        points = np.column_stack([X, y]) if task == "regression" else X
        slack = polyhedron.d - points @ polyhedron.C.T
        assert slack.min() >= -1e-12
        polyhedron_touched += slack.min() < 1e-12
        _assert_bounded(polyhedron)
    assert min(box_touched, polyhedron_touched) >= 5


def _assert_bounded(polyhedron: Polyhedron) -> None:
    for direction in np.vstack([np.eye(polyhedron.C.shape[1]), -np.eye(polyhedron.C.shape[1])]):
        assert linprog(-direction, polyhedron.C, polyhedron.d, bounds=(None, None)).status == 0


def test_sides_become_infinite_when_asked(rng):
    X, y = problems.rows("regression", rng)
    box = problems.box_around(rng, "regression", X, y, infinite=1.0)
    assert not np.isfinite([*box.low, *box.high, box.y_low, box.y_high]).any()
