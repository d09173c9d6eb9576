"""The best intercepts of several classes at once, against cvxpy and one score."""

import cvxpy as cp
import numpy as np
import pytest

from drfl.losses import make_loss
from drfl.losses.joint import JOINT
from drfl.rows import Rows
from drfl.uncertainty import Ball
from drfl.worst_case.joint import JointOracle
from drfl.worst_case.joint_intercepts import balanced, joint_balance, own_intercepts
from drfl.worst_case.make import make_oracle


def drawn(seed):
    """Rows, W and weights; some classes have no rows."""
    rng = np.random.default_rng(seed)
    K, N = int(rng.integers(2, 6)), int(rng.integers(2, 60))
    X, y = rng.normal(size=(N, 3)), rng.integers(0, K, N).astype(float)
    if seed % 3 == 0:
        y[y == 0.0] = 1.0
    W = rng.normal(size=(K, 3)) * rng.choice([0.01, 1.0, 20.0])
    return Rows(X, y, weights=rng.random(N) + 0.1 if seed % 2 else None), W


def masses(rows):
    return np.broadcast_to(np.asarray(rows.mass()), (rows.n_rows,))


def least(z, rows, y, loss):
    """The smallest mean loss over all intercepts, by cvxpy."""
    K, N = z.shape
    own, b = np.eye(K)[y], cp.Variable((1, K))
    scores = z.T + np.ones((N, 1)) @ b
    tops = {
        "logistic": lambda: cp.log_sum_exp(scores, axis=1),
        "hinge": lambda: cp.max(scores + 1.0 - own, axis=1),
    }
    each = tops[loss]() - cp.sum(cp.multiply(own, scores), axis=1)
    program = cp.Problem(cp.Minimize(masses(rows) @ each))
    program.solve(solver="CLARABEL")
    return program.value


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("loss", JOINT)
@pytest.mark.parametrize("seed", range(12))
def test_no_intercepts_are_better_and_the_cut_proves_it(loss, seed):
    rows, W = drawn(seed)
    oracle = JointOracle(rows, JOINT[loss], Ball(0.1), len(W))
    z = rows.scores_many(W, np.zeros(len(W)))
    found = joint_balance(oracle, z)
    value = rows.mean(oracle.loss.value(z + found.b[:, None], oracle.y))
    assert value == pytest.approx(least(z, rows, oracle.y, loss), rel=2e-6, abs=2e-7)
    # The shares are in the simplex, and their slopes in b cancel: a bound for every intercept.
    slopes = found.shares - np.eye(len(W))[:, oracle.y]
    assert found.shares.min() >= 0.0
    assert found.shares.sum(axis=0) == pytest.approx(1.0)
    assert np.abs(slopes @ masses(rows)).max() < 1e-13
    bound = rows.mean(oracle.loss.level(found.shares, oracle.y) + (slopes * z).sum(axis=0))
    assert bound <= value + 1e-13 * (1.0 + value)
    assert bound == pytest.approx(value, rel=1e-8, abs=1e-12)
    assert found.b.sum() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("loss", JOINT)
def test_two_classes_are_one_score(loss):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(31, 2)), rng.integers(0, 2, 31).astype(float)
    w = np.array([0.5, -1.0])
    one = make_oracle(Rows(X, 2.0 * y - 1.0), make_loss(loss), Ball(0.1))
    two = JointOracle(Rows(X, y), JOINT[loss], Ball(0.1), 2)
    (b,) = own_intercepts(one, w)
    both = own_intercepts(two, np.array([-0.5 * w, 0.5 * w]))
    found = two.evaluate(np.array([-0.5 * w, 0.5 * w]), both).value
    assert found == pytest.approx(one.evaluate(w, b).value, rel=1e-7)
    if loss == "logistic":
        assert both[1] - both[0] == pytest.approx(b, abs=1e-9)


def test_permuted_classes_have_permuted_intercepts():
    rows, W = drawn(4)
    order = np.random.default_rng(0).permutation(len(W))
    places = np.argsort(order)
    other = Rows(rows.X, places[rows.y.astype(int)].astype(float))
    for loss in (JOINT["logistic"],):
        first = own_intercepts(JointOracle(rows, loss, Ball(0.1), len(W)), W)
        second = own_intercepts(JointOracle(other, loss, Ball(0.1), len(W)), W[order])
        assert second == pytest.approx(first[order], abs=1e-9)


def test_shares_of_nothing_and_of_all():
    z = np.random.default_rng(0).normal(size=(3, 7)) * 1e3
    even = np.full(7, 1.0 / 7.0)
    b, shares = balanced(z, even, np.array([0.0, 1.0, 0.0]))
    assert shares[1] == pytest.approx(1.0)
    assert (z[[0, 2]] + b[[0, 2], None]).max() < (z[1] + b[1]).max()
    target = np.array([0.2, 0.5, 0.3])
    assert balanced(z, even, target)[1] @ even == pytest.approx(target, abs=1e-13)
