"""Where the paper's literal text is wrong, our functions give the right number.

What the text says is typed here, the truth comes from exhaustion. ``test_reference.py`` does the
same with convex programs.
"""

import math

import numpy as np
import pytest

from drfl import Box, worst_case_loss
from drfl.losses import LOSSES, make_loss
from drfl.norms import NORMS
from kit import brute, problems

REGRESSION = [make_loss(name) for name in LOSSES if make_loss(name).task == "regression"]


# ---------------------------------------------------------------------- rows outside the support
def printed_hinge(X, y, w, b, radius, side):
    r"""The paper's program for the hinge in [-side, side]^n (l1, labels fixed), at a given w.

    With the multipliers of the sides solved for:
    min over lam of rho lam + mean_i max{0, 1 + tau - y_i s_i}, linear between the |w_j|.
    """
    values = []
    for lam in np.linspace(0.0, np.abs(w).max(), 2001):
        omega = np.clip(w, -lam, lam)
        tau = side * np.maximum(np.abs(w) - lam, 0.0).sum()
        values.append(radius * lam + np.maximum(0.0, 1.0 + tau - y * (X @ omega + b)).mean())
    return min(values)


def noisy_client():
    """Rows of [-1, 1] after Gaussian noise: many leave the box, on the wrong side for our w."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (200, 1)) + 2.0 * rng.normal(size=(200, 1))
    return X, -np.sign(X[:, 0])


def test_inside_the_box_the_printed_program_is_right():
    X, y = noisy_client()
    side = np.abs(X).max()
    ours = worst_case_loss(X, y, [1.5], 0.1, loss="hinge", radius=0.3, support=Box(-side, side))
    assert ours.value == pytest.approx(printed_hinge(X, y, np.array([1.5]), 0.1, 0.3, side))


def test_rows_outside_are_an_error_not_a_silence():
    """The printed program says less than the empirical loss: the noisy rows are muted."""
    X, y = noisy_client()
    w, b, radius = np.array([1.5]), 0.1, 0.01
    empirical = np.maximum(0.0, 1.0 - y * (X @ w + b)).mean()
    printed = printed_hinge(X, y, w, b, radius, 1.0)
    assert printed < 0.8 * empirical
    game = {"loss": "hinge", "radius": radius, "support": Box(-1.0, 1.0)}
    with pytest.raises(ValueError, match=r"1\d\d rows lie outside the box .* the largest distance"):
        worst_case_loss(X, y, w, b, **game)
    wide = worst_case_loss(X, y, w, b, **game, on_outside="widen")
    assert wide.value >= empirical
    around = Box(min(X.min(), -1.0), max(X.max(), 1.0))
    few = slice(0, 12)
    truth = brute.worst_case_loss(X[few], y[few], w, b, loss="hinge", radius=radius, support=around)
    ours = worst_case_loss(X[few], y[few], w, b, loss="hinge", radius=radius, support=around)
    assert ours.value == pytest.approx(truth)


# ---------------------------------------------------------------------- the dual of the metric
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", REGRESSION, ids=lambda loss: loss.name)
def test_the_price_of_regression_is_the_dual_of_its_metric(loss, norm):
    """||(w,-1)||_* read literally: too small for a cheap target, too large for a dear one."""
    X, y = problems.rows("regression", np.random.default_rng(1), 6, 2)
    w, radius = np.array([0.3, -0.2]), 0.5
    mean = loss.value(X @ w - y).mean()
    literal = mean + radius * loss.lipschitz * NORMS[norm].dual(np.append(w, -1.0))
    for label_cost, sign in ((0.25, 1.0), (4.0, -1.0), (math.inf, -1.0)):
        game = {"loss": loss, "radius": radius, "norm": norm, "label_cost": label_cost}
        ours = worst_case_loss(X, y, w, **game).value
        assert ours == pytest.approx(brute.worst_case_loss(X, y, w, **game), rel=1e-8)
        assert sign * (ours - literal) > 0.04


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ["epsilon_insensitive", "pinball"])
def test_on_polyhedra_features_and_target_are_bounded_each_by_its_own(name, norm):
    """Literally one norm of (w, -1) is at most lam; it is ||.||_* <= lam and |.| <= kappa lam."""
    rng = np.random.default_rng(2)
    loss = make_loss(name)
    X, y = problems.rows("regression", rng, 5, 1)
    game = {"loss": loss, "radius": 0.15, "norm": norm}
    game["support"] = problems.polyhedron_around(rng, "regression", X, y)
    values = []
    for label_cost in (0.3, 1.0, 4.0):
        ours = worst_case_loss(X, y, [0.4], label_cost=label_cost, **game).value
        truth = brute.worst_case_loss(X, y, [0.4], label_cost=label_cost, **game)
        assert ours == pytest.approx(truth, rel=1e-7)
        values.append(ours)
    assert values[0] > values[1] + 0.01 > values[2] + 0.02  # the literal text knows no kappa


# ---------------------------------------------------------------------- the soft threshold
def test_the_soft_threshold_shrinks_negative_entries_too():
    """Printed as [x - delta]_+ sgn(x), which sends every negative entry to 0."""
    v = np.array([-3.0, 2.5, 0.1])
    p = NORMS["l1"].project_ball(v)
    np.testing.assert_allclose(p, [-0.75, 0.25, 0.0])
    delta = 2.25
    printed = np.maximum(v - delta, 0.0) * np.sign(v)
    assert ((p - v) ** 2).sum() < ((printed - v) ** 2).sum() - 1.0


# ---------------------------------------------------------------------- flips, and no effect
def test_where_flips_set_the_price_the_box_does_not_bind():
    """For kappa <= 1, the paper's grid, a box as tight as can be often changes nothing."""
    X, y = problems.rows("classification", np.random.default_rng(3), 30, 2)
    tight = Box(X.min(axis=0), X.max(axis=0))
    w = np.array([0.3, -0.2])
    for label_cost, radius, binds in ((1.0, 0.01, False), (1.0, 0.1, False), (1e3, 2.0, True)):
        game = {"loss": "hinge", "radius": radius, "label_cost": label_cost}
        free = worst_case_loss(X, y, w, 1.0, **game)
        boxed = worst_case_loss(X, y, w, 1.0, **game, support=tight)
        assert (free.multiplier > np.abs(w).max()) == (not binds)
        assert (boxed.value < free.value - 1e-3) == binds
        if not binds:
            assert boxed.value == pytest.approx(free.value, rel=1e-12)


@pytest.mark.parametrize("loss", REGRESSION, ids=lambda loss: loss.name)
def test_below_one_over_kappa_the_radius_moves_no_gradient(loss):
    """Targets are the cheaper thing to move: F is the empirical loss and a constant."""
    X, y = problems.rows("regression", np.random.default_rng(4), 20, 3)
    w = np.array([0.4, -0.1, 0.2])
    still, moved = (
        worst_case_loss(X, y, w, 0.1, loss=loss, radius=radius, label_cost=2.0)
        for radius in (0.0, 0.7)
    )
    np.testing.assert_array_equal(moved.gradient, still.gradient)
    assert moved.value == pytest.approx(still.value + 0.7 * loss.lipschitz / 2.0)
    beyond = worst_case_loss(X, y, 2 * w, 0.1, loss=loss, radius=0.7, label_cost=2.0)
    plain = worst_case_loss(X, y, 2 * w, 0.1, loss=loss, radius=0.0, label_cost=2.0)
    assert beyond.gradient[0] == pytest.approx(plain.gradient[0] + 0.7 * loss.lipschitz)
