"""Intervals hold the truth as often as they say."""

import numpy as np
import pytest

from experiments.coverage import HOLDS, Cell, Covered, cells, covered, page, target


def test_the_target_is_where_the_drawn_model_is():
    assert np.allclose(target("logistic"), [1.0, -0.7, 0.4, 0.0, 0.2, 0.3], atol=0.02)
    assert np.allclose(target("huber"), [1.0, -0.7, 0.4, 0.0, 0.2, 0.3], atol=0.02)
    assert not np.allclose(target("misspecified"), target("logistic"), atol=0.1)


def test_a_few_draws_and_their_line():
    found = covered(Cell("logistic", 800, 1.0), 20)
    assert found.given.mean() > 0.85
    # Around the robust coefficients the largest one is missed again and again.
    assert found.naive.min() < 0.6
    line = page([Covered(Cell("huber", 200, 0.1), np.array([0.9, 1.0]), np.zeros(2), 5, 1)])[-1]
    assert line == "| huber | 200 | 0.1/√N | 0.950 | 0.900 | 0.000 | 0.000 | 5 | 1 |"
    assert len(list(cells())) == 36


@pytest.mark.slow
@pytest.mark.parametrize("design", ["logistic", "huber", "misspecified", "additive"])
@pytest.mark.parametrize("factor", [0.0, 0.1, 1.0])
def test_coverage_is_nominal(design, factor):
    found = covered(Cell(design, 800, factor), 1000)
    assert HOLDS[0] <= found.given.mean() <= HOLDS[1]
    assert found.without == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("design", "rows"),
    [
        ("logistic", 200),
        ("huber", 200),
        ("misspecified", 200),
        ("logistic", 4000),
        ("huber", 4000),
        ("misspecified", 4000),
    ],
)
def test_coverage_is_nominal_from_few_rows_and_from_many(design, rows):
    """The estimate does not depend on the radius, as the table shows: one radius is enough."""
    found = covered(Cell(design, rows, 1.0), 1000)
    assert HOLDS[0] <= found.given.mean() <= HOLDS[1]


@pytest.mark.slow
def test_a_large_radius_does_no_harm_to_the_intervals():
    found = covered(Cell("logistic", 800, 3.0), 1000)
    assert HOLDS[0] <= found.given.mean() <= HOLDS[1]
    assert found.naive.min() < 0.05


@pytest.mark.slow
def test_a_rare_class_is_covered_too_seldom():
    """The page says so; should this fail, the page is wrong."""
    assert covered(Cell("rare", 400, 1.0), 300).given.mean() < HOLDS[0]
