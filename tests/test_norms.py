"""The ground norms by their properties: every entry of the table."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from drfl.norms import NORMS, make_norm

every_norm = pytest.mark.parametrize("norm", NORMS.values(), ids=NORMS)
few_examples = settings(max_examples=30)
ORDER = {"l1": (1, np.inf), "l2": (2, 2), "linf": (np.inf, 1)}  # of the norm and of its dual


def vectors(count, largest=100.0):
    """Several vectors of one length, zeros and ties among them."""
    entries = st.sampled_from([0.0, 1.0, -1.0]) | st.floats(
        -largest, largest, allow_subnormal=False
    )
    return st.integers(1, 6).flatmap(lambda n: arrays(np.float64, (count, n), elements=entries))


def into_ball(norm, d):
    return d / max(1.0, float(norm(d)))


# ---------------------------------------------------------------------- norm and dual
@every_norm
@few_examples
@given(pair=vectors(2), factor=st.floats(-10, 10))
def test_it_is_a_norm(norm, pair, factor):
    a, b = pair
    assert norm(a + b) <= norm(a) + norm(b) + 1e-9
    assert norm(factor * a) == pytest.approx(abs(factor) * norm(a), rel=1e-12, abs=1e-12)
    assert norm(np.zeros_like(a)) == 0.0
    if np.abs(a).max() > 1e-150:  # squares of smaller numbers are 0
        assert norm(a) > 0.0


@every_norm
@few_examples
@given(pair=vectors(2))
def test_dual_pairing_is_attained(norm, pair):
    w, d = pair
    assert w @ d <= norm.dual(w) * norm(d) * (1 + 1e-12) + 1e-12
    u = norm.steepest(w)
    assert norm(u) <= 1.0 + 1e-12
    assert w @ u == pytest.approx(norm.dual(w), rel=1e-12)


@every_norm
@few_examples
@given(pair=vectors(2))
def test_steepest_is_a_subgradient_of_the_dual_norm(norm, pair):
    w, other = pair
    tangent = norm.dual(w) + norm.steepest(w) @ (other - w)
    assert norm.dual(other) >= tangent - 1e-9


@every_norm
def test_nothing_is_steepest_at_zero(norm):
    assert not norm.steepest(np.zeros(3)).any()
    assert norm.dual(np.zeros(3)) == 0.0


@every_norm
def test_a_vector_without_entries(norm):
    empty = np.zeros(0)
    assert norm.dual(empty) == 0.0
    assert norm(empty) == 0.0
    assert norm.steepest(empty).shape == (0,)
    assert norm.project_ball(empty).shape == (0,)


@every_norm
def test_many_moves_are_measured_at_once(norm):
    moves = np.random.default_rng(0).normal(size=(2, 5, 3))
    expected = [[float(norm(move)) for move in row] for row in moves]
    np.testing.assert_allclose(norm(moves), expected, rtol=1e-15)


@pytest.mark.parametrize("name", ORDER)
def test_the_three_norms_and_their_duals(name):
    norm, (order, dual_order) = NORMS[name], ORDER[name]
    for d in np.random.default_rng(1).normal(size=(20, 4)):
        assert float(norm(d)) == pytest.approx(np.linalg.norm(d, order), rel=1e-14)
        assert norm.dual(d) == pytest.approx(np.linalg.norm(d, dual_order), rel=1e-14)


# ---------------------------------------------------------------------- projection
@every_norm
@few_examples
@given(pair=vectors(2, 10.0), scale=st.sampled_from([0.01, 0.1, 1.0]))
def test_projection_by_its_variational_inequality(norm, pair, scale):
    v, d = scale * pair[0], into_ball(norm, pair[1])
    p = norm.project_ball(v)
    assert norm(p) <= 1.0 + 1e-12
    assert (v - p) @ (d - p) <= 1e-10
    # The same said with three points.
    assert ((d - v) ** 2).sum() >= ((p - v) ** 2).sum() + ((d - p) ** 2).sum() - 1e-10


@every_norm
@few_examples
@given(pair=vectors(2, 10.0))
def test_projection_is_idempotent_and_shrinks_distances(norm, pair):
    a, b = (norm.project_ball(v) for v in pair)
    np.testing.assert_allclose(norm.project_ball(a), a, rtol=1e-12, atol=1e-15)
    assert ((a - b) ** 2).sum() <= ((pair[0] - pair[1]) ** 2).sum() + 1e-10


@every_norm
@few_examples
@given(one=vectors(1))
def test_points_of_the_ball_stay(norm, one):
    inside = 0.999 * into_ball(norm, one[0])
    p = norm.project_ball(inside)
    assert np.array_equal(p, inside)
    assert not np.shares_memory(p, inside)


@every_norm
@few_examples
@given(pair=vectors(2, 10.0))
def test_moreau_the_rest_is_the_prox_of_the_dual_norm(norm, pair):
    r"""x = v - P(v) minimises |x-v|^2/2 + ||x||_*, strongly: the three-point inequality."""
    v, other = pair
    x = v - norm.project_ball(v)

    def objective(point):
        return ((point - v) ** 2).sum() / 2 + norm.dual(point)

    for point in (other, v, np.zeros_like(v), x + 1e-3 * other):
        assert objective(point) >= objective(x) + ((point - x) ** 2).sum() / 2 - 1e-9


@every_norm
@pytest.mark.parametrize("size", [1e8, 1e17, 1e20, 1e100])
def test_projection_of_huge_vectors(norm, size):
    """Beside them the radius 1 is lost to rounding."""
    p = norm.project_ball(np.array([size, -size, size / 4]))
    assert float(norm(p)) == pytest.approx(1.0)
    expected = {"l1": [0.5, -0.5, 0.0], "linf": [1.0, -1.0, 1.0]}
    if norm.name in expected:
        np.testing.assert_allclose(p, expected[norm.name], atol=1e-12)


# ---------------------------------------------------------------------- the table
def test_names_lead_to_norms():
    for name, norm in NORMS.items():
        assert norm.name == name
        assert make_norm(name) is make_norm(norm) is norm
        assert repr(norm) == f"<norm {name}>"
    with pytest.raises(
        ValueError, match=r"unknown norm 'l3': did you mean '.*known are 'l1', 'l2'"
    ):
        make_norm("l3")
    with pytest.raises(TypeError, match="norm must be a name, one of 'l1', 'l2', 'linf'; got int"):
        make_norm(2)
