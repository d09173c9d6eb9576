"""The parts of a guard: best constants, rounding, a run that is interrupted."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import drfl
from drfl.losses import make_loss
from drfl.privacy import Guard
from drfl.privacy.journal import Journal
from drfl.privacy.release.rounding import class_above, dither, grid_above, grid_below
from drfl.privacy.release.tilt import best_constant
from drfl.privacy.release.weights import averaged
from drfl.rows import Rows
from drfl.worst_case import make_oracle

N, n = 60, 3
LOSSES = ("hinge", "smooth_hinge", "logistic", "huber", "epsilon_insensitive", "pinball")


def oracle_of(name, seed=0):
    rng, loss = np.random.default_rng(seed), make_loss(name)
    X = rng.normal(size=(N, n))
    score = X @ [1.0, -0.5, 0.2] + rng.normal(size=N)
    y = score if loss.task == "regression" else np.where(score > 0.0, 1.0, -1.0)
    return make_oracle(Rows(X, y), loss, drfl.Ball(0.0, "l1"))


def slope_at(oracle, x):
    worst = oracle.evaluate(x[:-1], float(x[-1]))
    return np.append(worst.gradient, worst.intercept_gradient)


@pytest.mark.parametrize("name", LOSSES)
def test_the_best_constant_touches_where_the_slope_comes_from(name):
    oracle, rng = oracle_of(name), np.random.default_rng(1)
    for x in rng.normal(size=(4, n + 1)):
        g = slope_at(oracle, x)
        touch = oracle.evaluate(x[:-1], float(x[-1])).value - g @ x
        assert best_constant(oracle, g) == pytest.approx(touch, abs=1e-9)


@pytest.mark.parametrize("name", ["hinge", "epsilon_insensitive", "pinball", "huber"])
def test_the_best_constant_is_the_conjugate(name):
    """Between two slopes, against the minimum over x that it claims to be."""
    oracle, rng = oracle_of(name), np.random.default_rng(2)
    one, two = rng.normal(size=(2, n + 1))
    g = 0.4 * slope_at(oracle, one) + 0.6 * slope_at(oracle, two)
    A = np.column_stack([oracle.rows.take(slice(None)), np.ones(N)])
    x, y, loss = cp.Variable(n + 1), oracle.rows.y, oracle.loss
    z = cp.multiply(y, A @ x) if oracle.is_margin else A @ x - y
    if loss.pieces:
        losses = cp.max(cp.vstack([p.slope * z + p.constant for p in loss.pieces]), axis=0)
    else:
        losses = 0.5 * cp.huber(z, loss.epsilon)
    least = cp.Problem(cp.Minimize(cp.sum(losses) / N - g @ x)).solve(solver="CLARABEL")
    assert best_constant(oracle, g) == pytest.approx(least, abs=1e-6)
    assert best_constant(oracle, g) <= least + 1e-7


def test_no_minorant_has_an_impossible_slope():
    assert best_constant(oracle_of("hinge"), np.full(n + 1, 9.0)) is None
    assert best_constant(oracle_of("logistic"), np.full(n + 1, 9.0)) is None


@given(st.floats(1e-9, 10.0), st.floats(1e-6, 1e-2), st.floats(0.0, 0.999))
def test_rounding_is_outward_and_never_far(value, step, shift):
    slack = 1e-12 * (1.0 + value)
    assert value - slack <= grid_above(value, step, shift) <= value + step + slack
    assert value - step - slack <= grid_below(value, step, shift) <= value + slack
    for ratio in (1.5, 3.0):
        told = class_above(value, step, ratio, shift)
        assert told >= value * (1.0 - 1e-9)
        assert told <= max(step, value * ratio**2) * (1.0 + 1e-9)


def test_a_dither_needs_its_secret():
    assert dither(b"a", b"question", "value") == dither(b"a", b"question", "value")
    others = {dither(b"b", b"question", "value"), dither(b"a", b"other", "value")}
    assert dither(b"a", b"question", "value") not in others
    many = [dither(b"a", bytes([i]), "value") for i in range(256)]
    assert np.mean(many) == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("name", LOSSES)
def test_averaged_slopes_are_slopes(name):
    loss, z = make_loss(name), np.linspace(-4.0, 4.0, 401)
    v = averaged(loss, z, 0.3)
    low, high = loss.slope_range
    assert (v >= low).all()
    assert (v <= high).all()
    assert (np.diff(v) >= -1e-12).all()  # a convex loss
    assert (v * z - loss.conjugate(v) <= loss.value(z) + 1e-12).all()


def test_a_run_goes_on_after_a_crash_with_the_same_numbers(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, n))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=120) > 0.0, 1.0, -1.0)
    problem = drfl.Problem("hinge", drfl.Ball(0.05, "l1"), intercept="shared")

    def run(folder, **more):
        guard = Guard(5, tmp_path / folder, secret=b"key")
        client = drfl.Client("a", X, y, guard=guard)
        return drfl.solve(problem, [client], **more), client.ledger

    whole, ledger = run("whole")
    log = tmp_path / "checkpoint"
    run("parts", checkpoint=log, callbacks=[lambda record: record.round >= 3])
    rest, other = run("parts", checkpoint=log)
    assert rest.coef.tobytes() == whole.coef.tobytes()
    assert rest.lower_bound == whole.lower_bound
    assert [e.kind for e in other.entries] == [e.kind for e in ledger.entries]


def test_a_file_that_is_no_ledger_is_left_alone(tmp_path):
    path = tmp_path / "patients.csv"
    path.write_text("age,disease\n61,yes\n")
    with pytest.raises(ValueError, match="is not a ledger"):
        list(Journal(path).unread())
    assert path.read_text() == "age,disease\n61,yes\n"
    path.write_bytes(b"\0\0\0")  # what a crash left of the first entry
    assert list(Journal(path).unread()) == []
    assert path.read_bytes() == b""
