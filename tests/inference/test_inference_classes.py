"""Standard errors of several classes at once: those of statsmodels' multinomial logit."""

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.linear_model import LogisticRegression

import drfl
from drfl.inference import InferenceError, Inquiry, corrected
from drfl.inference.classes import centred

W = np.array([[0.0, 0.0, 0.0], [1.0, -0.7, 0.3], [-0.5, 0.8, 0.2]])
B = np.array([0.0, 0.3, -0.4])
NONE = np.zeros((3, 3))


def drawn(N=400, seed=0, shifts=NONE):
    rng = np.random.default_rng(seed)
    X, clients = rng.normal(size=(N, 3)), np.arange(N) % 3
    y = (X @ W.T + B + shifts[clients] + rng.gumbel(size=(N, 3))).argmax(axis=1)
    return X, y, clients


def fitted(X, y, clients, **options):
    how = {"radius": 0.02, "mixture_center": "proportional", "multiclass": "joint"}
    return drfl.DRFLClassifier(**how | options).fit(X, y, clients)


def by_class(found, intercept=True):
    """Numbers (K - 1, n + 1) with the intercept first, as statsmodels has them."""
    table = np.asarray(found).reshape(2, -1)
    return np.roll(table, 1, axis=1) if intercept else table


def sandwich(truth, A, y):
    """HC0 of a fitted multinomial logit, from its formula."""
    p, K1 = truth.predict()[:, 1:], truth.params.shape[1]
    v = p - np.eye(K1 + 1)[y][:, 1:]
    scores = np.einsum("ij,ik->ijk", v, A).reshape(len(y), -1)
    inverse = np.asarray(truth.cov_params())
    return np.sqrt(np.diag(inverse @ (scores.T @ scores) @ inverse)).reshape(K1, -1)


@pytest.mark.parametrize("radius", [0.0, 0.05])
def test_it_is_the_multinomial_logit(radius):
    X, y, clients = drawn()
    A = sm.add_constant(X)
    truth = sm.MNLogit(y, A).fit(disp=0, tol=1e-10, method="newton")
    model = fitted(X, y, clients, radius=radius)
    plain, robust = model.inference(kind="model"), model.inference()
    assert by_class(plain.coef) == pytest.approx(truth.params.T, abs=1e-6)
    assert by_class(plain.standard_error) == pytest.approx(truth.bse.T, rel=1e-5)
    assert by_class(robust.standard_error) == pytest.approx(sandwich(truth, A, y), rel=1e-5)
    assert plain.log_likelihood == pytest.approx(truth.llf, rel=1e-9)
    # A column is in the scores of all classes: its test has K - 1 degrees.
    at = [1, 5]  # x1 of both classes, in statsmodels' order
    beta, cov = truth.params.T.ravel()[at], np.asarray(truth.cov_params())[np.ix_(at, at)]
    test = plain.tests()["x1"]
    assert (test.degrees, test.statistic) == (2, pytest.approx(beta @ np.linalg.solve(cov, beta)))
    assert plain.names[:4] == ("1: x1", "1: x2", "1: x3", "1: intercept")


def test_another_class_may_be_what_others_are_against():
    X, y, clients = drawn()
    model = fitted(X, y, clients)
    other = np.array([1, 2, 0])[y]  # class 2 is the first one now
    turned = fitted(X, other, clients).inference()
    named = model.inference(against=2)
    assert named.names[0] == "0: x1"
    # 0 and 1 against 2, which are 1 and 2 against 0 after the turn
    assert named.coef == pytest.approx(turned.coef, abs=1e-5)
    assert named.standard_error == pytest.approx(turned.standard_error, rel=1e-5)
    with pytest.raises(ValueError, match="class"):
        model.inference(against=7)
    two = drfl.DRFLClassifier().fit(X, y > 0, clients)
    with pytest.raises(ValueError, match="several classes in one problem"):
        two.inference(against=True)


def test_two_classes_are_the_logistic_table():
    X, y, clients = drawn()
    parties = [drfl.Client(str(c), X[clients == c], (y > 0)[clients == c] * 1.0) for c in range(3)]
    signed = [drfl.Client(p.name, p.rows.X, 2.0 * p.rows.y - 1.0) for p in parties]
    weights = {p.name: 1.0 for p in parties}
    found = []
    for rows, classes in ((signed, None), (parties, 2)):
        problem = drfl.Problem("logistic", classes=classes)
        with Inquiry(problem, rows) as inquiry:
            found.append(corrected(inquiry.ask, problem.loss, np.zeros(4), weights))
    one, two = found
    assert two.point == pytest.approx(one.point, abs=1e-9)
    for kind in ("model", "robust", "clustered"):
        assert two.covariances[kind] == pytest.approx(one.covariances[kind], rel=1e-8)


def test_own_intercepts_are_a_column_for_every_client():
    X, y, clients = drawn(600, 1, np.array([[1.0, 0.0, 0.0], [0.0, 0.5, -0.5], [-1.0, 0.0, 0.5]]))
    model = fitted(X, y, clients, intercept="per_client")
    A = np.hstack([X, np.eye(3)[clients]])
    truth = sm.MNLogit(y, A).fit(disp=0, tol=1e-10, method="newton")
    plain, robust = model.inference(kind="model"), model.inference()
    assert by_class(plain.coef, intercept=False) == pytest.approx(truth.params.T[:, :3], abs=1e-6)
    errors = by_class(plain.standard_error, intercept=False)
    assert errors == pytest.approx(truth.bse.T[:, :3], rel=1e-5)
    errors = by_class(robust.standard_error, intercept=False)
    assert errors == pytest.approx(sandwich(truth, A, y)[:, :3], rel=1e-5)


def covered(draws, seed, N=300, **options):
    """The share of intervals that hold the truth, over coefficients and draws."""
    held = []
    for k in range(draws):
        model = fitted(*drawn(N, 1000 * seed + k), tol=1e-4, **options)
        low, high = model.inference().interval
        truth = np.column_stack([W, B])[1:].ravel()
        held.append((low <= truth) & (truth <= high))
    return float(np.mean(held))


@pytest.mark.slow
def test_intervals_hold_the_truth():
    # 60 draws of 8 coefficients: a share of .95 has a standard error of about .01 to .02.
    assert 0.9 <= covered(60, 1, radius=0.05) <= 0.985


@pytest.mark.slow
@pytest.mark.parametrize("N", [300, 1200])
def test_intervals_hold_the_truth_in_many_draws(N):
    assert 0.93 <= covered(400, 2, N, radius="auto") <= 0.97


def test_what_has_no_estimate_says_so():
    X, y, clients = drawn(60)
    with pytest.raises(InferenceError, match=r"separate the classes"):
        fitted(np.column_stack([X, 5.0 * (y == 2)]), y, clients).inference()
    with pytest.raises(InferenceError, match="no second derivative"):
        fitted(X, y, clients, loss="hinge").inference()


def test_centred_classes_are_those_of_softmax_regression():
    X, y, clients = drawn()
    parties = [drfl.Client(str(c), X[clients == c], y[clients == c] * 1.0) for c in range(3)]
    problem = drfl.Problem("logistic", classes=3)
    weights = {party.name: party.rows.total for party in parties}
    with Inquiry(problem, parties) as inquiry:
        found = corrected(inquiry.ask, problem.loss, np.zeros(8), weights)
    every = [centred(found, problem, k, 3) for k in range(3)]
    assert sum(point for point, _ in every) == pytest.approx(np.zeros(3), abs=1e-12)
    truth = LogisticRegression(C=np.inf, tol=1e-10, max_iter=2000).fit(X, y)
    expected = truth.coef_ - truth.coef_.mean(axis=0)
    assert np.array([point for point, _ in every]) == pytest.approx(expected, abs=1e-5)
    assert all(np.linalg.eigvalsh(cov).min() > 0.0 for _, cov in every)
