"""The defaults do not hurt: a short version of the study."""

import numpy as np
import pytest

from drfl.cli.console import Console
from experiments import usefulness
from experiments.usefulness import (
    CLASSES,
    DEFAULT,
    RIVAL,
    SITUATIONS,
    Cell,
    Records,
    Rows,
    by_client,
    load,
    page,
    situations,
    study,
)


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
    words = "2 cells, points of accuracy: mean -0.50, worst -2.00, 1 worse by more than 1; at two"
    assert f"{words} standard errors 0 better and 0 worse." in said
    assert "| heart | seen | +1.00 ± 0.50 | +0.20 |" in said
    cells += [Cell("heart", "unseen", (-2.0,), (0.0,), way="new client")]
    said = "\n".join(page(cells, "command"))
    assert "2 cells, points of accuracy" in said  # others are compared with the default, apart
    assert "- **new client**: 1 cells, points of accuracy: mean -2.00" in said
    assert "| heart | new client | -2.00 |" in said
    cells += [Cell("heart", "seen", (1.0, 2.0), (0.0, 0.0), way="mean")]
    assert "In the smaller data sets and 2 splits only" in "\n".join(page(cells, "command"))


def test_rules_are_tried_in_small_data_and_the_first_splits_only(monkeypatch):
    monkeypatch.setattr(usefulness, "judged", lambda way, train, test: (1.0, 1.0))
    ways = (RIVAL, DEFAULT, "mean")
    cells = study(["wine", "breast cancer (sklearn)"], 3, 0, Console(quiet=True), ways)
    assert {(cell.data[:4], cell.way, len(cell.gains)) for cell in cells} == {
        ("wine", DEFAULT, 3),
        ("wine", "mean", 2),
        ("brea", DEFAULT, 3),
    }


def test_a_study_goes_on_where_it_was(tmp_path, monkeypatch):
    file, quiet = tmp_path / "study.jsonl", Console(quiet=True)
    first = study(["wine"], 1, 0, quiet, (RIVAL, DEFAULT), Records(file))
    assert [cell.situation for cell in first] == list(SITUATIONS)
    monkeypatch.setattr(usefulness, "judged", None)  # nothing is trained again
    assert study(["wine"], 1, 0, quiet, (RIVAL, DEFAULT), Records(file)) == first


def test_clients_scaled_by_themselves_have_no_means_that_differ():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) + np.repeat([[0.0], [5.0], [9.0]], 20, axis=0)
    rows = Rows(X, np.sign(rng.normal(size=60)), np.repeat([0, 1, 2], 20))
    A, B = by_client(rows.take(rows.client < 2), rows)
    assert abs(A[:20].mean()) < 1e-12
    np.testing.assert_array_equal(A, B[:40])
    assert abs(B[40:].mean()) < 1e-12  # one that is new, by its own rows


@pytest.mark.slow
def test_no_cell_falls_below_a_point_against_logistic_regression():
    cells = study(CLASSES, 10, 0, Console(quiet=True))
    assert len(cells) == len(CLASSES) * len(SITUATIONS)
    for cell in cells:
        assert cell.mean >= -1.0, cell
