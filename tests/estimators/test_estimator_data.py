"""Data that would have passed in silence: names, labels, huge numbers, clients of one row."""

import warnings

import numpy as np
import pytest

import drfl
from drfl.estimators import DataWarning

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 2))
Y = np.where(X[:, 0] + 0.5 * rng.normal(size=40) > 0.0, "yes", "no")
SOON = {"tol": 1e-2, "radius": 0.05}


@pytest.mark.parametrize("kind", [list, tuple, lambda names: np.array(names, dtype=object)])
def test_clients_1_and_text_1_are_not_one(kind):
    with pytest.raises(TypeError, match="clients mixes names of different types"):
        drfl.DRFLClassifier(**SOON).fit(X, Y, clients=kind([1, "1"] * 20))
    assert drfl.DRFLClassifier(**SOON).fit(X, Y, clients=[1, 2] * 20).client_names_.tolist() == [
        1,
        2,
    ]


@pytest.mark.parametrize("value", [1e200, -1e160])
def test_numbers_that_cannot_be_squared_are_named(value):
    spoiled = X.copy()
    spoiled[7, 1] = value
    words = r"X has numbers beyond 1e\+100, which cannot be squared, in row 7 \(column 1 first\)"
    with pytest.raises(ValueError, match=words):
        drfl.DRFLClassifier(**SOON).fit(spoiled, Y, clients=["a", "b"] * 20)
    with pytest.raises(ValueError, match=words):
        drfl.Client("a", spoiled, np.where(Y == "yes", 1.0, -1.0))
    y = np.where(np.arange(40) == 3, value, X[:, 0])
    with pytest.raises(ValueError, match=r"y has numbers beyond 1e\+100.* in row 3: correct"):
        drfl.Client("a", X, y)
    both = X.copy()
    both[3, 0], both[9, 0] = 1e200, -1e200  # their sum is small
    with pytest.raises(ValueError, match=r"in 2 rows \(first: 3, 9\)"):
        drfl.Client("a", both, X[:, 0])


def test_labels_spelt_in_two_ways_are_refused_or_merged():
    y = Y.copy().astype(object)
    y[:8] = [label.capitalize() for label in y[:8]]
    words = r"'No' and 'no', 'Yes' and 'yes': if they are the same, take drfl.merge_labels\(y\)"
    for refusing in (drfl.DRFLClassifier(**SOON).fit, drfl.inspect):
        with pytest.raises(ValueError, match=words):
            refusing(X, y.astype(str))
    merged = drfl.merge_labels(y)
    assert merged.tolist() == Y.tolist()
    assert drfl.DRFLClassifier(**SOON).fit(X, merged).classes_.tolist() == ["no", "yes"]


def test_clients_of_hardly_any_rows_are_warned_of_where_they_weigh_as_much_as_others():
    clients = np.array(["a"] * 20 + ["b"] * 19 + ["one"])
    with pytest.warns(DataWarning, match=r"'one' \(1\); take mixture_center='proportional'"):
        drfl.DRFLClassifier(mixture_center="uniform", **SOON).fit(X, Y, clients=clients)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        drfl.DRFLClassifier(mixture_center="proportional", **SOON).fit(X, Y, clients=clients)


@pytest.mark.parametrize("seed", range(3))
def test_float32_rows_have_the_certificate_of_float64(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(40, 3)).astype(np.float32)
    y = 100.0 * (rows @ rng.normal(size=3) + 0.3 * rng.normal(size=40))
    clients, model = rng.integers(0, 3, 40), drfl.DRFLRegressor("pinball", radius=0.01)
    narrow = model.fit(rows, y, clients=clients)
    assert narrow.status_.kind == "certified"
    found = narrow.objective_
    assert found == pytest.approx(
        model.fit(rows.astype(float), y, clients=clients).objective_, rel=2e-6
    )
