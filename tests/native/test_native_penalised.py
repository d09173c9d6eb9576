"""The closed supremum of WAFL against a grid, and its gradient against differences."""

from dataclasses import dataclass

import numpy as np
import pytest
from native_kit import SMOOTH, clients, problem

from drfl.client import Site
from drfl.losses import (
    LOSSES,
    EpsilonInsensitive,
    Huber,
    Line,
    Loss,
    Pinball,
    SmoothHinge,
    make_loss,
)
from drfl.native.methods.wafl import PenalisedLoss, penalised, require_closed
from kit.checks import assert_convex_on_segment, assert_gradient


@dataclass(frozen=True)
class Uneven(Loss):
    """Huber with two slopes: a loss of one's own with one rounded corner, between -1 and 3."""

    name = "uneven"
    task = "regression"
    slope_range = (-1.0, 3.0)
    rounded = (Line(-1.0, 0.5), Line(3.0, 0.5))

    def value(self, z):
        v = self.slope(z)
        return v * z + 0.5 - 0.5 * v**2

    def slope(self, z):
        return np.clip(z, -1.0, 3.0)

    def curvature(self, z):
        return ((z > -1.0) & (z < 3.0)).astype(float)

    def conjugate(self, v):
        return 0.5 * v**2 - 0.5


@dataclass(frozen=True)
class NotLogistic(SmoothHinge):
    """Which has the name of another one, and states no lines."""

    name = "logistic"
    rounded = ()
    flipped = None


OWN = [Huber(0.4), EpsilonInsensitive(0.7), Pinball(0.2), Uneven()]
ALL = [*(loss() for loss in LOSSES.values()), *OWN]
Z = np.linspace(-6.0, 8.0, 57)


def by_grid(loss: Loss, z, a):
    """The supremum over moves t on two grids, the second around the best of the first."""
    reach = 2.0 * a * loss.lipschitz + 1e-9
    grid = np.linspace(-reach, reach, 4001)
    best = grid[np.argmax(loss.value(z + grid) - grid**2 / (2.0 * a))]
    fine = best + np.linspace(-1.0, 1.0, 2001) * 1e-3 * reach
    return (loss.value(z + fine) - fine**2 / (2.0 * a)).max()


@pytest.mark.parametrize("loss", ALL, ids=str)
@pytest.mark.parametrize("a", [0.01, 0.5, 0.99, 1.0, 1.7, 4.0, 5.0, 30.0])
def test_the_supremum_is_that_of_brute_force(loss, a):
    values, slopes = penalised(loss, Z, a)
    brute = np.array([by_grid(loss, z, a) for z in Z])
    assert values == pytest.approx(brute, rel=1e-6, abs=1e-7)
    low, high = loss.slope_range
    assert (slopes >= low).all()
    assert (slopes <= high).all()
    # v attains the maximum of vz - L*(v) + a v^2/2.
    attained = slopes * Z - loss.conjugate(slopes) + 0.5 * a * slopes**2
    assert attained == pytest.approx(values, abs=1e-12)


def test_a_loss_that_does_not_say_how_it_is_made_is_refused():
    require_closed(make_loss(Uneven()))
    with pytest.raises(ValueError, match="supremum of logistic at a quadratic price"):
        require_closed(make_loss(NotLogistic()))


@pytest.mark.parametrize("loss", ALL, ids=str)
def test_rows_that_cannot_move_have_the_loss_itself(loss):
    for a in (0.0, 1e-12):
        values, _ = penalised(loss, Z, a)
        assert values == pytest.approx(loss.value(Z), abs=1e-9)


@pytest.mark.parametrize("z", [-1e3, 1e3])
@pytest.mark.parametrize("a", [1e-3, 4.0, 1e3])
def test_logistic_far_away(z, a):
    values, slopes = penalised(LOSSES["logistic"](), np.array([z]), a)
    assert np.isfinite(values).all()
    assert -1.0 <= slopes[0] <= 0.0


def mean_loss(name, gamma, intercept="shared"):
    stated = problem(name, intercept=intercept)
    return PenalisedLoss(Site(clients(name)[0], stated), gamma)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("intercept", ["shared", "none"])
def test_the_gradient_of_the_mean(name, intercept):
    mean = mean_loss(name, 4.0, intercept)
    x = np.random.default_rng(2).normal(size=3 + (intercept == "shared")) * 0.4
    value, gradient = mean.value_and_gradient(x)
    assert value == pytest.approx(mean.value(x), rel=1e-12)
    assert_gradient(mean.value, x, gradient, step=1e-4, tol=2e-3)  # a few rows cross a kink
    batch = [mean.batch_gradient(x, np.array([i])) for i in range(mean.rows.n_rows)]
    assert np.mean(batch, axis=0) == pytest.approx(gradient, rel=1e-12)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_the_mean_is_convex(name):
    mean, rng = mean_loss(name, 1.0), np.random.default_rng(3)
    for _ in range(20):
        assert_convex_on_segment(mean.value, 2.0 * rng.normal(size=4), 2.0 * rng.normal(size=4))
