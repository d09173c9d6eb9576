"""Sensitivities by brute force, noise by statistics, and where it comes from."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import kstest

import drfl
from drfl.client import Site
from drfl.privacy.dp import (
    DifferentialPrivacy,
    Sensitivity,
    deviation,
    noisy,
    os_normal,
    packed,
    row_length,
    unpacked,
)
from drfl.solvers.private.client import least_curvature, mean_slope, mean_value

NORM, N = 1.5, 3


def site_of(loss, rows, intercept):
    X, y = np.array([x for x, _ in rows], dtype=float), np.array([y for _, y in rows])
    client = drfl.Client("a", X, y, privacy=DifferentialPrivacy(1.0, norm=NORM, target=2.0))
    return Site(client, drfl.Problem(loss, intercept="shared" if intercept else "none"))


def bound_of(loss, intercept):
    made = drfl.Problem(loss).loss
    target = 2.0 if made.task == "regression" else 0.0
    return Sensitivity(N, row_length(NORM, intercept=intercept), target, made)


def rows_of(loss):
    """Extreme rows and some within; those that are too long are cut to the norm."""
    angles = np.linspace(0.0, 2.0 * math.pi, 8, endpoint=False)
    points = [NORM * np.array([math.cos(a), math.sin(a)]) for a in angles]
    points += [np.zeros(2), np.array([40.0, -3.0]), np.array([0.3, 0.1])]
    labels = (-9.0, 0.3, 9.0) if drfl.Problem(loss).loss.task == "regression" else (-1.0, 1.0)
    return list(itertools.product(points, labels))


def means_at(site, x, region, bound):
    d = site.dimension
    moments = site.rows.gram(np.full(N, 1.0 / N))[:d, :d]
    return {
        "slope": mean_slope(site, x),
        "curvature": packed(least_curvature(site, x, region)),
        "value": np.array([mean_value(site, x, bound)]),
        "moments": packed(moments),
    }


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", ["logistic", "smooth_hinge", "huber"])
def test_no_two_neighbours_differ_by_more_than_the_sensitivity(loss, intercept):
    bound, rest = bound_of(loss, intercept), rows_of(loss)[1:3]
    d = 2 + intercept
    most = dict.fromkeys(("slope", "curvature", "value", "moments"), 0.0)
    rng = np.random.default_rng(0)
    for x in (np.zeros(d), 2.0 * rng.normal(size=d), 0.3 * rng.normal(size=d)):
        for region in (np.eye(d) * 1e-12, np.eye(d)):
            found = [
                means_at(site_of(loss, [*rest, row], intercept), x, region, bound)
                for row in rows_of(loss)
            ]
            sensitivity = {
                "slope": bound.slope,
                "curvature": bound.curvature,
                "value": bound.value(x),
                "moments": bound.moments,
            }
            for one, other in itertools.combinations(found, 2):
                for name, limit in sensitivity.items():
                    change = float(np.linalg.norm(one[name] - other[name]))
                    assert change <= limit, name
                    most[name] = max(most[name], change / limit)
    # The bounds are not idle: what one row can do comes near them.
    assert most["moments"] > 0.6
    assert most["slope"] > 0.5
    assert most["value"] > 0.5
    assert most["curvature"] > 0.25


def test_rows_and_targets_are_clipped_to_their_public_bounds():
    made = DifferentialPrivacy(1.0, norm=2.0, target=3.0)
    client = drfl.Client("a", [[3.0, 4.0], [0.3, 0.4]], [-7.0, 2.0], privacy=made)
    assert client.rows.X.ravel().tolist() == pytest.approx([1.2, 1.6, 0.3, 0.4])
    assert client.rows.y.tolist() == [-3.0, 2.0]
    scaled = drfl.Client("a", [[4.0], [40.0]], [0, 1], scale=[10.0], privacy=made)
    assert scaled.rows.X.ravel().tolist() == pytest.approx([0.4, 2.0])


def test_noise_has_the_deviation_that_its_price_asks_for():
    rng = np.random.default_rng(0)
    sigma = deviation(0.3, 0.02)
    assert sigma == pytest.approx(0.3 / math.sqrt(0.04))
    told = np.array([noisy(np.full(5, 7.0), 0.3, 0.02, rng.standard_normal) for _ in range(4000)])
    z = (told.ravel() - 7.0) / sigma
    assert kstest(z, "norm").pvalue > 0.01
    assert abs(z.std() - 1.0) < 0.015  # three standard errors: half the noise would be seen
    assert abs(np.corrcoef(told[:, 0], told[:, 1])[0, 1]) < 0.05


def test_what_leaves_is_on_a_grid_that_hides_the_last_bits():
    rng = np.random.default_rng(0)
    told = noisy(np.array([math.pi, -1e-9]), 1.0, 0.5, rng.standard_normal)
    step = 2.0**-20
    assert (told / step).tolist() == np.round(told / step).tolist()


def test_the_noise_of_a_real_client_is_from_the_operating_system():
    z = os_normal(40_000)
    assert np.isfinite(z).all()
    assert len(np.unique(z)) == len(z)
    assert kstest(z, "norm").pvalue > 1e-6
    assert os_normal(3).tolist() != os_normal(3).tolist()
    assert DifferentialPrivacy(1.0).noise() is os_normal


def test_a_packed_matrix_has_the_same_length_and_comes_back():
    A = np.random.default_rng(0).normal(size=(4, 4))
    A = A + A.T
    assert np.linalg.norm(packed(A)) == pytest.approx(np.linalg.norm(A))
    assert unpacked(packed(A), 4) == pytest.approx(A)
