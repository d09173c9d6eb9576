"""Partitions and noise: what holds always (hypothesis), and in expectation (many draws)."""

import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from drfl.datasets import add_client_noise, add_noise, load_abalone, load_heart, partition

SEEDS = st.integers(0, 2**32 - 1)


@st.composite
def targets(draw):
    """A column of a few classes and a number of clients that fits it."""
    y = draw(st.lists(st.sampled_from([-1.0, 0.0, 1.0, 2.5]), min_size=1, max_size=40))
    return np.array(y), draw(st.integers(1, len(y)))


def assert_partition(clients, n_rows, n_clients):
    assert len(clients) == n_clients
    for rows in clients:
        assert rows.dtype == np.intp
        assert rows.size > 0
        assert (np.diff(rows) > 0).all()  # ascending, hence without repetition
    np.testing.assert_array_equal(np.sort(np.concatenate(clients)), np.arange(n_rows))


def assert_same(first, second):
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


SPLITS = {
    "random": lambda y, n_clients, rng: partition.random(len(y), n_clients, rng),
    "label_skew_tiny": lambda y, n_clients, rng: partition.label_skew(y, n_clients, 1e-3, rng),
    "label_skew": lambda y, n_clients, rng: partition.label_skew(y, n_clients, 1.0, rng),
    "label_skew_inf": lambda y, n_clients, rng: partition.label_skew(y, n_clients, math.inf, rng),
    "sorted_skew": lambda y, n_clients, rng: partition.sorted_skew(y, n_clients, 0.25, rng),
}


@pytest.mark.parametrize("split", SPLITS.values(), ids=SPLITS)
@given(target=targets(), seed=SEEDS)
def test_disjoint_covering_nonempty_and_deterministic(split, target, seed):
    y, n_clients = target
    clients = split(y, n_clients, np.random.default_rng(seed))
    assert_partition(clients, len(y), n_clients)
    assert_same(clients, split(y, n_clients, np.random.default_rng(seed)))


@pytest.mark.parametrize("split", SPLITS.values(), ids=SPLITS)
def test_another_seed_gives_another_partition(split):
    y = np.tile([-1.0, 1.0], 50)
    first, second = (split(y, 3, np.random.default_rng(seed)) for seed in (0, 1))
    assert not all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("split", [SPLITS["random"], SPLITS["sorted_skew"]])
@given(target=targets(), seed=SEEDS)
def test_equal_sizes(split, target, seed):
    y, n_clients = target
    sizes = [len(rows) for rows in split(y, n_clients, np.random.default_rng(seed))]
    assert max(sizes) - min(sizes) <= 1


def test_random_gives_every_row_to_every_client_equally_often():
    rng, draws = np.random.default_rng(0), 3000
    first_client = np.zeros(6)
    for _ in range(draws):
        first_client[partition.random(6, 3, rng)[0]] += 1
    # Each row with probability 1/3; five standard deviations.
    np.testing.assert_allclose(first_client / draws, 1 / 3, atol=5 * math.sqrt(2 / 9 / draws))


@pytest.mark.parametrize("alpha", [0.05, 0.5, 5.0])
@pytest.mark.sampled(2)
def test_label_skew_has_the_mean_and_variance_of_dirichlet_shares(alpha):
    n_clients, n_class, draws = 4, 400, 2000
    y = np.repeat([-1, 1], n_class)
    rng = np.random.default_rng(1)
    shares = np.array(
        [
            [np.mean(np.isin(np.arange(n_class), rows)) for rows in clients]
            for clients in (partition.label_skew(y, n_clients, alpha, rng) for _ in range(draws))
        ]
    )
    variance = (1 / 4) * (3 / 4) / (4 * alpha + 1)
    np.testing.assert_allclose(shares.mean(axis=0), 0.25, atol=5 * math.sqrt(variance / draws))
    # 10 %: three to four standard deviations of the variance of 2000 such shares.
    np.testing.assert_allclose(shares.var(axis=0), variance, rtol=0.1)


def test_label_skew_divides_each_class_on_its_own():
    y = np.repeat([-1, 1], 400)
    rng = np.random.default_rng(2)
    shares = np.array(
        [
            [np.sum(rows < 400), np.sum(rows >= 400)]
            for rows, _ in (partition.label_skew(y, 2, 0.5, rng) for _ in range(1000))
        ]
    )
    assert abs(np.corrcoef(shares.T)[0, 1]) < 0.15


def test_label_skew_with_infinite_alpha_gives_equal_shares():
    y = np.repeat([0, 1, 2], 100)
    for rows in partition.label_skew(y, 4, math.inf, np.random.default_rng(0)):
        np.testing.assert_allclose(np.bincount(y[rows]), 25, atol=1)


def test_label_skew_rounds_without_favouring_a_client():
    # The single row of class 1 has three equal shares: each client must get it equally often.
    y = np.append(np.zeros(300), 1.0)
    rng, draws = np.random.default_rng(3), 3000
    owners = np.zeros(3)
    for _ in range(draws):
        owners += [300 in rows for rows in partition.label_skew(y, 3, math.inf, rng)]
    np.testing.assert_allclose(owners / draws, 1 / 3, atol=5 * math.sqrt(2 / 9 / draws))


def test_label_skew_chooses_rows_of_a_class_equally_often():
    y = np.zeros(6)
    rng, draws = np.random.default_rng(7), 3000
    first_client = np.zeros(6)
    for _ in range(draws):
        first_client[partition.label_skew(y, 3, math.inf, rng)[0]] += 1
    np.testing.assert_allclose(first_client / draws, 1 / 3, atol=5 * math.sqrt(2 / 9 / draws))


@pytest.mark.parametrize("offset", [0.0, np.nextafter(1.0, 0.0)])
def test_label_skew_loses_no_row_to_rounding(offset):
    class ExtremeOffset(np.random.Generator):
        def random(self):
            return offset

    generator = ExtremeOffset(np.random.PCG64(0))
    for _ in range(100):
        assert_partition(partition.label_skew(np.zeros(97), 7, 0.3, generator), 97, 7)


def test_label_skew_with_tiny_alpha_gives_each_class_to_one_client():
    y = np.repeat(["a", "b", "c"], 50)
    clients = partition.label_skew(y, 3, 1e-6, np.random.default_rng(4))
    # A client that stayed empty has taken one row of another.
    largest = [max(np.sum(y[rows] == c) for rows in clients) for c in "abc"]
    assert min(largest) >= 48


def test_as_many_clients_as_rows():
    clients = partition.label_skew([1, 1, 1, 1], 4, 0.01, np.random.default_rng(0))
    assert [len(rows) for rows in clients] == [1, 1, 1, 1]


@given(target=targets(), seed=SEEDS)
def test_sorted_skew_without_noise_sorts(target, seed):
    y, n_clients = target
    clients = partition.sorted_skew(y, n_clients, 0.0, np.random.default_rng(seed))
    for left, right in pairwise(clients):
        # Smaller targets first; among equals the earlier row.
        assert max((y[i], i) for i in left) < min((y[i], i) for i in right)


def test_sorted_skew_follows_its_formula():
    y = load_abalone().target[:270]
    clients = partition.sorted_skew(y, 10, 0.25, np.random.default_rng(5))
    G = np.random.default_rng(5).standard_normal(270)
    key = y + 0.25 * math.sqrt(np.mean((y - np.mean(y)) ** 2)) * G
    order = sorted(range(270), key=lambda i: key[i])
    assert_same(clients, [sorted(order[27 * s : 27 * s + 27]) for s in range(10)])


def test_sorted_skew_of_two_classes_leaves_most_clients_with_one():
    y = load_heart().target
    clients = partition.sorted_skew(y, 10, 0.25, np.random.default_rng(5))
    assert [len(np.unique(y[rows])) for rows in clients].count(1) >= 8
    assert (y[clients[0]] == -1).all()
    assert (y[clients[-1]] == 1).all()


def test_by_column_of_text_numbers_and_dates():
    rows = partition.by_column(["Lund", "Bern", "Lund", "Oslo"])
    assert list(rows) == ["Bern", "Lund", "Oslo"]
    assert_same(rows.values(), [[1], [0, 2], [3]])
    assert list(partition.by_column(np.array([10, 9, 10]))) == ["9", "10"]
    days = pd.Series(pd.to_datetime(["2024-02-01", "2024-01-01"]))
    assert [name[:10] for name in partition.by_column(days)] == ["2024-01-01", "2024-02-01"]


@given(values=st.lists(st.sampled_from(["a", "b", "c d", ""]), min_size=1, max_size=30))
def test_by_column_is_a_partition_into_constant_columns(values):
    rows = partition.by_column(pd.Series(values))
    assert_partition(list(rows.values()), len(values), len(set(values)))
    for name, part in rows.items():
        assert {values[i] for i in part} == {name}


@given(seed=SEEDS, ratios=st.lists(st.floats(0.0, 1.0), min_size=3, max_size=3))
def test_class_imbalance_keeps_the_majority_and_the_stated_share_of_the_minority(seed, ratios):
    y = load_heart().target
    clients = partition.random(len(y), 3, np.random.default_rng(seed))
    thinned = partition.class_imbalance(clients, y, ratios, np.random.default_rng(seed))
    assert_same(thinned, partition.class_imbalance(clients, y, ratios, np.random.default_rng(seed)))
    for before, after, ratio in zip(clients, thinned, ratios, strict=True):
        assert after.dtype == np.intp
        assert (np.diff(after) > 0).all()
        assert set(after) <= set(before)
        negative, positive = (y[before] == -1).sum(), (y[before] == 1).sum()
        majority, minority = (-1, 1) if negative >= positive else (1, -1)
        assert (y[after] == majority).sum() == max(negative, positive)
        kept, had = (y[after] == minority).sum(), min(negative, positive)
        assert abs(kept - ratio * had) <= (0.5 if ratio * had >= 0.5 else 1.0)
        assert (kept > 0) == (ratio > 0)


def test_the_ratios_of_the_paper():
    # Client by client: 10 to 6, 4 to 7, 3 to 2.
    y = np.repeat([-1, 1, -1, 1, -1, 1], [10, 6, 4, 7, 3, 2])
    clients = [np.arange(16), np.arange(16, 27), np.arange(27, 32)]
    thinned = partition.class_imbalance(clients, y, [0.5, 0.5, 1.0], np.random.default_rng(0))
    counts = [((y[rows] == -1).sum(), (y[rows] == 1).sum()) for rows in thinned]
    assert counts == [(10, 3), (2, 7), (3, 2)]
    np.testing.assert_array_equal(thinned[2], clients[2])


def test_class_imbalance_chooses_every_minority_row_equally_often():
    y = np.repeat([0, 1], [5, 4])
    rng, draws = np.random.default_rng(6), 2000
    kept = np.zeros(9)
    for _ in range(draws):
        kept[partition.class_imbalance([range(9)], y, [0.5], rng)[0]] += 1
    np.testing.assert_array_equal(kept[:5], draws)
    np.testing.assert_allclose(kept[5:] / draws, 0.5, atol=5 * math.sqrt(0.25 / draws))


def test_class_imbalance_ties_and_single_classes():
    y = [-1, 1, 1, -1, 1]
    thinned = partition.class_imbalance([[0, 1], [2, 4], [3]], y, [0.0, 0.0, 0.0], rng())
    assert_same(thinned, [[0], [2, 4], [3]])


def test_noise_has_its_mean_and_deviation_and_leaves_the_data_alone():
    X = np.random.default_rng(0).uniform(size=(2000, 5))
    before = X.copy()
    noise = add_noise(X, 0.5, 0.25, np.random.default_rng(1)) - X
    np.testing.assert_array_equal(X, before)
    np.testing.assert_allclose(noise.mean(axis=0), 0.5, atol=5 * 0.25 / math.sqrt(2000))
    np.testing.assert_allclose(noise.std(axis=0), 0.25, atol=5 * 0.25 / math.sqrt(4000))
    correlation = np.corrcoef(noise.T) - np.eye(5)
    assert np.abs(correlation).max() < 5 / math.sqrt(2000)


@given(mean=st.floats(-5.0, 5.0), std=st.floats(0.0, 5.0), seed=SEEDS)
def test_noise_is_affine_in_mean_and_deviation(mean, std, seed):
    X = np.arange(6.0).reshape(3, 2)
    G = add_noise(X, 0.0, 1.0, np.random.default_rng(seed)) - X
    noisy = add_noise(X, mean, std, np.random.default_rng(seed))
    np.testing.assert_allclose(noisy, X + mean + std * G, atol=1e-12)


def test_client_noise_is_noise_client_after_client():
    clients = [np.zeros((3, 2)), np.ones((2, 2)), np.full((1, 2), 2.0)]
    noisy = add_client_noise(clients, [0.5, 0.0, -1.0], [0.1, 0.0, 0.2], np.random.default_rng(0))
    generator = np.random.default_rng(0)
    expected = [
        add_noise(X, mean, std, generator)
        for X, mean, std in zip(clients, [0.5, 0.0, -1.0], [0.1, 0.0, 0.2], strict=True)
    ]
    assert_same(noisy, expected)
    np.testing.assert_array_equal(noisy[1], clients[1])


def test_client_noise_by_name():
    clients = {"a": np.zeros((4, 1)), "b": np.zeros((4, 1))}
    noisy = add_client_noise(clients, {"b": 2.0}, 0.0, rng())
    assert list(noisy) == ["a", "b"]
    np.testing.assert_array_equal(noisy["a"], 0.0)
    np.testing.assert_array_equal(noisy["b"], 2.0)
    by_position = add_client_noise(list(clients.values()), {1: 2.0}, 0.0, rng())
    assert_same(by_position, noisy.values())


def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: partition.random(5, 6, rng()), ValueError, "6 clients need at least 6 rows"),
        (lambda: partition.random(5, 0, rng()), ValueError, "at least one client"),
        (lambda: partition.random(5, 2.0, rng()), TypeError, "integer"),
        (lambda: partition.random(5, 2, 0), TypeError, "Generator"),
        (lambda: partition.random(5, 2, None), TypeError, "Generator"),
        (lambda: partition.label_skew([1, -1], 2, 0.0, rng()), ValueError, "alpha"),
        (lambda: partition.label_skew([1, -1], 2, math.nan, rng()), ValueError, "alpha"),
        (lambda: partition.label_skew([1, -1], 3, 1.0, rng()), ValueError, "3 clients"),
        (lambda: partition.label_skew([[1], [2]], 1, 1.0, rng()), ValueError, r"\(2, 1\)"),
        (lambda: partition.label_skew([1, math.nan], 1, 1.0, rng()), ValueError, "rows 1$"),
        (lambda: partition.label_skew([1, -1], 2, 1.0, 0), TypeError, "Generator"),
        (lambda: partition.sorted_skew(["a", "b"], 2, 0.1, rng()), TypeError, "numbers"),
        (lambda: partition.sorted_skew([1, math.inf], 2, 0.1, rng()), ValueError, "rows 1$"),
        (lambda: partition.sorted_skew([1, 2], 2, -0.1, rng()), ValueError, "noise"),
        (lambda: partition.sorted_skew([1, 2], 2, math.inf, rng()), ValueError, "noise"),
        (lambda: partition.sorted_skew([1, 2], 2, 0.1, 7), TypeError, "Generator"),
        (lambda: partition.by_column([]), ValueError, "nonempty"),
        (
            lambda: partition.by_column(np.array(["a", None] * 6, dtype=object)),
            ValueError,
            "rows 1, 3, 5, 7, 9 and 1 more",
        ),
        (lambda: partition.by_column(pd.Series(["a", pd.NA], dtype=object)), TypeError, "missing"),
        (lambda: partition.by_column(np.array([1, "a"], dtype=object)), TypeError, "one kind"),
        (lambda: imbalance(ratios=[0.5]), ValueError, "one ratio per client is needed: 2, got 1"),
        (lambda: imbalance(ratios=[0.5, 1.5]), ValueError, "between 0 and 1, got 1.5"),
        (lambda: imbalance(ratios=[math.nan, 1.0]), ValueError, "between 0 and 1"),
        (lambda: imbalance(y=[1, 1, 1, 1]), ValueError, "two classes in y, got 1"),
        (lambda: imbalance(y=[1, 2, 3, 1]), ValueError, "two classes in y, got 3"),
        (lambda: imbalance(clients=[[0, 1], [2, 4]]), ValueError, r"0\.\.3, got 2\.\.4"),
        (lambda: imbalance(clients=[[0, 1], [-1]]), ValueError, r"got -1\.\.-1"),
        (lambda: imbalance(clients=[[0, 1], []]), ValueError, "nonempty"),
        (lambda: imbalance(clients=[[0.0], [1.0]]), ValueError, "row numbers"),
        (lambda: imbalance(rng=3), TypeError, "Generator"),
        (lambda: add_noise([[1.0]], math.nan, 1.0, rng()), ValueError, "mean"),
        (lambda: add_noise([[1.0]], 0.0, -1.0, rng()), ValueError, "standard deviation"),
        (lambda: add_noise([[1.0]], 0.0, math.inf, rng()), ValueError, "standard deviation"),
        (lambda: add_noise([1.0], 0.0, 1.0, rng()), ValueError, r"shape \(1,\)"),
        (lambda: add_noise(csr_array([[1.0]]), 0.0, 1.0, rng()), TypeError, "sparse"),
        (lambda: add_noise([[1.0]], 0.0, 1.0, 42), TypeError, "Generator"),
        (lambda: add_client_noise([[[1.0]]], 0.0, [1.0, 2.0], rng()), ValueError, "std .* 1 in"),
        (lambda: add_client_noise({"a": [[1.0]]}, {"b": 1.0}, 0.0, rng()), ValueError, "'b'.*'a'"),
        (lambda: add_client_noise([[[1.0]]], 0.0, 1.0, 42), TypeError, "Generator"),
    ],
)
def test_errors_are_one_sentence(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def imbalance(clients=((0, 1), (2, 3)), y=(1, -1, 1, -1), ratios=(0.5, 0.5), rng=None):
    generator = np.random.default_rng(0) if rng is None else rng
    return partition.class_imbalance(clients, y, ratios, generator)


def test_a_refusal_draws_nothing():
    generator = rng()
    before = generator.bit_generator.state
    with pytest.raises(ValueError, match="mean"):
        add_client_noise([[[1.0]], [[2.0]]], [0.0, math.nan], 1.0, generator)
    with pytest.raises(ValueError, match="rows and columns"):
        add_client_noise([[[1.0]], [2.0]], 0.0, 1.0, generator)
    with pytest.raises(ValueError, match="alpha"):
        partition.label_skew([1, -1], 2, -1.0, generator)
    assert generator.bit_generator.state == before
