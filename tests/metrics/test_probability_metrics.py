"""Calibration, areas and decisions against scikit-learn, statsmodels and brute force."""

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import expit
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, confusion_matrix, roc_auc_score

from drfl.metrics.probabilities import (
    area,
    auc_interval,
    auc_variance,
    bins,
    brier,
    combined_auc,
    decisions,
    recalibration,
)


def drawn(seed=0, N=150):
    rng = np.random.default_rng(seed)
    z = np.round(rng.normal(size=N), 1)  # with ties
    return z, rng.random(N) < expit(0.4 + 1.5 * z)


def test_recalibration_is_a_logistic_regression_on_the_score():
    z, y = drawn()
    found = recalibration(z, y)
    logit = sm.Logit(y * 1.0, sm.add_constant(z)).fit(disp=0, tol=1e-12)
    assert (found.intercept, found.slope) == pytest.approx(tuple(logit.params), rel=1e-7)
    assert (found.intercept_error, found.slope_error) == pytest.approx(tuple(logit.bse), rel=1e-6)
    large = recalibration(z, y, slope=False)
    glm = sm.GLM(y * 1.0, np.ones(len(z)), sm.families.Binomial(), offset=z).fit(tol=1e-12)
    assert (large.intercept, large.intercept_error) == pytest.approx(
        (glm.params[0], glm.bse[0]), rel=1e-6
    )
    assert large.slope == 1.0


@pytest.mark.parametrize("y", [np.ones(40, bool), np.zeros(40, bool), np.arange(40) > 20])
def test_what_cannot_be_calibrated_is_nan(y):
    assert np.isnan(recalibration(np.linspace(-1, 1, 40), y).slope)


def test_delongs_variance_is_that_of_its_placements():
    z, y = drawn(1)
    beats = (z[y][:, None] > z[~y]) + 0.5 * (z[y][:, None] == z[~y])
    by_hand = beats.mean(axis=1).var(ddof=1) / y.sum() + beats.mean(axis=0).var(ddof=1) / (~y).sum()
    assert auc_variance(z, y) == pytest.approx(by_hand, rel=1e-12)
    assert area(z, y)[0] == pytest.approx(roc_auc_score(y, z))
    assert np.isnan(auc_variance(z[:3], np.array([True, False, False])))


def test_delongs_interval_covers():
    held = []
    z, y = drawn(2, 200_000)
    truth = roc_auc_score(y, z)
    for seed in range(400):
        middle, variance = area(*drawn(seed + 10, 400))
        held.append(abs(middle - truth) <= 1.96 * np.sqrt(variance))
    assert 0.92 <= np.mean(held) <= 0.98


def test_areas_are_combined_and_absent_ones_do_not_count():
    areas, variances = np.array([0.8, 0.6, np.nan]), np.array([0.01, 0.04, np.nan])
    mean, variance = combined_auc(areas, variances, np.array([3.0, 1.0, 9.0]))
    assert mean == pytest.approx(0.75)
    assert variance == pytest.approx(0.75**2 * 0.01 + 0.25**2 * 0.04)
    assert np.isnan(combined_auc(areas[2:], variances[2:], np.ones(1))[0])


def test_brier_bins_and_decisions_are_scikit_learns():
    z, y = drawn(3, 400)
    p = expit(z)
    assert brier(z, y) == pytest.approx(brier_score_loss(y, p))
    edges = np.linspace(0.0, 1.0, 6)
    observed, predicted = calibration_curve(y, p, n_bins=5)
    found = bins(z, y, edges)
    assert [b[1] for b in found] == pytest.approx(predicted.tolist())
    assert [b[2] for b in found] == pytest.approx(observed.tolist())
    assert sum(b[0] for b in found) == 400
    at = decisions(z, y, 0.3)
    (tn, fp), (fn, tp) = confusion_matrix(y, p > 0.3)
    assert at.sensitivity == pytest.approx(tp / (tp + fn))
    assert at.specificity == pytest.approx(tn / (tn + fp))
    assert at.positive_value == pytest.approx(tp / (tp + fp))
    assert at.negative_value == pytest.approx(tn / (tn + fn))
    assert at.net_benefit == pytest.approx(tp / 400 - fp / 400 * 3 / 7)
    assert at.benefit_of_all == pytest.approx(y.mean() - (1 - y.mean()) * 3 / 7)
    assert np.isnan(decisions(z, y, 0.9999).positive_value)


def test_an_area_that_is_not_there_has_no_interval():
    assert np.isnan(auc_interval(np.nan, np.nan)).all()
    assert np.isnan(auc_interval(0.7, np.nan)).all()
    assert auc_interval(0.9, 0.01) == pytest.approx((0.9 - 0.196, 1.0), abs=1e-4)
