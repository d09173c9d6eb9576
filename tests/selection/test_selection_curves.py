"""Curves are taken where the truth bends, and not where it is a line."""

import numpy as np
import pytest

from drfl import DRFLClassifier, DRFLRegressor
from drfl.selection import select, select_curves


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


def test_what_cannot_be_compared_is_refused():
    X, y, clients = _rows(bend=1.0)
    with pytest.raises(ValueError, match="additive is not set"):
        select_curves(DRFLRegressor(norm="l1"), X, y, clients)
    with pytest.raises(ValueError, match="fewer than 200 folds"):
        select_curves(DRFLRegressor(norm="l1", additive="all"), X, y, clients, folds=200)
    curved = DRFLRegressor(norm="l1", additive="all")
    with pytest.raises(ValueError, match="curves cannot be in the grid"):
        select(curved, X, y, clients, grid={"knots": [2, 4]})
    with pytest.raises(ValueError, match="a formula for lines alone"):
        select(curved, X, y, clients, rule="noise", noise_scale=0.3)


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
