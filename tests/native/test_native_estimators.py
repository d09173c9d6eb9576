"""The scikit-learn faces."""

import dataclasses
import inspect
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import sklearn
from native_kit import make_data
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import drfl
from drfl import native
from drfl.estimators import ScaleWarning

CLASSIFIERS = [name for name in native.__all__ if name.endswith("Classifier")]
REGRESSORS = [name for name in native.__all__ if name.endswith("Regressor")]
# All checks of two estimators. The others have the same code and another constructor, and that they
# fit, repeat themselves and can be pickled and cloned is tested below.
WHOLE = {"FedAvgClassifier", "ScaffoldRegressor"}
CONSTRUCTOR = {
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
}
# Only this check asks for a model that is good, on rows that are far from standardised.
DEMANDING = "check_class_weight_classifiers"


def cases():
    for name in [*CLASSIFIERS, *REGRESSORS]:
        estimator = getattr(native, name)()
        for number, (_, check) in enumerate(estimator_checks_generator(estimator)):
            check_name = getattr(check, "func", check).__name__
            if name not in WHOLE and check_name not in CONSTRUCTOR:
                continue
            short = {} if check_name == DEMANDING else {"max_rounds": 15}
            model = getattr(native, name)(**short)
            yield pytest.param(model, check, id=f"{name}-{check_name}-{number}")


@pytest.mark.parametrize(("model", "check"), list(cases()))
@pytest.mark.filterwarnings("ignore::drfl.estimators.ScaleWarning")
def test_scikit_learn_agrees(model, check):
    check(model)


def table(task):
    data = make_data(task)
    X, y = np.vstack([x for x, _ in data]), np.concatenate([y for _, y in data])
    return X, y, np.repeat(["d", "c", "b", "a"], [len(y) for _, y in data])


def fitted(name, rounds=30, **settings):
    task = "classification" if name in CLASSIFIERS else "regression"
    X, y, members = table(task)
    estimator = getattr(native, name)(max_rounds=rounds, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScaleWarning)
        return estimator.fit(X, y, clients=members), X, y, members


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS])
@pytest.mark.sampled(2)
def test_a_fit_learns_and_can_be_repeated(name):
    model, X, y, _members = fitted(name, 20)
    assert model.score(X, y) > (0.65 if name in CLASSIFIERS else 0.25)
    assert model.lower_bound_ == 0.0
    assert list(model.client_names_) == ["a", "b", "c", "d"]
    again = fitted(name, 20)[0]
    assert np.array_equal(model.coef_, again.coef_)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    assert clone(model).get_params() == model.get_params()


def test_the_constructor_names_the_settings():
    parameters = inspect.signature(native.ScaffoldClassifier).parameters
    assert next(iter(parameters)) == "loss"
    assert parameters["server_step"].default == native.Scaffold().server_step
    assert parameters["local_steps"].kind is inspect.Parameter.KEYWORD_ONLY
    assert "seed" not in parameters
    assert "radius" not in parameters
    for name in [*CLASSIFIERS, *REGRESSORS]:
        kind = getattr(native, name)
        settings = {f.name for f in dataclasses.fields(kind.method)} - {"seed"}
        assert settings <= set(inspect.signature(kind).parameters), name


@pytest.mark.parametrize("loss", ["hinge", "smooth_hinge", "logistic"])
def test_classifiers_take_every_loss_of_theirs(loss):
    model, X, y, _ = fitted("FedAvgClassifier", loss=loss)
    assert model.score(X, y) > 0.65
    assert hasattr(model, "predict_proba") == (loss == "logistic")


@pytest.mark.parametrize(
    "loss",
    [{"loss": "huber", "epsilon": 0.5}, {"loss": "epsilon_insensitive"}, {"loss": "pinball"}],
)
def test_regressors_take_every_loss_of_theirs(loss):
    model, X, y, _ = fitted("FedADMMRegressor", **loss)
    assert model.score(X, y) > 0.25


def test_more_than_two_classes():
    X, y, members = table("regression")
    labels = np.digitize(y, np.quantile(y, [0.33, 0.67]))
    model = native.ScaffoldClassifier("logistic", max_rounds=30).fit(X, labels, members)
    assert model.coef_.shape == (3, 3)
    assert model.score(X, labels) > 0.45
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(len(X)))


def test_clients_go_through_pipelines_and_searches():
    X, y, members = table("classification")
    pipeline = make_pipeline(StandardScaler(), native.FedProxClassifier(max_rounds=10))
    pipeline.fit(X, y, fedproxclassifier__clients=members)
    assert list(pipeline[-1].client_names_) == ["a", "b", "c", "d"]
    with sklearn.config_context(enable_metadata_routing=True):
        model = native.FedProxClassifier(max_rounds=10).set_fit_request(clients=True)
        search = GridSearchCV(
            make_pipeline(StandardScaler(), model), {"fedproxclassifier__mu": [0.1, 1.0]}, cv=2
        )
        search.fit(X, y, clients=members)
    assert search.best_params_["fedproxclassifier__mu"] in (0.1, 1.0)
    assert list(search.best_estimator_[-1].client_names_) == ["a", "b", "c", "d"]


def test_the_robust_ones_state_their_problem():
    assert fitted("DRFAClassifier", 5)[0].problem_.mixture.radius == np.inf
    assert fitted("ScaffPDRegressor", 5)[0].problem_.mixture.radius == np.inf
    assert fitted("AFLClassifier", 5, mixture_radius=0.4)[0].problem_.mixture.radius == 0.4
    assert fitted("FedAvgClassifier", 5)[0].problem_.mixture.radius == 0.0
    proportional = fitted("FedAvgClassifier", 5, mixture_center="proportional")[0]
    assert proportional.problem_.mixture.center == "proportional"


def test_the_settings_reach_the_method():
    X, y, members = table("classification")
    model = fitted("FedAvgClassifier", loss="logistic", local_steps=7, step_size=0.05)[0]
    sites = [drfl.Client(name, X[members == name], y[members == name]) for name in "abcd"]
    method = native.FedAvg(local_steps=7, step_size=0.05)
    problem = drfl.Problem("logistic", mixture=drfl.Mixture("proportional"))
    result = drfl.solve(problem, sites, solver=method, max_rounds=30)
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
    with pytest.raises(ValueError, match="local_steps must be a whole number >= 1"):
        fitted("FedAvgClassifier", local_steps=0)
    with pytest.raises(TypeError, match="unexpected keyword"):
        native.FedAvgClassifier(mu=1.0)


def test_the_methods_alone_do_not_load_scikit_learn():
    # A site that answers messages should not have to.
    program = "import sys, drfl.native; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_unknown_names_are_unknown():
    with pytest.raises(AttributeError, match="no attribute 'FedSomething'"):
        _ = native.FedSomething
