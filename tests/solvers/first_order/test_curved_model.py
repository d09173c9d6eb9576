"""The second derivative in a few vectors, against the BFGS update and linear algebra in full."""

import numpy as np
import pytest

from drfl.solvers.first_order.curved_model import CurvedModel, Quadratic
from drfl.solvers.first_order.penalized import AbsolutePenalty

d = 9


def curved(rng, told, pairs):
    """A model of a quadratic with a matrix of some coordinates, and the quadratic."""
    root = rng.normal(size=(d, d))
    H = root @ root.T + np.eye(d)
    model = CurvedModel.of(np.diag(H).copy(), memory=5)
    for _ in range(pairs):
        step = rng.normal(size=d)
        model.observe(step, H @ step)
    if told:
        model.columns = np.array([1, 4, 6])
        model.matrix = H[np.ix_(model.columns, model.columns)]
    return model, H


def in_full(model):
    """B by BFGS updates, one after the other."""
    B = np.diag(model.damping * model.diagonal)
    if model.matrix is not None:
        B[np.ix_(model.columns, model.columns)] = model._block()
    for s, y in zip(model.steps, model.changes, strict=True):
        Bs = B @ s
        B += np.outer(y, y) / (s @ y) - np.outer(Bs, Bs) / (s @ Bs)
    return B


@pytest.mark.parametrize("pairs", [0, 1, 4, 7])
@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("damping", [1.0, 4.0])
def test_products_and_solutions_are_those_of_the_matrix_in_full(told, pairs, damping):
    rng = np.random.default_rng(pairs)
    model, _ = curved(rng, told, pairs)
    model.damping = damping
    J = model.now().coordinates(np.arange(d))
    B, v, more = in_full(model)[np.ix_(J, J)], rng.normal(size=d), rng.uniform(0.0, 2.0, d)
    np.testing.assert_allclose(model.now().among(J).times(v), B @ v, rtol=1e-9, atol=1e-9)
    solved = model.now().among(J).solve(v, more)
    np.testing.assert_allclose((B + np.diag(more)) @ solved, v, rtol=1e-8, atol=1e-8)


def test_of_fewer_coordinates_it_is_the_block():
    model, _ = curved(np.random.default_rng(1), told=True, pairs=3)
    J = model.now().coordinates(np.arange(d))
    chosen = np.array([True, False, True, True, False, True, False, True, True])
    fewer, v = model.now().among(J).of(chosen), np.arange(1.0, 1.0 + chosen.sum())
    B = in_full(model)[np.ix_(J, J)][np.ix_(chosen, chosen)]
    np.testing.assert_allclose(fewer.times(v), B @ v, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(B @ fewer.solve(v), v, rtol=1e-8, atol=1e-8)


def test_told_of_all_that_are_at_work_it_is_that_alone():
    model, H = curved(np.random.default_rng(2), told=True, pairs=3)
    model.whole = True
    B = model.now().among(model.columns)
    v = np.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(B.times(v), H[np.ix_(model.columns, model.columns)] @ v, rtol=1e-6)


def test_a_step_is_found_where_no_row_bends():
    """As with the smooth hinge loss, and all rows on its straight sides."""
    flat = Quadratic(np.ones(d), np.zeros((d, 0)), np.zeros((0, 0)), np.diag([2.0, 0.0, 0.0]))
    step = flat.solve(np.ones(d))
    np.testing.assert_allclose(step, [0.5, 0.0, 0.0, *np.ones(d - 3)])


def test_columns_that_bend_nothing_are_no_division_by_0():
    r, diagonal = np.arange(1.0, 5.0), np.array([0.0, 0.0, 2.0, 4.0])
    flat = Quadratic(diagonal, np.zeros((4, 0)), np.zeros((0, 0)), np.zeros((2, 2)))
    assert flat.solve(r) == pytest.approx([0.0, 0.0, 1.5, 1.0])


def test_a_step_where_nothing_bends_is_that_of_the_curvature_before():
    model = CurvedModel.of(np.full(3, 2.0), memory=5)
    model.columns, model.matrix, model.whole = np.arange(3), np.zeros((3, 3)), True
    slope = np.array([1.0, -0.05, -3.0])
    z = AbsolutePenalty(3, 3).minimise(model.now(), np.zeros(3), slope, 0.1, None)
    assert np.isfinite(z).all()
    assert np.sign(z).tolist() == [-1.0, 0.0, 1.0]
