"""Distances and claims of Example 4.1."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from experiments.ambiguity import System, claims, example
from experiments.volume import Volume

FEW = replace(Volume(), draws=500, systems=3)


def random_system(seed, shift=0.0, q=0.4):
    rng = np.random.default_rng(seed)
    p = rng.random((2, 3))
    x = rng.random((2, 3)) + np.array([[0.0], [shift]])
    return System(x, p / p.sum(axis=1, keepdims=True), q)


@pytest.mark.parametrize("seed", range(5))
def test_distances(seed):
    system, rng = random_system(seed), np.random.default_rng(seed + 100)
    p, q = rng.dirichlet(np.ones(3), size=(4, 2)), rng.random(4)
    own, mixed = system.distances(p, q, system.p, np.full(4, system.q))
    for k in range(4):
        each = [
            wasserstein_distance(x, x, a, b)
            for x, a, b in zip(system.x, p[k], system.p, strict=True)
        ]
        assert own[k] == pytest.approx(max(each))
        weights = [np.concatenate([c * a, (1 - c) * b]) for c, (a, b) in
                   ((q[k], p[k]), (system.q, system.p))]  # fmt: skip
        both = wasserstein_distance(system.x.ravel(), system.x.ravel(), *weights)
        assert mixed[k] == pytest.approx(both)


def test_samples_are_frequencies():
    system = random_system(0)
    p, q = system.sampled(1000, 2000, np.random.default_rng(0))
    np.testing.assert_allclose(p.sum(axis=-1), 1.0)
    np.testing.assert_allclose(p.mean(axis=0), system.p, atol=0.005)
    assert q.mean() == pytest.approx(system.q, abs=0.005)


@pytest.mark.parametrize("seed", range(5))
def test_with_known_weights_the_mixture_never_needs_the_larger_radius(seed):
    """By convexity of the distance: claim 1 of the paper rests on the estimated weights."""
    row = example(random_system(seed), replace(FEW, known_q=True), np.random.default_rng(seed))
    assert (row["radii"]["wafl"] <= row["radii"]["drfl"] + 1e-12).all()


def test_claim_1_holds_far_apart_and_fails_nearby():
    near, far = (
        np.mean([claims(example(random_system(k, shift, 0.5), FEW, np.random.default_rng(k)), 500)
                 for k in range(10)], axis=0)
        for shift in (0.0, 10.0)
    )  # fmt: skip
    assert far[0] == 1.0
    assert near[0] <= 0.5


def test_radii_reach_their_coverage():
    row = example(random_system(1), FEW, np.random.default_rng(0))
    for name in ("drfl", "wafl"):
        distances = row["distances"][name]
        for level, radius in zip(FEW.levels, row["radii"][name], strict=True):
            assert np.mean(distances <= radius) >= level - 1e-9
            assert np.mean(distances <= radius - 1.1e-5) < level
