"""DRFLRegressor: losses and their parameters, certificates, worst cases."""

import math

import numpy as np
import pytest

import drfl
from drfl import reference
from drfl.estimators import DRFLRegressor
from drfl.losses import EpsilonInsensitive, Huber, Pinball
from kit.paper import regressor

SETTINGS = [
    ({}, Huber(1.35)),
    ({"loss": "huber", "epsilon": 0.5}, Huber(0.5)),
    ({"loss": "epsilon_insensitive"}, EpsilonInsensitive(0.1)),
    ({"loss": "epsilon_insensitive", "epsilon": 0.3}, EpsilonInsensitive(0.3)),
    ({"loss": "pinball"}, Pinball(0.5)),
    ({"loss": "pinball", "quantile": 0.9}, Pinball(0.9)),
    ({"loss": Pinball(0.2)}, Pinball(0.2)),
]


@pytest.mark.parametrize(("params", "loss"), SETTINGS, ids=str)
@pytest.mark.sampled(2)
def test_it_solves_the_problem_it_states(hospitals, params, loss):
    X, _, y, clients = hospitals
    model = regressor(**params, radius=0.1, label_cost=2.0, mixture_radius=0.3)
    model.fit(X, y, clients)
    parts = [(X[clients == c], y[clients == c]) for c in ("north", "south", "west")]
    truth = reference.solve(loss, parts, radius=0.1, label_cost=2.0, mixture_radius=0.3)
    assert model.problem_.loss == loss
    assert model.objective_ == pytest.approx(truth.objective, rel=2e-6)
    assert model.lower_bound_ <= truth.objective * (1.0 + 1e-7)
    assert model.gap_ <= 1e-6


def test_the_defaults_are_those_that_are_safe_untuned(hospitals):
    X, _, y, clients = hospitals
    model = DRFLRegressor().fit(X, y, clients)
    ball = model.problem_.ball
    assert ball.radius == pytest.approx(0.1 * math.sqrt(3 / 90))
    assert (ball.norm.name, ball.label_cost) == ("l2", math.inf)
    assert model.problem_.loss == Huber(1.35)
    assert model.problem_.mixture == drfl.Mixture("proportional", radius=0.0, p=1)
    assert model.coef_.shape == (3,)
    assert isinstance(model.intercept_, float)
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_)
    assert model.score(X, y) > 0.4


def test_a_quantile_regression_leaves_its_share_below(hospitals):
    X, _, y, _ = hospitals
    model = DRFLRegressor("pinball", quantile=0.8, radius=0.01).fit(X, y)
    assert np.mean(y < model.predict(X)) == pytest.approx(0.8, abs=0.05)


def test_without_an_intercept(hospitals):
    X, _, y, clients = hospitals
    model = DRFLRegressor(intercept="none").fit(X, y, clients)
    assert model.intercept_ == 0.0
    assert model.predict(np.zeros((1, 3))).tolist() == [0.0]


def test_the_worst_case_of_the_fit_is_its_losses(hospitals):
    X, _, y, clients = hospitals
    model = DRFLRegressor("epsilon_insensitive", radius=[0.1, 0.0, 0.2]).fit(X, y, clients)
    worst = model.worst_case(X, y, clients)
    np.testing.assert_allclose(
        [worst[name].value for name in model.client_names_], model.client_losses_, rtol=1e-9
    )
    multipliers = [worst[name].multiplier for name in model.client_names_]
    np.testing.assert_allclose(multipliers, model.client_multipliers_, rtol=1e-9)
    assert worst["south"].distribution().cost == 0.0


def test_whole_targets_are_numbers(hospitals):
    X, _, y, _ = hospitals
    whole = np.round(y).astype(int)
    one, other = DRFLRegressor().fit(X, whole), DRFLRegressor().fit(X, whole.astype(float))
    np.testing.assert_array_equal(one.coef_, other.coef_)
