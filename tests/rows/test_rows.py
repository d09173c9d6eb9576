"""Rows as a linear operator: every operation against plain dense NumPy, whatever holds the data."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from drfl.rows import Rows
from drfl.rows import operator as rows_module

N, n = 300, 5


def make_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, n)) * (rng.random((N, n)) < 0.6)
    X = X.astype(np.float32).astype(np.float64)  # so that float32 holds the same numbers
    X.setflags(write=False)  # whoever writes to the data is caught
    return X, rng.normal(size=N)


X, Y = make_data()


def memory_map(folder, dtype):
    file = folder / np.dtype(dtype).name
    X.astype(dtype).tofile(file)
    return np.memmap(file, dtype=dtype, mode="r", shape=(N, n))


def wide_indices():
    """A CSR matrix with 64-bit indices, as files and other libraries make them."""
    csr = sparse.csr_array(X)
    csr.indices, csr.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    return csr


CONTAINERS = {
    "float64": lambda folder: X,
    "float64 Fortran": lambda folder: np.asfortranarray(X),
    "float64 strided": lambda folder: np.repeat(X, 2, axis=0)[::2],
    "float32": lambda folder: X.astype(np.float32),
    "float32 Fortran": lambda folder: np.asfortranarray(X, dtype=np.float32),
    "memory map": lambda folder: memory_map(folder, np.float64),
    "memory map float32": lambda folder: memory_map(folder, np.float32),
    "DataFrame": lambda folder: pd.DataFrame(X, columns=list("abcde")),
    "CSR": lambda folder: sparse.csr_array(X),
    "CSR 64-bit indices": lambda folder: wide_indices(),
    "CSR float32": lambda folder: sparse.csr_array(X).astype(np.float32),
    "CSR matrix": lambda folder: sparse.csr_matrix(X),
    # These are copied once.
    "CSC": lambda folder: sparse.csc_array(X),
    "list": lambda folder: X.tolist(),
    "big endian": lambda folder: X.astype(">f8"),
}
COPIED = ("CSC", "list", "big endian")
SCALING = {
    "plain": {},
    "shift": {"shift": [1.0, -2.0, 0.0, 0.5, 3.0]},
    "scale": {"scale": [1.0, 2.0, 0.5, 3.0, 0.1]},
    "both": {"shift": [1.0, -2.0, 0.0, 0.5, 3.0], "scale": [1.0, 2.0, 0.5, 3.0, 0.1]},
}
WEIGHTS = np.random.default_rng(1).integers(0, 5, N).astype(float)


PAIRS = [(container, "both") for container in CONTAINERS]
PAIRS += [(container, "plain") for container in ("float64", "float32", "CSR")]
PAIRS += [
    (container, scaling) for container in ("float64", "CSR") for scaling in ("shift", "scale")
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("rows")


@pytest.fixture(params=PAIRS, ids="-".join)
def pair(request):
    return request.param


@pytest.fixture
def container(pair):
    return pair[0]


@pytest.fixture
def scaling(pair):
    return SCALING[pair[1]]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Several blocks: 64 rows each, the last one shorter."""
    monkeypatch.setattr(rows_module, "BLOCK_ELEMENTS", 64 * n)


@pytest.fixture
def rows(container, scaling, folder):
    made = Rows(CONTAINERS[container](folder), Y, **scaling)
    assert len(list(made.blocks())) > 1
    return made


@pytest.fixture
def dense(scaling):
    """What the rows are."""
    return (X - np.array(scaling.get("shift", 0.0))) / np.array(scaling.get("scale", 1.0))


@pytest.fixture
def close(container):
    tolerance = 1e-5 if "float32" in container else 1e-11

    def assert_close(actual, expected):
        actual, expected = np.asarray(actual), np.asarray(expected)
        assert actual.dtype == np.float64
        scale = max(1.0, np.abs(expected).max(initial=0.0))
        np.testing.assert_allclose(actual, expected, rtol=0.0, atol=tolerance * scale)

    return assert_close


W, B = np.array([0.5, -1.0, 2.0, 0.0, 0.3]), 0.7


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_products_with_float32_have_all_digits(form):
    # A proof is no better than these: models and weights are not rounded to the data's digits.
    narrow = X.astype(np.float32)
    exact, rows = narrow.astype(np.float64), Rows(form(narrow), np.ones(len(X)))
    w, v = W / 3.0, np.linspace(0.1, 0.7, len(X)) / 3.0
    np.testing.assert_allclose(rows.scores(w, B), exact @ w + B, rtol=0.0, atol=1e-13)
    np.testing.assert_allclose(rows.combine(v)[0], exact.T @ v, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(rows.group_sums(v, 1)[0][0], exact.T @ v, rtol=1e-12, atol=1e-12)
    swept = rows.sweep(w, B, lambda block, z: z * v[block])[0]
    np.testing.assert_allclose(swept, exact.T @ ((exact @ w + B) * v), rtol=1e-12, atol=1e-12)


# ---------------------------------------------------------------------- operations
def test_scores(rows, dense, close):
    close(rows.scores(W, B), dense @ W + B)
    close(rows.scores(W), dense @ W)


def test_combine(rows, dense, close):
    v = np.cos(np.arange(N))
    g, total = rows.combine(v)
    close(g, v @ dense)
    assert total == pytest.approx(v.sum())


def test_combine_some(rows, dense, close):
    """Gathered if few, read in order if many."""
    rng = np.random.default_rng(2)
    for count in (0, 1, 30, 200):
        some = rng.permutation(N)[:count]
        v = rng.normal(size=count)
        g, total = rows.combine_some(some, v)
        close(g, v @ dense[some])
        assert total == pytest.approx(v.sum())


def test_sweep_is_scores_then_combine(rows, dense, close):
    seen = []

    def visit(block, z):
        seen.append(block)
        z *= 2.0  # it may overwrite what it gets
        return np.tanh(z) * rows.y[block]

    g, total = rows.sweep(W, B, visit)
    v = np.tanh(2.0 * (dense @ W + B)) * Y
    close(g, v @ dense)
    assert total == pytest.approx(v.sum(), abs=1e-4)
    assert seen == list(rows.blocks())


def test_sweep_many(rows, dense, close):
    models = np.vstack([W, -W, 0 * W, W + 1.0])
    offsets = np.array([B, 0.0, 1.0, -1.0])
    sums, totals = rows.sweep_many(models, offsets, lambda block, z: np.tanh(z))
    v = np.tanh(models @ dense.T + offsets[:, None])
    close(sums, v @ dense)
    close(totals, v.sum(axis=1))


def test_group_sums(rows, dense, close):
    v = np.cos(np.arange(N))
    for groups in (1, 3, 7):
        g, total = rows.group_sums(v, groups)
        close(g, [v[k::groups] @ dense[k::groups] for k in range(groups)])
        close(total, [v[k::groups].sum() for k in range(groups)])


def test_gram(rows, dense, close):
    d = np.maximum(np.sin(np.arange(N)), 0.0)  # many zeros
    d[64:128] = 0.0  # a whole block of them
    ones = np.column_stack([dense, np.ones(N)])
    close(rows.gram(d), (ones * d[:, None]).T @ ones)


def test_moments(rows, dense, close):
    mean, square = rows.moments()
    close(mean, dense.mean(axis=0))
    close(square, (dense**2).mean(axis=0))


def test_take(rows, dense, close):
    for some in (np.array([3, 299, 3, 0]), slice(60, 70), slice(None)):
        taken = rows.take(some)
        close(taken, dense[some])
        taken += 1.0  # a copy, always
    close(rows.take(slice(None)), dense)


def test_column_range(rows, dense, close):
    low, high = rows.column_range()
    close(low, dense.min(axis=0))
    close(high, dense.max(axis=0))


def test_dense_blocks(rows, dense, close):
    parts = list(rows.dense_blocks())
    assert len(parts) > 1
    close(np.vstack([part for _, part in parts]), dense)
    for block, part in parts:
        close(part, dense[block])


def test_clipped(rows, dense, close, container):
    low, high = np.full(n, -0.4), np.full(n, 0.7)
    scaled_zero = (np.zeros(n) - (0.0 if rows.shift is None else rows.shift)) / (
        1.0 if rows.scale is None else rows.scale
    )
    if "CS" in container and not ((low <= scaled_zero) & (scaled_zero <= high)).all():
        with pytest.raises(ValueError, match="sparse rows can only be clipped to a box that"):
            rows.clipped(low, high)
        return
    clipped, expected = rows.clipped(low, high, -0.5, 0.5), np.clip(dense, low, high)
    close(clipped.take(slice(None)), expected)
    close(clipped.scores(W, B), expected @ W + B)
    close(clipped.combine(Y)[0], Y @ expected)
    close(clipped.combine_some(np.array([5, 250]), np.array([1.0, -2.0]))[0],
          expected[5] - 2.0 * expected[250])  # fmt: skip
    close(clipped.group_sums(Y, 3)[0], [Y[k::3] @ expected[k::3] for k in range(3)])
    close(clipped.y, np.clip(Y, -0.5, 0.5))
    close(rows.take(slice(None)), dense)  # and these are as they were


# ---------------------------------------------------------------------- blocks and masses
def test_blocks_are_all_rows_in_order(rows):
    covered = np.concatenate([np.arange(N)[block] for block in rows.blocks()])
    assert covered.tolist() == list(range(N))


def test_one_block_is_enough_for_few_rows(monkeypatch):
    monkeypatch.undo()
    assert list(Rows(X, Y).blocks()) == [slice(0, N)]


def test_equal_masses():
    rows = Rows(X, Y)
    assert rows.p is None
    assert rows.total == N
    assert rows.mass() == rows.mass(slice(3, 5)) == 1 / N
    assert rows.masses(np.array([0, 7])).tolist() == [1 / N, 1 / N]
    assert rows.mean(Y) == pytest.approx(Y.mean())
    assert sum(rows.mean(Y[block], block) for block in rows.blocks()) == pytest.approx(Y.mean())


def test_weights_become_masses():
    rows = Rows(X, Y, weights=WEIGHTS)
    assert rows.total == WEIGHTS.sum()
    np.testing.assert_allclose(rows.p, WEIGHTS / WEIGHTS.sum(), rtol=1e-15)
    assert rows.p.sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(rows.mass(slice(3, 9)), rows.p[3:9])
    np.testing.assert_array_equal(rows.masses(np.array([9, 2])), rows.p[[9, 2]])
    mean = np.average(Y, weights=WEIGHTS)
    assert rows.mean(Y) == pytest.approx(mean)
    assert sum(rows.mean(Y[block], block) for block in rows.blocks()) == pytest.approx(mean)


def test_weighted_moments(container, scaling, dense, close, folder):
    rows = Rows(CONTAINERS[container](folder), Y, weights=WEIGHTS, **scaling)
    mean, square = rows.moments()
    close(mean, np.average(dense, axis=0, weights=WEIGHTS))
    close(square, np.average(dense**2, axis=0, weights=WEIGHTS))


# ---------------------------------------------------------------------- in place
@pytest.mark.parametrize("name", [name for name in CONTAINERS if name not in COPIED])
def test_data_are_used_in_place(name, folder):
    data = CONTAINERS[name](folder)
    rows = Rows(data, Y)
    if sparse.issparse(data):
        for array in ("data", "indices"):
            given = getattr(data, array)
            assert np.shares_memory(getattr(rows.X, array), given)
            assert all(np.shares_memory(getattr(part, array), given) for part in rows._parts)
    else:
        given = data.to_numpy() if isinstance(data, pd.DataFrame) else data
        assert np.shares_memory(rows.X, given)
        assert all(np.shares_memory(part, given) for part in rows._parts)
    assert np.shares_memory(rows.y, Y)


def test_scaling_rewrites_nothing():
    rows = Rows(X, Y, **SCALING["both"])
    assert np.shares_memory(rows.X, X)
    assert np.array_equal(rows.X, make_data()[0])


def test_integers_and_truths_are_numbers():
    for data in (np.arange(6).reshape(3, 2), np.arange(6).reshape(3, 2) % 2 == 0):
        for made in (Rows(data, [1, 2, 3]), Rows(sparse.csr_array(data), [1, 2, 3])):
            np.testing.assert_array_equal(made.take(slice(None)), data)
            assert made.take(slice(None)).dtype == np.float64


def test_frames_have_names():
    frame = pd.DataFrame({"age": [1, 2], "dose": [0.5, 1.5], "old": [True, False]})
    rows = Rows(frame, [1.0, 2.0])
    assert rows.names == ("age", "dose", "old")
    np.testing.assert_array_equal(rows.take(slice(None)), [[1, 0.5, 1], [2, 1.5, 0]])
    assert Rows(X, Y).names is None
    nullable = pd.DataFrame({"a": [1, 2]}, dtype="Int64")
    np.testing.assert_array_equal(Rows(nullable, [1.0, 2.0]).take(slice(None)), [[1], [2]])


def test_no_features():
    for data in (np.zeros((4, 0)), sparse.csr_array((4, 0))):
        rows = Rows(data, np.ones(4))
        assert rows.scores(np.zeros(0), 2.0).tolist() == [2.0] * 4
        assert rows.combine(np.ones(4))[0].shape == (0,)
        assert rows.gram(np.ones(4)).tolist() == [[4.0]]


# ---------------------------------------------------------------------- refusals
def spoiled(value, at=(70, 2)):
    bad = X.copy()
    bad[at] = value
    return bad


MANY = np.where(np.arange(N)[:, None] % 3 == 1, math.inf, X)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"X": spoiled(math.nan)}, r"X has NaN or infinite values in row 70 \(column 2 first\)"),
        ({"X": spoiled(-math.inf)}, r"X has NaN or infinite values in row 70 \(column 2 first\)"),
        ({"X": spoiled(math.nan).astype(np.float32)}, "X has NaN .* in row 70 "),
        ({"X": sparse.csr_array(spoiled(math.inf))}, r"in row 70 \(column 2 first\)"),
        ({"X": pd.DataFrame(spoiled(math.nan), columns=list("abcde"))}, r"\(column 'c' first\)"),
        ({"X": pd.DataFrame({"a": [1, None] * 150}, dtype="Int64")}, "in 150 rows .*column 'a'"),
        ({"X": MANY}, r"100 rows \(first: 1, 4, 7\) \(column 0 first\): drop or fill them"),
        ({"X": sparse.csr_array(MANY)}, r"100 rows \(first: 1, 4, 7\) \(column 0 first\): drop"),
        ({"y": np.where(np.arange(N) == 5, math.nan, Y)}, "y has NaN or infinite values in row 5:"),
        ({"y": Y[:-1]}, r"X has 300 rows but y has shape \(299,\): give one y per row"),
        ({"y": Y[:, None]}, r"X has 300 rows but y has shape \(300, 1\)"),
        ({"y": ["a"] * N}, "y has entries that are not numbers: code them as numbers first"),
        ({"y": 1j * Y}, "y has entries that are not numbers"),
        ({"X": X[:, 0]}, r"X must have two dimensions \(rows, features\), got shape \(300,\)"),
        ({"X": X[None]}, "X must have two dimensions"),
        ({"X": X[:0], "y": []}, "X has no rows: a client needs at least one"),
        ({"X": [["a", "b"]] * N}, "X has entries that are not numbers"),
        ({"X": pd.DataFrame({"a": ["x"] * N})}, "X has entries that are not numbers"),
        ({"X": np.full((N, 1), "2020-01-01", dtype="datetime64[D]")}, "X has entries that are not"),
        ({"X": 1j * X}, "X has entries that are not numbers"),
        ({"X": sparse.csr_array(1j * X)}, "X has entries that are not numbers"),
        ({"X": [[1.0], [1.0, 2.0]]}, "X is not an array: its rows have different lengths"),
        ({"weights": np.ones(3)}, r"sample_weight has shape \(3,\): give one weight per row"),
        ({"weights": -np.ones(N)}, "sample_weight must be finite, nonnegative and not all zero"),
        ({"weights": np.zeros(N)}, "sample_weight must be finite, nonnegative and not all zero"),
        ({"weights": np.full(N, math.inf)}, "sample_weight must be finite, nonnegative and not"),
        ({"weights": ["1"] * N}, "sample_weight has entries that are not numbers"),
        ({"shift": [1.0]}, r"shift must hold one finite number per column \(5 of them\)"),
        ({"scale": np.full(n, math.nan)}, "scale must hold one finite number per column"),
        ({"scale": np.arange(n)}, "scale must be positive in every column: drop constant columns"),
    ],
)  # fmt: skip
def test_impossible_rows_are_refused(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        Rows(**({"X": X, "y": Y} | change))


def test_large_finite_numbers_are_not_mistaken_for_infinite_ones():
    data = np.full((8, 2), np.finfo(np.float32).max, dtype=np.float32)  # the sum overflows
    assert Rows(data, np.ones(8)).n_rows == 8
    data = np.full((8, 2), 1e100)
    assert Rows(data, np.ones(8)).n_rows == 8
    with pytest.raises(ValueError, match="cannot be squared"):
        Rows(2.0 * data, np.ones(8))


def test_a_part_of_the_blocks_estimates_the_gram_matrix():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 40))
    rows, d = Rows(X, np.ones(len(X))), rng.uniform(size=len(X))
    exact = rows.gram(d)
    assert np.allclose(
        exact, np.c_[X, np.ones(len(X))].T @ (np.c_[X, np.ones(len(X))] * d[:, None])
    )
    for every, error in ((2, 0.05), (3, 0.05), (100, 0.3)):
        estimate = rows.gram(d, every=every)
        assert np.abs(estimate - exact).max() < error * np.diag(exact).max()
        assert not np.allclose(estimate, exact, rtol=1e-6)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, np.float32])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("columns", [120, 700])
def test_the_gram_matrix_of_rows_that_are_nearly_all_zeros(form, scaled, columns):
    """By the entries that are not 0: the same as in full, and not what clipped rows inherit.

    With few columns all products of two entries of a row are kept, with many they are too many.
    """
    rng, shape = np.random.default_rng(3), (700, columns)
    thin = ((rng.random(shape) < 0.03) * rng.integers(1, 5, shape)).astype(float)
    shift, scale = None, None
    if scaled:
        shift, scale = rng.normal(size=columns), rng.uniform(0.5, 2.0, columns)
    rows = Rows(form(thin), np.ones(700), shift=shift, scale=scale)
    d = rng.random(700) * (rng.random(700) < 0.7)
    ones = np.column_stack([(thin - shift) / scale if scaled else thin, np.ones(700)])
    assert rows._thin_parts is not None
    assert (rows._pairs is None) == (columns == 700)
    np.testing.assert_allclose(rows.gram(d), (ones * d[:, None]).T @ ones, atol=1e-11 * 700)
    w = rng.normal(size=columns)
    np.testing.assert_allclose(rows.scores(w, 0.5), ones @ np.append(w, 0.5), atol=1e-11)
    np.testing.assert_allclose(np.append(*rows.combine(d)), d @ ones, atol=1e-10)
    low, high = np.full(columns, -1.0 if scaled else 0.0), np.full(columns, 1.0)
    if not (scaled and form is sparse.csr_array):
        ones[:, :-1] = np.clip(ones[:, :-1], low, high)
        expected = (ones * d[:, None]).T @ ones
        np.testing.assert_allclose(rows.clipped(low, high).gram(d), expected, atol=1e-5 * 700)


@pytest.mark.parametrize("spoil", ["half of all entries", "one column far from 0", "few columns"])
def test_other_rows_are_multiplied_in_full(spoil):
    rng = np.random.default_rng(3)
    thin, shift = (rng.random((700, 120)) < 0.02).astype(float), np.zeros(120)
    if spoil == "half of all entries":
        thin = (rng.random((700, 120)) < 0.5).astype(float)
    if spoil == "one column far from 0":
        shift[3] = 1e4
    if spoil == "few columns":
        thin, shift = thin[:, :50], shift[:50]
    assert Rows(thin, np.ones(700), shift=shift)._thin_parts is None


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_columns_far_from_0_keep_their_digits(dtype):
    rng = np.random.default_rng(0)
    X = (1e8 if dtype == np.float64 else 1e5) + rng.normal(size=(200, 6)).astype(dtype)
    shift, scale = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
    rows, d = Rows(X, np.ones(200), shift=shift, scale=scale), rng.random(200)
    A = np.column_stack([(X.astype(np.float64) - shift) / scale, np.ones(200)])
    some = np.array([1, 4, 6])
    exact = (A.T * d) @ A
    assert rows.gram_of(some[:2], d) == pytest.approx(exact[np.ix_(some, some)])
    assert rows.gram_diagonal(d) == pytest.approx(np.diag(exact))
    assert rows.moments()[1] == pytest.approx(np.ones(6))


def test_an_entry_that_is_stored_in_parts_is_one_entry():
    X = sparse.csr_array(
        (np.array([1.0, 2.0, 4.0]), np.array([7, 7, 3]), np.array([0, 2, 3])), shape=(2, 120)
    )
    rows, d = Rows(X, np.ones(2)), np.array([0.5, 2.0])
    dense = Rows(X.toarray(), np.ones(2))
    assert rows.is_thin
    assert rows.gram(d) == pytest.approx(dense.gram(d))
    assert X.nnz == 3


def test_a_sample_has_a_row_that_weighs_something():
    few = Rows(np.arange(3.0)[:, None], np.ones(3))
    assert few.every(10).take(slice(None)) == pytest.approx(np.array([[1.0]]))
    light = Rows(np.arange(50.0)[:, None], np.ones(50), weights=np.arange(50) == 3)
    assert light.every(10).take(slice(None)) == pytest.approx(np.array([[3.0]]))
