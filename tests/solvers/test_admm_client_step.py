"""The client step is the projection onto the epigraph of F: KKT conditions, and the paper's QP."""

import math
from itertools import product

import cvxpy as cp
import numpy as np
import pytest

from drfl import Ball, Box
from drfl.losses import LOSSES, make_loss
from drfl.reference.clients import make_client
from drfl.reference.programs import client_program
from drfl.rows import Rows
from drfl.solvers.admm.client_step import ClientStep
from drfl.worst_case import make_oracle
from kit.checks import assert_subgradient
from kit.problems import box_around, polyhedron_around, rows

NORMS = ("l1", "l2", "linf")


def _supports(loss, norm):
    return ["whole"] + ["box"] * (bool(make_loss(loss).pieces) or norm == "l1")


TRIPLES = [(loss, n, place) for loss, n in product(LOSSES, NORMS) for place in _supports(loss, n)]
POLYHEDRA = [(loss, norm) for loss, norm in product(LOSSES, NORMS) if make_loss(loss).pieces]
KAPPAS = (math.inf, 2.0, 0.3)


def oracle_of(loss, norm, place, kappa, *, rho=0.1, N=30, n=3, seed=0, weights=None):
    rng = np.random.default_rng([seed, N, n])
    loss = make_loss(loss)
    X, y = rows(loss.task, rng, N=N, n=n)
    if place == "polyhedron":
        support = polyhedron_around(rng, loss.task, X, y)
    else:
        support = box_around(rng, loss.task, X, y) if place == "box" else None
    return make_oracle(Rows(X, y, weights=weights), loss, Ball(rho, norm, kappa, support))


def value_of(oracle, d):
    n = oracle.rows.n_features
    return lambda x: oracle.evaluate(x[:n], float(x[n]) if d > n else 0.0).value


def assert_projection(oracle, a, e, found, stiffness=1.0, tol=1e-7, trials=6):
    """p >= F(v), complementarity, and w(a-v) = (p-e) g for a subgradient g of F at v."""
    F = value_of(oracle, len(a))
    here = F(found.v)
    scale = max(1.0, abs(here), abs(e))
    assert found.value >= here - 1e-10 * scale, "the point is below the graph"
    q = found.value - e
    assert q >= 0.0
    if q <= 1e-12 * scale:  # (a, e) is in the epigraph
        np.testing.assert_allclose(found.v, a, atol=1e-9)
        assert here <= e + 1e-10 * scale
        return
    assert abs(found.value - here) <= 1e-8 * q, "above the graph in spite of a price"
    g = stiffness * (a - found.v) / q
    rng = np.random.default_rng(0)
    assert_subgradient(F, found.v, g, rng, distances=(1e-3, 0.1, 5.0), tol=tol, trials=trials)


# ---------------------------------------------------------------------------- KKT conditions
@pytest.mark.parametrize(("loss", "norm", "place"), TRIPLES)
def test_kkt_for_every_loss_norm_and_support(loss, norm, place):
    for k, kappa in enumerate(KAPPAS):
        oracle = oracle_of(loss, norm, place, kappa, n=2 + k % 2)
        d = oracle.rows.n_features + (k != 1)
        step, rng = ClientStep(oracle, d), np.random.default_rng(k)
        a = rng.normal(size=d)
        F = value_of(oracle, d)(a)
        for move, drop, stiffness in ((0.0, 1.0, 1.0), (0.3, 0.1, 0.05), (0.3, 3.0, 20.0)):
            a = a + move * rng.normal(size=d)
            found = step.project(a, F - drop, stiffness)
            assert_projection(oracle, a, F - drop, found, stiffness)
            assert found.gap <= 1e-12


@pytest.mark.parametrize(("loss", "norm"), POLYHEDRA)
def test_kkt_on_polyhedra(loss, norm):
    # One linear program per row and price: a small case each.
    kappa = KAPPAS[POLYHEDRA.index((loss, norm)) % 3]
    oracle = oracle_of(loss, norm, "polyhedron", kappa, N=5, n=2)
    a = np.array([1.0, -0.7, 0.2])
    e = value_of(oracle, 3)(a) - 0.5
    found = ClientStep(oracle, 3).project(a, e, 0.5)
    assert_projection(oracle, a, e, found, 0.5, trials=3)
    assert found.gap <= 1e-12


@pytest.mark.parametrize("loss", LOSSES)
def test_kkt_without_a_budget(loss):
    oracle = oracle_of(loss, "l1", "whole", 1.0, rho=0.0)
    a = np.array([1.0, -2.0, 0.5, 0.1])
    found = ClientStep(oracle, 4).project(a, 0.0)
    assert_projection(oracle, a, 0.0, found)


def test_kkt_with_weighted_rows():
    weights = np.random.default_rng(4).random(30) * (np.arange(30) % 3 > 0)
    for place in ("whole", "box"):
        oracle = oracle_of("hinge", "l1", place, 0.5, weights=weights)
        a = np.array([1.0, -2.0, 0.5, 0.1])
        assert_projection(oracle, a, 0.1, ClientStep(oracle, 4).project(a, 0.1))


@pytest.mark.parametrize("unit", [1e-4, 1e4])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_units_do_not_matter(loss, unit):
    # Features in other units: the model scales, with the stiffness, and nothing else changes.
    rng = np.random.default_rng(5)
    X, y = rows("classification", rng, N=40, n=3)
    plain = make_oracle(Rows(X, y), make_loss(loss), Ball(0.1, "l1", 1.0))
    other = make_oracle(Rows(unit * X, y), make_loss(loss), Ball(unit * 0.1, "l1", unit))
    a = rng.normal(size=3)
    one = ClientStep(plain, 3).project(a, 0.2)
    two = ClientStep(other, 3).project(a / unit, 0.2, unit**2)
    np.testing.assert_allclose(unit * two.v, one.v, atol=1e-6)
    np.testing.assert_allclose(two.value, one.value, atol=1e-7)


def test_a_point_of_the_epigraph_stays():
    oracle = oracle_of("hinge", "l1", "whole", 1.0)
    a = np.array([1.0, -2.0, 0.5, 0.1])
    F = value_of(oracle, 4)(a)
    for e in (F, F + 1.0):
        found = ClientStep(oracle, 4).project(a, e)
        np.testing.assert_allclose(found.v, a, atol=1e-9)
        np.testing.assert_allclose(found.value, e, rtol=1e-12)


# ---------------------------------------------------------------------------- warm starts
@pytest.mark.parametrize(
    ("loss", "norm", "place"),
    [("hinge", "l1", "box"), ("hinge", "l2", "whole"), ("logistic", "linf", "whole")],
)
def test_warm_starts_change_time_only(loss, norm, place):
    oracle, rng = oracle_of(loss, norm, place, 2.0, N=200, n=5), np.random.default_rng(1)
    warm, a, e = ClientStep(oracle, 6), rng.normal(size=6), 0.2
    passes = np.zeros(2)
    for _ in range(12):
        a, e = a + 0.01 * rng.normal(size=6), e + 0.001 * rng.normal()
        one, other = warm.project(a, e), ClientStep(oracle, 6).project(a, e)
        np.testing.assert_allclose(one.v, other.v, atol=2e-6)
        np.testing.assert_allclose(one.value, other.value, atol=1e-8)
        passes += one.passes, other.passes
    assert passes[0] < 0.7 * passes[1]


def test_old_cuts_are_forgotten():
    oracle, rng = oracle_of("hinge", "l1", "whole", 2.0, N=200, n=5), np.random.default_rng(1)
    step = ClientStep(oracle, 6)
    for _ in range(40):
        step.project(3.0 * rng.normal(size=6), 0.1)
    assert len(step.right) < 120


def test_one_pass_suffices_where_nothing_changed():
    oracle = oracle_of("hinge", "l1", "box", 2.0, N=100, n=4)
    step, a = ClientStep(oracle, 5), np.array([1.0, -1.0, 0.5, 0.0, 0.2])
    assert step.project(a, 0.1).passes > 1
    assert step.project(a, 0.1).passes == 1


# ---------------------------------------------------------------------------- the paper's QP
@pytest.mark.parametrize("place", ["whole", "box", "polyhedron"])
@pytest.mark.parametrize(("loss", "kappa"), [("hinge", 1.0), ("epsilon_insensitive", 2.0)])
def test_it_is_the_papers_program(loss, kappa, place):
    r"""min zeta pi - psi'w_hat + c/2 |w-w_hat|^2 + c/2 (pi-z)^2 over Omega_s, by Clarabel."""
    oracle = oracle_of(loss, "l1", place, kappa, N=12, n=2, seed=3)
    rng, c = np.random.default_rng(8), 0.3
    w, psi, z, zeta = rng.normal(size=2), 0.2 * rng.normal(size=2), 0.4, 0.15
    client = make_client(
        oracle.loss, oracle.rows.X, oracle.rows.y, None, 0.1, kappa, "l1", oracle.ball.support
    )
    w_hat = cp.Variable(2)
    pi, constraints = client_program(client, oracle.loss, w_hat, 0.0, "paper")
    objective = zeta * pi - psi @ w_hat + c / 2 * cp.sum_squares(w - w_hat)
    objective += c / 2 * cp.square(pi - z)
    cp.Problem(cp.Minimize(objective), constraints).solve(solver="CLARABEL")
    found = ClientStep(oracle, 2).project(w + psi / c, z - zeta / c)
    np.testing.assert_allclose(found.v, w_hat.value, atol=1e-5)
    np.testing.assert_allclose(found.value, pi.value, atol=1e-6)


# ---------------------------------------------------------------------------- frames
@pytest.mark.parametrize(("loss", "norm", "place"), TRIPLES)
def test_cuts_of_a_frame_are_valid_and_tight(loss, norm, place):
    oracle = oracle_of(loss, norm, place, 0.8, N=8, n=2)
    step, F, rng = ClientStep(oracle, 3), value_of(oracle, 3), np.random.default_rng(2)
    frame = step.frame
    touches = [frame.touch(frame.start(rng.normal(size=3))) for _ in range(10)]
    for _ in range(10):
        x = 2.0 * rng.normal(size=3)
        y = frame.start(x)
        y[3] = frame.touch(y).value
        assert y[3] >= F(x) - 1e-9
        assert (frame.A @ y <= frame.b + 1e-9).all(), "the start violates the exact rows"
        for touch in touches:
            assert (touch.rows @ y <= touch.right + 1e-9).all(), "a cut is above F"
        # The frame's minimum over its extra variables is F: project from far below.
        found = step.project(x, F(x) - 1.0, 1e8)
        np.testing.assert_allclose(found.value, F(x), atol=1e-5)


def test_a_box_frame_knows_the_price_of_the_oracle():
    # At the optimal multiplier the value is F itself: the box binds in this case.
    rng = np.random.default_rng(0)
    X, y = rows("classification", rng, N=60, n=4)
    X = np.clip(X, -1.0, 1.0)
    oracle = make_oracle(Rows(X, y), make_loss("hinge"), Ball(0.3, "l1", math.inf, Box(-1.0, 1.0)))
    frame = ClientStep(oracle, 4).frame
    bound = 0
    for _ in range(20):
        w = 2.0 * rng.normal(size=4)
        worst = oracle.evaluate(w, 0.0)
        point = frame.start(w)
        point[frame.lam] = worst.multiplier
        np.testing.assert_allclose(frame.touch(point).value, worst.value, rtol=1e-10)
        bound += worst.multiplier < np.abs(w).max() - 1e-9
    assert bound >= 5
