"""Curves are taken where the truth bends, and not where it is a line."""

import numpy as np
import pandas as pd
import pytest

from drfl import Ball, Client, DRFLClassifier, DRFLRegressor, DRFLRegressorCV, Problem, defaults
from drfl.client import Site
from drfl.curves import Curves
from drfl.selection import select, select_curves
from drfl.selection.client_half import scores
from drfl.selection.client_half.folds import Part
from drfl.selection.clients import SelectionClients, sorted_table
from drfl.selection.curves import choose_curves


def _rows(bend, N=240, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 2))
    f = X[:, 0] + (bend * (1.0 - X[:, 1] ** 2) if bend else 0.0)
    return X, f + 0.5 * rng.normal(size=N), np.repeat(["a", "b"], N // 2)


HOW = {"radii": [0.01, 0.1], "folds": 3, "random_state": 0, "verbose": 0}


def test_curves_only_where_they_pay_by_a_standard_error():
    model = DRFLRegressor(norm="l1", additive="all", tol=1e-4)
    bent = select_curves(model, *_rows(bend=1.0), **HOW)
    assert bent.taken
    assert bent.estimator.curves_ is not None
    assert bent.estimator.radius == bent.curves.best_params["radius"]
    assert bent.gain > 3.0 * bent.error
    straight = select_curves(model, *_rows(bend=0.0), **HOW)
    assert not straight.taken
    assert straight.estimator.curves_ is None
    assert "lines are taken" in str(straight)
    assert [len(choice.table) for choice in (straight.lines, straight.curves)] == [2, 2]


def _classes(bend=1.0):
    X, y, clients = _rows(bend)
    return X, np.where(y > 0.3, "ill", "well"), clients


@pytest.mark.parametrize("norm", ["l1", "linf"])
@pytest.mark.sampled(2)
def test_the_program_and_python_compare_in_the_same_way(norm):
    X, y, clients = _classes()
    model = DRFLClassifier(norm=norm, additive=[1], knots=3, tol=1e-4)
    found = select_curves(model, X, y, clients, rule="mean", **HOW)
    table = sorted_table(model.read_rows(X, y, clients, None))
    given = SelectionClients.read(model, table, named=True)
    how = {"grid": {"radius": HOW["radii"]}, "rule": "mean", "folds": 3, "random_state": 0}
    same = choose_curves(DRFLClassifier(norm=norm, tol=1e-4), given, **how, verbose=0)
    assert (found.lines, found.curves) == (same.lines, same.curves)
    assert (found.gain, found.error) == (same.gain, same.error)


@pytest.mark.parametrize("weights", [{"ill": 2.0, "well": 1.0}, {"ill": 2.0}])
@pytest.mark.sampled(2)
def test_a_class_has_its_weight_once(weights):
    """A weight of 2 is a row that is there twice: the same folds, the same scores."""
    X, y, clients = _classes()
    model = DRFLClassifier(norm="l1", additive="all", tol=1e-6)
    found = select_curves(model.set_params(class_weight=weights), X, y, clients, **HOW)
    model.set_params(class_weight=None)
    same = select_curves(model, X, y, clients, sample_weight=np.where(y == "ill", 2.0, 1.0), **HOW)
    for one, other in ((found.lines, same.lines), (found.curves, same.curves)):
        means = [[point.mean for point in choice.table] for choice in (one, other)]
        np.testing.assert_allclose(*means, rtol=1e-6)
    assert found.estimator.class_weight_.tolist() == [2.0, 1.0]


def test_columns_are_named():
    X, y, clients = _rows(bend=1.0)
    frame = pd.DataFrame(X, columns=["age", "chol"])
    model = DRFLRegressor(norm="l1", additive=["chol"], shapes={"chol": "concave"}, tol=1e-4)
    found = select_curves(model, frame, y, clients, **HOW)
    assert found.taken
    assert [len(knots) for knots in found.estimator.curves_.knots] == [0, 4]


@pytest.mark.parametrize("kind", [DRFLClassifier, DRFLRegressor])
def test_intercepts_of_every_client_are_compared_too(kind):
    X, y, clients = _rows(bend=1.0)
    y = y + 2.0 * (clients == "b")
    y = y if kind is DRFLRegressor else np.where(y > 1.0, "ill", "well")
    model = kind(norm="l1", additive="all", intercept="per_client", tol=1e-4)
    found = select_curves(model, X, y, clients, **HOW)
    assert found.taken
    assert set(found.estimator.intercepts_) == {"a", "b"}


@pytest.mark.slow
def test_a_rule_chooses_the_radii():
    X, y, clients = _rows(bend=1.0)
    model = DRFLRegressor(norm="l1", additive="all", tol=1e-4)
    radii = {
        name: select_curves(model, X, y, clients, **rule, **HOW | {"radii": [0.0, 0.02, 0.5]})
        for name, rule in {
            "default": {},
            "one_se": {"rule": "one_se"},
            "mean": {"rule": "mean"},
            "noise": {"rule": "noise", "noise_scale": 1.0},
        }.items()
    }
    chosen = {name: found.curves.best_params["radius"] for name, found in radii.items()}
    assert chosen["default"] == chosen["one_se"] >= chosen["mean"]
    assert chosen["noise"] == 0.5 > chosen["mean"]


@pytest.mark.parametrize("shapes", [None, {0: "increasing", 1: ["flat ends", "increasing"]}])
def test_lines_that_are_taken_keep_the_rules_of_lines(shapes):
    X, y, clients = _rows(bend=0.0)
    model = DRFLRegressor(norm="l1", additive="all", shapes=shapes, tol=1e-4)
    found = select_curves(model, X, y, clients, **HOW)
    assert not found.taken
    assert found.estimator.coef_.shape == (2,)
    # Column 1 does nothing: without the rule its slope has either sign.
    if shapes:
        assert (found.estimator.coef_ >= 0.0).all()
        assert found.estimator.curves_.knots == ((), ())


def test_lines_and_curves_of_three_classes_are_one_kind_of_problem(monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(240, 2))
    far = np.digitize(np.abs(X[:, 0]) + 0.1 * rng.normal(size=240), [0.4, 1.1])
    y, clients = np.array(["near", "between", "far"])[far], np.repeat(["a", "b"], 120)
    model = DRFLClassifier(norm="l1", additive="all", knots=2, tol=1e-3)
    how = HOW | {"radii": [0.02], "folds": 2}
    found = select_curves(model, X, y, clients, **how)
    assert found.taken
    assert found.estimator.problem_.classes == 3
    # Too many slopes for one problem: one class against the rest, and so are the lines beside.
    monkeypatch.setattr(defaults, "AT_ONCE", 3 * 5)
    found = select_curves(model, X[:, ::-1], y, clients, **how)
    assert found.estimator.problem_.classes is None
    flat = select_curves(model, X, rng.permutation(y), clients, **how)
    assert not flat.taken
    assert flat.estimator.problem_.classes is None


def test_what_cannot_be_compared_is_refused():
    X, y, clients = _rows(bend=1.0)
    with pytest.raises(ValueError, match="additive is not set"):
        select_curves(DRFLRegressor(norm="l1"), X, y, clients)
    curved = DRFLRegressor(norm="l1", additive="all")
    with pytest.raises(ValueError, match="rows into 200 folds"):
        select_curves(curved, X, y, clients, folds=200)
    with pytest.raises(ValueError, match="noise_scale is for rule='noise'"):
        select_curves(curved, X, y, clients, noise_scale=0.3)
    with pytest.raises(TypeError, match="estimator must be a DRFLClassifier"):
        select_curves(DRFLRegressorCV(norm="l1", additive="all"), X, y, clients)
    with pytest.raises(ValueError, match="curves cannot be in the grid"):
        select(curved, X, y, clients, grid={"knots": [2, 4]})


def test_rules_for_shapes_are_selected_without_a_radius_of_zero():
    X, y, clients = _rows(bend=1.0, N=120)
    curved = DRFLRegressor(norm="l1", additive="all", shapes={1: "concave"}, tol=1e-3)
    found = select(curved, X, y, clients, folds=2, verbose=0)
    assert all(point.params["radius"] > 0.0 for point in found.table)
    with pytest.raises(ValueError, match="compares with ERM"):
        select(curved, X, y, clients, rule="new_client")


@pytest.mark.parametrize("norm", ["l1", "linf"])
def test_radii_of_curves_are_selected_and_validated_like_those_of_lines(norm):
    X, y, clients = _rows(bend=1.0)
    curved = DRFLRegressor(norm=norm, additive="all", shapes={1: "concave"}, tol=1e-4)
    found = select(curved, X, y, clients, folds=3, grid={"radius": [0.01, 0.3]}, verbose=0)
    assert found.best_params == {"radius": 0.01}
    slopes = found.estimator.coef_[found.estimator.curves_.of(1)]
    assert (np.diff(slopes) <= 0.0).all()
    line = DRFLRegressor(norm=norm, tol=1e-4)
    facts = [
        model.set_params(radius=0.01).validate(X, y, clients, folds=3) for model in (line, curved)
    ]
    errors = [v.measures["new rows"]["model"]["squared_error"].mean for v in facts]
    assert abs(errors[1]) < 0.7 * abs(errors[0])


def test_noise_in_columns_with_curves_is_drawn():
    """What clients tell of noisy held-out rows, beside many draws of the same noise here."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.choice([-1.0, 1.0], 60)
    curves, w, b = Curves([[-0.5, 0.5], []]), np.array([2.0, -1.0, 0.5, 1.0]), 0.3
    problem = Problem("logistic", Ball(0.1, "l1"), curves=curves)
    site = Site(Client("a", X, y), problem)
    part = Part(0, 3, 1)
    message = scores.request(part, w[None, None], np.array([[b]]), -1, 0.4, ["log_loss"])
    (told,) = site.answer(message, scores.HANDLERS).arrays["score"][0]
    at = part.held_out(60)
    draws = [
        -np.logaddexp(0.0, -y[at] * (curves.expand(noisy) @ w + b)).mean()
        for noisy in X[at] + 0.4 * rng.normal(size=(4000, len(at), 2))
    ]
    error = np.std(draws) / np.sqrt(scores.COLUMN_DRAWS)
    assert abs(told - np.mean(draws)) < 4.0 * error
    straight = scores.request(part, w[None, None], np.array([[b]]), -1, 0.0, ["log_loss"])
    clean = site.answer(straight, scores.HANDLERS).arrays["score"][0, 0]
    assert clean == pytest.approx(
        -np.logaddexp(0.0, -y[at] * (curves.expand(X[at]) @ w + b)).mean(), abs=1e-12
    )


@pytest.mark.parametrize("rule", ["one_se", "noise"])
@pytest.mark.sampled(2)
def test_lines_and_curves_are_compared_on_the_same_folds(rule):
    for bend in (0.0, 1.0):
        X, y, clients = _rows(bend)
        curved = DRFLRegressor(norm="l1", additive="all", tol=1e-4)
        table = sorted_table(curved.read_rows(X, y, clients, None))
        given = SelectionClients.of(table, [table.y], named=True, curves=curved.curves_of(table))
        noise = 0.2 if rule == "noise" else None
        how = {"rule": rule, "folds": 4, "noise_scale": noise, "random_state": 3, "verbose": 0}
        found = choose_curves(DRFLRegressor(norm="l1", tol=1e-4), given, **how)
        assert found.taken == (bend > 0.0)
        assert found.choice is (found.curves if found.taken else found.lines)
        best = [
            next(p for p in c.table if p.params == c.best_params)
            for c in (found.lines, found.curves)
        ]
        assert found.gain == pytest.approx(best[1].mean - best[0].mean, abs=1e-12)
        assert f"{'curves' if bend else 'lines'} are taken" in found.reason


def test_lines_keep_the_rules_that_a_line_can_follow():
    curves = Curves([[0.0], [0.0, 1.0], []], [["increasing", "convex"], ["flat ends"], []])
    assert curves.straight() == Curves([[], [], []], [["increasing"], [], []])
    assert Curves([[0.0]], [["convex"]]).straight() is None
