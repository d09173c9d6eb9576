"""The client step is the projection onto the epigraph of F: KKT conditions, and the paper's QP."""

from itertools import product

import cvxpy as cp
import numpy as np
import pytest
from admm_kit import KAPPAS, NORMS, POLYHEDRA, TRIPLES, assert_projection, oracle_of, value_of

from drfl import Ball, Box
from drfl.losses import LOSSES, make_loss
from drfl.reference.client_rows import make_client
from drfl.reference.programs import client_program
from drfl.rows import Rows
from drfl.solvers.admm.client_step import ClientStep, CuttingPlanes
from drfl.worst_case import make_oracle
from drfl.worst_case.gains import GainOracle
from kit.problems import rows


# ---------------------------------------------------------------------------- KKT conditions
@pytest.mark.parametrize(("loss", "norm", "place"), TRIPLES)
@pytest.mark.sampled(2)
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
@pytest.mark.sampled(2)
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


def test_a_distance_that_is_rounding_has_no_good_unit_and_ends(monkeypatch):
    X = 1e4 * np.array([[-5.0], [6.0], [-17.0], [7.7], [-8.4], [-4.2]])
    y = np.array([-1.0, 1.0, -1.0, 1.0, -1.0, -1.0])
    ball = Ball(2e5, "linf", 1e4, Box(-1.1e6, 8.6e4))
    step, tried = ClientStep(make_oracle(Rows(X, y), make_loss("hinge"), ball), 2), []
    rescale = CuttingPlanes._rescale

    def counted(self, factor):
        tried.append(factor)
        assert len(tried) < 1000  # it went on for ever
        rescale(self, factor)

    monkeypatch.setattr(CuttingPlanes, "_rescale", counted)
    a, e = np.array([-8.9e-22, 3.1e-14]), 1.0 + 4e-15
    found = step.project(a, e, 3e9)
    assert found.value == pytest.approx(1.0, abs=1e-12)
    assert np.abs(found.v).max() <= 1e-12


@pytest.mark.parametrize("loss", [name for name in LOSSES if make_loss(name).task == "regression"])
def test_kkt_where_targets_may_go_anywhere(loss):
    # The price then has a floor that does not depend on w.
    rng, loss = np.random.default_rng(6), make_loss(loss)
    X, y = rows("regression", rng, N=30, n=3)
    box = Box(X.min(axis=0), X.max(axis=0))
    oracle = make_oracle(Rows(X, y), loss, Ball(0.1, "l1", 1.0, box))
    step, F = ClientStep(oracle, 3), value_of(oracle, 3)
    for a in (np.zeros(3), np.array([0.1, 0.0, -0.1]), np.array([2.0, -1.0, 0.5])):
        found = step.project(a, F(a) - 0.4)
        assert_projection(oracle, a, F(a) - 0.4, found)
        assert found.gap <= 1e-12


# ---------------------------------------------------------------------------- a shared price
@pytest.mark.parametrize("place", ["whole", "box"])
@pytest.mark.parametrize(("loss", "norm"), [*product(("hinge", "pinball"), NORMS), ("huber", "l1")])
def test_kkt_where_the_multiplier_is_everybodys(loss, norm, place):
    r"""x = (w, lambda), F the mean of the rows' suprema: infinite below the least price."""
    kappa = 0.8
    oracle = oracle_of(loss, norm, place, kappa)
    step, rng = ClientStep(oracle, 4, shared=True), np.random.default_rng(3)

    def least(x):
        floor = 0.0 if oracle.is_margin else 1.0 / kappa
        return max(oracle.ball.norm.dual(x[:3]), floor) if place == "whole" else 0.0

    def value(x):
        if x[3] < least(x) - 1e-12:
            return 1e300
        if place == "whole":
            z = oracle.arguments(oracle.rows.scores(x[:3], 0.0), oracle.rows.y)
            here, there = oracle.loss.value(z), oracle.loss.value(-z) - kappa * x[3]
            return float((np.maximum(here, there) if oracle.is_margin else here).mean())
        at = GainOracle(oracle.rows, oracle.loss, oracle.ball).at_price(x[:3], 0.0, float(x[3]))
        return at.value - oracle.ball.radius * float(x[3])

    for lam, stiffness in ((2.5, 1.0), (0.1, 1.0), (-0.5, 0.3)):  # the last ones are infeasible
        a = np.append(rng.normal(size=3), lam)
        feasible = np.append(a[:3], max(lam, least(a)))
        e = value(feasible) - 0.3
        found = step.project(a, e, stiffness)
        assert found.v[3] >= least(found.v) - 1e-12
        assert found.value == pytest.approx(max(value(found.v), e), abs=1e-9)
        assert found.gap <= 1e-12
        # Nothing else in the epigraph is nearer.
        best = stiffness * ((found.v - a) ** 2).sum() + (found.value - e) ** 2
        for size in (1e-4, 1e-2, 0.3):
            for move in rng.normal(size=(30, 4)):
                x = found.v + size * move
                x[3] = max(x[3], least(x), 0.0)
                other = stiffness * ((x - a) ** 2).sum() + max(value(x) - e, 0.0) ** 2
                assert other >= best - 1e-9


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
