"""Clients to project for, what makes a point the projection, and a small problem to run."""

import math
from itertools import product

import numpy as np

import drfl
from drfl import Ball
from drfl.losses import LOSSES, make_loss
from drfl.rows import Rows
from drfl.solvers.admm import AdLpmm, Admm
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


# ---------------------------------------------------------------------------- runs
PROBLEM = drfl.Problem("hinge", drfl.Ball(0.02, "l1", 3.0), drfl.Mixture(radius=0.2))
SHARED = drfl.Problem("hinge", drfl.Ball(0.02, "l1", 3.0), shared_ball=True)
SOLVERS = {"ad_lpmm": AdLpmm(c=0.1, tight=True), "admm": Admm()}
ROUNDS = 400


def clients(S=3, N=17, n=3, loss="classification"):
    rng = np.random.default_rng(4)
    data = [rows(loss, rng, N=N + s, n=n) for s in range(S)]
    return [drfl.Client(f"c{s}", *pair) for s, pair in enumerate(data)]


def solve(solver, problem=PROBLEM, **settings):
    settings = {"tol": 1e-3, "max_rounds": ROUNDS} | settings
    return drfl.solve(problem, clients(), solver=solver, **settings)
