"""What `benchmarks/everyday.py --check` misses; the ratios are not measured here."""

import math

from benchmarks.everyday import missed, table


def test_cells_above_three_and_a_median_above_one_and_a_half_are_missed():
    fine = {(1000, 10): {"a": 3.0, "b": 1.5, "c": math.nan}, (10, 1000): {"a": 0.5, "b": 1.0}}
    assert missed(fine) == []
    assert "0 of 4 cells are above 3" in table(fine)
    slow = {(1000, 10): {"a": 3.1, "b": 1.4, "c": math.nan}, (10, 1000): {"a": 0.5, "b": 1.0}}
    assert missed(slow) == ["1,000 x 10 a: 3.10, at most 3"]
    assert missed({(10, 10): {"a": 1.6, "b": 1.6}}) == ["median 1.60, at most 1.5"]
