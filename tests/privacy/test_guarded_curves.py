"""Curves under a guard: valid bounds, pieces that tell of few, knots that the ledger knows."""

import math

import numpy as np
import pytest

import drfl
from drfl.client import Site
from drfl.curves import Curves
from drfl.engines import SerialEngine
from drfl.privacy import Guard, Keeper, audit
from drfl.privacy.keys import meaning_of
from drfl.privacy.ramps import heavy_pieces
from drfl.rows import Rows
from drfl.solvers.bundle.guard import keeper_of

KNOTS = [[-0.7, 0.0, 0.7], []]


def data(seed=0, rows=400):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 2))
    y = np.where(0.6 - X[:, 0] ** 2 + X[:, 1] + 0.4 * rng.normal(size=rows) > 0.0, 1.0, -1.0)
    return X, y


def clients(guard=None):
    return [drfl.Client(f"c{s}", *data(s), guard=guard) for s in range(2)]


def problem(loss="logistic", norm="l1", label_cost=math.inf, shapes=(), knots=KNOTS):
    ball = drfl.Ball(0.05, norm, label_cost)
    curves = Curves(knots, shapes)
    return drfl.Problem(loss, ball, drfl.Mixture(radius=0.2, p=1), curves=curves)


@pytest.mark.parametrize(
    ("loss", "norm", "label_cost", "shapes"),
    [
        ("logistic", "l1", math.inf, ()),
        ("hinge", "l1", 1.0, ()),
        ("logistic", "linf", math.inf, ()),
        ("logistic", "l1", math.inf, [["concave"], []]),
        ("logistic", "l1", math.inf, [[], ["increasing"]]),
    ],
)
@pytest.mark.sampled(4)
def test_a_guarded_run_with_curves_brackets_the_optimum(loss, norm, label_cost, shapes):
    stated = problem(loss, norm, label_cost, shapes)
    optimum = drfl.solve(stated, clients(), tol=1e-8).objective
    guarded = clients(Guard(5, secret=b"key"))
    result = drfl.solve(stated, guarded, engine=SerialEngine(debug=True))
    assert not any(record.failures for record in result.history)
    assert result.lower_bound <= optimum * (1.0 + 1e-7)
    assert result.objective >= optimum * (1.0 - 1e-7)
    assert result.gap < (0.05 if math.isinf(label_cost) else 0.15)


def test_no_function_between_the_knots_is_that_of_fewer_than_k_rows():
    """Brute force: of every function that is 0 at as many rows as possible, the others are k."""
    rng = np.random.default_rng(0)
    k, curves = 3, Curves([[0.0, 1.0]])
    refused = accepted = 0
    for _ in range(300):
        x = rng.choice([-1.0, -0.5, 0.2, 0.5, 0.8, 1.3, 2.0], size=int(rng.integers(4, 40)))
        rows = Rows(x[:, None], np.arange(len(x), dtype=float))
        values = np.unique(x)
        A = np.column_stack([np.ones(len(values)), curves.expand(values[:, None])])
        least = len(x)
        for zeros in range(2 ** len(values)):
            off = np.array([bool(zeros >> i & 1) for i in range(len(values))])
            if np.linalg.matrix_rank(A[off], tol=1e-9) < np.linalg.matrix_rank(A, tol=1e-9):
                # Some function is 0 at all of these, and not everywhere.
                null = np.linalg.svd(A[off])[2][np.linalg.matrix_rank(A[off], tol=1e-9) :]
                there = (np.abs(A @ null.T) > 1e-9).any(axis=1)
                least = min(least, int(np.isin(x, values[there]).sum()))
        if heavy_pieces(rows, curves, 0, k).any():
            refused += 1
        else:
            accepted += 1
            assert least >= k
    assert min(refused, accepted) > 20


@pytest.mark.parametrize(
    ("x", "knots"),
    [(60.0, [0.0, 0.7]), (0.69, [-0.5, 0.688, 0.692])],
    ids=["a row far out", "a row by itself"],
)
def test_a_piece_that_tells_of_a_single_row_is_refused(x, knots):
    X, y = data()
    X = X[np.abs(X[:, 0] - 0.69) > 0.01]
    y = y[: len(X)]
    client = drfl.Client("c0", X, y, guard=Guard(5, secret=b"key"))
    Site(client, problem(knots=[[knots[0]], []]))
    X[0, 0] = x
    own = Curves([knots])
    heavy = heavy_pieces(Rows(X[:, :1], y), own, 0, 5)
    assert heavy[int(np.searchsorted(knots, x))]
    if x < 1.0:  # far out, the column itself is refused already
        client = drfl.Client("c0", X, y, guard=Guard(5, secret=b"key"))
        with pytest.raises(ValueError, match="curve of '0' has pieces"):
            Site(client, problem(knots=[knots, []]))


def test_a_ledger_knows_the_first_knots_of_a_column_and_no_others(tmp_path):
    """A hat of three knots around a row, made of two sets of knots, would be that row."""
    X, y = data()
    guard = Guard(5, ledger=tmp_path / "ledger", secret=b"key")
    Site(drfl.Client("c0", X, y, guard=guard), problem())
    Site(drfl.Client("c0", X, y, guard=guard), problem(knots=[[0.0], []]))  # some of them
    Site(drfl.Client("c0", X, y, guard=guard), problem(knots=[[], []]))
    # The same knots in other units.
    scaled = drfl.Client("c0", X, y, guard=guard, shift=[0.5, 0.0], scale=[0.5, 1.0])
    Site(scaled, problem(knots=[[-2.4, -1.0, 0.4], []]))
    again = drfl.Client("c0", X, y, guard=guard)
    with pytest.raises(ValueError, match="other knots under this ledger"):
        Site(again, problem(knots=[[-0.7, 0.0, 0.7001], []]))
    Site(again, problem(knots=[[], [0.1]]))  # of another column
    assert "columns with curves: 2" in audit(tmp_path / "ledger")


def test_answers_about_other_ramps_are_other_answers():
    """As many slopes with other knots: a stored cut must not serve for them."""
    X, y = data()
    rows = Rows(X, y)
    one, two = (rows.ramped(Curves([[t], []])) for t in (0.0, 0.7))
    assert meaning_of(one) != meaning_of(two)
    assert meaning_of(one) == meaning_of(rows.ramped(Curves([[0.0], []])))
    guard = Guard(5, secret=b"key")
    client = drfl.Client("c0", X, y, guard=guard)
    keepers = [
        keeper_of(Site(client, problem(knots=[knots, []]))) for knots in ([-0.7, 0.0, 0.7], [0.0])
    ]
    assert all(isinstance(keeper, Keeper) for keeper in keepers)
    assert keepers[0].family != keepers[1].family


def test_hats_are_zero_but_between_three_knots():
    curves = Curves([[-1.0, 0.0, 0.5, 2.0], [], [0.0, 1.0]])
    X = np.random.default_rng(0).normal(size=(500, 3)) * 2.0
    hats = curves.hats(curves.expand(X))
    assert hats.shape == (500, 2)
    for hat, (a, b, c) in zip(hats.T, [(-1.0, 0.0, 0.5), (0.0, 0.5, 2.0)], strict=True):
        x = X[:, 0]
        expected = np.where(x < b, (x - a) / (b - a), (c - x) / (c - b))
        np.testing.assert_allclose(hat, np.maximum(expected, 0.0), atol=1e-12)
