"""The worst case of several classes at once: closed form, subgradient, distribution, flows."""

from itertools import combinations

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import minimize

import drfl
from drfl.gauges import Pairs
from drfl.gauges.flows import cheapest_flow, flow_cost
from drfl.losses.joint import JOINT
from drfl.norms import NORMS, GroupedLInf
from drfl.rows import Rows
from drfl.worst_case.joint import JointOracle
from kit.joint_referee import JointReferee
from kit.referee import DUAL

CASES = [(norm, loss, cost) for norm in NORMS for loss in JOINT for cost in (np.inf, 0.3, 5.0)]


def oracle_and_model(seed, norm, loss, cost, radius=0.2):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(23, 3)), rng.integers(0, 4, 23).astype(float)
    oracle = JointOracle(Rows(X, y), JOINT[loss], drfl.Ball(radius, norm, cost), 4)
    return oracle, rng.normal(size=(4, 3)), rng.normal(size=4), rng


@pytest.mark.parametrize(("norm", "loss", "cost"), CASES)
def test_the_closed_form_is_the_least_over_all_prices(norm, loss, cost):
    oracle, W, b, _ = oracle_and_model(1, norm, loss, cost)
    problem = drfl.Problem(loss, oracle.ball, classes=4)
    referee = JointReferee.of(problem, {"a": (oracle.rows.X, oracle.rows.y)})
    worst = oracle.evaluate(W, b)
    np.testing.assert_allclose(worst.value, referee.worst_case(0, W, b), rtol=1e-12)
    np.testing.assert_allclose(
        referee.dual_function(0, W, b, worst.multiplier), worst.value, rtol=1e-12
    )


@pytest.mark.parametrize(("norm", "loss", "cost"), CASES)
def test_the_gradient_is_a_cut(norm, loss, cost):
    oracle, W, b, rng = oracle_and_model(2, norm, loss, cost)
    here = oracle.evaluate(W, b)
    for size in (1e-3, 0.1, 3.0):
        for _ in range(10):
            dW, db = size * rng.normal(size=W.shape), size * rng.normal(size=4)
            there = oracle.evaluate(W + dW, b + db).value
            least = here.value + (here.gradient * dW).sum() + here.intercept_gradient @ db
            assert there >= least - 1e-10


@pytest.mark.parametrize(("norm", "loss", "cost"), CASES)
def test_adding_the_same_to_all_classes_changes_nothing(norm, loss, cost):
    oracle, W, b, rng = oracle_and_model(3, norm, loss, cost)
    one, other = oracle.evaluate(W, b), oracle.evaluate(W + rng.normal(size=3), b + 0.7)
    np.testing.assert_allclose(one.value, other.value, rtol=1e-10)
    np.testing.assert_allclose(one.gradient, other.gradient, atol=1e-10)
    np.testing.assert_allclose(one.gradient.sum(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize(("norm", "loss", "cost"), CASES)
def test_the_distribution_costs_the_radius_and_attains_the_value(norm, loss, cost):
    oracle, W, b, _ = oracle_and_model(4, norm, loss, cost)
    worst = oracle.evaluate(W, b)
    found = worst.distribution()
    assert found.cost <= oracle.ball.radius * (1.0 + 1e-9)
    assert found.expected_loss <= worst.value * (1.0 + 1e-9)
    assert found.expected_loss >= worst.value - found.tolerance - 1e-9
    assert found.tolerance <= 1e-5 * worst.value
    np.testing.assert_allclose(found.mass.sum(), 1.0)
    moved = found.y != oracle.rows.y[found.source]
    assert not moved.any() if np.isinf(cost) else set(found.y) <= {0.0, 1.0, 2.0, 3.0}


@pytest.mark.parametrize("loss", list(JOINT))
def test_two_classes_are_the_loss_of_their_difference(loss):
    rng = np.random.default_rng(9)
    X, y, w = rng.normal(size=(17, 3)), rng.integers(0, 2, 17).astype(float), rng.normal(size=3)
    for cost in (np.inf, 0.5):
        ball = drfl.Ball(0.3, "l2", cost)
        both = JointOracle(Rows(X, y), JOINT[loss], ball, 2).evaluate(
            np.array([-w / 2, w / 2]), np.array([-0.1, 0.1])
        )
        one = drfl.worst_case_loss(X, y, w, 0.2, loss=loss, radius=0.3, label_cost=cost, norm="l2")
        np.testing.assert_allclose(both.value, one.value, rtol=1e-12)
        np.testing.assert_allclose(both.gradient[1] - both.gradient[0], 2 * one.gradient)


PAIRED = {**NORMS, "of two columns": GroupedLInf((2, 1))}


def dual_norm(norm, d):
    if norm in NORMS:
        return cp.norm(d, DUAL[norm])
    return cp.norm(d[:2], "inf") + cp.norm(d[2:], "inf")


@pytest.mark.parametrize("norm", list(PAIRED))
@pytest.mark.parametrize("K", [2, 3, 5])
def test_the_polar_is_the_support_function_of_the_unit_ball(norm, K):
    rng = np.random.default_rng(K)
    gauge = Pairs(PAIRED[norm], K, 3)
    for _ in range(4):
        G = rng.normal(size=(K, 3))
        G -= G.mean(axis=0)
        W = cp.Variable((K, 3))
        within = [dual_norm(norm, W[j] - W[k]) <= 1 for j, k in combinations(range(K), 2)]
        program = cp.Problem(cp.Maximize(cp.sum(cp.multiply(G, W))), [*within, W[0] == 0])
        best = program.solve(solver=cp.CLARABEL)
        np.testing.assert_allclose(gauge.polar(G.ravel()), best, rtol=1e-7)
        T = rng.normal(size=(K * (K - 1) // 2, 3))
        assert flow_cost(G, T, PAIRED[norm]) >= best * (1 - 1e-7)  # any flow costs at least that


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.sampled(2)
def test_three_classes_are_the_corners_of_a_triangle(seed):
    """The closed form is what the search over flows finds, flat and obtuse triangles included."""
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(3, 1 + seed % 4)) * 10.0 ** rng.uniform(-4, 0, size=(3, 1))
    G[0] = np.where(seed % 3 == 0, -rng.random() * G[1], G[0])
    G -= G.mean(axis=0)
    best = cheapest_flow(G, NORMS["l2"])

    def cost(c):
        return flow_cost(G, (G[[0, 0, 1]] - G[[1, 2, 2]]) / 3 + c * [[1], [-1], [1]], NORMS["l2"])

    starts = [np.zeros(G.shape[1]), *rng.normal(size=(5, G.shape[1]))]
    found = min(cost(minimize(cost, c, method="Nelder-Mead", tol=1e-12).x) for c in starts)
    assert best <= found * (1.0 + 1e-12)
    np.testing.assert_allclose(best, found, rtol=1e-6)


def test_a_flow_of_nothing_costs_nothing():
    assert cheapest_flow(np.zeros((3, 2)), NORMS["l2"]) == 0.0


@pytest.mark.parametrize("norm", list(PAIRED))
def test_gauges_of_pairs_keep_their_promises(norm):
    rng, gauge = np.random.default_rng(1), Pairs(PAIRED[norm], 4, 3)
    x, y = rng.normal(size=16), rng.normal(size=16)
    u = gauge.subgradient(x)
    np.testing.assert_allclose(u @ x[:12], gauge.value(x))
    assert gauge.value(y) >= u @ y[:12] - 1e-12
    tangents, _ = gauge.tangents(x)
    np.testing.assert_allclose((tangents @ x[:12]).max(), gauge.value(x))
    np.testing.assert_allclose(gauge.value(gauge.nearest(x)), gauge.value(x))
    shifted = x + np.concatenate([np.tile([0.3, -1.0, 2.0], 4), np.zeros(4)])
    np.testing.assert_allclose(gauge.value(shifted), gauge.value(x))
    rows = gauge.rows()
    if rows is not None:
        left = np.zeros(rows.n_rows)
        for entries, values in (
            (rows.w, x),
            (rows.e, gauge.extra(x)),
            (rows.t, np.array([gauge.value(x)])),
        ):
            np.add.at(left, entries.row, entries.value * values[entries.column])
        assert left.max() <= 1e-12
        assert left.max() >= -1e-12
    payable = gauge.payable(gauge.nearest(y)[:12], 0.5)
    assert gauge.polar(payable) <= 0.5 * (1 + 1e-9)
