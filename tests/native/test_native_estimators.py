"""The scikit-learn faces."""

import pickle
import warnings

import numpy as np
import pytest
from native_kit import make_data
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

import drfl
from drfl import native
from drfl.estimators import ScaleWarning

CLASSIFIERS = [name for name in native.__all__ if name.endswith("Classifier")]
REGRESSORS = [name for name in native.__all__ if name.endswith("Regressor")]
# All checks of two estimators, and of the others those on what the constructor does: they differ
# in their settings only.
WHOLE = {"FedAvgClassifier", "ScaffoldRegressor"}
ALWAYS = {
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_get_params_invariance",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
}


def cases():
    for name in [*CLASSIFIERS, *REGRESSORS]:
        estimator = getattr(native, name)(max_rounds=25)
        for number, (model, check) in enumerate(estimator_checks_generator(estimator)):
            check_name = getattr(check, "func", check).__name__
            if name in WHOLE or check_name in ALWAYS:
                yield pytest.param(model, check, id=f"{name}-{check_name}-{number}")


@pytest.mark.parametrize(("model", "check"), list(cases()))
@pytest.mark.filterwarnings("ignore::drfl.estimators.ScaleWarning")
def test_scikit_learn_agrees(model, check):
    check(model)


def table(task):
    data = make_data(task)
    X, y = np.vstack([x for x, _ in data]), np.concatenate([y for _, y in data])
    return X, y, np.repeat(["d", "c", "b", "a"], [len(y) for _, y in data])


def fitted(name, **settings):
    task = "classification" if name in CLASSIFIERS else "regression"
    X, y, members = table(task)
    estimator = getattr(native, name)(max_rounds=30, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScaleWarning)
        return estimator.fit(X, y, clients=members), X, y, members


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS])
def test_a_fit_learns_and_can_be_repeated(name):
    model, X, y, _members = fitted(name)
    assert model.score(X, y) > (0.65 if name in CLASSIFIERS else 0.3)
    assert model.lower_bound_ == 0.0
    assert list(model.client_names_) == ["a", "b", "c", "d"]
    again = fitted(name)[0]
    assert np.array_equal(model.coef_, again.coef_)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert clone(model).get_params() == model.get_params()


def test_the_settings_reach_the_method():
    X, y, members = table("classification")
    model = fitted("FedAvgClassifier", loss="logistic", local_steps=7, step_size=0.05)[0]
    sites = [drfl.Client(name, X[members == name], y[members == name]) for name in "abcd"]
    method = native.FedAvg(local_steps=7, step_size=0.05)
    result = drfl.solve(drfl.Problem("logistic"), sites, solver=method, max_rounds=30)
    assert model.coef_[0] == pytest.approx(result.coef, rel=1e-10)
    assert model.predict_proba(X).shape == (len(X), 2)


def test_the_random_state_is_the_seed():
    models = [
        fitted("DRFAClassifier", participation=0.5, random_state=seed)[0].coef_
        for seed in (1, 1, 2)
    ]
    assert np.array_equal(models[0], models[1])
    assert not np.array_equal(models[0], models[2])


def test_a_bad_setting_is_refused_when_fitted():
    with pytest.raises(ValueError, match="local_steps must be at least 1"):
        fitted("FedAvgClassifier", local_steps=0)
    with pytest.raises(TypeError, match="unexpected keyword"):
        native.FedAvgClassifier(mu=1.0)


def test_unknown_names_are_unknown():
    with pytest.raises(AttributeError, match="no attribute 'FedSomething'"):
        _ = native.FedSomething
