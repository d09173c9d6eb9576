"""The pointwise losses: every entry of the table is checked against its own definition."""

import math
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drfl.losses import (
    LOSSES,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Pinball,
    SmoothHinge,
    make_loss,
)

# Every registered loss as it comes, and those with a parameter elsewhere too.
INSTANCES = [
    *[make_loss(name) for name in LOSSES],
    Huber(0.3),
    Huber(5.0),
    EpsilonInsensitive(0.0),
    EpsilonInsensitive(1.5),
    Pinball(0.1),
    Pinball(0.8),
]
every_loss = pytest.mark.parametrize("loss", INSTANCES, ids=repr)
GRID = np.unique(
    np.concatenate([np.linspace(-12, 12, 2401), np.random.default_rng(0).normal(size=200)])
)
STEP = 1e-3
numbers = st.floats(-50, 50)


def away_from_corners(loss, z, reach):
    """The points around which L has no kink and its curvature no jump, within reach."""
    far = np.ones(len(z), dtype=bool)
    for kink in loss.kinks:
        far &= np.abs(z - kink) > reach
    return z[far & (np.abs(loss.curvature(z + reach) - loss.curvature(z - reach)) < 0.05)]


def derivative(f, z):
    """Central differences of order four."""
    near, far = f(z + STEP) - f(z - STEP), f(z + 2 * STEP) - f(z - 2 * STEP)
    return (8.0 * near - far) / (12.0 * STEP)


# ---------------------------------------------------------------------- derivatives
@every_loss
def test_slope_is_the_derivative(loss):
    z = away_from_corners(loss, GRID, 3 * STEP)
    assert len(z) > 0.9 * len(GRID)
    np.testing.assert_allclose(loss.slope(z), derivative(loss.value, z), atol=1e-10)


@every_loss
def test_curvature_is_the_derivative_of_the_slope(loss):
    z = away_from_corners(loss, GRID, 3 * STEP)
    np.testing.assert_allclose(loss.curvature(z), derivative(loss.slope, z), atol=1e-9)


@every_loss
def test_value_and_slope_are_the_two(loss):
    value, slope = loss.value_and_slope(GRID)
    np.testing.assert_allclose(value, loss.value(GRID), rtol=1e-15)
    np.testing.assert_allclose(slope, loss.slope(GRID), rtol=1e-15)


# ---------------------------------------------------------------------- shape
@every_loss
@given(a=numbers, b=numbers, t=st.floats(0, 1))
def test_convex_nonnegative_and_lipschitz(loss, a, b, t):
    z = np.array([a, b, t * a + (1 - t) * b])
    at_a, at_b, between = loss.value(z)
    assert between <= t * at_a + (1 - t) * at_b + 1e-12
    assert min(at_a, at_b) >= 0.0
    assert abs(at_a - at_b) <= loss.lipschitz * abs(a - b) + 1e-12


@every_loss
def test_slope_is_a_subgradient_at_kinks_too(loss):
    here = np.array([*loss.kinks, 0.0, 1.0, -1.0, *np.random.default_rng(1).normal(size=20)])
    there = np.concatenate([GRID, here])[:, None]
    tangent = loss.value(here) + loss.slope(here) * (there - here)
    assert (loss.value(there) >= tangent - 1e-12).all()


@every_loss
def test_slopes_stay_in_their_range_and_reach_both_ends(loss):
    low, high = loss.slope_range
    slopes = loss.slope(GRID)
    assert slopes.min() >= low
    assert slopes.max() <= high
    np.testing.assert_allclose(loss.slope(np.array([-1e4, 1e4])), [low, high], atol=1e-12)


@every_loss
def test_the_lipschitz_constant_is_attained(loss):
    far = np.array([-2e4, -1e4, 1e4, 2e4])
    steepest = np.abs(np.diff(loss.value(far)) / np.diff(far))[[0, 2]].max()
    assert steepest == pytest.approx(loss.lipschitz, rel=1e-12)


@every_loss
def test_margin_losses_fall_from_slope_minus_1_to_0(loss):
    """The closed forms for flipped labels rest on it."""
    if loss.task == "classification":
        assert loss.slope_range == (-1.0, 0.0)
        assert (np.diff(loss.value(GRID)) <= 0.0).all()
    else:
        assert loss.task == "regression"
        low, high = loss.slope_range
        assert low < 0.0 < high


# ---------------------------------------------------------------------- pieces and kinks
@every_loss
def test_the_largest_piece_is_the_loss(loss):
    curved = loss.curvature(GRID).any()
    assert bool(loss.pieces) != curved
    if loss.pieces:
        lines = [piece.slope * GRID + piece.constant for piece in loss.pieces]
        np.testing.assert_allclose(np.max(lines, axis=0), loss.value(GRID), atol=1e-14)
        # No piece is idle: each is the only largest somewhere.
        beyond = np.array([-1e3, *GRID, 1e3])
        lines = np.array([piece.slope * beyond + piece.constant for piece in loss.pieces])
        if loss != EpsilonInsensitive(0.0):  # its flat piece is a point
            assert {int(k) for k in np.argmax(lines, axis=0)} == set(range(len(loss.pieces)))


@every_loss
def test_the_slope_jumps_by_1_at_kinks_and_nowhere_else(loss):
    for kink in loss.kinks:
        if loss != EpsilonInsensitive(0.0):  # two kinks at one place
            below, above = loss.slope(np.array([kink - 1e-9, kink + 1e-9]))
            assert above - below == pytest.approx(1.0)
    fine = np.linspace(-6, 6, 12_001)
    jumps = np.diff(loss.slope(fine)) > 0.01
    for kink in loss.kinks:
        jumps &= ~((fine[:-1] <= kink + 1e-9) & (kink - 1e-9 <= fine[1:]))
    assert not jumps.any()


# ---------------------------------------------------------------------- conjugate
@every_loss
def test_fenchel_young(loss):
    """vz <= L(z) + L*(v), with equality if v is a slope at z."""
    v = np.linspace(*loss.slope_range, 41)
    z = np.append(GRID, [-1e3, 1e3])
    gap = loss.value(z)[:, None] + loss.conjugate(v) - z[:, None] * v
    assert gap.min() >= -1e-9
    tight = loss.value(z) + loss.conjugate(loss.slope(z)) - z * loss.slope(z)
    np.testing.assert_allclose(tight, 0.0, atol=1e-9)


@every_loss
def test_the_conjugate_is_no_larger_than_the_supremum(loss):
    """Between the slopes of a kink no z has the slope v: the supremum itself is computed."""
    v = np.linspace(*loss.slope_range, 41)
    z = np.sort(np.concatenate([np.linspace(-40, 40, 80_001), loss.kinks]))
    supremum = (v[:, None] * z - loss.value(z)).max(axis=1)
    np.testing.assert_allclose(loss.conjugate(v), supremum, atol=1e-6)


@every_loss
def test_the_conjugate_is_convex_and_rounding_beyond_its_domain_is_forgiven(loss):
    low, high = loss.slope_range
    v = np.linspace(low, high, 101)
    values = loss.conjugate(v)
    assert (values[:-2] + values[2:] - 2 * values[1:-1] >= -1e-12).all()
    beyond = loss.conjugate(np.array([low - 1e-17, high + 1e-17]))
    np.testing.assert_allclose(beyond, loss.conjugate(np.array([low, high])), atol=1e-12)


# ---------------------------------------------------------------------- numbers
VALUES = [
    (Hinge(), [-1.0, 0.0, 1.0, 3.0], [2.0, 1.0, 0.0, 0.0]),
    (SmoothHinge(), [-1.0, 0.0, 0.5, 1.0, 2.0], [1.5, 0.5, 0.125, 0.0, 0.0]),
    (
        Logistic(),
        [-800.0, 0.0, 40.0, 800.0],
        [800.0, math.log(2.0), math.exp(-40.0), 0.0],
    ),
    (Huber(1.35), [-2.0, -1.0, 0.0, 1.35, 3.0], [1.78875, 0.5, 0.0, 0.91125, 3.13875]),
    (EpsilonInsensitive(0.1), [-1.0, -0.05, 0.1, 0.6], [0.9, 0.0, 0.0, 0.5]),
    (Pinball(0.3), [-2.0, 0.0, 2.0], [0.6, 0.0, 1.4]),
]


def test_every_registered_loss_has_values_by_hand():
    assert {loss.name for loss, _, _ in VALUES} == set(LOSSES)


@pytest.mark.parametrize(("loss", "z", "expected"), VALUES, ids=lambda v: getattr(v, "name", ""))
def test_values_by_hand(loss, z, expected):
    np.testing.assert_allclose(loss.value(np.array(z)), expected, rtol=1e-14)


@every_loss
def test_far_out_nothing_overflows(loss):
    z = np.array([-1e300, -1e3, 1e3, 1e300])
    for result in (*loss.value_and_slope(z), loss.curvature(z)):
        assert np.isfinite(result).all()


@every_loss
def test_results_are_new_arrays(loss):
    """Callers overwrite what they get, and keep what they gave."""
    z = np.linspace(-3, 3, 7)
    z.setflags(write=False)
    value, slope = loss.value_and_slope(z)
    results = [value, slope, loss.value(z), loss.slope(z), loss.curvature(z)]
    for k, result in enumerate(results):
        assert result.dtype == np.float64
        assert result.shape == z.shape
        assert result.flags.writeable
        assert not any(np.shares_memory(result, other) for other in [z, *results[:k]])
    assert loss.value(np.zeros(0)).shape == (0,)


# ---------------------------------------------------------------------- the table
def test_names_lead_to_losses():
    for name, kind in LOSSES.items():
        assert kind.name == name
        assert make_loss(name) == kind()
    assert make_loss("huber", epsilon=2) == Huber(2)
    loss = Pinball(0.3)
    assert make_loss(loss) is loss


@every_loss
def test_a_loss_is_a_value(loss):
    twin = pickle.loads(pickle.dumps(loss))
    assert twin == loss
    assert hash(twin) == hash(loss)
    assert (twin.pieces, twin.kinks, twin.slope_range) == (
        loss.pieces,
        loss.kinks,
        loss.slope_range,
    )
    with pytest.raises(FrozenInstanceError):
        loss.epsilon = 3.0
    assert Huber(1.0) != Huber(2.0)


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        (("hing",), ValueError, "unknown loss 'hing': did you mean 'hinge'"),
        (("zzz",), ValueError, "unknown loss 'zzz': known are 'hinge', 'smooth_hinge'"),
        ((3,), TypeError, "loss must be a name, one of 'hinge'"),
        (("hinge", {"epsilon": 1.0}), TypeError, "loss 'hinge' takes no parameter, got epsilon"),
        (("huber", {"eps": 1.0}), TypeError, "loss 'huber' takes epsilon, got eps"),
        ((Hinge(), {"epsilon": 1.0}), TypeError, "carries its own parameters; drop epsilon"),
        (
            ("huber", {"epsilon": 0.0}),
            ValueError,
            "of huber must be a finite number > 0",
        ),
        (
            ("huber", {"epsilon": math.inf}),
            ValueError,
            "of huber must be a finite number > 0",
        ),
        (("huber", {"epsilon": "1"}), TypeError, "epsilon of huber must be a number, got"),
        (
            ("epsilon_insensitive", {"epsilon": -1.0}),
            ValueError,
            "must be a finite number >= 0, got -1",
        ),
        (
            ("epsilon_insensitive", {"epsilon": math.nan}),
            ValueError,
            "must be a finite number >= 0, got nan",
        ),
        (("epsilon_insensitive", {"epsilon": None}), TypeError, "must be a number, got None"),
        (("pinball", {"quantile": 1.0}), ValueError, "of pinball must be .* > 0 and < 1, got 1"),
        (("pinball", {"quantile": 0.0}), ValueError, "of pinball must be .* > 0 and < 1, got 0"),
        (("pinball", {"quantile": math.nan}), ValueError, "> 0 and < 1, got nan"),
        (("pinball", {"quantile": [0.5]}), TypeError, "quantile of pinball must be a number, got"),
    ],
)
def test_impossible_losses_are_refused(arguments, error, sentence):
    name, params = (*arguments, {})[:2]
    with pytest.raises(error, match=sentence):
        make_loss(name, **params)
