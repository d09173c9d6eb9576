"""Counts between thresholds: the curves that they make, and that no small cell is shown."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.metrics import brier_score_loss, roc_auc_score

from drfl.defaults import FEW_ROWS
from drfl.metrics.counts import (
    LEVELS,
    Told,
    added,
    coarsened,
    facts_of,
    named_decisions,
    told,
)
from drfl.metrics.probabilities import decisions
from drfl.one_vs_rest import log_odds, probabilities


def drawn(N=400, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=N) + shift
    return z, rng.random(N) < expit(z)


def test_numbers_and_curves_are_those_of_the_rows():
    z, positive = drawn()
    facts = facts_of(told(z, positive))
    assert (facts["rows"], facts["positive"]) == (400, int(positive.sum()))
    assert facts["auc"] == pytest.approx(roc_auc_score(positive, z))
    assert facts["brier"] == pytest.approx(brier_score_loss(positive, expit(z)))
    assert len(facts["decisions"]) == 19
    for entry, level in zip(facts["decisions"], LEVELS, strict=True):
        at = decisions(z, positive, level)
        for name in ("sensitivity", "specificity", "positive_value", "net_benefit"):
            assert entry[name] == pytest.approx(getattr(at, name), nan_ok=True)
        assert entry["benefit_of_all"] == pytest.approx(at.benefit_of_all)
    rows = sum(entry["rows"] for entry in facts["calibration"])
    assert rows == 400
    assert facts["auc_low"] < facts["auc"] < facts["auc_high"]


def test_parts_add_up():
    parts = [drawn(seed=s, N=100) for s in range(3)]
    z, positive = (np.concatenate(part) for part in zip(*parts, strict=True))
    together = added([told(*part) for part in parts])
    whole = told(z, positive)
    assert np.allclose(together.bins, whole.bins)
    mean = facts_of(together)["brier"]
    assert mean == pytest.approx(facts_of(whole)["brier"])


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=20, max_size=20))
def test_no_small_cell_is_shown_and_what_is_shown_is_true(counts):
    bins = np.array([[a, b, 0.5 * (a + b)] for a, b in counts])
    exact = Told(bins, np.ones(19, dtype=bool), np.ones(7))
    shown = coarsened(exact)
    cells = shown.bins[:, :2]
    assert ((cells == 0.0) | (cells >= FEW_ROWS)).all()
    if shown.bins.any():
        assert np.allclose(shown.bins.sum(axis=0), bins.sum(axis=0))
    for k in np.flatnonzero(shown.known):  # what is on either side of a threshold that is told
        assert np.allclose(shown.bins[: k + 1].sum(axis=0), bins[: k + 1].sum(axis=0))
        left, right = shown.bins[: k + 1, :2].sum(axis=0), shown.bins[k + 1 :, :2].sum(axis=0)
        assert all(c == 0 or c >= FEW_ROWS for c in (*left, *right))


def test_of_few_rows_of_a_class_nothing_is_told():
    z, _ = drawn(60)
    rare = np.zeros(60, dtype=bool)
    rare[:3] = True
    facts = facts_of(coarsened(told(z, rare)))
    assert facts["rows"] == 0


def test_a_named_threshold_is_counted_and_goes_last():
    z, positive = drawn(150, seed=3)
    facts = facts_of(told(z, positive, (0.33,)))
    (decided,) = named_decisions(facts)
    at = decisions(z, positive, 0.33)
    assert decided["called_positive"] == at.true_positive + at.false_positive
    assert decided["negative_value"] == pytest.approx(at.negative_value)
    assert len(facts["decisions"]) == 20
    # Of few rows the named one is told, and not its neighbours; without it, others are.
    few = facts_of(coarsened(told(z, positive, (0.33,))))
    assert named_decisions(few) == [decided]
    assert not {0.3, 0.35} <= {d["threshold"] for d in few["decisions"]}
    assert named_decisions(facts_of(coarsened(told(z, positive)))) == []
    # Two that differ by a row or two are never told both: their difference is a small cell.
    p = np.sort(expit(z[positive]))
    close = (float(p[20] - 1e-9), float(p[20] + 1e-9))
    assert len(named_decisions(facts_of(coarsened(told(z, positive, close))))) <= 1


@pytest.mark.parametrize("joint", [True, False])
def test_log_odds_are_those_of_the_probabilities(joint):
    scores = 3.0 * np.random.default_rng(0).normal(size=(40, 4))
    p = probabilities(scores, joint=joint)
    assert log_odds(scores, joint=joint) == pytest.approx(np.log(p / (1.0 - p)))
    far = 1e3 * scores  # where 1 - p is rounded to 0 there are log-odds all the same
    assert np.isfinite(log_odds(far, joint=joint)).all()
    assert log_odds(scores[:, :1]) == pytest.approx(scores[:, :1])
