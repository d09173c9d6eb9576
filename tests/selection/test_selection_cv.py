"""DRFLClassifierCV and DRFLRegressorCV: a fit is a selection."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from drfl import DRFLClassifier, DRFLClassifierCV, DRFLRegressor, DRFLRegressorCV, select

GRID = {"radius": [0.02, 0.2]}


@pytest.mark.parametrize("kind", [DRFLClassifierCV, DRFLRegressorCV])
def test_it_has_the_parameters_of_its_base_and_its_own(kind):
    base = {DRFLClassifierCV: DRFLClassifier, DRFLRegressorCV: DRFLRegressor}[kind]()
    more = {"rule": "mean", "grid": None, "folds": 5, "noise_scale": None, "scoring": None}
    assert kind().get_params() == {**base.get_params(), **more}
    assert clone(kind(grid=GRID)).get_params() == kind(grid=GRID).get_params()


def test_a_fit_is_a_selection(hospitals):
    X, y, _, clients = hospitals
    weight = 1.0 + np.arange(75) % 2
    model = DRFLClassifierCV(
        "logistic", rule="one_se", grid=GRID, folds=3, tol=1e-4, random_state=2
    ).fit(X, y, clients, weight)
    found = select(
        DRFLClassifier("logistic", tol=1e-4),
        X,
        y,
        clients,
        rule="one_se",
        grid=GRID,
        folds=3,
        random_state=2,
        sample_weight=weight,
        verbose=0,
    )
    assert model.best_params_ == found.best_params
    assert model.selection_.table == found.table
    assert model.selection_.reason == found.reason
    np.testing.assert_array_equal(model.coef_, found.estimator.coef_)
    np.testing.assert_array_equal(model.predict_proba(X), found.estimator.predict_proba(X))
    assert model.client_names_.tolist() == ["north", "south", "west"]
    worst = model.worst_case(X, y, clients, weight)
    values = [worst[name].value for name in model.client_names_]
    np.testing.assert_allclose(values, model.client_losses_, rtol=1e-9)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))


def test_a_regression_with_noise(hospitals):
    X, _, y, clients = hospitals
    model = DRFLRegressorCV(rule="noise", noise_scale=0.5, grid=GRID, folds=2, tol=1e-4)
    assert model.fit(X, y, clients).best_params_["radius"] in GRID["radius"]
    assert model.score(X, y) > 0.3


def test_a_new_fit_forgets_the_last_one(hospitals):
    X, y, _, _ = hospitals
    frame = pd.DataFrame(X, columns=["age", "dose", "weight"])
    model = DRFLClassifierCV(grid={"radius": [0.1]}, folds=2, tol=1e-3).fit(frame, y)
    assert model.feature_names_in_.tolist() == ["age", "dose", "weight"]
    model.fit(X, y)
    assert not hasattr(model, "feature_names_in_")
    assert model.best_params_ == {"radius": 0.1}


def test_progress_is_shown_on_request(hospitals, capsys):
    X, y, _, _ = hospitals
    model = DRFLClassifierCV(grid={"radius": [0.1]}, folds=2, tol=1e-3).fit(X, y)
    assert capsys.readouterr() == ("", "")
    model.set_params(verbose=1).fit(X, y)
    assert capsys.readouterr().err.count("select: fold") == 2


def test_clients_are_routed(hospitals):
    X, y, _, clients = hospitals
    with sklearn.config_context(enable_metadata_routing=True):
        model = DRFLClassifierCV(grid={"radius": [0.1]}, folds=2, tol=1e-3)
        pipeline = make_pipeline(StandardScaler(), model.set_fit_request(clients=True))
        scores = cross_val_score(pipeline, X, y, cv=2, params={"clients": clients})
    assert scores.shape == (2,)
