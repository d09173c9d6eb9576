"""Wins, losses and ties by paired differences."""

import numpy as np

from experiments.statistics import Tally, band, best_count, markdown, tally


def test_band_is_two_standard_errors():
    values = np.random.default_rng(0).normal(size=(50, 3))
    mean, wide = band(values)
    np.testing.assert_allclose(mean, values.mean(axis=0))
    np.testing.assert_allclose(wide, 2.0 * values.std(axis=0, ddof=1) / np.sqrt(50))


def test_paired_differences_see_what_means_do_not():
    rng = np.random.default_rng(0)
    seed = rng.normal(scale=10.0, size=(20, 1))
    own = seed + np.array([[0.1, -0.1, 0.0]]) + 0.01 * rng.normal(size=(20, 3))
    assert tally(own, np.repeat(seed, 3, axis=1), smaller_is_better=False) == Tally(1, 1, 1)
    assert tally(own[:, :2], np.repeat(seed, 2, axis=1), smaller_is_better=True) == Tally(1, 1, 0)


def test_equal_and_single_seeds_are_ties():
    same = np.ones((5, 4))
    assert tally(same, same + 1e-15, smaller_is_better=False) == Tally(0, 0, 4)
    assert tally(np.ones((1, 2)), np.zeros((1, 2)), smaller_is_better=False) == Tally(0, 0, 2)


def test_best_count_leaves_out_equals():
    cells = {"a": np.array([[1.0, 2.0, 3.0]]), "b": np.array([[1.0, 1.0, 4.0]])}
    assert best_count(cells, "a", smaller_is_better=False) == 1
    assert best_count(cells, "a", smaller_is_better=True) == 1


def test_tables():
    assert markdown(["a", "b"], [["1", "2"]]) == ["| a | b |", "|---|---|", "| 1 | 2 |"]
    assert sum([Tally(1, 2, 3), Tally(1, 0, 0)], Tally()) == Tally(2, 2, 3)
