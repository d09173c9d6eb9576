"""Estimates and standard errors are those of statsmodels on the pooled rows, at radius 0."""

import pickle
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import statsmodels.api as sm

import drfl
from drfl.estimators.data_warnings import DataWarning
from drfl.inference import FewClustersWarning, InferenceError
from drfl.losses import Huber

# Which solver ran does not matter here: the one with all rows is the fastest.
DRFLClassifier = partial(drfl.DRFLClassifier, solver="local")
DRFLRegressor = partial(drfl.DRFLRegressor, solver="local")
CLOSE = {"rtol": 1e-6, "atol": 1e-8}


def drawn(clients=25, N=500, seed=0):
    rng = np.random.default_rng(seed)
    member = rng.integers(0, clients, N)
    X = rng.normal(size=(N, 3)) + 0.3 * np.sin(member)[:, None]
    z = X @ [1.0, -0.7, 0.2] + 0.4
    labels = np.where(rng.random(N) < 1 / (1 + np.exp(-z)), "yes", "no")
    return X, labels, z + rng.standard_t(3, size=N), member


@pytest.fixture(scope="module")
def rows():
    return drawn()


WAYS = {
    "model": {},
    "robust": {"cov_type": "HC0"},
    "clustered": {"cov_type": "cluster"},
}


def ways(kind, member):
    return WAYS[kind] | ({"cov_kwds": {"groups": member}} if kind == "clustered" else {})


@pytest.mark.parametrize("kind", WAYS)
@pytest.mark.parametrize("radius", [0.0, 0.2])
@pytest.mark.sampled(2)
def test_logistic_is_logit_and_glm(kind, radius, rows):
    X, y, _, member = rows
    model = DRFLClassifier(radius=radius).fit(X, y, clients=member)
    found = model.inference(kind=kind)
    A, positive = sm.add_constant(X, prepend=False), (y == "yes").astype(float)
    logit = sm.Logit(positive, A).fit(disp=0, tol=1e-12, **ways(kind, member))
    glm = sm.GLM(positive, A, sm.families.Binomial()).fit(tol=1e-12, **ways(kind, member))
    for other in (logit, glm):
        np.testing.assert_allclose(found.coef, other.params, **CLOSE)
        np.testing.assert_allclose(found.standard_error, other.bse, **CLOSE)
        np.testing.assert_allclose(found.covariance, other.cov_params(), rtol=1e-5, atol=1e-9)
        np.testing.assert_allclose(found.p, other.pvalues, rtol=1e-5, atol=1e-12)
        np.testing.assert_allclose(np.transpose(found.interval), other.conf_int(), **CLOSE)
    assert found.log_likelihood == pytest.approx(logit.llf, rel=1e-9)
    assert found.deviance == pytest.approx(glm.deviance, rel=1e-9)
    test = found.wald(["x1", "x3"])
    theirs = logit.wald_test(np.eye(4)[[0, 2]], scalar=True, use_f=False)
    assert (test.statistic, test.p) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-5)
    assert test.degrees == 2
    np.testing.assert_allclose(found.robust[:3], model.coef_[0])
    assert np.allclose(found.robust, found.coef, atol=1e-2) == (radius == 0.0)


@pytest.mark.parametrize("kind", ["robust", "clustered"])
def test_a_wide_huber_is_least_squares(kind, rows):
    X, _, y, member = rows
    found = DRFLRegressor(Huber(1e4), radius=0.0).fit(X, y, clients=member).inference(kind=kind)
    A = sm.add_constant(X, prepend=False)
    fits = [
        sm.OLS(y, A).fit(use_t=False, **ways(kind, member)),
        sm.GLM(y, A).fit(**ways(kind, member)),
    ]
    for other in fits:
        np.testing.assert_allclose(found.coef, other.params, **CLOSE)
        np.testing.assert_allclose(found.standard_error, other.bse, **CLOSE)
    assert found.log_likelihood is None


def test_huber_is_rlm_with_its_scale_fixed(rows):
    X, _, y, member = rows
    found = DRFLRegressor("huber", epsilon=1.2, radius=0.0).fit(X, y, clients=member)
    found = found.inference(kind="model")
    A = sm.add_constant(X, prepend=False)
    # RLM fixes no scale by itself: its iterations, with scale 1.
    theta = np.linalg.lstsq(A, y, rcond=None)[0]
    norm = sm.robust.norms.HuberT(t=1.2)
    for _ in range(100):
        theta = sm.WLS(y, A, weights=norm.weights(y - A @ theta)).fit().params
    np.testing.assert_allclose(found.coef, theta, **CLOSE)
    # Its H2 covariance without the corrections for few rows, which it multiplies with.
    r = y - A @ theta
    slope, bend = norm.psi(r), norm.psi_deriv(r)
    cov = np.mean(slope**2) / np.mean(bend) * np.linalg.inv((A * bend[:, None]).T @ A)
    np.testing.assert_allclose(found.covariance, cov, rtol=1e-6)


def test_without_an_intercept_and_with_equal_weights(rows):
    X, y, _, member = rows
    model = DRFLClassifier(radius=0.0, intercept="none").fit(X, y, clients=member)
    logit = sm.Logit((y == "yes").astype(float), X).fit(disp=0, tol=1e-12, cov_type="HC0")
    np.testing.assert_allclose(model.inference().standard_error, logit.bse, **CLOSE)
    # Weights of the clients are weights of rows: statsmodels' variance weights.
    uniform = DRFLClassifier(radius=0.0, mixture_center="uniform").fit(X, y, clients=member)
    found = uniform.inference()
    assert set(np.round(list(found.weights.values()), 12)) == {round(1 / 25, 12)}
    share = (1.0 / np.bincount(member))[member]
    A = sm.add_constant(X, prepend=False)
    glm = sm.GLM((y == "yes") * 1.0, A, sm.families.Binomial(), var_weights=share).fit(tol=1e-13)
    np.testing.assert_allclose(found.coef, glm.params, **CLOSE)
    score = ((y == "yes") - glm.fittedvalues)[:, None] * A * share[:, None]
    H = (A * (share * glm.fittedvalues * (1 - glm.fittedvalues))[:, None]).T @ A
    cov = np.linalg.inv(H) @ score.T @ score @ np.linalg.inv(H)
    np.testing.assert_allclose(found.covariance, cov, rtol=1e-6)


def test_several_classes_have_a_table_each(rows):
    X, _, z, member = rows
    y = np.digitize(z, [-0.5, 1.0])
    found = DRFLClassifier(radius=0.05).fit(X, y, clients=member).inference()
    A = sm.add_constant(X, prepend=False)
    for k, table in enumerate(found):
        logit = sm.Logit((y == k) * 1.0, A).fit(disp=0, tol=1e-12, cov_type="HC0")
        np.testing.assert_allclose(table.coef, logit.params, **CLOSE)
        np.testing.assert_allclose(table.standard_error, logit.bse, **CLOSE)


def test_equal_rows_are_rows_and_weights_are_weights(rows):
    X, y, _, member = rows
    at = np.concatenate([np.arange(500), np.arange(0, 500, 2)])
    twice = DRFLClassifier(radius=0.0).fit(X[at], y[at], clients=member[at]).inference()
    A = sm.add_constant(X[at], prepend=False)
    logit = sm.Logit((y[at] == "yes") * 1.0, A).fit(disp=0, tol=1e-12, cov_type="HC0")
    np.testing.assert_allclose(twice.standard_error, logit.bse, **CLOSE)
    weighted = DRFLClassifier(radius=0.0).fit(
        X, y, clients=member, sample_weight=1.0 + (np.arange(500) % 2 == 0)
    )
    np.testing.assert_allclose(weighted.inference().coef, twice.coef, **CLOSE)
    assert (weighted.inference().standard_error > twice.standard_error).all()
    with pytest.raises(InferenceError, match="rows of equal weight: take kind='robust'"):
        weighted.inference(kind="model")


def test_the_level_widens_and_the_words_are_checked(rows):
    X, y, _, member = rows
    model = DRFLClassifier().fit(X, y, clients=member)
    narrow, wide = model.inference(level=0.5), model.inference(level=0.99)
    half = [t.interval[1] - t.coef for t in (narrow, wide)]
    np.testing.assert_allclose(half[0] / narrow.standard_error, 0.6744897501960817)
    np.testing.assert_allclose(half[1] / wide.standard_error, 2.5758293035489004)
    with pytest.raises(ValueError, match="kind"):
        model.inference(kind="hc1")
    with pytest.raises(ValueError, match="level"):
        model.inference(level=95)
    frame = wide.to_frame()
    assert frame.loc["x1", "odds_ratio"] == pytest.approx(np.exp(wide.coef[0]))
    assert "25 clients" in str(wide)
    assert "99 %" in str(wide)


def test_few_clusters_are_warned_of_and_one_is_refused(rows):
    X, y, _, _ = rows
    few = DRFLClassifier().fit(X, y, clients=np.arange(500) % 4)
    with pytest.warns(FewClustersWarning, match="4 clients are too small"):
        table = few.inference(kind="clustered")
    assert table.tests()["x1"] is not None
    with pytest.raises(InferenceError, match="too few clients"):
        table.wald(table.names)
    with pytest.raises(InferenceError, match="there is one"):
        DRFLClassifier().fit(X, y).inference(kind="clustered")


@pytest.mark.parametrize(
    ("kind", "loss"),
    [(DRFLClassifier, "hinge"), (DRFLRegressor, "pinball"), (DRFLRegressor, "epsilon_insensitive")],
)
def test_losses_without_a_second_derivative_get_a_sentence(kind, loss, rows):
    X, y, z, member = rows
    model = kind(loss).fit(X, y if kind is DRFLClassifier else z, clients=member)
    with pytest.raises(InferenceError, match="has no second derivative"):
        model.inference()
    with pytest.raises(InferenceError, match="has no second derivative"):
        kind(loss, radius="confidence").fit(X, y if kind is DRFLClassifier else z)


def test_smooth_hinge_has_robust_errors_alone(rows):
    X, y, _, member = rows
    model = DRFLClassifier("smooth_hinge").fit(X, y, clients=member)
    assert (model.inference().standard_error > 0).all()
    with pytest.raises(InferenceError, match="is no likelihood"):
        model.inference(kind="model")


def test_what_has_no_estimate_says_so(rows):
    X, y, z, member = rows
    clear = DRFLClassifier(radius=0.1).fit(X, X[:, 0] > 0.0, clients=member)
    with pytest.raises(InferenceError, match="separate the classes"):
        clear.inference()
    # A level without any row of one class: its odds have no end, and no standard error.
    level = (np.arange(500) < 25) * 1.0
    odd = np.where(level > 0.0, "yes", y)
    some = DRFLClassifier(radius=0.01).fit(np.column_stack([X, level]), odd, clients=member)
    with pytest.raises(InferenceError, match=r"separate the classes, here 'x4': leave columns out"):
        some.inference()
    twin = DRFLClassifier(radius=0.1).fit(np.column_stack([X, X[:, 0]]), y, clients=member)
    with pytest.raises(InferenceError, match="do not tell these columns apart"):
        twin.inference()
    with pytest.warns(DataWarning, match="column 3 is the same in every row"):
        empty = DRFLRegressor().fit(np.column_stack([X, np.zeros(500)]), z, clients=member)
    assert empty.inference().names == ("x1", "x2", "x3", "intercept")


def test_a_file_of_a_model_holds_no_rows(rows):
    X, y, _, member = rows
    model = DRFLClassifier().fit(X, y, clients=member)
    copy = pickle.loads(pickle.dumps(model))
    assert (copy.predict(X) == model.predict(X)).all()
    assert len(pickle.dumps(model)) < X.nbytes
    with pytest.raises(ValueError, match="no file of a model keeps"):
        copy.inference()


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_the_radius_of_confidence_is_a_quantile(norm):
    rng = np.random.default_rng(1)
    x, z = rng.normal(size=400), rng.normal(size=400)
    X = np.column_stack([x, z])
    y = x + 0.5 * rng.normal(size=400)
    one = DRFLRegressor(Huber(2.0), radius="confidence", norm=norm).fit(X[:, :1], y)
    # One column: |Z| is half-normal, with the deviation of the residual score.
    est = DRFLRegressor(Huber(2.0), radius=0.0).fit(X[:, :1], y)
    r = est.predict(X[:, :1]) - y
    slope = np.clip(r, -2.0, 2.0)
    inside = np.abs(r) <= 2.0
    centred = x - x[inside].mean()
    deviation = np.sqrt(np.mean((slope * centred) ** 2) / 400)
    assert one.problem_.ball.radius == pytest.approx(1.959964 * deviation / 2.0, rel=0.02)
    both = DRFLRegressor(Huber(2.0), radius="confidence", norm=norm).fit(X, y)
    assert both.problem_.ball.radius > one.problem_.ball.radius


@pytest.mark.filterwarnings("ignore::drfl.estimators.NothingLearnedWarning")
@pytest.mark.slow
def test_the_radius_of_confidence_is_of_one_score_at_a_time(rows):
    X, _, z, member = rows
    y = np.digitize(z, [-0.5, 1.0])
    model = DRFLClassifier(radius="confidence").fit(X, y, clients=member)
    radii = [
        DRFLClassifier(radius="confidence").fit(X, y == k, clients=member).problem_.ball.radius
        for k in range(3)
    ]
    assert model.problem_.classes is None
    assert model.problem_.ball.radius == pytest.approx(max(radii))
    with pytest.raises(ValueError, match="one score at a time"):
        DRFLClassifier(radius="confidence", multiclass="joint").fit(X, y, clients=member)


@pytest.mark.parametrize("kind", WAYS)
@pytest.mark.sampled(2)
def test_own_intercepts_are_a_column_for_every_client(kind):
    X, y, _, member = drawn(clients=21, N=900, seed=3)
    model = drfl.DRFLClassifier(radius=0.05, intercept="per_client").fit(X, y, clients=member)
    found = model.inference(kind=kind)
    assert found.names == ("x1", "x2", "x3")
    A = np.hstack([X, (member[:, None] == np.arange(21)).astype(float)])
    logit = sm.Logit((y == "yes") * 1.0, A).fit(disp=0, tol=1e-12, **ways(kind, member))
    np.testing.assert_allclose(found.coef, logit.params[:3], **CLOSE)
    np.testing.assert_allclose(found.covariance, logit.cov_params()[:3, :3], rtol=1e-5, atol=1e-9)
    assert found.log_likelihood == pytest.approx(logit.llf, rel=1e-9)


def test_huber_is_rlm_with_the_scale_it_found(rows):
    X, _, y, member = rows
    A = sm.add_constant(X, prepend=False)
    norm = sm.robust.norms.HuberT(t=1.345)
    rlm = sm.RLM(y, A, M=norm).fit(tol=1e-13, maxiter=1000, cov="H2")
    model = DRFLRegressor("huber", epsilon=1.345 * rlm.scale, radius=0.0)
    model = model.fit(X, y, clients=member)
    found = model.inference(kind="model")
    np.testing.assert_allclose(found.coef, rlm.params, rtol=1e-6, atol=1e-7)
    # RLM multiplies with Huber's factors for few rows.
    N, d = A.shape
    bend = norm.psi_deriv(rlm.sresid)
    factor = (1.0 + d / N * bend.var() / bend.mean() ** 2) * N / (N - d)
    np.testing.assert_allclose(factor * found.covariance, rlm.bcov_scaled, rtol=1e-5)
    # RLM has neither HC0 nor clusters: both from its own slopes.
    score = norm.psi(rlm.sresid)[:, None] * A * rlm.scale
    bread = np.linalg.inv((A * bend[:, None]).T @ A)
    hc0 = bread @ score.T @ score @ bread
    robust = model.inference(kind="robust").covariance
    np.testing.assert_allclose(robust, hc0, rtol=1e-5)
    sums = np.array([score[member == s].sum(axis=0) for s in np.unique(member)])
    S = len(sums)
    clustered = S / (S - 1) * (N - 1) / (N - d) * bread @ sums.T @ sums @ bread
    np.testing.assert_allclose(model.inference(kind="clustered").covariance, clustered, rtol=1e-5)


def test_units_of_columns_do_not_matter_to_a_wald_test(rows):
    X, y, _, member = rows
    table = DRFLClassifier().fit(X, y, clients=member).inference()
    units = np.array([1.0, 1e12, 1.0, 1.0])  # a column in billions, say, beside shares
    there = replace(
        table, coef=table.coef / units, covariance=table.covariance / np.outer(units, units)
    )
    known = table.wald(["x1", "x2"])
    assert there.wald(["x1", "x2"]).statistic == pytest.approx(known.statistic)
    assert table.wald(["x2", "x2"]) == table.wald(["x2"])
    with pytest.raises(ValueError, match="name one at least"):
        table.wald([])
