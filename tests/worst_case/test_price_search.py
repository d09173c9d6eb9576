"""The search for lambda: tangents of a convex function, passes over many rows, shared bases."""

import math
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

from drfl.losses import make_loss
from drfl.rows import Rows
from drfl.supports import Box
from drfl.uncertainty import Ball
from drfl.worst_case.boxes.box_moves import BoxMoves
from drfl.worst_case.boxes.l1_box import L1BoxOracle
from drfl.worst_case.gains import GainOracle
from drfl.worst_case.polyhedron_moves import Vertices
from drfl.worst_case.price_search import Tangent, cut, minimise
from kit import problems
from kit.checks import assert_subgradient

LOSSES = [
    make_loss("hinge"),
    make_loss("epsilon_insensitive", epsilon=0.2),
    make_loss("pinball", quantile=0.3),
]


# ---------------------------------------------------------------------- one variable
def tangents(f, slope):
    """A function of lambda whose tangents have its value as gradient; counts its calls."""
    calls = []

    def phi(lam):
        calls.append(lam)
        return Tangent(lam, f(lam), slope(lam), np.array([f(lam)]), slope(lam))

    return phi, calls


def largest(*lines):
    """The maximum of lines (slope, constant), and one of its slopes."""
    return (
        lambda t: max(a * t + c for a, c in lines),
        lambda t: max(lines, key=lambda line: line[0] * t + line[1])[0],
    )


@pytest.mark.parametrize(
    ("f", "slope", "least", "at_most"),
    [
        (*largest((-1, 0.3), (1, -0.3)), 0.0, 4),
        (*largest((-5, 1), (1, 0), (2, -0.5)), 1 / 6, 6),
        (*largest((-1e6, 2e5), (1, 0)), 0.2 / (1 + 1e-6), 6),
        (*largest(*((k - 9.5, -((k - 9) ** 2) / 4) for k in range(20))), -0.125, 12),
        (lambda t: (t - 0.3) ** 2 + 1, lambda t: 2 * (t - 0.3), 1.0, 12),
        (lambda t: math.exp(t) - 2 * t, lambda t: math.exp(t) - 2, 2 - 2 * math.log(2), 16),
    ],
)
def test_minimise_finds_kinks_and_smooth_minima(f, slope, least, at_most):
    phi, calls = tangents(f, slope)
    found = cut(minimise(phi, 0.0, 2.0), 0.0, np.zeros(1))
    assert found.value == pytest.approx(least, rel=1e-12, abs=1e-15)
    assert len(calls) <= at_most


def test_weights_cancel_the_slopes():
    phi, _ = tangents(lambda t: max(1 - 3 * t, t), lambda t: -3.0 if t < 0.25 else 1.0)
    (theta, low), (rest, high) = minimise(phi, 0.0, 1.0)
    assert theta + rest == 1.0
    assert theta * low.slope + rest * high.slope == pytest.approx(0.0, abs=1e-15)
    assert theta == pytest.approx(0.25)


def test_at_the_floor_what_is_left_of_the_slope_joins_the_gradient():
    phi, calls = tangents(lambda t: 2 * t, lambda t: 2.0)
    bracket = minimise(phi, 0.5, 3.0)
    assert calls == [0.5]
    assert cut(bracket, 0.5, np.array([10.0])).gradient == pytest.approx([1.0 + 2 * 10.0])
    # Just above the floor the tangent counts at the floor.
    assert cut(bracket, 0.4, np.array([10.0])).value == pytest.approx(0.8)


def test_guesses_save_passes_and_wrong_ones_do_no_harm():
    f, slope = lambda t: math.cosh(3 * (t - 0.7)), lambda t: 3 * math.sinh(3 * (t - 0.7))
    for near in ((0.7 - 1e-8, 0.7 + 1e-8), (0.1, 0.2), (1.5, 1.8), ()):
        phi, calls = tangents(f, slope)
        assert cut(minimise(phi, 0.0, 2.0, near=near), 0.0, np.zeros(1)).value == pytest.approx(1.0)
        assert len(calls) <= (3 if near and near[0] > 0.69 and near[0] < 0.7 else 30)


# ---------------------------------------------------------------------- many rows
def large_case(seed, loss, monkeypatch):
    """Thousands of rows in blocks of 64, so that a sample of the blocks is looked at first."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    monkeypatch.setattr("drfl.rows.operator.BLOCK_ELEMENTS", 64 * n)
    X, y = problems.rows(loss.task, rng, 1400, n)
    if seed % 3 == 0:  # sorted rows: the sample must be spread
        order = np.argsort(y)
        X, y = X[order], y[order]
    support = problems.box_around(rng, loss.task, X, y, infinite=0.2 if seed % 2 else 0.0)
    radius = float(rng.choice([0.001, 0.05, 0.5, 2.0, 9.0]))
    kappa = float(rng.choice([0.3, 2.0, math.inf]))
    rows = Rows(X, y, weights=rng.random(len(y)) if seed % 2 else None)
    return rows, Ball(radius, "l1", kappa, support), rng.normal(size=n), float(rng.normal())


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("kept", [5, 50_000])
@pytest.mark.sampled(4)
def test_passes_over_many_rows_agree_with_single_gains(loss, kept, monkeypatch):
    # With few undecided rows kept the search goes on with passes between breakpoints.
    monkeypatch.setattr("drfl.worst_case.boxes.l1_search.ALWAYS_KEPT", kept)
    if kept == 5:
        monkeypatch.setattr("drfl.worst_case.boxes.l1_search.LARGEST_SHARE", 0.0)
    for seed in range(5):
        rows, ball, w, b = large_case(seed, loss, monkeypatch)
        oracle = L1BoxOracle(rows, loss, ball)
        got, truth = oracle.evaluate(w, b), GainOracle(rows, loss, ball).evaluate(w, b)
        assert got.value == pytest.approx(truth.value, rel=1e-11), f"seed {seed}"
        if seed == 1:
            assert_subgradient(
                lambda v, oracle=oracle: oracle.evaluate(v[:-1], float(v[-1])).value,
                np.append(w, b),
                np.append(got.gradient, got.intercept_gradient),
                np.random.default_rng(seed),
                trials=2,
            )


def test_a_minimum_between_breakpoints_is_exact():
    # Breakpoints 0, .1 and 3, and small kinks of single rows between them.
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 2))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=300) > 0, 1.0, -1.0)
    loss, w, b = make_loss("hinge"), np.array([3.0, 0.1]), 0.2
    interior = 0
    for radius in (0.4, 0.5, 0.6, 0.7, 0.8):
        oracle = L1BoxOracle(Rows(X, y), loss, Ball(radius, "l1", support=Box(-1, 1)))
        here = oracle.evaluate(w, b)
        interior += 0.1 < here.multiplier < 3.0
        # Prices around it are no better: phi by the formula, row by row.
        for lam in here.multiplier * np.array([1 - 1e-6, 1.0, 1 + 1e-6]):
            omega = np.minimum(w, lam)
            phi = radius * lam + np.maximum(0, 1 + (w - omega).sum() - y * (X @ omega + b)).mean()
            assert here.value <= phi + 1e-13
            assert phi == pytest.approx(here.value, rel=1e-5)
        assert_subgradient(
            lambda v, oracle=oracle: oracle.evaluate(v[:2], float(v[2])).value,
            np.append(w, b),
            np.append(here.gradient, here.intercept_gradient),
            rng,
            trials=10,
        )
        found = here.distribution()
        assert found.cost <= radius * (1 + 1e-12)
        assert found.expected_loss == pytest.approx(here.value, rel=1e-9)
    assert interior >= 3


def test_sparse_rows_take_the_same_passes(monkeypatch):
    loss = LOSSES[0]
    monkeypatch.setattr("drfl.rows.operator.BLOCK_ELEMENTS", 1)
    rng = np.random.default_rng(5)
    X = rng.normal(size=(2000, 30)) * (rng.random((2000, 30)) < 0.2)
    y = np.where(X @ rng.normal(size=30) > 0, 1.0, -1.0)
    ball, w = Ball(0.8, "l1", 3.0, Box(X.min(), X.max())), 0.3 * rng.normal(size=30)
    dense = L1BoxOracle(Rows(X, y), loss, ball).evaluate(w, 0.1)
    other = L1BoxOracle(Rows(sparse.csr_array(X), y), loss, ball).evaluate(w, 0.1)
    assert other.value == pytest.approx(dense.value, rel=1e-13)
    np.testing.assert_allclose(other.gradient, dense.gradient, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("radius", [0.4, 1.2])
def test_memory_stays_below_four_vectors(radius):
    N, n = 300_000, 8
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (N, n))
    w = np.array([1.0, 0.7, 0.4, 0.2, 0.0, 0.0, 0.0, 0.0])
    y = np.where(X @ w + 0.5 * rng.normal(size=N) > 0, 1.0, -1.0)
    oracle = L1BoxOracle(Rows(X, y), LOSSES[0], Ball(radius, "l1", support=Box(-1, 1)))
    tracemalloc.start()
    oracle.evaluate(w, 0.1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    block = 8 * 400_000
    assert peak < 4 * 8 * N + block


# ---------------------------------------------------------------------- programs that share bases
def test_shared_bases_solve_every_program():
    rng = np.random.default_rng(8)
    M = np.vstack([rng.normal(size=(6, 5)), np.eye(5)])  # bounded by v <= r
    vertices = Vertices(M)
    for _ in range(4):
        c = rng.normal(size=5)
        right = rng.random((40, 11)) * rng.integers(0, 2, (40, 11))  # many degenerate ones
        v = vertices.maximise(c, right)
        assert (v >= 0).all()
        assert (v @ M.T <= right + 1e-9).all()
        truth = [-linprog(-c, M, r, method="highs").fun for r in right]
        np.testing.assert_allclose(v @ c, truth, atol=1e-9)
    assert 0 < len(vertices.bases) < 160


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_box_steps_maximise_the_gain(norm):
    rng = np.random.default_rng(6)
    w, x = rng.normal(size=3), rng.uniform(-1, 1, (200, 3))
    x[::5] = np.clip(2 * x[::5], -1, 1)  # some on faces
    ball = Ball(1.0, norm, support=Box([-1, -1, -1], [1, 1, 1]))
    moves, sigma = BoxMoves(LOSSES[0], ball, w), rng.choice([-1.0, 1.0], 200)
    for lam in np.array([0.0, 0.3, 0.7, 0.95]) * ball.norm.dual(w):
        dx, _ = moves.best_step(x, sigma, sigma, 1.0, lam)
        gain = sigma * (dx @ w) - lam * ball.norm(dx)
        assert (np.abs(x + dx) <= 1 + 1e-12).all()
        assert (gain >= -1e-12).all()
        for _ in range(300):  # any other point of the box is no better; neither is one nearby
            to = rng.uniform(-1, 1, x.shape) if rng.random() < 0.5 else x + dx
            to = np.clip(to + 0.05 * rng.normal(size=x.shape), -1, 1)
            other = sigma * ((to - x) @ w) - lam * ball.norm(to - x)
            assert (other <= gain + 1e-12).all()
