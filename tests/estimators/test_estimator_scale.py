"""ScaleWarning: when, and what it says."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from drfl.estimators import DataWarning, DRFLClassifier, DRFLRegressor, ScaleWarning
from drfl.estimators.client_table import ClientTable
from drfl.estimators.data_warnings import column_deviation, warn_of_scale

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
y = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(int)


def scaled(*factors):
    return X * np.array(factors)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (scaled(1, 50, 1), r"^column 1 has standard deviation \d\d(\.\d)?, outside \[0.1, 10\]: "),
        (scaled(1, 50, 5e-4), r"^column 2 has .* \(and 1 more are outside\): the radius is in the"),
        (pd.DataFrame(scaled(1, 50, 1), columns=["age", "cost", "dose"]), "^column 'cost' has"),
        (sparse.csr_array(scaled(50, 1, 1)), r"make_pipeline\(StandardScaler\(with_mean=False\), "),
    ],
)
def test_it_names_the_worst_column_and_what_to_do(data, message):
    with pytest.warns(ScaleWarning, match=message) as caught:
        DRFLClassifier(radius=0.1, tol=1e-3).fit(data, y)
    assert caught[0].filename == __file__  # the line that called fit


@pytest.mark.parametrize(
    "data",
    [
        scaled(0.2, 1, 5),
        np.column_stack([X, np.full(60, 7e5)]),  # constant: no scaling changes it
        sparse.csr_array(np.column_stack([X, np.full(60, 0.1)])),
    ],
)
def test_it_is_silent_on_sound_columns(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_scale(ClientTable.of(data, y, None, None), None)


def test_following_the_advice_silences_it():
    data = np.column_stack([scaled(100, 1e-3, 1), np.ones(60)])
    with pytest.warns(DataWarning, match="column 3 is the same in every row") as caught:
        make_pipeline(StandardScaler(), DRFLClassifier()).fit(data, y)
    assert len(caught) == 1


def test_rows_without_weight_do_not_count():
    data, weight = np.vstack([X, [[1e3, 0, 0]]]), np.append(np.ones(60), 0.0)
    DRFLRegressor().fit(data, np.append(X[:, 0] + 0.5 * X[:, 1], 0.0), sample_weight=weight)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_deviations_are_those_of_repeated_rows(form):
    weight = RNG.integers(1, 4, 60).astype(float)
    expected = np.repeat(X + 3.0, weight.astype(int), axis=0).std(axis=0)
    np.testing.assert_allclose(column_deviation(form(X + 3.0), weight), expected, rtol=1e-12)


def test_a_large_mean_hides_no_deviation():
    np.testing.assert_allclose(column_deviation(X + 1e9, np.ones(60)), X.std(axis=0), rtol=1e-6)


def test_many_rows_are_read_in_blocks(monkeypatch):
    monkeypatch.setattr("drfl.estimators.data_warnings.BLOCK", 30)
    np.testing.assert_allclose(column_deviation(X, np.ones(60)), X.std(axis=0), rtol=1e-12)
