"""Estimators whose clients have intercepts of their own, and calibration."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import drfl
from drfl.baselines import ERMClassifier
from drfl.models import Model, export_onnx, read_model
from drfl.models.calibration import located
from drfl.models.estimator import model_of

W = np.array([1.0, -0.7, 0.3])
SHIFTS = {"a": -2.0, "b": 0.0, "c": 1.5}


def drawn(N=200, seed=0, shifts=SHIFTS):
    rng = np.random.default_rng(seed)
    clients = np.repeat(list(shifts), N)
    X = rng.normal(size=(len(clients), 3))
    z = X @ W + np.array([shifts[c] for c in clients])
    return X, np.where(rng.random(len(z)) < expit(z), "ill", "well"), clients, z


@pytest.fixture(scope="module")
def fitted():
    X, y, clients, _ = drawn()
    return drfl.DRFLClassifier(intercept="per_client").fit(X, y, clients=clients)


def test_at_radius_0_it_is_a_regression_with_a_column_for_every_client():
    X, y, clients, _ = drawn()
    model = drfl.DRFLClassifier(
        radius=0.0, intercept="per_client", tol=1e-10, mixture_center="proportional"
    ).fit(X, y, clients=clients)
    dummies = (clients[:, None] == np.array(list(SHIFTS))).astype(float)
    truth = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-12, max_iter=1000)
    truth.fit(np.hstack([X, dummies]), y)
    assert model.coef_[0] == pytest.approx(truth.coef_[0, :3], abs=1e-4)
    own = np.array([model.intercepts_[name][0] for name in SHIFTS])
    assert own == pytest.approx(truth.coef_[0, 3:], abs=1e-4)


def test_it_serves_clients_whose_prevalence_differs(fitted):
    X, y, clients, _ = drawn(seed=1)
    shared = drfl.DRFLClassifier().fit(*drawn()[:3])
    assert fitted.score(X, y, clients=clients) > shared.score(X, y) + 0.05
    p = fitted.predict_proba(X, clients)[:, 0]
    for name in SHIFTS:
        at = clients == name
        assert p[at].mean() == pytest.approx((y[at] == "ill").mean(), abs=0.06)
    assert np.allclose(fitted.predict_proba(X[clients == "a"], "a")[:, 0], p[clients == "a"])


def test_rows_of_nobody_are_refused(fitted, tmp_path):
    X = drawn(2)[0]
    with pytest.raises(ValueError, match=r"whose rows these are with clients=, of 'a', 'b', 'c'"):
        fitted.predict(X)
    with pytest.raises(ValueError, match="client 'd' has no intercept"):
        fitted.predict(X, "d")
    with pytest.raises(ValueError, match="one for each"):
        fitted.predict(X, ["a", "b"])
    drfl.save(fitted, tmp_path / "m.json")
    loaded = drfl.load(tmp_path / "m.json")
    with pytest.raises(ValueError, match="these rows are of nobody"):
        loaded.predict(X)
    with pytest.raises(ValueError, match=r"'d' has none: name one of .* `drfl calibrate"):
        loaded.predict_proba(X, "d")
    with pytest.raises(ValueError, match="a graph is of one client"):
        export_onnx(read_model(tmp_path / "m.json"), tmp_path / "m.onnx")


def test_a_file_keeps_them(fitted, tmp_path):
    X, _, clients, _ = drawn(20, 2)
    drfl.save(fitted, tmp_path / "m.json")
    loaded = drfl.load(tmp_path / "m.json")
    assert np.array_equal(loaded.predict(X, clients), fitted.predict(X, clients))
    assert loaded.predict_proba(X, clients) == pytest.approx(fitted.predict_proba(X, clients))
    export_onnx(read_model(tmp_path / "m.json").at("a"), tmp_path / "a.onnx")
    assert (tmp_path / "a.onnx").exists()


def test_worst_cases_are_those_of_the_fit(fitted):
    X, y, clients, _ = drawn()
    worst = fitted.worst_case(X, y, clients)
    assert [worst[name].value for name in SHIFTS] == pytest.approx(fitted.client_losses_, rel=1e-8)


def test_regression_several_classes_selection_and_validation():
    X, _, clients, z = drawn(30)
    model = drfl.DRFLRegressor(intercept="per_client").fit(X, z, clients=clients)
    assert model.score(X, z, clients=clients) > 0.95
    three = np.digitize(z, [-1.0, 1.0])
    many = drfl.DRFLClassifier(intercept="per_client").fit(X, three, clients=clients)
    assert many.predict(X, clients).shape == (90,)
    assert many.intercepts_["a"].shape == (3,)
    estimator = drfl.DRFLClassifier(intercept="per_client")
    found = drfl.select(
        estimator,
        X,
        z > 0.0,
        clients,
        rule="mean",
        grid={"radius": [0.01, 0.1]},
        folds=2,
        verbose=0,
    )
    assert found.best_params["radius"] in (0.01, 0.1)
    told = estimator.validate(X, z > 0.0, clients, folds=2)
    # Clients that were not there find an intercept on their rows.
    model = told.measures["a new client"]["model"]["log_loss"].mean
    assert model < told.measures["a new client"]["majority"]["log_loss"].mean


def test_baselines_and_one_client():
    X, y, clients, _ = drawn(40)
    erm = ERMClassifier(intercept="per_client").fit(X, y, clients=clients)
    assert erm.predict(X, clients).shape == y.shape
    alone = drfl.DRFLClassifier(intercept="per_client").fit(X, y)
    assert alone.predict(X, "all").shape == y.shape


# ---------------------------------------------------------------------------- calibration
def new_site(N=400, seed=5):
    X, y, _, _ = drawn(N, seed, {"d": 3.0})
    return X, y


def test_a_new_site_gets_an_intercept(fitted):
    X, y = new_site()
    model = drfl.calibrate(fitted, X, y, "d")
    p = model.predict_proba(X, "d")[:, 0]
    assert p.mean() == pytest.approx((y == "ill").mean(), abs=1e-6)  # the score equation
    # The classes are sorted: "well" is the second, and its log-odds have the other sign.
    assert model.model.calibrations["d"].intercept[0] == pytest.approx(-3.0, abs=0.4)
    old = drawn(10)[0]
    assert np.array_equal(model.predict(old, "a"), fitted.predict(old, "a"))
    known = drfl.calibrate(fitted, X, clients="d", prevalence=0.3)
    assert known.predict_proba(X, "d")[:, 1].mean() == pytest.approx(0.3, abs=1e-9)


def test_a_hinge_model_has_probabilities_after_calibration():
    X, y, clients, _ = drawn()
    some = np.arange(len(y)) < 450  # clients of different sizes
    X, y, clients = X[some], y[some], clients[some]
    hinge = drfl.DRFLClassifier("hinge").fit(X, y, clients=clients)
    with pytest.raises(AttributeError, match="or a calibration of its scores"):
        drfl.calibrate(hinge, X, y, "a").predict_proba(X, "a")
    model = drfl.calibrate(hinge, X, y, clients, kind="slope")
    (found,) = model.model.calibrations.values()
    z = hinge.decision_function(X)[:, None]
    truth = LogisticRegression(C=np.inf, tol=1e-12).fit(z, y)
    pooled = np.append(truth.coef_, truth.intercept_)
    assert [*found.slope, *found.intercept] == pytest.approx(pooled, rel=1e-3, abs=1e-4)
    assert model.predict_proba(X).mean(axis=0)[0] == pytest.approx((y == "ill").mean(), abs=1e-4)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"y": None}, "give the classes of the rows, y, or their prevalence"),
        ({"prevalence": 0.2}, "and not both"),
        ({"y": None, "prevalence": 1.0}, "between 0 and 1"),
        ({"kind": "both"}, "kind must be 'intercept' or 'slope'"),
        ({"y": np.array(["ill"] * 400)}, "one class of 'target' only"),
        ({"y": np.array(["sick"] * 400)}, "y has the class 'sick'"),
    ],
)
def test_bad_calibrations_are_refused(fitted, given, why):
    X, y = new_site()
    with pytest.raises(ValueError, match=why):
        drfl.calibrate(fitted, X, **({"y": y, "clients": "d"} | given))


def test_scores_that_go_the_wrong_way_are_refused(fitted):
    X, y = new_site()
    with pytest.raises(ValueError, match="higher scores do not go with the second class"):
        drfl.calibrate(fitted, -X, y, "d", kind="slope")


def test_an_intercept_that_a_client_kept_is_found_again(fitted):
    X, y, clients, _ = drawn()
    model = model_of(fitted)
    kept = Model(**{**vars(model), "calibrations": {}})
    at = clients == "b"
    codes = (y[at] == "well").astype(float)
    assert located(kept, "b", X[at], codes).intercept == pytest.approx(
        fitted.intercepts_["b"], abs=1e-6
    )


def three_classes(N=150, seed=0):
    """Clients that share W, and whose three classes are differently frequent."""
    rng = np.random.default_rng(seed)
    shifts = {"a": [2.0, 0.0, -1.0], "b": [0.0, 0.0, 0.0], "c": [-1.0, 0.5, 1.5]}
    clients = np.repeat(list(shifts), N)
    X = rng.normal(size=(len(clients), 3))
    z = X @ np.stack([W, -W, W[::-1]]).T + np.array([shifts[c] for c in clients])
    y = np.array(["ill", "unsure", "well"])[(z + rng.gumbel(size=z.shape)).argmax(axis=1)]
    return X, y, clients


def test_several_classes_at_radius_0_are_softmax_regression_with_a_column_for_every_client():
    X, y, clients = three_classes()
    model = drfl.DRFLClassifier(
        radius=0.0, intercept="per_client", tol=1e-9, mixture_center="proportional"
    ).fit(X, y, clients=clients)
    assert model.problem_.classes == 3
    dummies = (clients[:, None] == np.array(["a", "b", "c"])).astype(float)
    truth = LogisticRegression(C=np.inf, fit_intercept=False, tol=1e-12, max_iter=5000)
    truth.fit(np.hstack([X, dummies]), y)
    expected = truth.predict_proba(np.hstack([X, dummies]))
    assert model.predict_proba(X, clients) == pytest.approx(expected, abs=1e-4)


def test_several_classes_have_all_that_two_have(tmp_path):
    X, y, clients = three_classes(60)
    model = drfl.DRFLClassifier(intercept="per_client").fit(X, y, clients=clients)
    assert {b.shape for b in model.intercepts_.values()} == {(3,)}
    shared = drfl.DRFLClassifier().fit(X, y, clients=clients)
    assert model.score(X, y, clients=clients) > shared.score(X, y) + 0.03
    worst = model.worst_case(X, y, clients)
    assert [worst[name].value for name in "abc"] == pytest.approx(model.client_losses_, rel=1e-7)
    with pytest.raises(ValueError, match="whose rows these are with clients="):
        model.predict(X)
    drfl.save(model, tmp_path / "m.json")
    loaded = drfl.load(tmp_path / "m.json")
    assert loaded.predict_proba(X, clients) == pytest.approx(model.predict_proba(X, clients))
    result = drfl.Result.from_json(model.result_.to_json())
    assert result.intercepts["a"] == pytest.approx(model.intercepts_["a"])
    found = drfl.select(
        drfl.DRFLClassifier(intercept="per_client"),
        X,
        y,
        clients,
        rule="mean",
        grid={"radius": [0.01, 0.1]},
        folds=2,
        verbose=0,
    )
    assert found.best_params["radius"] in (0.01, 0.1)
    told = drfl.DRFLClassifier(intercept="per_client").validate(X, y, clients, folds=2)
    new = told.measures["a new client"]
    assert new["model"]["log_loss"].mean < new["majority"]["log_loss"].mean


def test_a_new_site_gets_an_intercept_for_every_class():
    X, y, clients = three_classes(200)
    here = clients != "c"
    model = drfl.DRFLClassifier(intercept="per_client").fit(X[here], y[here], clients[here])
    made = drfl.calibrate(model, X[~here], y[~here], clients="c")
    p = made.predict_proba(X[~here], "c")
    shares = [(y[~here] == label).mean() for label in made.classes_]
    assert p.mean(axis=0) == pytest.approx(shares, abs=1e-9)  # the equations of the intercepts
    with pytest.raises(ValueError, match="the rows have no target = well"):
        drfl.calibrate(model, X[y != "well"], y[y != "well"], clients="c")
    with pytest.raises(ValueError, match="a slope is fitted to the score of one class"):
        drfl.calibrate(model, X, y, clients="c", kind="slope")
