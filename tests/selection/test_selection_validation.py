"""Validation: what is told of rows and clients that a model has not seen, recomputed by hand."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import log_loss, roc_auc_score

from drfl import Ball, Client, DRFLClassifier, DRFLRegressor, Problem, solve
from drfl.baselines import ERMClassifier
from drfl.curves import Curves
from drfl.engines import make_engine
from drfl.selection.client_half import alone
from drfl.selection.client_half.folds import FoldEngine, Part
from drfl.selection.validation import ERM, LOCALS, MAJORITY, MODEL, NEW_CLIENT, NEW_ROWS

RNG = np.random.default_rng(3)
N = 120
CLIENTS = np.repeat(["a", "b", "c", "d"], [20, 30, 30, 40])
X = RNG.normal(size=(N, 3)) + 0.3 * (CLIENTS == "b")[:, None]
Z = X @ np.array([1.2, -0.8, 0.3]) + 0.7 * RNG.normal(size=N)
Y = np.where(Z > 0.3, "yes", "no")
MODEL_FOR = DRFLClassifier(purpose="new client", tol=1e-6)


@pytest.fixture(scope="module")
def found():
    return MODEL_FOR.validate(X, Y, CLIENTS, folds=4)


def test_a_client_left_out_is_judged_by_the_model_of_the_others(found):
    measures = found.measures[NEW_CLIENT]
    radius = MODEL_FOR.fit(X, Y, CLIENTS).problem_.ball.radius
    for method, kind in ((MODEL, DRFLClassifier), (ERM, ERMClassifier)):
        for name in "abcd":
            rest = name != CLIENTS
            model = kind(tol=1e-6).set_params(
                **({"radius": radius, "mixture_radius": 1.0} if method == MODEL else {})
            )
            model.fit(X[rest], Y[rest], CLIENTS[rest])
            scores, truth = model.decision_function(X[~rest]), Y[~rest] == "yes"
            told = {measure: m.clients[name] for measure, m in measures[method].items()}
            assert told["accuracy"] == pytest.approx(np.mean((scores > 0) == truth), abs=0.051)
            assert told["auc"] == pytest.approx(roc_auc_score(truth, scores), abs=0.02)
            loss = log_loss(truth, 1 / (1 + np.exp(-scores)))
            assert told["log_loss"] == pytest.approx(loss, abs=0.03)
    by_client = list(measures[MODEL]["accuracy"].clients.values())
    assert measures[MODEL]["accuracy"].mean == pytest.approx(np.mean(by_client))
    assert measures[MODEL]["accuracy"].low < np.mean(by_client) < measures[MODEL]["accuracy"].high


def test_the_majority_class_is_that_of_the_training_clients(found):
    for name in "abcd":
        rest = name != CLIENTS
        share = np.mean(Y[rest] == "yes")
        right = np.mean((Y[~rest] == "yes") == (share > 0.5))
        measures = found.measures[NEW_CLIENT][MAJORITY]
        assert measures["accuracy"].clients[name] == pytest.approx(right)
        loss = log_loss(Y[~rest] == "yes", np.full((~rest).sum(), share))
        assert measures["log_loss"].clients[name] == pytest.approx(loss)


def test_a_model_beats_the_majority_on_new_rows_too(found):
    measures = found.measures[NEW_ROWS]
    assert list(measures) == [MAJORITY, LOCALS, ERM, MODEL]
    assert measures[MODEL]["accuracy"].mean > measures[MAJORITY]["accuracy"].mean + 0.1
    assert measures[MODEL]["log_loss"].mean < measures[MAJORITY]["log_loss"].mean
    for measured in measures[MODEL].values():
        assert measured.low <= measured.mean <= measured.high


def test_the_needed_radius_is_the_excess_over_the_price(found):
    radius = MODEL_FOR.fit(X, Y, CLIENTS).problem_.ball.radius
    assert found.radius == pytest.approx(radius)
    sign = np.where(Y == "yes", 1.0, -1.0)
    for name in "abcd":
        rest = name != CLIENTS
        model = DRFLClassifier(radius=radius, mixture_radius=1.0)
        model.fit(X[rest], Y[rest], CLIENTS[rest])
        losses = np.logaddexp(0.0, -sign * model.decision_function(X))
        excess = losses[~rest].mean() - losses[rest].mean()
        needed = max(0.0, excess / np.linalg.norm(model.coef_))
        assert found.radii[name] == pytest.approx(needed, abs=0.02)
    said = str(found)
    assert "covered by the largest about 4 times in 5" in said
    assert "is not a bound for a client that was not there" in said


def test_a_regression_is_judged_by_squared_and_absolute_errors():
    found = DRFLRegressor().validate(X, Z, CLIENTS, folds=3)
    measures = found.measures[NEW_CLIENT]
    assert set(measures[MODEL]) == {"squared_error", "absolute_error"}
    for name in "abcd":
        rest = name != CLIENTS
        error = np.mean((Z[~rest] - Z[rest].mean()) ** 2)
        assert measures[MAJORITY]["squared_error"].clients[name] == pytest.approx(error)
    assert measures[MODEL]["squared_error"].mean < measures[MAJORITY]["squared_error"].mean


def test_three_classes_and_one_client():
    classes = np.digitize(Z, [-0.5, 0.8])
    found = DRFLClassifier().validate(X, classes, folds=3)
    assert list(found.measures) == [NEW_ROWS]
    assert set(found.measures[NEW_ROWS][MODEL]) == {"accuracy", "log_loss"}
    share = np.bincount(classes).max() / N
    assert found.measures[NEW_ROWS][MAJORITY]["accuracy"].mean == pytest.approx(share, abs=0.02)
    assert found.radii == {}


@pytest.mark.parametrize("additive", [None, "all"])
def test_three_classes_one_of_which_a_client_lacks(additive):
    """Its own model knows two classes; with curves that was no model, and nothing was judged."""
    classes = np.where(CLIENTS == "d", Z > 0.0, np.digitize(Z, [-0.5, 0.8]))
    model = DRFLClassifier(norm="l1", radius=0.05, additive=additive, knots=1, tol=1e-3)
    found = model.validate(X, classes, CLIENTS, folds=2)
    for question in (NEW_ROWS, NEW_CLIENT):
        assert 0.3 < found.measures[question][LOCALS]["accuracy"].mean < 1.0


def test_rules_that_erm_does_not_follow_are_said():
    model = DRFLClassifier(norm="l1", radius=0.05, additive=[0], knots=1, tol=1e-3)
    for shapes, said in (({0: "decreasing"}, True), (None, False)):
        found = model.set_params(shapes=shapes).validate(X, Y, CLIENTS, folds=2)
        assert ("erm follows no rules for shapes" in str(found)) == said


def test_a_clients_own_model_is_the_optimum_of_its_rows():
    rows = X[CLIENTS == "d"], np.where(Y[CLIENTS == "d"] == "yes", 1.0, -1.0)
    client = Client("d", *rows)
    problem = Problem("logistic", Ball(radius=0.05, norm="l2"))
    engine = make_engine("serial")
    engine.start([client], problem, alone.HANDLERS)
    part = Part(1, 3, 7)
    folds = FoldEngine(engine, {"d": part})
    folds.start([client], problem, {})
    reply = folds.map({"d": alone.request(1e-8)}, None).replies["d"]
    coef, intercept = alone.read(reply, problem, 3)
    at = part.training(40)
    exact = solve(problem, [Client("d", rows[0][at], rows[1][at])], solver="local", tol=1e-8)
    assert coef == pytest.approx(exact.coef, abs=1e-5)
    assert intercept == pytest.approx(exact.intercept, abs=1e-5)
    answers = folds.map({"d": alone.request(-1.0)}, None)
    assert list(answers.failures) == ["d"]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_clients_own_curves_are_those_of_its_scaled_rows(form):
    """Two of three classes are here; the rows are in other units than the knots."""
    X_own, y = X[CLIENTS == "d"], (Z[CLIENTS == "d"] > 0.0).astype(float)
    shift, scale = np.array([0.3, -0.2, 0.0]), np.array([2.0, 0.5, 1.0])
    curves = Curves([[0.0], [-0.4, 0.4], []])
    problem = Problem("logistic", Ball(radius=0.05, norm="l1"), curves=curves, classes=3)
    client = Client("d", form(X_own), y, shift=shift, scale=scale)
    engine = make_engine("serial")
    engine.start([client], problem, alone.HANDLERS)
    folds = FoldEngine(engine, {"d": Part(1, 3, 7)})
    folds.start([client], problem, {})
    coef, _ = alone.read(folds.map({"d": alone.request(1e-8)}, None).replies["d"], problem, 6)
    at = Part(1, 3, 7).training(40)
    scaled = Client("d", (X_own[at] - shift) / scale, y[at])
    exact = solve(replace(problem, classes=2), [scaled], tol=1e-8)
    assert coef[:2] == pytest.approx(exact.coef, abs=1e-4)
    assert (coef[2] == 0.0).all()


def test_a_client_of_one_row_keeps_all_from_holding_out_rows_and_that_is_said():
    keep = np.r_[0, 20:N]
    found = MODEL_FOR.validate(X[keep], Y[keep], CLIENTS[keep])
    assert NEW_ROWS not in found.measures
    assert "No rows are held out: a client has one row only." in found.sentences()
    with pytest.raises(ValueError, match="folds must be a whole number >= 2"):
        MODEL_FOR.validate(X, Y, CLIENTS, folds=1)
