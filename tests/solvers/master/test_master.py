"""The master problem against cvxpy: the set Q, the norms, groups, boxes, units, refinements."""

import math
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from drfl import Mixture
from drfl.gauges import DualNorm
from drfl.norms import make_norm
from drfl.reference.programs import minimise, mixture_program
from drfl.solvers.certificate.cuts import Pool
from drfl.solvers.certificate.server import ServerProblem
from drfl.solvers.master import qp
from drfl.solvers.master.master import Master
from drfl.solvers.master.qp import Builder
from kit.pools import family_cuts

S, n, INF = 3, 4, math.inf
NORMS = {"l1": "inf", "l2": 2, "linf": 1}


def _terms(kind="norm", norm="l1", theta=0.3, p=1, intercept=True, unit=1.0, floor=0.0, rho=None):
    return ServerProblem(
        n=n,
        dimension=n + intercept,
        kind=kind,
        rho=np.array([0.1, 0.3, 0.2]) if rho is None else rho,
        floor=np.full(S, floor),
        gauge=DualNorm(make_norm(norm), n),
        mixture=Mixture((0.5, 0.3, 0.2), theta, p),
        half=np.array([0.5, 1.0, 2.0, 0.1]) * np.ones((S, 1))
        if kind == "box"
        else np.zeros((S, n)),
        unit=unit,
    )


def _pool(terms, rng, points=6, groups=(1, 3), scale=1.0):
    """Cuts of a random convex function: tangents of mean |a'x - t| losses, groups included."""
    d, lifted = terms.dimension, n + 1 if terms.kind == "box" else 0
    pool, made = Pool(S, d, lifted), []
    for s in range(S):
        for G in groups:
            shape, lift = (1, points, G), None
            if lifted:
                lift = rng.normal(size=(*shape, lifted))
                lift[..., n] = 3.0 * rng.random(shape)
            g = rng.normal(size=(*shape, d))
            g[..., :n] *= scale
            made.append(
                family_cuts(
                    [s],
                    0.5 + rng.normal(size=shape),
                    g,
                    masses=rng.dirichlet(np.ones(G))[None],
                    slope=-rng.random(shape) if terms.kind in ("flips", "box") else None,
                    lift=lift,
                )
            )
    pool.add(made)
    return pool


def _program(terms, pool, centre, M):
    """The same problem typed in cvxpy: value with the proximal term, x, model value."""
    cuts, x = pool.cuts, cp.Variable(terms.dimension)
    w, v = x[:n], cp.Variable(S)
    u, lam = cp.Variable(len(pool.piece_share), nonneg=True), cp.Variable(S)
    constraints = [lam >= terms.floor]
    omega, r = cp.Variable((S, n)), cp.Variable((S, n))
    if terms.kind == "box":
        for s in range(S):
            constraints += [cp.abs(omega[s]) <= lam[s], cp.abs(w - omega[s]) <= r[s]]
    else:
        length = cp.norm(w, NORMS[terms.gauge.norm.name])
        constraints.append(lam >= length)
        if terms.kind == "norm":
            constraints.append(lam == lam[0])
    for k in range(len(cuts)):
        s = pool.piece_client[cuts.piece[k]]
        line = cuts.c[k] + cuts.g[k] @ x + cuts.slope[k] * lam[s]
        if terms.kind == "box":
            line += cuts.lift[k, :n] @ omega[s] + cuts.lift[k, n] * (terms.half[s] @ r[s])
        constraints.append(u[cuts.piece[k]] >= line)
    for j, s in enumerate(pool.family_client):
        pieces = np.flatnonzero(pool.piece_family == j)
        constraints.append(v[s] >= terms.rho[s] * lam[s] + pool.piece_share[pieces] @ u[pieces])
    worst = mixture_program(v, terms.mixture.weights, terms.mixture.radius, terms.mixture.p)
    prox = 0.5 * cp.quad_form(x - centre, cp.psd_wrap(M))
    return minimise(worst + prox, constraints, "CLARABEL"), x.value, float(worst.value)


def _check(terms, seed=0, eps=1e-10, rtol=1e-7, **kwargs):
    rng = np.random.default_rng(seed)
    pool = _pool(terms, rng, **kwargs)
    centre = rng.normal(size=terms.dimension) * terms.scale
    A = rng.normal(size=(terms.dimension, terms.dimension)) / terms.scale
    M = 0.2 * A.T @ A + 0.05 * np.diag(1.0 / terms.scale**2)
    value, x, _model = _program(terms, pool, centre, M)
    solution = Master(terms).solve(pool, pool.cuts, centre, M, eps=eps)
    assert solution.usable
    step = solution.x - centre
    found = solution.model + 0.5 * float(step @ M @ step)
    np.testing.assert_allclose(found, value, rtol=rtol, atol=1e-9)
    np.testing.assert_allclose(solution.x / terms.scale, x / terms.scale, atol=2e-3)
    assert terms.mixture.contains(solution.weights, tol=1e-6)
    assert (solution.cuts >= 0.0).all()
    return solution


@pytest.mark.parametrize(
    ("p", "theta"), [(p, t) for p in (1, 2, INF) for t in (0.0, 0.2, 0.7, INF)]
)
@pytest.mark.sampled(2)
def test_the_set_of_weights(p, theta):
    _check(_terms(p=p, theta=theta))


@pytest.mark.parametrize("kind", ["norm", "flips"])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("floor", [0.0, 0.4])
@pytest.mark.sampled(2)
def test_the_norms(kind, norm, floor):
    _check(_terms(kind, norm, floor=floor))


@pytest.mark.parametrize("kind", ["norm", "flips", "box", "plain"])
def test_the_kinds_of_cuts_without_intercept(kind):
    rho = np.zeros(S) if kind == "plain" else None
    _check(
        _terms(kind, intercept=False, rho=rho), seed=1, groups=(1,) if kind == "plain" else (1, 3)
    )


@pytest.mark.parametrize("p", [1, 2, INF])
def test_a_box(p):
    _check(_terms("box", p=p, floor=0.1), seed=2)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["norm", "flips"])
@pytest.mark.sampled(2)
def test_the_euclidean_norm_is_reached_by_newton_steps(kind, seed):
    """Tangents and the curvature of the last one reach the second-order cone's optimum."""
    _check(_terms(kind, "l2", p=2), seed=10 + seed, points=12)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_do_not_change_the_answer(norm, scale):
    """Features in other units: w in inverse units, with the unit told and everything scaled."""
    plain = _terms(norm=norm)
    scaled = replace(plain, rho=plain.rho * scale, unit=scale)
    rng = [np.random.default_rng(3) for _ in range(2)]
    pools = _pool(plain, rng[0]), _pool(scaled, rng[1], scale=scale)
    centre = rng[0].normal(size=plain.dimension)
    D = np.eye(plain.dimension)
    one = Master(plain).solve(pools[0], pools[0].cuts, centre, D)
    other = Master(scaled).solve(
        pools[1], pools[1].cuts, centre * scaled.scale, D / np.outer(scaled.scale, scaled.scale)
    )
    np.testing.assert_allclose(other.x / scaled.scale, one.x, atol=1e-6)
    np.testing.assert_allclose(other.model, one.model, rtol=1e-7)
    np.testing.assert_allclose(other.weights, one.weights, atol=1e-6)


@pytest.mark.parametrize("unit", [1e-3, 30.0])
@pytest.mark.parametrize("kind", ["norm", "box"])
def test_the_unit_is_a_matter_of_rounding_only(kind, unit):
    terms, rng = _terms(kind), np.random.default_rng(4)
    pool = _pool(terms, rng)
    centre, M = rng.normal(size=terms.dimension), 0.3 * np.eye(terms.dimension)
    one = Master(terms).solve(pool, pool.cuts, centre, M)
    other = Master(replace(terms, unit=unit)).solve(pool, pool.cuts, centre, M)
    np.testing.assert_allclose(other.x, one.x, atol=1e-5)
    np.testing.assert_allclose(other.model, one.model, atol=1e-6)
    np.testing.assert_allclose(other.clipping, one.clipping, atol=1e-4)


@pytest.mark.parametrize("norm", NORMS)
def test_the_smallest_model_within_a_level(norm):
    terms, rng = _terms(norm=norm, rho=np.zeros(S)), np.random.default_rng(5)
    pool = _pool(terms, rng)
    value, _, best = _program(terms, pool, np.zeros(n + 1), 1e-9 * np.eye(n + 1))
    assert value == pytest.approx(best, rel=1e-6)
    level = best + 0.05
    solution, _ = Master(terms).smallest(pool, pool.cuts, level)
    assert solution.usable
    x = cp.Variable(n + 1)
    u = cp.Variable(len(pool.piece_share), nonneg=True)
    v = cp.Variable(S)
    cuts = pool.cuts
    constraints = [u[cuts.piece[k]] >= cuts.c[k] + cuts.g[k] @ x for k in range(len(cuts))]
    for j, s in enumerate(pool.family_client):
        pieces = np.flatnonzero(pool.piece_family == j)
        constraints.append(v[s] >= pool.piece_share[pieces] @ u[pieces])
    worst = mixture_program(v, terms.mixture.weights, 0.3, 1)
    problem = cp.Problem(cp.Minimize(cp.norm(x[:n])), [*constraints, worst <= level])
    problem.solve(solver="CLARABEL")
    np.testing.assert_allclose(np.linalg.norm(solution.x[:n]), problem.value, rtol=1e-4, atol=1e-6)


def test_a_quadratic_program():
    """min |z - a|^2 / 2 subject to sum z <= 1 and z >= 0: a projection onto the simplex's cone."""
    a = np.array([0.9, 0.6, -0.5])
    builder = Builder()
    z = builder.variables(3, cost=-a, lower=0.0)
    row = builder.rows(np.array([1.0]))
    builder.put(row, z, 1.0)
    found = builder.solve(np.eye(3), 1e-10)
    assert found.usable
    np.testing.assert_allclose(found.z, [0.65, 0.35, 0.0], atol=1e-7)
    np.testing.assert_allclose(found.multipliers, [0.25], atol=1e-7)


def test_a_program_without_a_minimum_is_not_usable():
    builder = Builder()
    builder.variables(2, cost=np.array([-1.0, 0.0]), lower=0.0)
    builder.put(builder.rows(np.array([1.0])), np.array([1]), 1.0)
    assert not builder.solve(np.zeros((2, 2)), 1e-9).usable


@pytest.mark.parametrize("kind", ["norm", "flips"])
@pytest.mark.parametrize("norm", ["l1", "linf"])
@pytest.mark.parametrize(("p", "theta"), [(1, 0.0), (1, 0.4), (1, INF), (INF, 0.2)])
@pytest.mark.sampled(2)
def test_clients_own_variables_may_be_eliminated(monkeypatch, kind, norm, p, theta):
    """The method for many clients, with as few as cvxpy likes; PIQP's multipliers."""
    terms = _terms(kind, norm, theta, p)
    general = _check(terms)
    monkeypatch.setattr(qp, "CROWD", 0)
    monkeypatch.setattr(qp, "_piqp", None)
    own = _check(terms)
    np.testing.assert_allclose(own.x, general.x, atol=1e-6)
    np.testing.assert_allclose(own.cuts, general.cuts, atol=1e-6)
    np.testing.assert_allclose(own.families, general.families, atol=1e-6)
    np.testing.assert_allclose(own.weights, general.weights, atol=1e-6)
