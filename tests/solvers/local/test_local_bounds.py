"""The lower bound holds for every model, whatever multipliers it is made of."""

import math

import numpy as np
import pytest

import drfl
from drfl.losses import EpsilonInsensitive, Hinge, Huber, Logistic, Pinball, SmoothHinge
from drfl.solvers.certificate.proof import aggregate, pay_by_gauge
from drfl.solvers.local.cones import Orthant, SecondOrder, reach
from drfl.solvers.local.lower_bound import RowMinorants
from drfl.solvers.local.pieces import Entropy, Pieces
from drfl.solvers.local.stages import StagedSearch
from kit.cases import Case
from kit.problems import clients

LOSSES = [Hinge(), SmoothHinge(), Logistic(), Huber(0.7), EpsilonInsensitive(0.1), Pinball(0.3)]


def make(loss, norm, label_cost, seed):
    rng = np.random.default_rng(seed)
    data = tuple(clients(loss.task, rng, S=2, n=2, N=9))
    balls = tuple(drfl.Ball(rho, norm, label_cost) for rho in (0.05, 0.2))
    mixture = drfl.Mixture(radius=0.3, p=2)
    return Case(loss, data, balls, mixture, intercept=("shared", "none")[seed % 2])


def models(case, rng, count=60):
    """Points of all sizes."""
    return [
        10.0 ** rng.uniform(-2, 2) * rng.normal(size=case.dimension) * (rng.random() < 0.9)
        for _ in range(count)
    ]


@pytest.mark.parametrize("label_cost", [math.inf, 0.5])
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.sampled(2)
def test_any_multipliers_prove_something_true(loss, norm, label_cost):
    """Multipliers half way, spoilt at random, or from nowhere: never above f at any model."""
    rng = np.random.default_rng(len(norm))
    case = make(loss, norm, label_cost, seed=len(loss.name))
    held = case.clients()
    search = StagedSearch(case.problem, case.names, [c.rows for c in held], 1e-9)
    steps, bounds = search.iterations(), []
    core_of = _capture(search)
    for _ in range(6):
        next(steps, None)
        core, sample = core_of()
        at = core.iterate
        for kernel in at.kernels:
            if isinstance(kernel, Entropy):
                kernel.full = np.clip(
                    kernel.share + 0.2 * rng.normal(size=kernel.share.shape), 0, 1
                )
            else:
                kernel.alpha = kernel.alpha * rng.exponential(size=kernel.alpha.shape)
        at.q = core.full_q = np.abs(at.q + 0.3 * rng.normal(size=len(at.q)))
        core.full = at.xi
        search.lower = 0.0
        search._prove(core, sample)
        bounds.append(search.lower)
    least = min(case.exact(x) for x in models(case, rng))
    least = min(least, case.solve(solver="local").objective)
    assert max(bounds) <= least * (1.0 + 1e-9)
    assert max(bounds) > 0.0


def _capture(search):
    """The last core of a search and its rows."""
    made = []
    original = search._start

    def keep(sample):
        made[:] = [original(sample), sample]
        return made[0]

    search._start = keep
    return lambda: made


def test_minorants_out_of_balance_are_lowered_until_they_hold():
    """Slopes all on one side say nothing with an intercept, and little without."""
    case = make(Hinge(), "l1", math.inf, seed=0)
    search = StagedSearch(case.problem, case.names, [c.rows for c in case.clients()], 1e-6)
    server, q = search.program.server, np.array([0.5, 0.5])
    y = np.concatenate([y for _, y in case.data])
    mass = np.concatenate([np.full(len(y), 0.5 / len(y)) for _, y in case.data])
    slope = np.where(y > 0.0, -mass, 0.0)
    rows = RowMinorants(search.program, search.whole, -slope, slope, 0.0 * slope)
    assert pay_by_gauge(server, aggregate(server, rows, q)) == pytest.approx(0.0, abs=1e-12)


# ---------------------------------------------------------------------------- the parts
def test_the_scaling_of_the_second_order_cone():
    rng = np.random.default_rng(0)
    for _ in range(20):
        s, y = (np.append(0.0, rng.normal(size=4)) for _ in range(2))
        s[0], y[0] = np.linalg.norm(s) * 1.3, np.linalg.norm(y) * 1.05
        cone = SecondOrder(s, y)
        cone.prepare()
        assert cone.multiply(s) == pytest.approx(y, rel=1e-9)
        assert cone.matrix @ s == pytest.approx(y, rel=1e-9)
        assert cone.lam @ cone.lam == pytest.approx(s @ y, rel=1e-9)


def test_a_step_reaches_the_boundary_of_the_cones():
    rng = np.random.default_rng(1)
    for _ in range(20):
        s, y = np.append(3.0, rng.uniform(-1, 1, 3)), np.append(4.0, rng.uniform(-1, 1, 3))
        cone = SecondOrder(s, y)
        cone.ds, cone.dy = rng.normal(size=4), -y
        primal, dual = cone.reach()
        assert dual == pytest.approx(1.0)
        if primal < 1e6:  # else the step never leaves the cone
            end = s + primal * cone.ds
            assert end[0] == pytest.approx(np.linalg.norm(end[1:]))
    assert reach(np.array([1.0, 2.0]), np.array([-0.5, 3.0])) == 2.0
    assert reach(np.array([1.0]), np.array([1.0])) == math.inf


LINES = np.array([[0.0, 0.0, 0.0], [-1.0, 1.0, 0.0], [1.0, 0.5, -0.7]])


@pytest.mark.parametrize(("curved", "K"), [(0, 2), (0, 3), (2, 2)])
def test_centred_rows_have_equal_products_and_meet_their_lines(curved, K):
    rng = np.random.default_rng(2)
    a, c, e = (LINES[:K, k : k + 1] for k in range(3))
    pieces = Pieces(a, c, e, curved)
    z, P, mu = rng.normal(size=50) * 2.0, rng.uniform(0.01, 0.1, 50), 1e-3
    lam = np.full(50, 1.5)
    pieces.centre(z, lam, P, mu)
    assert pieces.alpha.sum(axis=0) == pytest.approx(P)
    assert pieces.s * pieces.alpha == pytest.approx(np.full((K, 50), mu))
    pieces.prepare()
    pieces.measure(z, lam, P)
    assert np.abs(pieces.miss).max() < 1e-6


def test_orthant_steps_solve_their_equations():
    rng = np.random.default_rng(3)
    s, y, zeta, dzeta = (rng.uniform(0.5, 2.0, 4) for _ in range(4))
    cone = Orthant(s, y)
    cone.prepare()
    cone.aim(zeta, 0.3)
    cone.move(dzeta)
    assert s + cone.ds == pytest.approx(zeta + dzeta)
    assert s * cone.dy + y * cone.ds + s * y == pytest.approx(np.full(4, 0.3))
