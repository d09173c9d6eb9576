"""Rows, clients and weights: the model depends on the distribution of the rows alone."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from drfl import baselines
from drfl.estimators import DRFLClassifier, DRFLRegressor
from drfl.estimators import client_table as tables
from drfl.estimators.client_table import ClientTable

MODELS = [
    DRFLClassifier(),
    DRFLClassifier(loss="logistic", label_cost=0.5, radius=0.05),
    DRFLRegressor(),
    DRFLRegressor(loss="pinball", mixture_radius=0.3),
    baselines.ERMClassifier(),
    baselines.DRFARegressor(),
    baselines.WAFLClassifier(),
]


def fitted(model, hospitals, pick, weight=None):
    X, labels, targets, clients = hospitals
    y = labels if hasattr(model, "class_weight") else targets
    return model.fit(X[pick], y[pick], clients[pick], sample_weight=weight)


def state(model):
    return (model.coef_.tolist(), np.ravel(model.intercept_).tolist(), model.objective_)


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.sampled(2)
def test_the_order_of_the_rows_does_not_matter(model, hospitals):
    first = state(fitted(model, hospitals, np.arange(90)))
    other = np.random.default_rng(0).permutation(90)
    assert state(fitted(model, hospitals, other)) == first


@pytest.mark.parametrize("model", MODELS, ids=str)
@pytest.mark.sampled(2)
def test_a_weight_is_a_repetition_and_0_an_absence(model, hospitals):
    weight = np.random.default_rng(1).integers(0, 4, size=90)
    repeated = state(fitted(model, hospitals, np.repeat(np.arange(90), weight)))
    assert state(fitted(model, hospitals, np.arange(90), weight)) == repeated


def test_the_same_seed_gives_the_same_result(hospitals):
    fits = [fitted(DRFLClassifier(random_state=7), hospitals, np.arange(90)) for _ in range(2)]
    assert state(fits[0]) == state(fits[1])


def test_sparse_rows_give_the_model_of_dense_ones(hospitals):
    X, y, _, clients = hospitals
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense = DRFLClassifier().fit(X, y, clients)
    thin = DRFLClassifier().fit(sparse.coo_matrix(X), y, clients)
    assert thin.objective_ == pytest.approx(dense.objective_, rel=2e-6)
    np.testing.assert_array_equal(thin.predict(sparse.csc_array(X)), dense.predict(X))


def test_a_client_without_weight_is_absent(hospitals):
    X, y, _, clients = hospitals
    weight = np.where(clients == "south", 0.0, 1.0)
    model = DRFLClassifier().fit(X, y, clients, sample_weight=weight)
    assert model.client_names_.tolist() == ["north", "west"]


def spread(X, y, member, weight):
    """The weight of every different row of every client."""
    found = {}
    for x, target, s, mass in zip(X.tolist(), y.tolist(), member.tolist(), weight, strict=True):
        key = (*x, target, s)
        found[key] = found.get(key, 0.0) + mass
    return found


@pytest.mark.parametrize("collide", [False, True], ids=["keys differ", "keys collide"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_merging_keeps_the_distribution(form, collide, monkeypatch):
    rng = np.random.default_rng(2)
    X = rng.integers(-1, 2, size=(200, 2)).astype(float)
    y, member = rng.integers(0, 2, 200).astype(float), rng.integers(0, 2, 200)
    weight = rng.integers(1, 4, 200).astype(float)
    if collide:
        monkeypatch.setattr(tables, "row_keys", lambda X, y: np.zeros(len(y), dtype=np.uint64))
    rows, merged = tables.canonical_order(form(X), y, weight, member)
    before, after = spread(X, y, member, weight), spread(X[rows], y[rows], member[rows], merged)
    assert before == after
    assert (np.diff(member[rows]) >= 0).all()
    if not collide:
        assert len(rows) == len(before) == 36


def test_keys_that_share_their_upper_half_are_told_apart_by_the_rest(monkeypatch):
    rng = np.random.default_rng(4)
    X, y, weight = rng.normal(size=(300, 3)), rng.normal(size=300), rng.random(300)
    X[150:], y[150:] = X[:150], y[:150]  # every row twice
    member = np.arange(300) % 150 % 2
    whole = tables.row_keys

    def halved(X, y):
        keys = whole(X, y)
        return keys & np.uint64(0xFFFFFFFF) | (keys & np.uint64(1)) << np.uint64(40)

    monkeypatch.setattr(tables, "row_keys", halved)
    rows, merged = tables.canonical_order(X, y, weight, member)
    assert len(rows) == 150
    np.testing.assert_array_equal(member[rows], np.sort(member[rows]))
    np.testing.assert_allclose(merged, weight[rows % 150] + weight[rows % 150 + 150])
    other = rng.permutation(300)
    again, also = tables.canonical_order(X[other], y[other], weight[other], member[other])
    np.testing.assert_array_equal(X[other][again], X[rows])
    np.testing.assert_array_equal(also, merged)


def test_keys_tell_rows_apart_wherever_they_stand():
    rng = np.random.default_rng(3)
    X, y = (rng.random((5000, 40)) < 0.3).astype(float), np.ones(5000)
    keys = tables.row_keys(X, y)
    assert len(np.unique(keys)) == len(np.unique(X, axis=0))
    order = rng.permutation(5000)
    np.testing.assert_array_equal(tables.row_keys(np.asfortranarray(X[order]), y), keys[order])
    np.testing.assert_array_equal(tables.row_keys(sparse.csr_array(X), y), keys)
    np.testing.assert_array_equal(tables.row_keys(-0.0 - X, y), tables.row_keys(-X, y))
    np.testing.assert_array_equal(tables.row_keys(X.astype(np.float32), y), keys)


def test_entries_stored_twice_are_one_entry():
    data, rows, columns = [1.0, 2.0, 3.0], [0, 0, 1], [1, 1, 0]
    twice = sparse.csr_array((data, columns, [0, 2, 3]), shape=(2, 2))
    table = ClientTable.of(twice, np.zeros(2), None, None)
    np.testing.assert_array_equal(table.X.toarray(), [[0.0, 3.0], [3.0, 0.0]])
    assert table.X.nnz == 2
    assert twice.nnz == len(rows)  # the user's matrix is left alone


@pytest.mark.parametrize(
    "names",
    [
        [3, 1, 3, 1],
        pd.Series(["b", "a", "b", "a"], index=[9, 8, 7, 6]),
        pd.Categorical(["b", "a", "b", "a"]),
        np.array(["b", "a", "b", "a"], dtype=object),
    ],
    ids=["numbers", "series", "categories", "objects"],
)
def test_clients_are_sorted_by_name(names):
    X = np.array([[-1.0], [1.0], [2.0], [-2.0]])
    model = DRFLClassifier(radius=0.1).fit(X, [0, 1, 1, 0], clients=names)
    assert model.client_names_.tolist() == sorted(set(names))
    assert list(model.result_.weights) == [str(name) for name in sorted(set(names))]


def test_a_table_hands_each_client_its_rows():
    X, member = np.arange(12.0).reshape(6, 2), ["b", "a", "b", "b", "a", "a"]
    table = ClientTable.of(X, np.arange(6.0), member, [1, 2, 1, 1, 1, 1])
    a, b = table.clients(table.y)
    assert (a.name, a.rows.y.tolist(), a.rows.total) == ("a", [1.0, 4.0, 5.0], 4.0)
    assert (b.name, b.rows.y.tolist(), b.rows.p) == ("b", [0.0, 2.0, 3.0], None)
    np.testing.assert_array_equal(a.rows.X, X[[1, 4, 5]])
    assert table.totals.tolist() == [4.0, 3.0]
