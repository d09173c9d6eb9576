"""Boxes and polyhedra: what they hold, what they refuse, and data that lie outside."""

import copy
import math
import pickle

import numpy as np
import pytest
from scipy import sparse

from drfl.rows import Rows
from drfl.supports import Box, Polyhedron, WholeSpace
from drfl.worst_case.make import enclose

TRIANGLE = Polyhedron([[1, 1], [-1, 0], [0, -1]], [1, 0, 0])


# ---------------------------------------------------------------------- boxes
def test_a_box_is_a_value():
    box = Box([0, 1], np.array([2.0, math.inf]), y_low=-1)
    assert box == Box((0.0, 1.0), (2.0, math.inf), -1.0, math.inf)
    assert hash(box) == hash(pickle.loads(pickle.dumps(box)))
    assert copy.deepcopy(box) == box != Box(0, 1)
    assert repr(Box(0, 1)) == "Box(low=0.0, high=1.0, y_low=-inf, y_high=inf)"
    with pytest.raises(AttributeError):
        box.low = 3.0


def test_scalars_stand_for_every_column():
    low, high = Box(-1, [2, 3, 4]).bounds(3)
    assert low.tolist() == [-1, -1, -1]
    assert high.tolist() == [2, 3, 4]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (([0, 3], [1, 2]), "the box is empty: low is 3.0 and high 2.0 in column 1"),
        ((math.inf, math.inf), "the box is empty: low is inf"),
        ((-math.inf, -math.inf), "the box is empty: low is -inf"),
        ((0, 1, 2, 1), "the box is empty: y_low is 2.0 and y_high 1.0"),
        ((0, 1, math.nan, 1), "the box is empty: y_low is nan"),
        ((math.nan, 1), "low must be a number or one number per feature, without NaN"),
        ((0, [[1.0]]), "high must be a number or one number per feature"),
        (([0, 0], [1, 1, 1]), "low has 2 bounds and high 3"),
    ],
)
def test_impossible_boxes_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        Box(*arguments)


def test_a_box_must_fit_the_data():
    Box(0, 1).check(7, "classification")
    Box(0, 1, 0, 1).check(7, "regression")
    with pytest.raises(ValueError, match="the box has 2 columns but the data have 3 features"):
        Box([0, 0], 1).check(3, "regression")
    with pytest.raises(ValueError, match="y_low and y_high bound the target of a regression"):
        Box(0, 1, y_high=1).check(3, "classification")


def test_distance_to_a_box_is_the_largest_overshoot():
    box = Box([0, -math.inf], [1, 5], y_low=0, y_high=1)
    x = np.array([[0.5, -1e9], [-0.5, 7.0], [1.25, 0.0], [1.0 + 1e-12, 5.0]])
    y = np.array([0.5, 0.5, 1.5, 0.0])
    np.testing.assert_allclose(box.distance(x, y, 1e-9), [0, 2, 0.5, 0])
    assert box.distance(x, y, 1e-14)[3] > 0  # the tolerance is what lets it in


# ---------------------------------------------------------------------- polyhedra
def test_a_polyhedron_is_a_value():
    same = Polyhedron(np.array([[1.0, 1.0], [-1.0, -0.0], [0.0, -1.0]]), [1, 0, -0.0])
    assert same == TRIANGLE
    assert hash(TRIANGLE) == hash(same) == hash(pickle.loads(pickle.dumps(same)))
    assert Polyhedron([[1, 1]], [1]) != TRIANGLE != Box(0, 1)
    with pytest.raises(ValueError, match="read-only"):
        TRIANGLE.C[0, 0] = 5.0


@pytest.mark.parametrize(
    ("C", "d", "sentence"),
    [
        ([[1, 0], [-1, 0]], [0, -1], "the polyhedron is empty"),
        ([1, 2], [1, 2], "a polyhedron needs C of shape"),
        ([[1, 2]], [1, 2], "a polyhedron needs C of shape"),
        ([[1, math.inf]], [1], "C and d must be finite"),
        ([[1, 1]], [math.inf], "C and d must be finite"),
    ],
)
def test_impossible_polyhedra_are_refused(C, d, sentence):
    with pytest.raises(ValueError, match=sentence):
        Polyhedron(C, d)


def test_a_polyhedron_must_fit_the_data():
    TRIANGLE.check(2, "classification")
    TRIANGLE.check(1, "regression")
    with pytest.raises(ValueError, match="C has 2 columns but regression with 2 features needs 3"):
        TRIANGLE.check(2, "regression")


def test_distance_to_a_polyhedron_is_that_to_the_farthest_side():
    x = np.array([[0.2, 0.2], [1.0, 1.0], [-3.0, 0.0], [0.5, 0.5 + 1e-12]])
    expected = [0, 1 / math.sqrt(2), 3, 0]
    np.testing.assert_allclose(TRIANGLE.distance(x, np.ones(4), 1e-9), expected)
    # In regression the last column is the target.
    np.testing.assert_allclose(TRIANGLE.distance(x[:, :1], x[:, 1], 1e-9), expected)


# ---------------------------------------------------------------------- data outside
X = np.array([[0.0, 0.5], [2.0, 0.5], [0.5, -3.0], [1.0, 1.0]])
Y = np.array([1.0, -1.0, 1.0, -1.0])


def test_rows_inside_pass_untouched():
    rows = Rows(X, Y)
    for support in (Box(-3, 2), WholeSpace(), Polyhedron([[1, 0]], [2])):
        assert enclose(rows, support, "classification") == (rows, support)


@pytest.mark.parametrize(
    "support", [Box(0, 1), Polyhedron(*(np.vstack([np.eye(2), -np.eye(2)]), [1, 1, 0, 0]))]
)
def test_rows_outside_are_named(support):
    with pytest.raises(
        ValueError,
        match=r"2 rows lie outside the (box|polyhedron) \(first: 1, 2; "
        r"the largest distance is 3\)",
    ):
        enclose(Rows(X, Y), support, "classification")


def test_targets_outside_are_named():
    with pytest.raises(ValueError, match=r"1 row lies outside the box \(first: 2; the largest dis"):
        enclose(Rows(X, [0.0, 1.0, 9.0, 0.0]), Box(-3, 2, 0, 1), "regression")


def test_widening_moves_only_the_sides_that_must_move():
    rows, box = enclose(Rows(X, Y), Box(0, [1, 4], y_high=0), "regression", "widen")
    assert box == Box([0, -3], [2, 4], y_high=1)
    assert np.array_equal(rows.take(slice(None)), X)
    C = [[1, 1], [-1, 0], [0, -1]]
    _, wide = enclose(Rows(X, Y), Polyhedron(C, [2, 0, 0]), "classification", "widen")
    assert wide == Polyhedron(C, [2.5, 0, 3])


def _containers(tmp_path):
    memory_map = np.memmap(tmp_path / "x", dtype=np.float64, mode="w+", shape=X.shape)
    memory_map[:] = X
    return {
        "dense": X,
        "fortran": np.asfortranarray(X),
        "float32": X.astype(np.float32),
        "sparse": sparse.csr_array(X),
        "memory map": memory_map,
    }


@pytest.mark.parametrize("kind", ["dense", "fortran", "float32", "sparse", "memory map"])
@pytest.mark.parametrize("scaled", [False, True])
def test_clipping_moves_rows_to_the_box_whatever_holds_them(kind, scaled, tmp_path):
    scaling = {"shift": [0.3, 0.0], "scale": [2.0, 0.5]} if scaled else {}
    container = _containers(tmp_path)[kind]
    plain = Rows(container, Y, **scaling)
    box = Box([-0.2, -1], [0.4, 2])
    expected = np.clip(plain.take(slice(None)), *box.bounds(2))
    before = X.copy()

    rows, same = enclose(plain, box, "classification", "clip")
    assert same == box
    near = {"rtol": 1e-6, "atol": 1e-7} if kind == "float32" else {"rtol": 1e-12}
    np.testing.assert_allclose(rows.take(slice(None)), expected, **near)
    np.testing.assert_allclose(rows.take(np.array([2, 1])), expected[[2, 1]], **near)
    np.testing.assert_allclose(rows.scores(np.array([1.0, -2.0]), 0.3), expected @ [1, -2] + 0.3)
    np.testing.assert_allclose(rows.combine(Y)[0], Y @ expected, atol=1e-6)
    low, high = rows.column_range()
    np.testing.assert_allclose(low, expected.min(axis=0), **near)
    np.testing.assert_allclose(high, expected.max(axis=0), **near)
    assert enclose(rows, box, "classification") == (rows, box)
    # The data themselves are never rewritten.
    dense = container.toarray() if kind == "sparse" else container
    assert np.array_equal(dense, before)


def test_clipping_targets():
    rows, _ = enclose(Rows(X, [0.0, 5.0, -5.0, 1.0]), Box(-3, 2, 0, 1), "regression", "clip")
    assert rows.y.tolist() == [0, 1, 0, 1]


def test_what_cannot_be_clipped_is_refused():
    with pytest.raises(ValueError, match="rows cannot be clipped to a polyhedron"):
        enclose(Rows(X, Y), TRIANGLE, "classification", "clip")
    with pytest.raises(
        ValueError, match="sparse rows can only be clipped to a box that contains 0"
    ):
        enclose(Rows(sparse.csr_array(X), Y), Box(1, 2), "classification", "clip")
    with pytest.raises(ValueError, match="unknown on_outside 'widdn': did you mean 'widen'"):
        enclose(Rows(X, Y), Box(-9, 9), "classification", "widdn")


def test_only_rounding_is_forgiven():
    rows = Rows(X, Y)
    assert enclose(rows, Box(-3, 2 - 1e-10), "classification")[0] is rows
    with pytest.raises(ValueError, match=r"1 row lies outside the box \(first: 1; .* is 1e-06"):
        enclose(rows, Box(-3, 2 - 1e-6), "classification")


def test_float32_rows_on_a_face_are_inside():
    x = np.array([[0.1], [0.7]], dtype=np.float32)  # 0.1 in float32 is more than 0.1
    enclose(Rows(x, [1.0, -1.0]), Box(0.3, 0.7).widened(x, np.ones(2)), "classification")
    rows = Rows(x, [1.0, -1.0])
    assert enclose(rows, Box(0.1, 0.7), "classification")[0] is rows
    with pytest.raises(ValueError, match="1 row lies outside"):
        enclose(rows, Box(0.1001, 0.7), "classification")


# ---------------------------------------------------------------------- several models in a sweep
@pytest.mark.parametrize("kind", ["dense", "float32", "sparse"])
@pytest.mark.parametrize("K", [1, 2, 5])
def test_sweeping_many_models_is_sweeping_each(kind, K, monkeypatch):
    monkeypatch.setattr("drfl.rows.operator.BLOCK_ELEMENTS", 1)  # blocks of 64 rows
    rng = np.random.default_rng(3)
    data = {"dense": np.asarray, "float32": np.float32, "sparse": sparse.csr_array}[kind](
        rng.normal(size=(300, 4)) * (rng.random((300, 4)) < 0.5)
    )
    rows = Rows(data, rng.normal(size=300), shift=[1, 2, 3, 4], scale=[1, 2, 3, 4])
    W, b = rng.normal(size=(K, 4)), rng.normal(size=K)

    def visit(block, z):
        return np.tanh(z) * rows.y[block]

    sums, totals = rows.sweep_many(W, b, visit)
    for k in range(K):
        g, total = rows.sweep(W[k], b[k], visit)
        np.testing.assert_allclose(sums[k], g, atol=2e-3 if kind == "float32" else 1e-10)
        np.testing.assert_allclose(totals[k], total, atol=2e-4 if kind == "float32" else 1e-10)

    seen = []
    rows.sweep_many(W, b, lambda block, z: seen.append(block.start) or z, every=2)
    assert seen == [64, 192]
