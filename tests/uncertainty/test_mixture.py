"""The set Q: each closed form against a conic solver, a dual bound or the inequality it claims."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drfl.uncertainty import Mixture

DUAL = {1: math.inf, 2: 2, math.inf: 1}
every_p = pytest.mark.parametrize("p", list(DUAL))


def simplex_point(rng, size, zeros=0):
    """A random point of the simplex with some entries exactly 0."""
    q = rng.exponential(size=size)
    q[rng.permutation(size)[:zeros]] = 0.0
    return q / q.sum()


def small_cases(p, seed):
    """(mixture, z): inner and boundary centres, radii from 0 to inf, ties, several scales of z."""
    rng = np.random.default_rng(seed)
    for size in (1, 2, 5, 12):
        for zeros in sorted({0, size // 2, size - 1}):
            for radius in (0.0, 1e-4, 0.05, 0.3, 0.9, 1.5, math.inf):
                z = rng.normal(size=size) * 10.0 ** rng.integers(-2, 3)
                if rng.random() < 0.4:
                    z = np.round(2 * z / np.abs(z).max())
                yield Mixture(simplex_point(rng, size, zeros), radius, p), z


def large_cases(p, seed):
    """(mixture, z) with 10,000 clients."""
    rng = np.random.default_rng(seed)
    size = 10_000
    uneven = rng.pareto(1.1, size) + 1e-3
    radii = {1: (1e-3, 0.3, 1.9), 2: (1e-4, 0.01, 0.6), math.inf: (1e-5, 3e-4, 0.4)}[p]
    for center in (np.full(size, 1 / size), uneven / uneven.sum(), simplex_point(rng, size, 3000)):
        for radius in radii:
            for z in (rng.normal(size=size), 5 + rng.integers(0, 4, size), rng.pareto(1.0, size)):
                yield Mixture(center, radius, p), z.astype(float)


def points_of(mixture, rng, count):
    """Points of Q, half of them as far as a unit vector pulls; made without the code under test."""
    center, size = mixture.weights, len(mixture.weights)
    for k in range(count):
        other = simplex_point(rng, size, zeros=size - 1 if k % 2 else k % size)
        length = max(float(np.linalg.norm(other - center, mixture.p)), 1e-300)
        yield center + min(1.0, mixture.radius / length) * (other - center)


def violation(mixture, q):
    """By how much q violates the worst of the constraints of Q."""
    distance = np.linalg.norm(q - mixture.weights, mixture.p)
    return max(-q.min(), abs(math.fsum(q) - 1.0), distance - mixture.radius)


def dual_value(mixture, z, gamma, raised):
    """Theorem 4.3 with raised = z + eta: a bound on h(z), whatever gamma and raised >= z."""
    assert (raised >= z).all()
    length = np.linalg.norm(raised + gamma, DUAL[mixture.p])
    # With an infinite radius only the vector 0 has a finite price.
    return mixture.weights @ raised + (mixture.radius * length if length > 0.0 else 0.0)


def upper_bound(mixture, z, q):
    """The dual value at multipliers read off from q; a bad q costs tightness, never validity."""
    center, radius, p = mixture.weights, mixture.radius, mixture.p
    # h(z) <= max z, and h(z) <= center'z + radius |z - mean z|, which settles radius 0.
    candidates = [(-z.max(), np.full_like(z, z.max())), (-z.mean(), z)]
    if p == 1:
        floor = z[q < center].max(initial=z.min())
        candidates.append((-0.5 * (z.max() + floor), np.maximum(floor, z)))
    elif p == math.inf:
        price = z[q < center + radius * (1.0 - 1e-9)].max(initial=z.min())
        candidates.append((-price, np.where(center < radius, np.maximum(price, z), z)))
    elif np.ptp((q - center)[q > 0.0]) > 0.0:
        step, on = q - center, q > 0.0
        scale = np.std(z[on]) / np.std(step[on])
        gamma = np.mean(scale * step[on] - z[on])
        candidates.append((gamma, np.where(on, z, np.maximum(scale * step - gamma, z))))
    return min(dual_value(mixture, z, gamma, raised) for gamma, raised in candidates)


def conic(mixture, q, cp):
    """The constraints of Q typed in cvxpy."""
    if mixture.radius == 0.0:  # a cone without interior: the solver would call it inaccurate
        return [q == mixture.weights]
    ball = [cp.norm(q - mixture.weights, mixture.p) <= mixture.radius]
    return [q >= 0, cp.sum(q) == 1, *(ball if math.isfinite(mixture.radius) else [])]


def theorem(mixture, z, cp):
    """The dual of Theorem 4.3 typed in cvxpy, and its constraints; z may be a variable."""
    gamma, eta = cp.Variable(), cp.Variable(len(mixture.weights), nonneg=True)
    mean, length = mixture.weights @ (z + eta), cp.norm(z + gamma + eta, DUAL[mixture.p])
    if mixture.radius == 0.0:
        return mean, []
    if math.isinf(mixture.radius):
        return mean, [z + gamma + eta == 0]
    return mean + mixture.radius * length, []


def solved(problem, cp):
    # The default tolerances, 1e-8: p = 2 with a boundary centre is degenerate, and below them the
    # solver calls it inaccurate. The dual bound and the inequalities are the sharper tests.
    return problem.solve(cp.CLARABEL)


# The support function


@every_p
def test_support_equals_the_conic_maximum_and_the_dual_of_theorem_4_3(p):
    cp = pytest.importorskip("cvxpy")
    for mixture, z in small_cases(p, seed=1):
        scale = np.abs(z).max()  # the solver sees z of size 1; h is positively homogeneous
        q = cp.Variable(len(z))
        primal = solved(cp.Problem(cp.Maximize(z / scale @ q), conic(mixture, q, cp)), cp)
        objective, with_infinity = theorem(mixture, z / scale, cp)
        dual = solved(cp.Problem(cp.Minimize(objective), with_infinity), cp)
        assert mixture.support(z) / scale == pytest.approx(primal, abs=2e-7)
        assert mixture.support(z) / scale == pytest.approx(dual, abs=2e-7)


@every_p
def test_worst_weights_are_feasible_and_meet_the_dual_bound(p):
    for mixture, z in small_cases(p, seed=2):
        q = mixture.worst_weights(z)
        scale = np.abs(z).max()
        assert violation(mixture, q) <= 1e-14
        assert mixture.support(z) == q @ z
        assert abs(upper_bound(mixture, z, q) - q @ z) <= 1e-12 * scale


@every_p
def test_worst_weights_of_ten_thousand_clients(p):
    for mixture, z in large_cases(p, seed=3):
        q = mixture.worst_weights(z)
        assert violation(mixture, q) <= 1e-14
        assert abs(upper_bound(mixture, z, q) - q @ z) <= 1e-12 * np.abs(z).max()


def test_worst_weights_where_few_clients_leave_at_a_time():
    z = -(1.05 ** np.arange(3000))  # the mean sits among the last few: simple dropping crawls
    for radius in (0.02, 0.2, 0.9):
        mixture = Mixture(np.full(3000, 1 / 3000), radius, 2)
        q = mixture.worst_weights(z)
        assert violation(mixture, q) <= 1e-13
        # In the units of the losses that still count; the largest is 1e63.
        assert upper_bound(mixture, z, q) - q @ z <= 1e-12 * np.abs(z[q > 0.0]).max()


def test_a_weight_begins_to_grow_beside_losses_of_another_size():
    # The second client leaves first; beside it the step of the first one is below rounding.
    for radius in np.linspace(1e-9, 1e-7, 100):
        q = Mixture([0.0, 0.0, 1.0], radius, 2).worst_weights([1e-4, -1e6, -1e-5])
        side = radius / math.sqrt(2)
        np.testing.assert_allclose(q, [side, 0.0, 1.0 - side], rtol=1e-6)


@pytest.mark.parametrize("size", [2, 3, 6, 7, 49, 10_000])
@every_p
def test_equal_losses_give_exactly_that_loss(p, size):
    mixture = Mixture(radius=0.05, p=p)
    for loss in (1.0, 0.1, 1e8 + 0.3):
        assert mixture.support(np.full(size, loss)) == pytest.approx(loss, rel=1e-14)


@every_p
def test_losses_that_differ_in_the_last_digit_stay_within_them(p):
    z = np.array([1.0, 1.0 + 2.0**-52, 1.0, 1.0 - 2.0**-53])
    mixture = Mixture([0.4, 0.3, 0.2, 0.1], 0.3, p)
    assert violation(mixture, mixture.worst_weights(z)) <= 1e-15
    assert abs(mixture.support(z) - 1.0) <= 3e-16


def test_radius_is_that_of_the_difference():
    assert Mixture(radius=0.2, p=1).worst_weights([0.0, 1.0]) == pytest.approx([0.4, 0.6])
    assert Mixture(radius=0.2, p=math.inf).worst_weights([0.0, 1.0]) == pytest.approx([0.3, 0.7])
    side = 0.2 / math.sqrt(2)
    expected = [0.5 - side, 0.5 + side]
    assert Mixture(radius=0.2, p=2).worst_weights([0.0, 1.0]) == pytest.approx(expected)


@every_p
def test_radius_zero_is_the_center_and_infinity_the_first_largest_loss(p):
    center = np.array([0.5, 0.0, 0.2, 0.3])
    z = [1.0, 3.0, 3.0, 2.0]
    np.testing.assert_array_equal(Mixture(center, 0.0, p).worst_weights(z), center)
    np.testing.assert_array_equal(Mixture(center, math.inf, p).worst_weights(z), [0, 1, 0, 0])
    for rounded in (center, np.full(49, 1 / 49), np.array([0.1] * 10)):  # sums on both sides of 1
        projected = Mixture(rounded, 0.0, p).project(np.arange(len(rounded)))
        np.testing.assert_allclose(projected, rounded, atol=1e-16)


@every_p
def test_one_client_has_all_the_weight(p):
    for radius in (0.0, 0.5, math.inf):
        mixture = Mixture(radius=radius, p=p)
        assert mixture.support([7.0]) == 7.0
        for weights in (mixture.worst_weights([7.0]), mixture.project([-3.0]), mixture.pull([4.0])):
            np.testing.assert_array_equal(weights, [1.0])


@every_p
def test_the_simplex_binds_alone_exactly_from_the_farthest_unit_vector_on(p):
    center = np.array([0.2, 0.5, 0.3])
    farthest = max(float(np.linalg.norm(unit - center, p)) for unit in np.eye(3))
    assert Mixture(center, farthest * (1 + 1e-12), p).is_simplex
    assert not Mixture(center, farthest * (1 - 1e-12), p).is_simplex
    z = [3.0, 1.0, 2.0]
    assert Mixture(center, farthest * (1 + 1e-12), p).support(z) == 3.0
    assert Mixture(center, farthest * (1 - 1e-12), p).support(z) == pytest.approx(3.0, abs=1e-11)
    assert Mixture(center, farthest * 0.9, p).support(z) < 3.0 - 1e-3


# Projection and prox


@every_p
def test_projection_is_feasible_and_equals_the_conic_one(p):
    cp = pytest.importorskip("cvxpy")
    for mixture, v in small_cases(p, seed=4):
        v = v / max(1.0, np.abs(v).max() / 3.0)
        projected = mixture.project(v)
        q = cp.Variable(len(v))
        best = solved(cp.Problem(cp.Minimize(cp.sum_squares(q - v)), conic(mixture, q, cp)), cp)
        assert violation(mixture, projected) <= 1e-14
        # The objective is strongly convex: 1e-6 in value is at most 1e-3 in the point.
        assert np.sum((projected - v) ** 2) == pytest.approx(best, abs=1e-6)
        np.testing.assert_allclose(projected, q.value, atol=1e-3)


def assert_projection(mixture, v, tol):
    """The variational inequality over all of Q: max <v - Pv, q - Pv> <= 0, by the dual bound."""
    projected = mixture.project(v)
    residual = v - projected
    worst = upper_bound(mixture, residual, mixture.worst_weights(residual))
    assert violation(mixture, projected) <= 1e-12
    assert worst - residual @ projected <= tol * max(1.0, np.abs(v).max())
    return projected, residual


@every_p
def test_projection_satisfies_the_variational_inequality(p):
    rng = np.random.default_rng(5)
    for mixture, v in small_cases(p, seed=5):
        projected, residual = assert_projection(mixture, v, 1e-13)
        for q in points_of(mixture, rng, 20):
            assert residual @ (q - projected) <= 1e-13 * max(1.0, np.abs(v).max())
            np.testing.assert_allclose(mixture.project(q), q, atol=1e-14)
        np.testing.assert_allclose(mixture.project(projected), projected, atol=1e-14)


@every_p
def test_projection_of_ten_thousand_clients(p):
    rng = np.random.default_rng(6)
    for mixture, z in large_cases(p, seed=6):
        for v in (z, mixture.weights + 1e-4 * z, 1e6 * z):
            projected, residual = assert_projection(mixture, v, 1e-12)
            for q in points_of(mixture, rng, 4):
                assert residual @ (q - projected) <= 1e-12 * max(1.0, np.abs(v).max())


@every_p
def test_prox_is_the_argmin_it_claims(p):
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(7)
    for radius in (0.0, 0.1, 0.7, math.inf):
        for c in (0.2, 3.0):
            mixture = Mixture(simplex_point(rng, 6, zeros=2), radius, p)
            v, x = rng.normal(size=6), cp.Variable(6)
            support, with_infinity = theorem(mixture, x, cp)
            objective = support + 0.5 * c * cp.sum_squares(x - v)
            best = solved(cp.Problem(cp.Minimize(objective), with_infinity), cp)
            ours = mixture.prox(v, c)
            value = mixture.support(ours) + 0.5 * c * np.sum((ours - v) ** 2)
            assert value == pytest.approx(best, abs=2e-7)
            np.testing.assert_allclose(ours, x.value, atol=1e-3)


@every_p
def test_prox_leaves_a_subgradient_of_the_support_function(p):
    rng = np.random.default_rng(8)
    for mixture, v in small_cases(p, seed=8):
        c = 10.0 ** rng.uniform(-1, 1)
        x = mixture.prox(v, c)
        q = c * (v - x)  # must lie in Q and attain h(x)
        scale = max(1.0, c) * max(1.0, np.abs(v).max())
        assert violation(mixture, q) <= 1e-13 * scale
        assert abs(mixture.support(x) - q @ x) <= 1e-12 * scale
        # Moreau's identity.
        np.testing.assert_allclose(x + mixture.project(c * v) / c, v, atol=1e-14 * scale)


# Properties of h


@st.composite
def mixtures_with_losses(draw, losses=2):
    size = draw(st.integers(1, 7))
    number = st.floats(-100.0, 100.0, allow_subnormal=False)
    mass = draw(st.lists(st.integers(0, 20), min_size=size, max_size=size))
    center = np.array(mass, dtype=float) + (0.0 if any(mass) else 1.0)
    radius = draw(st.one_of(st.floats(0.0, 2.5, allow_subnormal=False), st.just(math.inf)))
    mixture = Mixture(center / center.sum(), radius, draw(st.sampled_from(list(DUAL))))
    vectors = st.lists(number, min_size=size, max_size=size).map(np.array)
    return mixture, *(draw(vectors) for _ in range(losses))


many = settings(max_examples=100)
TOL = 1e-11  # for losses up to 100


@many
@given(mixtures_with_losses(), st.floats(0.0, 1.0))
def test_support_is_convex_with_the_worst_weights_as_subgradient(case, share):
    mixture, y, z = case
    h = mixture.support
    assert h(share * y + (1 - share) * z) <= share * h(y) + (1 - share) * h(z) + TOL
    assert h(y) >= h(z) + mixture.worst_weights(z) @ (y - z) - TOL


@many
@given(mixtures_with_losses(), st.floats(0.0, 50.0))
def test_support_is_monotone_homogeneous_and_moves_with_a_constant(case, number):
    mixture, y, z = case
    h = mixture.support
    assert h(np.minimum(y, z)) <= h(y) + TOL
    assert h(number * z) == pytest.approx(number * h(z), abs=50 * TOL)
    assert h(z + number) == pytest.approx(h(z) + number, abs=TOL)


@many
@given(mixtures_with_losses(losses=1), st.floats(0.0, 2.5), st.randoms(use_true_random=False))
def test_support_grows_with_the_radius_and_does_not_see_the_order(case, radius, random):
    mixture, z = case
    smaller = dataclasses.replace(mixture, radius=min(radius, mixture.radius))
    assert smaller.support(z) <= mixture.support(z) + TOL
    assert mixture.weights @ z - TOL <= mixture.support(z) <= z.max() + TOL
    order = random.sample(range(len(z)), len(z))
    permuted = dataclasses.replace(mixture, center=mixture.weights[order])
    assert permuted.support(z[order]) == pytest.approx(mixture.support(z), abs=TOL)


@many
@given(mixtures_with_losses())
def test_projection_does_not_expand_and_everything_stays_in_the_set(case):
    mixture, u, v = case
    projected = mixture.project(u), mixture.project(v)
    assert np.linalg.norm(projected[0] - projected[1]) <= np.linalg.norm(u - v) + TOL
    for q in (*projected, mixture.worst_weights(u), mixture.pull(u)):
        assert violation(mixture, q) <= 1e-13


# Pulling into the set and asking whether a point is inside


@every_p
def test_pull_goes_straight_to_the_boundary_and_leaves_members_alone(p):
    rng = np.random.default_rng(9)
    mixture = Mixture([0.1, 0.2, 0.3, 0.4], 0.15, p)
    for q in points_of(mixture, rng, 10):
        np.testing.assert_allclose(mixture.pull(17.0 * q), q, atol=1e-15)
    outside = np.array([-0.5, 0.0, 6.0, 2.0])
    pulled = mixture.pull(outside)
    ray = np.array([0.0, 0.0, 0.75, 0.25]) - mixture.weights
    share = (pulled - mixture.weights) / ray
    np.testing.assert_allclose(share, share[0])
    assert np.linalg.norm(pulled - mixture.weights, p) == pytest.approx(0.15, rel=1e-14)
    np.testing.assert_array_equal(mixture.pull(np.array([-1.0, 0.0, -2.0, 0.0])), mixture.weights)
    assert Mixture(radius=math.inf, p=p).pull([0.0, 3.0, 1.0]) == pytest.approx([0.0, 0.75, 0.25])


@every_p
def test_contains_notices_each_violated_constraint(p):
    mixture = Mixture([0.3, 0.7, 0.0], 0.2, p)
    on_the_edge = mixture.worst_weights([0.0, 0.0, 1.0])
    assert mixture.contains(on_the_edge)
    assert not mixture.contains([0.3 + 1e-6, 0.7, -1e-6])
    assert not mixture.contains([0.3 + 1e-6, 0.7, 0.0])
    assert not mixture.contains(mixture.weights + 1.01 * (on_the_edge - mixture.weights))
    assert mixture.contains([0.3 + 1e-6, 0.7, 0.0], tol=1e-5)


# The specification


def test_resolve_puts_weights_in_place_of_a_name():
    sizes = [30, 10, 60]
    assert Mixture("uniform", 0.1).resolve(sizes) == Mixture([1 / 3] * 3, 0.1)
    assert Mixture("proportional", 0.1, 2).resolve(sizes) == Mixture([0.3, 0.1, 0.6], 0.1, 2)
    given_weights = Mixture([0.2, 0.2, 0.6])
    assert given_weights.resolve(sizes) == given_weights
    z = [1.0, 4.0, 2.0]
    uniform = Mixture(radius=0.3, p=2)
    np.testing.assert_array_equal(uniform.project(z), uniform.resolve(sizes).project(z))


def test_mixture_is_a_hashable_value_and_a_copy_equals_it():
    rng = np.random.default_rng(10)
    for size in range(2, 100):  # some sum to 1 only up to rounding
        mixture = Mixture(simplex_point(rng, size), np.float32(0.5), np.float64(2.0))
        copy = dataclasses.replace(mixture, radius=mixture.radius)
        assert copy == mixture
        assert hash(copy) == hash(mixture)
        assert copy.resolve([1] * size) == copy
    assert isinstance(mixture.center, tuple)
    assert math.fsum(Mixture([0.5, 0.5 + 9e-10]).center) == pytest.approx(1.0, abs=1e-15)
    changed = mixture.weights
    changed[0] = 5.0
    assert mixture.weights[0] < 1.0


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"p": 3}, ValueError, "p of a mixture must be 1, 2 or math.inf, got 3"),
        ({"p": "inf"}, ValueError, "p of a mixture must be 1, 2 or math.inf, got 'inf'"),
        ({"p": math.nan}, ValueError, "p of a mixture must be 1, 2 or math.inf, got nan"),
        ({"radius": -0.1}, ValueError, r"must be a number >= 0 or inf, got -0.1"),
        ({"radius": math.nan}, ValueError, r"must be a number >= 0 or inf, got nan"),
        ({"radius": "0.1"}, TypeError, "radius of a mixture must be a number, got"),
        ({"center": "unifrom"}, ValueError, "unknown center 'unifrom': did you mean 'uniform'?"),
        ({"center": 1.0}, ValueError, r"one number per client, but has shape \(\)"),
        ({"center": ["a", "b"]}, TypeError, "center must be a vector of numbers"),
        ({"center": []}, ValueError, r"one number per client, but has shape \(0,\)"),
        ({"center": [[0.5, 0.5]]}, ValueError, r"one number per client, but has shape \(1, 2\)"),
        ({"center": [0.5, 0.6]}, ValueError, "must sum to 1, got 1.1: divide by it"),
        ({"center": [0.5, 0.5 + 1e-8]}, ValueError, "must sum to 1, got 1.00000001"),
        ({"center": [1.5, -0.5]}, ValueError, "must not be negative, got -0.5"),
        ({"center": [1.0, math.nan]}, ValueError, "center must be finite, but entry 1 is nan"),
    ],
)
def test_bad_settings_are_refused_in_a_sentence(arguments, error, sentence):
    with pytest.raises(error, match=sentence):
        Mixture(**arguments)


@pytest.mark.parametrize("method", ["support", "worst_weights", "project", "pull", "contains"])
def test_bad_vectors_are_refused_in_a_sentence(method):
    with pytest.raises(ValueError, match="has 2 weights, but there are 3 clients"):
        getattr(Mixture([0.5, 0.5]), method)([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="must be finite, but entry 1 is inf"):
        getattr(Mixture(), method)([1.0, math.inf])
    with pytest.raises(ValueError, match=r"one number per client, but has shape \(\)"):
        getattr(Mixture(), method)(1.0)
    with pytest.raises(
        ValueError, match=r"'proportional' has no weights yet: call resolve\(sizes\)"
    ):
        getattr(Mixture("proportional"), method)([1.0, 2.0])


def test_bad_calls_are_refused_in_a_sentence():
    for c in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="c of prox must be a finite number > 0"):
            Mixture().prox([1.0], c)
    with pytest.raises(ValueError, match=r"'uniform' has no weights yet: call resolve\(sizes\)"):
        _ = Mixture().is_simplex
    with pytest.raises(ValueError, match="sizes must be positive, got 0: drop empty clients"):
        Mixture("proportional").resolve([3, 0])
    with pytest.raises(ValueError, match="has 2 weights, but there are 3 clients"):
        Mixture([0.5, 0.5]).resolve([1, 2, 3])
