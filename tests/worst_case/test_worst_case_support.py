"""The worst-case loss on boxes and polyhedra, against exhaustion, convex programs and itself."""

import math
import sys

import numpy as np
import pytest
from scipy import sparse

import drfl
from drfl import reference
from drfl.losses import make_loss
from drfl.rows import Rows
from drfl.supports import Box, Polyhedron
from drfl.uncertainty import Ball
from drfl.worst_case.boxes.l1_box import L1BoxOracle
from drfl.worst_case.gains import GainOracle
from drfl.worst_case.whole_space import WholeSpaceOracle
from kit import brute, problems
from kit.checks import assert_convex_on_segment, assert_subgradient
from kit.random_cases import random_case

NORMS = ("l1", "l2", "linf")
PIECES = {
    "hinge": make_loss("hinge"),
    "epsilon_insensitive": make_loss("epsilon_insensitive", epsilon=0.2),
    "pinball": make_loss("pinball", quantile=0.3),
}
CURVED = {
    "smooth_hinge": make_loss("smooth_hinge"),
    "logistic": make_loss("logistic"),
    "huber": make_loss("huber", epsilon=0.7),
}
# Every pair of loss, norm, support and oracle that these oracles serve.
PAIRS = [
    *[("box", norm, loss, GainOracle) for loss in PIECES.values() for norm in NORMS],
    *[("polyhedron", norm, loss, GainOracle) for loss in PIECES.values() for norm in NORMS],
    *[("box", "l1", loss, L1BoxOracle) for loss in PIECES.values()],
    *[("box", "l1", loss, GainOracle) for loss in CURVED.values()],
]
NAMES = [f"{loss.name}-{norm}-{kind}-{cls.__name__}" for kind, norm, loss, cls in PAIRS]
every_pair = pytest.mark.parametrize(("kind", "norm", "loss", "cls"), PAIRS, ids=NAMES)


def make_case(kind, norm, loss, seed, *, n=None, N=None, infinite=None):
    """A random client inside a random support, at a random model; nasty ones among them."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 3)) if n is None else n
    N = int(rng.integers(1, 7)) if N is None else N
    X, y = problems.rows(loss.task, rng, N, n)
    if loss.task == "classification" and rng.random() < 0.2:
        y = np.ones(N)
    if kind == "box":
        infinite = float(rng.choice([0.0, 0.0, 0.4])) if infinite is None else infinite
        support = problems.box_around(rng, loss.task, X, y, infinite=infinite)
    else:
        support = problems.polyhedron_around(rng, loss.task, X, y)
    weights = None if rng.random() < 0.5 else rng.random(N) + 0.1
    ball = Ball(
        radius=float(rng.choice([0.01, 0.1, 0.5, 3.0])),
        norm=norm,
        label_cost=float(rng.choice([0.3, 1.0, 5.0, math.inf])),
        support=support,
    )
    w, b = rng.normal(size=n) * rng.choice([0.3, 1.0, 3.0]), float(rng.normal())
    if n > 1 and rng.random() < 0.2:
        w[0] = 0.0
    return X, y, weights, ball, w, b


def exhausted(loss, X, y, weights, ball, w, b):
    return brute.worst_case_loss(
        X,
        y,
        w,
        b,
        loss=loss,
        radius=ball.radius,
        label_cost=ball.label_cost,
        norm=ball.norm.name,
        support=ball.support,
        sample_weight=weights,
    )


def referred(loss, X, y, weights, ball, w, b):
    return reference.worst_case_loss(
        X,
        y,
        w,
        b,
        loss=loss,
        radius=ball.radius,
        label_cost=ball.label_cost,
        norm=ball.norm,
        support=ball.support,
        sample_weight=weights,
    )


def value(cls, loss, X, y, weights, ball, w, b):
    return cls(Rows(X, y, weights=weights), loss, ball).evaluate(w, b).value


# ---------------------------------------------------------------------- values
@every_pair
@pytest.mark.sampled(2)
def test_value_is_that_of_exhaustion(kind, norm, loss, cls):
    for seed in range(4 if norm == "l2" else 9):
        case = make_case(kind, norm, loss, seed)
        X, y, weights, ball, w, b = case
        if norm == "l2" and loss.task == "regression" and X.shape[1] == 2:
            # The exhaustion in the plane wants a target that stays.
            ball = Ball(ball.radius, norm, math.inf, ball.support)
            case = X, y, weights, ball, w, b
        got, truth = value(cls, loss, *case), exhausted(loss, *case)
        # In the plane with l2 the exhaustion stops a little below the truth.
        near = 1e-6 if norm == "l2" else 1e-9
        assert abs(got - truth) <= near * max(1.0, truth), f"seed {seed}"


@pytest.mark.parametrize(
    ("kind", "norm", "loss", "cls"),
    [pair for pair in PAIRS if pair[2].pieces],  # the paper has no curved losses on a box
    ids=[name for name, pair in zip(NAMES, PAIRS, strict=True) if pair[2].pieces],
)
@pytest.mark.sampled(2)
def test_value_is_that_of_the_papers_program(kind, norm, loss, cls):
    for seed in (100, 101):
        case = make_case(kind, norm, loss, seed, n=3, N=12)
        truth = referred(loss, *case)
        assert value(cls, loss, *case) == pytest.approx(truth, rel=1e-6), f"seed {seed}"


@pytest.mark.parametrize("loss", PIECES.values(), ids=PIECES)
@pytest.mark.parametrize("norm", NORMS)
def test_a_box_as_a_polyhedron(norm, loss):
    for seed in range(3):
        X, y, weights, ball, w, b = make_case("box", norm, loss, seed, n=3, N=8, infinite=0.3)
        as_polyhedron = Ball(
            ball.radius, norm, ball.label_cost, polyhedron_of(ball.support, 3, loss)
        )
        boxed = value(GainOracle, loss, X, y, weights, ball, w, b)
        cut_out = value(GainOracle, loss, X, y, weights, as_polyhedron, w, b)
        assert cut_out == pytest.approx(boxed, rel=1e-7 if norm == "l2" else 1e-10)


def polyhedron_of(box, n, loss):
    low, high = box.bounds(n)
    if loss.task == "regression":
        low, high = np.append(low, box.y_low), np.append(high, box.y_high)
    sides = np.eye(len(low))
    above, below = np.isfinite(high), np.isfinite(low)
    return Polyhedron(np.vstack([sides[above], -sides[below]]), [*high[above], *-low[below]])


@every_pair
def test_far_sides_are_no_sides(kind, norm, loss, cls):
    X, y, weights, ball, w, b = make_case(kind, norm, loss, 7, n=2, N=6)
    whole = value(WholeSpaceOracle, loss, X, y, weights, ball, w, b)
    bounds = (-1e7, 1e7) if loss.task == "regression" else ()
    far = Box(-1e7, 1e7, *bounds)
    if kind == "polyhedron":
        far = polyhedron_of(far, 2, loss)
    # At this distance a row meets the sides only with next to no mass.
    distant = value(cls, loss, X, y, weights, Ball(ball.radius, norm, ball.label_cost, far), w, b)
    assert distant == pytest.approx(whole, rel=1e-5)
    if kind == "box":
        infinite = Ball(ball.radius, norm, ball.label_cost, Box(-math.inf, math.inf))
        got = value(cls, loss, X, y, weights, infinite, w, b)
        assert got == pytest.approx(whole, rel=1e-9)


def test_the_two_problems_in_which_the_box_changes_the_optimum():
    loss, X, y = PIECES["hinge"], np.array([[1.0], [-1.0]]), np.array([1.0, -1.0])
    boxed, open_ = Ball(100.0, "l1", support=Box(-1, 1)), Ball(100.0, "l1")
    # Client 1 has no uncertainty; client 2, of weight .1, has all of it. At w = 1 a row can do no
    # worse in the box than to sit at the wrong corner, loss 2; on the whole space there is no end.
    for cls in (L1BoxOracle, GainOracle):
        assert value(cls, loss, X, y, None, boxed, np.ones(1), 0.0) == pytest.approx(2.0)
        exact = Ball(0.0, "l1", support=Box(-1, 1))
        assert value(cls, loss, X, y, None, exact, np.ones(1), 0.0) == 0.0
        # No intercept, box [.9, 1], all labels +1: w = 1/.9 is safe wherever the rows go.
        ball = Ball(100.0, "l1", support=Box(0.9, 1))
        ones = np.ones((3, 1)), np.ones(3), None, ball, np.array([1 / 0.9]), 0.0
        assert value(cls, loss, *ones) == pytest.approx(0.0, abs=1e-12)
    assert value(WholeSpaceOracle, loss, X, y, None, open_, np.ones(1), 0.0) == pytest.approx(100.0)


def test_a_bounded_target_is_moved_to_its_bound():
    # w = 0: only the target moves, from 0 to 2 at the price of its label cost.
    loss, X, y = make_loss("epsilon_insensitive", epsilon=0.0), np.zeros((1, 1)), np.zeros(1)
    for cls in (L1BoxOracle, GainOracle):
        for radius, expected in ((0.3, 0.6), (1.0, 2.0), (5.0, 2.0)):
            ball = Ball(radius, "l1", 0.5, Box(-1, 1, y_low=-1, y_high=2))
            got = value(cls, loss, X, y, None, ball, np.zeros(1), 0.0)
            assert got == pytest.approx(expected, rel=1e-12)


def test_greedy_moves_go_by_effect_per_cost():
    # The target has the larger effect (1 against .8), the feature the larger one per cost; the
    # rooms are small and the loss is far from its steepest, so that the feature moves alone.
    loss, w = make_loss("huber", epsilon=5.0), np.array([0.8])
    X, y = np.array([[0.0], [0.1]]), np.array([-1.5, -1.6])
    for radius in (0.05, 0.1, 0.2, 0.4):
        case = X, y, None, Ball(radius, "l1", 2.0, Box(-0.3, 0.3, y_low=-2, y_high=-1)), w, 0.0
        assert value(GainOracle, loss, *case) == pytest.approx(exhausted(loss, *case), rel=1e-9)


@every_pair
@pytest.mark.sampled(2)
def test_special_cases(kind, norm, loss, cls):
    X, y, weights, ball, w, b = make_case(kind, norm, loss, 5, n=2, N=6)
    rows = Rows(X, y, weights=weights)
    oracle = cls(rows, loss, ball)
    empirical = rows.mean(loss.value(oracle.arguments(X @ w + b, y)))
    # Without a budget F is the empirical loss, and it grows with the budget.
    radii = [replace_ball(ball, radius=radius) for radius in (0.0, 1e-9, 0.05, 0.5, 50.0)]
    values = [value(cls, loss, X, y, weights, other, w, b) for other in radii]
    assert values[0] == pytest.approx(empirical, rel=1e-12)
    assert values[1] == pytest.approx(empirical, rel=1e-6)
    assert all(np.diff(values) >= -1e-9)
    # A dearer label helps the learner, and an unaffordable one never moves.
    costs = [replace_ball(ball, label_cost=cost) for cost in (0.2, 1.0, 10.0, 1e6, math.inf)]
    values = [value(cls, loss, X, y, weights, other, w, b) for other in costs]
    assert all(np.diff(values) <= 1e-9 * max(values))
    assert values[3] == pytest.approx(values[4], rel=1e-4)


@every_pair
def test_at_w_zero_no_move_pays(kind, norm, loss, cls):
    X, y, weights, ball, w, b = make_case(kind, norm, loss, 3, n=2, N=6)
    oracle = cls(Rows(X, y, weights=weights), loss, replace_ball(ball, label_cost=math.inf))
    here = oracle.evaluate(0 * w, b)
    empirical = oracle.rows.mean(loss.value(oracle.arguments(np.full(6, b), y)))
    assert here.value == pytest.approx(empirical, rel=1e-12)
    assert here.multiplier == 0.0
    assert np.isfinite(here.gradient).all()


def replace_ball(ball, **changes):
    fields = {"radius", "norm", "label_cost", "support"}
    return Ball(**{field: getattr(ball, field) for field in fields} | changes)


@every_pair
def test_weights_repeat_rows_and_order_means_nothing(kind, norm, loss, cls):
    X, y, _, ball, w, b = make_case(kind, norm, loss, 9, n=2, N=5)
    counts = np.array([1, 3, 0, 2, 1])
    weighted = cls(Rows(X, y, weights=counts), loss, ball).evaluate(w, b)
    index = np.repeat(np.arange(5), counts)[::-1]
    repeated = cls(Rows(X[index], y[index]), loss, ball).evaluate(w, b)
    near = 1e-8 if (norm, kind) == ("l2", "polyhedron") else 1e-12
    assert weighted.value == pytest.approx(repeated.value, rel=near)


# ---------------------------------------------------------------------- slopes
@every_pair
@pytest.mark.sampled(2)
def test_gradient_is_a_subgradient(kind, norm, loss, cls):
    slow = kind == "polyhedron"
    for seed in range(2 if slow else 5):
        X, y, weights, ball, w, b = make_case(kind, norm, loss, 30 + seed, n=2, N=6)
        oracle = cls(Rows(X, y, weights=weights), loss, ball)
        here = oracle.evaluate(w, b)
        assert_subgradient(
            lambda v, oracle=oracle: oracle.evaluate(v[:-1], float(v[-1])).value,
            np.append(w, b),
            np.append(here.gradient, here.intercept_gradient),
            np.random.default_rng(seed),
            distances=(1e-3, 1.0) if slow else (1e-3, 1e-1, 1.0, 10.0),
            trials=3,
            tol=1e-7 if slow and norm == "l2" else 1e-9,
        )


@pytest.mark.parametrize("cls", [L1BoxOracle, GainOracle])
@pytest.mark.parametrize("loss", PIECES.values(), ids=PIECES)
@pytest.mark.sampled(2)
def test_gradient_where_labels_move_and_the_box_binds(cls, loss):
    rng = np.random.default_rng(1)
    X, y = problems.rows(loss.task, rng, 40, 3)
    support = problems.box_around(rng, loss.task, X, y)
    binding = moving = 0
    for radius in (1.0, 1.5, 2.0, 3.0):
        oracle = cls(Rows(X, y), loss, Ball(radius, "l1", 0.4, support))
        for _ in range(2):
            x = rng.normal(size=4) * [4.0, 1.0, 0.3, 1.0]
            here = oracle.evaluate(x[:-1], float(x[-1]))
            binds = here.multiplier < loss.lipschitz * np.abs(x[:-1]).max()
            found = here.distribution()
            binding += binds
            moving += binds and (found.y != y[found.source]).any()
            assert_subgradient(
                lambda v, oracle=oracle: oracle.evaluate(v[:-1], float(v[-1])).value,
                x,
                np.append(here.gradient, here.intercept_gradient),
                rng,
                trials=6,
            )
    assert binding >= 2
    assert moving >= 2


@pytest.mark.parametrize(
    ("kind", "norm", "loss", "cls"), [pair for pair in PAIRS if pair[0] == "box"]
)
def test_gradient_at_the_floor(kind, norm, loss, cls):
    """Where a side is infinite the least price depends on w, and is often the best one."""
    at_floor = 0
    for seed in range(4):
        X, y, weights, ball, w, b = make_case(kind, norm, loss, 60 + seed, n=2, N=6, infinite=0.6)
        ball = replace_ball(ball, radius=3.0)
        oracle = cls(Rows(X, y, weights=weights), loss, ball)
        here = oracle.evaluate(w, b)
        more = cls(Rows(X, y, weights=weights), loss, replace_ball(ball, radius=30.0))
        at_floor += 0.0 < here.multiplier == more.evaluate(w, b).multiplier
        assert_subgradient(
            lambda v, oracle=oracle: oracle.evaluate(v[:-1], float(v[-1])).value,
            np.append(w, b),
            np.append(here.gradient, here.intercept_gradient),
            np.random.default_rng(seed),
            distances=(1e-2, 1.0),
            trials=4,
        )
    assert at_floor >= 1


@every_pair
@pytest.mark.sampled(2)
def test_f_is_convex(kind, norm, loss, cls):
    X, y, weights, ball, w, b = make_case(kind, norm, loss, 50, n=2, N=6)
    oracle = cls(Rows(X, y, weights=weights), loss, ball)
    assert_convex_on_segment(
        lambda v: oracle.evaluate(v[:-1], float(v[-1])).value,
        np.append(w, b),
        np.append(-2 * w + 1, -b),
        points=7,
        tol=1e-8,
    )


# ---------------------------------------------------------------------- distributions
@every_pair
@pytest.mark.sampled(2)
def test_distribution_is_feasible_and_reaches_the_value(kind, norm, loss, cls):
    for seed in range(3 if kind == "polyhedron" else 12):
        X, y, weights, ball, w, b = make_case(kind, norm, loss, 70 + seed)
        rows = Rows(X, y, weights=weights)
        oracle = cls(rows, loss, ball)
        here = oracle.evaluate(w, b)
        found = here.distribution()
        assert found.cost <= ball.radius * (1 + 1e-12)
        assert (found.mass > 0).all()
        shares = np.bincount(found.source, weights=found.mass, minlength=len(y))
        np.testing.assert_allclose(shares, rows.masses(np.arange(len(y))), rtol=1e-9)
        assert not ball.support.distance(found.x, found.y, 1e-7).any()
        if loss.task == "classification" or math.isinf(ball.label_cost):
            assert np.isin(found.y, [*y, *-y]).all()
        # Priced once more, from the definition.
        expected = found.mass @ loss.value(oracle.arguments(found.x @ w + b, found.y))
        assert expected == pytest.approx(found.expected_loss, rel=1e-12)
        moved = ball.norm(found.x - X[found.source])
        change = np.abs(found.y - y[found.source])
        change = np.sign(change) if loss.task == "classification" else change
        moved[change > 0] += ball.label_cost * change[change > 0]
        assert found.mass @ moved == pytest.approx(found.cost, rel=1e-9, abs=1e-12)
        short = here.value - found.expected_loss
        assert abs(short) <= max(found.tolerance, 1e-9 * max(1.0, here.value)), f"seed {seed}"
        assert found.attained == (found.tolerance == 0.0)


@pytest.mark.parametrize("cls", [L1BoxOracle, GainOracle])
def test_mass_escapes_where_a_side_is_infinite(cls):
    # All margins exceed 1: no row is on the slope of the hinge, and only a far row can be.
    loss, X, y = PIECES["hinge"], np.array([[3.0, 0.0], [-4.0, 0.0]]), np.array([1.0, -1.0])
    ball = Ball(0.5, "l1", support=Box([-math.inf, -1], [math.inf, 1]))
    here = cls(Rows(X, y), loss, ball).evaluate(np.array([1.0, 0.2]), 0.0)
    assert here.value == pytest.approx(0.5)
    found = here.distribution()
    assert not found.attained
    assert found.cost == pytest.approx(0.5)
    assert 0 < here.value - found.expected_loss <= found.tolerance <= 1e-6 * here.value
    assert np.abs(found.x).max() > 1e3


def test_identical_atoms_are_one():
    loss, (X, y) = PIECES["hinge"], problems.rows("classification", np.random.default_rng(2), 50)
    ball = Ball(0.05, "l1", support=problems.box_around(np.random.default_rng(2), loss.task, X, y))
    found = L1BoxOracle(Rows(X, y), loss, ball).evaluate(np.array([0.5, 0.3]), 0.0).distribution()
    atoms = np.column_stack([found.source, found.x, found.y])
    assert len(np.unique(atoms, axis=0)) == len(atoms) < 100


# ---------------------------------------------------------------------- containers and extras
@pytest.mark.parametrize("cls", [L1BoxOracle, GainOracle])
@pytest.mark.parametrize("loss", PIECES.values(), ids=PIECES)
def test_sparse_float32_and_scaled_rows(cls, loss):
    rng = np.random.default_rng(4)
    X, y = problems.rows(loss.task, rng, 60, 5)
    X *= rng.random(X.shape) < 0.6
    support = problems.box_around(rng, loss.task, X, y)
    ball, w = Ball(0.4, "l1", 2.0, support), rng.normal(size=5)
    dense = cls(Rows(X, y), loss, ball).evaluate(w, 0.2)
    shift, scale = rng.normal(size=5), rng.random(5) + 0.5
    for data, near, scaling in (
        (sparse.csr_array(X), 1e-12, {}),
        (X.astype(np.float32), 1e-5, {}),
        (sparse.csr_array(X).astype(np.float32), 1e-5, {}),
        (X * scale + shift, 1e-12, {"shift": shift, "scale": scale}),
    ):
        other = cls(Rows(data, y, **scaling), loss, ball).evaluate(w, 0.2)
        assert other.value == pytest.approx(dense.value, rel=near)
        np.testing.assert_allclose(other.gradient, dense.gradient, rtol=1e3 * near, atol=1e2 * near)


def test_a_missing_cone_solver_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "clarabel", None)
    X, y, weights, ball, w, b = make_case("polyhedron", "l2", PIECES["hinge"], 0)
    with pytest.raises(ImportError, match=r"needs Clarabel: pip install 'drfl\[oracle\]'"):
        value(GainOracle, PIECES["hinge"], X, y, weights, ball, w, b)


# ---------------------------------------------------------------------- the lifted view of a box
@pytest.mark.parametrize("loss", PIECES.values(), ids=PIECES)
def test_active_pieces_rebuild_f_and_bound_it_elsewhere(loss):
    rng = np.random.default_rng(11)
    X, y = problems.rows(loss.task, rng, 30, 3)
    box = Box(X.min(axis=0), X.max(axis=0) + 0.3)
    kappa = 4.0 if loss.task == "classification" else math.inf
    middle = np.add(*box.bounds(3)) / 2
    checked = 0
    for radius in (0.1, 0.4, 1.0):
        oracle = L1BoxOracle(Rows(X, y), loss, Ball(radius, "l1", kappa, box))
        w, b = rng.normal(size=3), 0.1
        parts = oracle.active(w, b)
        assert sum(part.weight for part in parts) == pytest.approx(1.0)

        def lifted(w, b, lam, parts=parts, radius=radius):
            """The cut's value at any model and price."""
            total = 0.0
            for part in parts:
                for i, a in enumerate(part.slope):
                    size = abs(a)
                    omega = np.clip(size * w, -lam, lam)
                    tau = (
                        np.maximum(size * np.abs(w) - lam, 0)
                        @ np.subtract(*box.bounds(3)[::-1])
                        / 2
                    )
                    line = a * (middle @ w + b) + np.sign(a) * omega @ (X[i] - middle) + tau
                    line += part.constant[i] - (kappa * lam if part.flipped[i] else 0.0)
                    total += part.weight * line / len(y)
            return radius * lam + total

        here = oracle.evaluate(w, b)
        assert lifted(w, b, here.multiplier) == pytest.approx(here.value, rel=1e-9)
        for _ in range(5):
            other, c = w + rng.normal(size=3), b + rng.normal()
            there = oracle.evaluate(other, c)
            assert lifted(other, c, there.multiplier) <= there.value + 1e-9
            checked += len(parts)
    assert checked >= 15


def test_nothing_is_active_where_the_box_plays_no_role():
    X, y = problems.rows("classification", np.random.default_rng(0), 20)
    box, w = Box(-9, 9), np.array([0.01, 0.0])
    assert L1BoxOracle(Rows(X, y), PIECES["hinge"], Ball(0.0, "l1", 1.0, box)).active(w, 0.0) == ()
    cheap = Ball(0.001, "l1", 0.01, box)
    oracle = L1BoxOracle(Rows(X, y), PIECES["hinge"], cheap)
    assert oracle.evaluate(w, 2.0).multiplier > 0.01
    assert oracle.active(w, 2.0) == ()


@pytest.mark.parametrize("client", [2, 3])
def test_slopes_of_two_sizes_in_a_half_open_box(client):
    """Where a column is open on one side the floor of the price depends on the slope's sign."""
    case = random_case(923)
    (X, y), ball = case.data[client], case.balls[client]
    assert ball.norm.name == "l1"
    w = np.array([-2.60956655e-06, -3.40525949e-09, 4.95707246e-07, -3.44213226e-07])
    given = {
        "loss": "pinball",
        "quantile": case.loss.quantile,
        "radius": ball.radius,
        "label_cost": ball.label_cost,
        "norm": "l1",
        "support": ball.support,
        "sample_weight": case.weights[client] if case.weights else None,
    }
    own, truth = drfl.worst_case_loss(X, y, w, **given), reference.worst_case_loss(X, y, w, **given)
    assert own.value == pytest.approx(truth, rel=1e-6)
