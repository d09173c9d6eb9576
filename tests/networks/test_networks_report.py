"""`drfl.report` of a network: intervals, no proof, no coefficients; small clients are left out."""

import re

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import drfl
from drfl.report.figures import metric
from drfl.torch import TorchClassifier, TorchRegressor


def rows(N=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    return X, (X[:, 0] > 0.0).astype(int), np.array(["north", "south"])[np.arange(N) % 2]


def text_of(path):
    return re.sub(r"<[^>]*>", " ", path.read_text(encoding="utf-8").split("<main>")[1])


@pytest.mark.parametrize("order", [2, np.inf])
def test_the_page_of_a_classifier_shows_intervals_and_claims_nothing(order, tmp_path):
    X, y, who = rows()
    layers = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    model = TorchClassifier(layers, radius=0.1, order=order, rounds=10, random_state=0)
    model.fit(X, y, clients=who)
    page = text_of(drfl.report(model, tmp_path / "page.html", X, y, who))
    assert "That is not proved." in page
    assert "no model of this kind has less" not in page
    assert "What carries the prediction?" not in page
    assert ("in the root mean square" if order == 2 else "at most each") in page
    for lower, upper in model.worst_case(X, y, who).values():
        assert f"{lower:.4g}" in page
        assert f"{upper:.4g}" in page
    accuracy = np.mean(model.predict(X[who == "north"]) == y[who == "north"])
    assert metric("accuracy", float(accuracy)) in page


def test_without_rows_and_in_a_pipeline(tmp_path):
    X, y, who = rows()
    regressor = TorchRegressor(
        nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 1)), rounds=5, random_state=0
    )
    pipeline = make_pipeline(StandardScaler(), regressor)
    pipeline.fit(X, y.astype(float), torchregressor__clients=who)
    assert "That is not proved." in text_of(drfl.report(pipeline, tmp_path / "bare.html"))
    regressor.set_params(radius=0.1)
    pipeline.fit(X, y.astype(float), torchregressor__clients=who)
    page = text_of(drfl.report(pipeline, tmp_path / "page.html", X, y.astype(float), who))
    assert "not known" in page  # nobody bounds a LayerNorm here


def test_nothing_is_told_of_a_client_with_few_rows(tmp_path):
    X, y, who = rows()
    who = np.where(np.arange(60) < 3, "tiny", who)
    model = TorchClassifier(nn.Linear(3, 2), radius=0.1, rounds=5, random_state=0)
    model.fit(X, y, clients=who)
    page = text_of(drfl.report(model, tmp_path / "page.html", X, y, who))
    lower, upper = model.worst_case(X, y, who)["tiny"]
    assert f"{lower:.4g}" not in page
    assert f"{upper:.4g}" not in page
    with pytest.raises(ValueError, match="not of the clients of the fit"):
        drfl.report(model, tmp_path / "page.html", X, y)
