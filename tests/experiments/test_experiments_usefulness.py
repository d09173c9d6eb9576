"""The defaults do not hurt: a short version of the study."""

import numpy as np
import pytest

from drfl.cli.console import Console
from experiments.usefulness import CLASSES, SITUATIONS, Cell, load, page, situations, study


def test_every_situation_is_made_of_the_same_rows():
    rng = np.random.default_rng(0)
    rows = load("heart", rng)
    made = {name: (train, test) for name, train, test in situations(rows, False, rng)}
    assert tuple(made) == SITUATIONS
    train, test = made["unseen"]
    assert not set(train.client) & set(test.client)
    assert len(train.y) + len(test.y) == len(rows.y)
    flipped = made["flipped client"][0].y != made["seen"][0].y
    assert 0 < flipped.sum() < 0.5 * len(flipped)
    assert len(set(made["seen"][0].client[flipped])) == 1
    assert np.bincount(made["20 rows"][0].client).tolist() == [20] * 5


def test_the_page_counts_what_is_worse():
    cells = [
        Cell("heart", "seen", (0.5, 1.5), (0.1, 0.3)),
        Cell("wine", "seen", (-3.0, -1.0), (0, 0)),
    ]
    said = "\n".join(page(cells, "command"))
    assert "2 cells, points of accuracy: mean -0.50, worst -2.00, 1 worse by more than 1." in said
    assert "| heart | seen | +1.00 ± 0.50 | +0.20 |" in said


@pytest.mark.slow
def test_no_cell_falls_below_a_point_against_logistic_regression():
    for cell in study(CLASSES, 6, 0, Console(quiet=True)):
        assert cell.warned or cell.mean >= -1.0, cell
