"""The bounds of the simulated crowd hold: they are compared with the exact optimum."""

import numpy as np
import pytest

import drfl
from benchmarks.suite.incremental import Incremental, _clip_to_ball
from benchmarks.suite.scale import CLIENT_ROWS, _group, _require_pooling

RADIUS = 0.02


def test_a_mean_of_answers_is_the_answer_of_all_rows():
    _require_pooling()


def test_old_answers_bound_the_optimum_from_both_sides():
    groups = [_group(seed, 40) for seed in range(3)]
    run = Incremental(groups, CLIENT_ROWS, RADIUS, share=0.1)
    clients = [drfl.Client(f"g{k}", X, y) for k, (X, y) in enumerate(groups)]
    exact = drfl.solve(drfl.Problem("hinge", drfl.Ball(RADIUS)), clients, tol=1e-7)
    rng, w = np.random.default_rng(3), np.zeros(len(exact.coef))
    for k in range(300):
        run.hear(np.flatnonzero(rng.random(len(run.A)) < 0.1), w)
        if k % 20 == 0:
            run.keep()
            value = _objective(groups, w)
            assert run.lower() <= exact.objective * (1.0 + 1e-9)
            assert run.upper(w) >= value - 1e-12 >= exact.lower_bound - 1e-12
        w = run.step(w, 1.0)
    assert _objective(groups, w) <= 1.02 * exact.objective  # and it gets there
    assert run.lower() >= 0.8 * exact.objective


def _objective(groups, w):
    losses = [np.maximum(1.0 - y * (X @ w), 0.0).mean() for X, y in groups]
    return np.mean(losses) + RADIUS * np.abs(w).max()


@pytest.mark.parametrize("radius", [0.0, 0.3, 100.0])
def test_the_proximal_map_of_the_largest_entry(radius):
    rng = np.random.default_rng(0)
    v = rng.normal(size=6)
    u = _clip_to_ball(v, radius)
    value = 0.5 * ((u - v) ** 2).sum() + radius * np.abs(u).max()
    for _ in range(200):
        z = u + 0.1 * rng.normal(size=6)
        assert value <= 0.5 * ((z - v) ** 2).sum() + radius * np.abs(z).max() + 1e-12
