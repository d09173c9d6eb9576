"""Expected scores under noise are formulas; draws and predictions agree with them."""

import numpy as np
import pytest

from experiments.scoring import Models, drawn_scores, mean_scores, sweep_scores

NOISES = [(0.0, 0.0), (0.3, 0.0), (0.0, 0.7), (-0.4, 0.5)]


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    models = Models(rng.normal(size=(3, 4)), rng.normal(size=3))
    X = rng.normal(size=(60, 4))
    return models, X, rng.choice([-1.0, 1.0], 60), rng.uniform(0.5, 2.0, 60)


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.sampled(2)
def test_formula_is_the_mean_of_draws(case, noise, regression):
    models, X, y, _ = case
    exact = mean_scores(models, X, y, np.ones(60), noise, regression=regression)
    rng = np.random.default_rng(1)
    drawn = drawn_scores(models, X, y, noise, 3000, rng, regression=regression)
    np.testing.assert_allclose(exact, drawn, rtol=0.01, atol=0.003)


def test_without_noise_it_is_the_weighted_accuracy(case):
    models, X, y, weight = case
    found = mean_scores(models, X, y, weight, (0.0, 0.0), regression=False)
    right = (models.scores(X) > 0.0) == (y > 0.0)[:, None]
    np.testing.assert_allclose(found, weight @ right / weight.sum(), rtol=1e-12)


def test_zero_model_predicts_the_first_class(case):
    _, X, y, _ = case
    zero = Models(np.zeros((1, 4)), np.zeros(1))
    found = mean_scores(zero, X, y, np.ones(60), (0.0, 1.0), regression=False)
    assert found[0] == np.mean(y < 0.0)


def test_sweeps_draw_the_same_noise_for_every_model(case):
    models, X, y, _ = case
    options = {"draws": 2, "seed": 5, "regression": False}
    both = sweep_scores(models, [(X, y)], NOISES, **options)
    one = sweep_scores(models.only(1), [(X, y)], NOISES, **options)
    assert both.shape == (4, 1, 3)
    np.testing.assert_allclose(both[:, :, 1:2], one, rtol=1e-12)
