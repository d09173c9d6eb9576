"""scikit-learn's tools: pipelines, searches, cross-validation, routing, pandas, clone."""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from drfl import baselines
from drfl.estimators import DRFLClassifier, DRFLRegressor
from drfl.supports import Box


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_a_search_over_radii_hands_the_clients_on(hospitals):
    X, y, _, clients = hospitals
    grid = {"radius": [0.01, 0.1], "norm": ["l2"]}
    search = GridSearchCV(DRFLClassifier(tol=1e-3), grid, cv=3).fit(X, y, clients=clients)
    best = search.best_estimator_
    assert best.client_names_.tolist() == ["north", "south", "west"]
    assert search.best_score_ > 0.6
    alone = DRFLClassifier(tol=1e-3, **search.best_params_).fit(X, y, clients)
    np.testing.assert_array_equal(best.coef_, alone.coef_)


def test_clients_are_routed_through_a_pipeline_in_a_search(routing, hospitals):
    X, y, _, clients = hospitals
    model = DRFLClassifier(tol=1e-3).set_fit_request(clients=True)
    pipeline = make_pipeline(StandardScaler(), model)
    search = GridSearchCV(pipeline, {"drflclassifier__radius": [0.01, 0.1]}, cv=2)
    search.fit(X, y, clients=clients)
    assert search.best_estimator_[-1].client_names_.tolist() == ["north", "south", "west"]


def test_clients_are_routed_in_cross_validation(routing, hospitals):
    X, _, y, clients = hospitals
    model = DRFLRegressor(tol=1e-3).set_fit_request(clients=True)
    scores = cross_val_score(model, X, y, cv=3, params={"clients": clients})
    by_hand = []
    for test in np.array_split(np.arange(90), 3):
        train = np.setdiff1d(np.arange(90), test)
        fit = DRFLRegressor(tol=1e-3).fit(X[train], y[train], clients[train])
        by_hand.append(fit.score(X[test], y[test]))
    np.testing.assert_allclose(scores, by_hand, rtol=1e-12)


def test_clients_that_are_not_requested_are_an_error(routing, hospitals):
    X, _, y, clients = hospitals
    with pytest.raises(ValueError, match=r"clients.* passed .*not explicitly set"):
        cross_val_score(DRFLRegressor(), X, y, cv=3, params={"clients": clients})


def test_cross_validated_predictions(hospitals):
    X, y, _, _ = hospitals
    scores = cross_val_predict(DRFLClassifier(tol=1e-3), X, y, cv=3, method="decision_function")
    assert scores.shape == (90,)


def test_frames_keep_their_names(hospitals):
    X, y, _, clients = hospitals
    frame = pd.DataFrame(X, columns=["age", "dose", "weight"])
    pipeline = make_pipeline(StandardScaler(), DRFLClassifier()).set_output(transform="pandas")
    pipeline.fit(frame, pd.Series(y), drflclassifier__clients=pd.Series(clients))
    assert pipeline[-1].feature_names_in_.tolist() == ["age", "dose", "weight"]
    assert pipeline[-1].n_features_in_ == 3
    assert set(pipeline.predict(frame)) == {"ill", "healthy"}
    with pytest.raises(ValueError, match="feature names should match"):
        pipeline[-1].predict(frame.rename(columns={"age": "years"}))


@pytest.mark.parametrize(
    "kind", [DRFLClassifier, DRFLRegressor, *map(baselines.__dict__.get, baselines.__all__)]
)
def test_parameters_survive_a_clone(kind):
    model = kind(tol=1e-4, max_rounds=np.int64(50))
    assert clone(model).get_params() == model.get_params()
    assert "shared_ball" not in model.get_params()


def test_parameters_that_are_objects_are_cloned():
    model = DRFLClassifier(radius={"a": 0.1}, support=Box(-1.0, 1.0), mixture_center=[0.5, 0.5])
    copy = clone(model)
    assert copy.radius == model.radius
    assert copy.support == model.support
    assert copy.radius is not model.radius
