"""Scores on rows held out, with and without noise."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit
from sklearn.metrics import log_loss

from drfl import Client, Policy, Problem
from drfl.client import Site
from drfl.losses import Huber
from drfl.one_vs_rest import probabilities
from drfl.selection.client_half import scores
from drfl.selection.client_half.folds import Part
from drfl.wire import Failure, Message, WireError

RNG = np.random.default_rng(4)
X = RNG.normal(size=(37, 3))
SIGN = np.where(X[:, 0] + 0.5 * RNG.normal(size=37) > 0.0, 1.0, -1.0)
WEIGHT = 1.0 + np.arange(37) % 3
PART = Part(2, 4, 11)
HELD = PART.held_out(37)
W, B = np.array([0.9, -0.2, 0.4]), 0.1


def ask(problem, y, coef, intercept, own=scores.EVERY_CLASS, noise=0.0, weight=WEIGHT, score=None):
    site = Site(Client("a", X, y, sample_weight=weight), problem, debug=True)
    name = scores.score_of(score, problem.loss)
    message = scores.request(PART, np.array(coef), np.array(intercept), own, noise, [name])
    return scores.read(site.answer(message, scores.HANDLERS), [name], len(coef))[0]


def test_the_share_of_rows_whose_class_is_predicted():
    found = ask(Problem("hinge"), SIGN, [[W], [-W]], [[B], [-B]])
    right = np.average((X[HELD] @ W + B > 0.0) == (SIGN[HELD] > 0.0), weights=WEIGHT[HELD])
    np.testing.assert_allclose(found, [right, 1.0 - right], rtol=1e-12)


def test_a_score_of_0_is_the_first_class():
    found = ask(Problem("hinge"), SIGN, [[0.0 * W]], [[0.0]], weight=None)
    assert found[0] == pytest.approx(np.mean(SIGN[HELD] < 0.0))


def test_minus_the_mean_loss_of_a_regression():
    y = X @ W + RNG.normal(size=37)
    found = ask(Problem("huber", epsilon=0.5), y, [[W]], [[B]])
    losses = Huber(0.5).value(X[HELD] @ W + B - y[HELD])
    assert found[0] == pytest.approx(-np.average(losses, weights=WEIGHT[HELD]), rel=1e-12)


def test_minus_the_mean_squared_error_of_a_regression():
    y = X @ W + RNG.normal(size=37)
    found = ask(Problem("huber"), y, [[W]], [[B]], score="squared_error")
    errors = (X[HELD] @ W + B - y[HELD]) ** 2
    assert found[0] == pytest.approx(-np.average(errors, weights=WEIGHT[HELD]), rel=1e-12)


def test_the_log_loss_is_the_score_where_there_are_probabilities():
    found = ask(Problem("logistic"), SIGN, [[W]], [[B]])
    truth = log_loss(
        SIGN[HELD], expit(X[HELD] @ W + B), sample_weight=WEIGHT[HELD], labels=[-1.0, 1.0]
    )
    assert found[0] == pytest.approx(-truth, rel=1e-12)
    right = ask(Problem("logistic"), SIGN, [[W]], [[B]], score="accuracy")
    np.testing.assert_array_equal(right, ask(Problem("hinge"), SIGN, [[W]], [[B]]))


def test_the_copies_of_a_client_add_up_to_its_log_loss():
    classes, models = RNG.integers(0, 3, 37), RNG.normal(size=(3, 3))
    found = sum(
        ask(Problem("logistic"), np.where(classes == k, 1.0, -1.0), [models], [[0.1] * 3], k)
        for k in range(3)
    )
    shares = probabilities(X[HELD] @ models.T + 0.1)
    truth = log_loss(classes[HELD], shares, sample_weight=WEIGHT[HELD], labels=[0, 1, 2])
    assert found[0] == pytest.approx(-truth, rel=1e-12)


@pytest.mark.parametrize(
    ("score", "loss", "sentence"),
    [
        ("log_loss", "hinge", "needs probabilities, which the loss 'hinge' does not give: take"),
        (
            "squared_error",
            "logistic",
            "is not for classification: take one of 'log_loss', 'accuracy'",
        ),
        ("acuracy", "hinge", "unknown score 'acuracy': did you mean 'accuracy'"),
    ],
)
def test_a_score_that_does_not_fit_is_refused(score, loss, sentence):
    with pytest.raises(ValueError, match=sentence):
        scores.score_of(score, Problem(loss).loss)


@pytest.mark.parametrize("number", [-1, 3, 8])
def test_a_client_refuses_a_score_that_does_not_fit(number):
    message = scores.request(PART, W[None, None], np.zeros((1, 1)), -1, 0.0, ["accuracy"])
    message = Message(message.kind, 0, {**message.arrays, "score": np.array([number])})
    reply = Site(Client("a", X, SIGN), Problem("hinge")).answer(message, scores.HANDLERS)
    assert Failure.of(reply) is not None


def test_the_copies_of_a_client_add_up_to_its_accuracy():
    classes, models = RNG.integers(0, 3, 37), RNG.normal(size=(3, 3))
    bias = RNG.normal(size=3)
    parts = [
        ask(Problem("hinge"), np.where(classes == k, 1.0, -1.0), [models], [bias], own=k)
        for k in range(3)
    ]
    right = (X[HELD] @ models.T + bias).argmax(axis=1) == classes[HELD]
    assert sum(parts)[0] == pytest.approx(np.average(right, weights=WEIGHT[HELD]), rel=1e-12)


@pytest.mark.parametrize("sigma", [0.1, 1.0])
def test_noise_on_two_classes_is_a_normal_probability(sigma):
    found = ask(Problem("hinge"), SIGN, [[W]], [[B]], noise=sigma)
    margin = SIGN[HELD] * (X[HELD] @ W + B)
    truth = stats.norm.cdf(margin / (sigma * np.linalg.norm(W)))
    assert found[0] == pytest.approx(np.average(truth, weights=WEIGHT[HELD]), abs=2e-3)


def test_noise_on_a_regression():
    y = X @ W + RNG.normal(size=37)
    found = ask(Problem("huber", epsilon=0.5), y, [[W]], [[B]], noise=0.7)
    z, p = np.polynomial.hermite_e.hermegauss(150)
    residual = (X[HELD] @ W + B - y[HELD])[:, None] + 0.7 * np.linalg.norm(W) * z
    truth = -Huber(0.5).value(residual) @ p / p.sum()
    assert found[0] == pytest.approx(np.average(truth, weights=WEIGHT[HELD]), abs=2e-3)


def test_noise_on_three_classes():
    classes, models = RNG.integers(0, 3, 37), RNG.normal(size=(3, 3))
    found = sum(
        ask(Problem("hinge"), np.where(classes == k, 1.0, -1.0), [models], [[0.0] * 3], k, 0.8)
        for k in range(3)
    )
    noisy = X[HELD] + 0.8 * np.random.default_rng(0).normal(size=(20_000, len(HELD), 3))
    right = (noisy @ models.T).argmax(axis=2) == classes[HELD]
    truth = np.average(right.mean(axis=0), weights=WEIGHT[HELD])
    assert found[0] == pytest.approx(truth, abs=0.02)


def test_a_client_may_refuse_to_score_few_rows():
    strict = Client("a", X, SIGN, policy=Policy(min_rows=20))
    message = scores.request(PART, W[None, None], np.zeros((1, 1)), -1, 0.0, ["accuracy"])
    reply = Site(strict, Problem("hinge")).answer(message, scores.HANDLERS)
    assert Failure.of(reply) is Failure.REFUSED


def test_a_reply_is_one_number_per_grid_point():
    message = scores.request(PART, W[None, None], np.zeros((1, 1)), -1, 0.0, ["accuracy"])
    reply = Site(Client("a", X, SIGN), Problem("hinge")).answer(message, scores.HANDLERS)
    assert {name: array.shape for name, array in reply.arrays.items()} == {"score": (1, 1)}
    with pytest.raises(WireError, match="'score' must have shape"):
        scores.read(reply, ["accuracy"], 2)
