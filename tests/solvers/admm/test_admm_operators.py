"""The updates of Algorithm 1: each against a generic solver of the very argmin it claims."""

import math

import cvxpy as cp
import numpy as np
import pytest

from drfl.solvers.admm.ad_lpmm import (
    printed_constants,
    tight_constants,
    update_eta,
    update_gamma,
    update_t,
    update_w,
    update_z,
)

S, D, C = 5, 3, 0.7
DUAL = {1: math.inf, 2: 2, math.inf: 1}
CONSTANTS = [printed_constants, tight_constants]


class State:
    """Random values of everything that is fixed in an update."""

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.t, self.z, self.pi, self.zeta, self.sigma = rng.normal(size=(5, S))
        self.eta = np.maximum(rng.normal(size=S), 0.0)
        self.gamma = float(rng.normal())
        self.w_hat, self.psi = rng.normal(size=(2, S, D))
        self.center = rng.dirichlet(np.ones(S))


def argmin(objective, variable, constraints=()):
    problem = cp.Problem(cp.Minimize(objective), list(constraints))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return variable.value


def lagrangian(s, w, t, z, eta, gamma, theta, p):
    """The augmented Lagrangian of Appendix E without what depends on the clients' variables."""
    gap = t - z - gamma - eta
    return (
        s.center @ t
        + (theta * cp.norm(t, DUAL[p]) if theta else 0.0)
        - gamma
        + s.sigma @ gap
        + s.zeta @ (s.pi - z)
        + cp.sum(s.psi @ w)
        + C / 2 * cp.sum_squares(gap)
        + C / 2 * cp.sum_squares(s.pi - z)
        + C / 2 * cp.sum_squares(np.ones((S, 1)) @ cp.reshape(w, (1, D), order="C") - s.w_hat)
    )


def steep(A, c, constant):
    """The matrix of the proximal term, c' I - c A'A."""
    G = constant * np.eye(A.shape[1]) - c * A.T @ A
    return cp.psd_wrap(G)


A1 = np.hstack([np.eye(S), -np.eye(S)])
A2 = np.hstack([-np.ones((S, 1)), -np.eye(S)])


@pytest.mark.parametrize("constants", CONSTANTS)
@pytest.mark.parametrize("p", DUAL)
@pytest.mark.parametrize("theta", [0.0, 0.3, 2.0])
def test_the_first_group_minimises_the_lagrangian_and_its_proximal_term(p, theta, constants):
    # One problem for (w, t, z), as the paper states it before taking it apart.
    s = State(int(10 * theta) + 1)
    c1, _ = constants(C, S)
    w, v = cp.Variable(D), cp.Variable(2 * S)
    t, z = v[:S], v[S:]
    away = v - np.concatenate([s.t, s.z])
    objective = lagrangian(s, w, t, z, s.eta, s.gamma, theta, p)
    found = argmin(objective + cp.quad_form(away, steep(A1, C, c1)) / 2, v)
    np.testing.assert_allclose(update_w(s.w_hat, s.psi, C), w.value, atol=1e-6)
    got = update_t(s.t, s.z, s.eta, s.gamma, s.sigma, s.center, theta, p, C, c1)
    np.testing.assert_allclose(got, found[:S], atol=1e-6)
    got = update_z(s.t, s.z, s.eta, s.gamma, s.pi, s.zeta, s.sigma, C, c1)
    np.testing.assert_allclose(got, found[S:], atol=1e-6)


@pytest.mark.parametrize("constants", CONSTANTS)
@pytest.mark.parametrize("seed", range(3))
def test_the_second_group_minimises_the_lagrangian_and_its_proximal_term(seed, constants):
    s = State(seed)
    _, c2 = constants(C, S)
    v = cp.Variable(1 + S)
    gamma, eta = v[0], v[1:]
    away = v - np.append(s.gamma, s.eta)
    objective = lagrangian(s, cp.Constant(np.zeros(D)), s.t, s.z, eta, gamma, 0.0, 1)
    found = argmin(objective + cp.quad_form(away, steep(A2, C, c2)) / 2, v, [eta >= 0])
    got = update_gamma(s.t, s.z, s.eta, s.gamma, s.sigma, C, c2)
    np.testing.assert_allclose(got, found[0], atol=1e-6)
    got = update_eta(s.t, s.z, s.eta, s.gamma, s.sigma, C, c2)
    np.testing.assert_allclose(got, found[1:], atol=1e-6)
    assert (got >= 0.0).all()
    assert (got == 0.0).any()


# ---------------------------------------------------------------------------- single argmins
def test_w_minimises_what_equation_operator_w_says():
    s, w = State(7), cp.Variable(D)
    objective = sum(s.psi[k] @ w + C / 2 * cp.sum_squares(w - s.w_hat[k]) for k in range(S))
    np.testing.assert_allclose(update_w(s.w_hat, s.psi, C), argmin(objective, w), atol=1e-7)
    # One ball around the mixture: its multiplier is the last entry of w and costs the radius.
    price = np.array([0.0, 0.0, 0.4])
    priced = argmin(objective + price @ w, w)
    np.testing.assert_allclose(update_w(s.w_hat, s.psi, C, price), priced, atol=1e-7)


@pytest.mark.parametrize("p", DUAL)
def test_t_is_the_prox_of_the_dual_norm(p):
    # Entries of both signs: the soft threshold acts on absolute values.
    s, t, c1, theta = State(3), cp.Variable(S), 2 * C, 0.8
    r = s.t - s.z - s.gamma - s.eta
    objective = (s.center + s.sigma + C * r) @ t + theta * cp.norm(t, DUAL[p])
    expected = argmin(objective + c1 / 2 * cp.sum_squares(t - s.t), t)
    got = update_t(s.t, s.z, s.eta, s.gamma, s.sigma, s.center, theta, p, C, c1)
    np.testing.assert_allclose(got, expected, atol=1e-7)
    assert got.min() < 0.0 < got.max()


def test_the_printed_formulas_are_those_of_the_text():
    # c' = c'' = 2Sc put in: equations operator_z, operator_t, operator_eta, operator_gamma.
    s, (c1, c2) = State(11), printed_constants(C, S)
    r = s.t - s.z - s.gamma - s.eta
    z = (s.pi + r + 2 * S * s.z + (s.zeta + s.sigma) / C) / (1 + 2 * S)
    got = update_z(s.t, s.z, s.eta, s.gamma, s.pi, s.zeta, s.sigma, C, c1)
    np.testing.assert_allclose(got, z, rtol=1e-12)
    u = s.t - (s.center + s.sigma + C * r) / (2 * S * C)
    theta, scaled = 0.4, 2 * S * C / 0.4 * u
    t = u - theta / (2 * S * C) * scaled / max(np.linalg.norm(scaled), 1.0)
    got = update_t(s.t, s.z, s.eta, s.gamma, s.sigma, s.center, theta, 2, C, c1)
    np.testing.assert_allclose(got, t, rtol=1e-12)
    eta = np.maximum(s.eta + (s.sigma / C - s.gamma - s.eta + s.t - s.z) / (2 * S), 0.0)
    got = update_eta(s.t, s.z, s.eta, s.gamma, s.sigma, C, c2)
    np.testing.assert_allclose(got, eta, rtol=1e-12, atol=1e-15)
    rise = 1 + s.sigma.sum() + C * (s.t - s.z - s.gamma - s.eta).sum()
    got = update_gamma(s.t, s.z, s.eta, s.gamma, s.sigma, C, c2)
    np.testing.assert_allclose(got, s.gamma + rise / (2 * S * C), rtol=1e-12)


def test_without_a_radius_t_is_u():
    s, c1 = State(2), 2 * C
    u = s.t - (s.center + s.sigma + C * (s.t - s.z - s.gamma - s.eta)) / c1
    got = update_t(s.t, s.z, s.eta, s.gamma, s.sigma, s.center, 0.0, 1, C, c1)
    np.testing.assert_array_equal(got, u)
    near = update_t(s.t, s.z, s.eta, s.gamma, s.sigma, s.center, 1e-12, 1, C, c1)
    np.testing.assert_allclose(near, u, atol=1e-11)


@pytest.mark.parametrize("size", [1, 2, 10, 50])
def test_the_tight_constants_are_the_largest_eigenvalues(size):
    A1 = np.hstack([np.eye(size), -np.eye(size)])
    A2 = np.hstack([-np.ones((size, 1)), -np.eye(size)])
    largest = [np.linalg.eigvalsh(A.T @ A)[-1] for A in (A1, A2)]
    np.testing.assert_allclose(largest, [2.0, size + 1.0], rtol=1e-12)
    np.testing.assert_allclose(tight_constants(C, size), C * np.array(largest), rtol=1e-12)
    # The printed constants make the proximal terms convex too, with much to spare.
    assert (np.array(printed_constants(C, size)) >= C * np.array(largest) - 1e-12).all()
