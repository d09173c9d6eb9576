"""Curves are taken where the truth bends, and not where it is a line."""

import numpy as np
import pytest

from drfl import Ball, Client, DRFLClassifier, DRFLRegressor, Problem
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


def test_curves_only_where_they_pay_by_a_standard_error():
    model = DRFLRegressor(norm="l1", additive="all", tol=1e-4)
    X, y, clients = _rows(bend=1.0)
    bent = select_curves(model, X, y, clients, radii=[0.01, 0.1], folds=3, random_state=0)
    assert bent.curves
    assert bent.estimator.curves_ is not None
    assert bent.gain > 3.0 * bent.error
    X, y, clients = _rows(bend=0.0)
    straight = select_curves(model, X, y, clients, radii=[0.01, 0.1], folds=3, random_state=0)
    assert not straight.curves
    assert straight.estimator.curves_ is None
    assert str(straight).startswith("lines")
    assert len(straight.table) == 4


def test_the_difference_and_its_error_are_those_of_the_rows():
    """Repeated here with the folds of the same seed, one radius: the mean of paired losses."""
    X, y, clients = _rows(bend=1.0)
    labels = np.where(y > 0.0, "high", "low")
    model = DRFLClassifier(norm="l1", additive=[1], tol=1e-4)
    found = select_curves(
        model, X, labels, clients, radii=[0.02], folds=2, noise_scale=0.3, random_state=1
    )
    losses = {t.curves: t.loss for t in found.table}
    assert found.gain == pytest.approx(losses[False] - losses[True], abs=1e-12)
    assert 0.0 < found.error < 0.2


def test_three_classes_in_one_problem_are_compared_too():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(240, 2))
    far = np.digitize(np.abs(X[:, 0]) + 0.1 * rng.normal(size=240), [0.4, 1.1])
    y, clients = np.array(["near", "between", "far"])[far], np.repeat(["a", "b"], 120)
    model = DRFLClassifier(norm="l1", additive="all", knots=2, tol=1e-3)
    found = select_curves(model, X, y, clients, radii=[0.02], folds=2, random_state=0)
    assert found.curves
    assert found.estimator.problem_.classes == 3
    with pytest.raises(ValueError, match="or more in one problem"):
        select_curves(model.set_params(multiclass="ovr"), X, y, clients)


def test_what_cannot_be_compared_is_refused():
    X, y, clients = _rows(bend=1.0)
    with pytest.raises(ValueError, match="additive is not set"):
        select_curves(DRFLRegressor(norm="l1"), X, y, clients)
    with pytest.raises(ValueError, match="fewer than 200 folds"):
        select_curves(DRFLRegressor(norm="l1", additive="all"), X, y, clients, folds=200)
    curved = DRFLRegressor(norm="l1", additive="all")
    with pytest.raises(ValueError, match="curves cannot be in the grid"):
        select(curved, X, y, clients, grid={"knots": [2, 4]})


def test_rules_for_shapes_are_selected_without_a_radius_of_zero():
    X, y, clients = _rows(bend=1.0, N=120)
    curved = DRFLRegressor(norm="l1", additive="all", shapes={1: "concave"}, tol=1e-3)
    found = select(curved, X, y, clients, folds=2, verbose=0)
    assert all(point.params["radius"] > 0.0 for point in found.table)
    with pytest.raises(ValueError, match="compares with ERM"):
        select(curved, X, y, clients, rule="new_client")


def test_radii_of_curves_are_selected_and_validated_like_those_of_lines():
    X, y, clients = _rows(bend=1.0)
    curved = DRFLRegressor(norm="l1", additive="all", shapes={1: "concave"}, tol=1e-4)
    found = select(curved, X, y, clients, folds=3, grid={"radius": [0.01, 0.3]}, verbose=0)
    assert found.best_params == {"radius": 0.01}
    slopes = found.estimator.coef_[found.estimator.curves_.of(1)]
    assert (np.diff(slopes) <= 0.0).all()
    line = DRFLRegressor(norm="l1", tol=1e-4)
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
