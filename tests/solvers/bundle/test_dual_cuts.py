"""Dual cuts that prove at once, and the rough optima that runs begin with."""

import numpy as np
import pytest

import drfl
from drfl.client import Client, Site
from drfl.datasets import partition
from drfl.losses import make_loss
from drfl.solvers.bundle import Bundle, session
from drfl.solvers.bundle.client_half.evaluation import make_evaluator
from drfl.solvers.bundle.client_half.own_optimum import rough_optimum, rounded

rng = np.random.default_rng(0)
N, n, S = 3000, 70, 3
X = (rng.random((N, n)) < 0.4 / np.sqrt(np.arange(1, n + 1))).astype(float)
score = X @ rng.normal(size=n) + rng.logistic(size=N)
y = np.where(score > np.quantile(score, 0.9), 1.0, -1.0)
parts = partition.random(N, S, rng)
clients = [Client(f"c{s}", X[rows], y[rows]) for s, rows in enumerate(parts)]


def problem(loss, norm, radius, label_cost=np.inf):
    ball = drfl.Ball(radius, norm=norm, label_cost=label_cost)
    return drfl.Problem(loss, ball, drfl.Mixture(radius=0.1, p=1))


@pytest.mark.parametrize("radius", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.sampled(7)
def test_the_gap_closes_at_every_radius(norm, radius):
    """Newton's method needs few rounds; what it finds is proved at most two rounds later."""
    result = drfl.solve(problem("logistic", norm, radius), clients, tol=1e-6)
    local = drfl.solve(problem("logistic", norm, radius), clients, solver="local", tol=1e-8)
    assert result.status.kind == "certified"
    assert result.lower_bound <= local.objective * (1.0 + 1e-12)
    scale = max(local.objective, 1e-3 * result.history[0].objective)
    found = [(r.objective - local.lower_bound) / scale <= 1e-6 for r in result.history]
    assert result.rounds <= found.index(True) + 1 + 2


def test_newest_dual_cuts_alone_prove_the_optimum(monkeypatch):
    """No master is solved over all cuts, and the bound still reaches the tolerance."""
    asked = []
    monkeypatch.setattr(
        "drfl.solvers.bundle.planning.solve_for_bound", lambda *_: asked.append(None)
    )
    for rule in ("_bound_is_due", "_bound_is_cheap"):
        monkeypatch.setattr(f"drfl.solvers.bundle.planning.{rule}", lambda _: False)
    result = drfl.solve(problem("logistic", "l1", 1e-3), clients, tol=1e-6, max_rounds=12)
    assert result.status.kind == "certified"
    assert not asked


def test_a_client_that_sends_no_dual_cut_leaves_the_proof_to_masters():
    policies = [drfl.Policy(dual_cuts=False), drfl.Policy(), drfl.Policy()]
    some = [Client(f"c{s}", X[rows], y[rows], policy=policies[s]) for s, rows in enumerate(parts)]
    task = problem("logistic", "l1", 1e-2)
    result, other = drfl.solve(task, some, tol=1e-4), drfl.solve(task, clients, tol=1e-6)
    assert result.status.kind == "certified"
    assert result.lower_bound <= other.objective
    assert other.lower_bound <= result.objective


def test_a_rejected_point_leaves_the_curvature_of_the_centre(monkeypatch):
    """Null steps are forced; the metric must stay that of the point the steps start from."""
    seen = []

    def move(state):
        monkeypatch.setattr(state.step, "judge", lambda *_: False)
        before = list(state.metric.before[0])
        original(state)
        if state.step.newton:
            seen.append(all(a is b for a, b in zip(before, state.metric.hessians, strict=True)))

    original = session.move
    monkeypatch.setattr(session, "move", move)
    drfl.solve(
        problem("logistic", "l1", 1e-2), clients, solver=Bundle(warm_start=False), max_rounds=4
    )
    assert seen
    assert all(seen)


@pytest.mark.parametrize("name", ["hinge", "logistic", "pinball", "epsilon_insensitive"])
def test_rounded_corners_are_convex_and_near(name):
    loss, z = make_loss(name), np.linspace(-3.0, 3.0, 6001)
    value, slope = rounded(loss, z, 0.25)
    exact, _ = loss.value_and_slope(z)
    assert (value >= exact - 1e-12).all()
    jumps = loss.lipschitz + max(abs(end) for end in loss.slope_range)
    assert (value - exact).max() <= jumps * 0.25 / 4.0 + 1e-12
    assert (np.diff(slope) >= -1e-12).all()
    steps = np.diff(value) / np.diff(z)
    assert np.abs(steps - 0.5 * (slope[1:] + slope[:-1])).max() <= 1e-3


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.sampled(4)
def test_a_rough_optimum_is_near_the_optimum(loss, norm):
    task = drfl.Problem(loss, drfl.Ball(0.003, norm=norm))
    best = drfl.solve(task, [clients[0]], tol=1e-6)
    site = Site(clients[0], task)
    x = rough_optimum(site, make_evaluator(site.oracle))
    F = site.oracle.evaluate(x[:n], float(x[n])).value
    zero = site.oracle.evaluate(np.zeros(n), 0.0).value
    assert F - best.objective <= 0.1 * (zero - best.objective)
