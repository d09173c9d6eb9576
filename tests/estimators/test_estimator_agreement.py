"""Where the problem is scikit-learn's own, so is the solution.

With one client, the l2 norm and labels that never move the objective is mean L + rho ||w||_2. Its
minimiser solves the squared penalty of scikit-learn with the C at which the two penalties have the
same gradient there: C N = ||w|| / rho.
"""

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_regression
from sklearn.linear_model import HuberRegressor, LogisticRegression, QuantileRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC

from drfl.estimators import DRFLClassifier, DRFLRegressor

N = 120


@pytest.fixture(scope="module")
def labelled():
    X, y = make_classification(N, 5, n_informative=4, n_redundant=0, flip_y=0.1, random_state=1)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def measured():
    X, y = make_regression(N, 4, noise=1.0, random_state=2)
    rng = np.random.default_rng(3)
    return StandardScaler().fit_transform(X), y / y.std() + 0.3 * rng.standard_t(3, N)


def matched(model, rho):
    return np.linalg.norm(model.coef_) / (rho * N)


@pytest.mark.parametrize("rho", [0.02, 0.2])
def test_linear_svc(labelled, rho):
    X, y = labelled
    ours = DRFLClassifier("hinge", norm="l2", radius=rho, intercept="none", tol=1e-9).fit(X, y)
    svc = LinearSVC(loss="hinge", C=matched(ours, rho), fit_intercept=False, tol=1e-10)
    theirs = svc.set_params(max_iter=1_000_000, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert ours.intercept_ == 0.0


@pytest.mark.parametrize("rho", [0.02, 0.2])
def test_svc_with_intercept(labelled, rho):
    X, y = labelled
    ours = DRFLClassifier("hinge", norm="l2", radius=rho, tol=1e-9).fit(X, y)
    theirs = SVC(kernel="linear", C=matched(ours, rho), tol=1e-9).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)


@pytest.mark.parametrize("rho", [0.02, 0.2])
def test_logistic_regression(labelled, rho):
    X, y = labelled
    ours = DRFLClassifier("logistic", norm="l2", radius=rho, tol=1e-9).fit(X, y)
    theirs = LogisticRegression(C=matched(ours, rho), tol=1e-12, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=2e-4)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("quantile", [0.5, 0.8])
def test_quantile_regressor(measured, quantile):
    # The dual of the linf norm is l1: a lasso, exactly theirs at alpha = rho Lip.
    X, y = measured
    rho = 0.05
    ours = DRFLRegressor("pinball", quantile=quantile, norm="linf", radius=rho, tol=1e-9).fit(X, y)
    alpha = rho * max(quantile, 1.0 - quantile)
    theirs = QuantileRegressor(quantile=quantile, alpha=alpha, solver="highs").fit(X, y)
    residual = y - theirs.predict(X)
    loss = np.maximum(quantile * residual, (quantile - 1.0) * residual).mean()
    assert ours.objective_ == pytest.approx(loss + alpha * np.abs(theirs.coef_).sum(), rel=1e-7)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)


@pytest.mark.parametrize("rho", [0.05, 0.3])
def test_svr(measured, rho):
    X, y = measured
    ours = DRFLRegressor("epsilon_insensitive", epsilon=0.2, norm="l2", radius=rho, tol=1e-9)
    ours.fit(X, y)
    theirs = SVR(kernel="linear", epsilon=0.2, C=matched(ours, rho), tol=1e-9).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_[0], atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_[0], atol=1e-4)


def test_huber_regressor(measured):
    # Theirs also estimates a scale s. Given s it minimises (2/s) sum Huber_{eps s} + alpha ||w||^2.
    X, y = measured
    theirs = HuberRegressor(epsilon=1.35, alpha=5.0, tol=1e-9, max_iter=10_000).fit(X, y)
    rho = 5.0 * np.linalg.norm(theirs.coef_) / (1.35 * N)
    ours = DRFLRegressor("huber", epsilon=1.35 * theirs.scale_, norm="l2", radius=rho, tol=1e-9)
    ours.fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)
