"""Estimators with curves: what they learn, what they refuse, and where they can go."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from drfl import DRFLClassifier, DRFLRegressor, load, save
from drfl.curves import Curves, enough_rows, standard_knots


def _data(N=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3))
    X[:, 2] = rng.random(N) < 0.4
    f = 1.2 - 1.5 * X[:, 0] ** 2 + np.clip(X[:, 1], -0.5, 0.5) + 0.5 * X[:, 2]
    y = np.where(rng.random(N) < 1.0 / (1.0 + np.exp(-2.0 * f)), "ill", "well")
    return X, y, f


def _model(**changes):
    given = {"norm": "l1", "radius": 0.01, "additive": "all", "tol": 1e-5}
    return DRFLClassifier(**{**given, **changes})


def test_curves_learn_what_lines_cannot():
    X, y, _ = _data()
    test, labels, _ = _data(2000, 1)
    clients = np.repeat(["a", "b"], 200)
    line = _model(additive=None).fit(X, y, clients=clients)
    curve = _model().fit(X, y, clients=clients)
    assert curve.status_.kind == "certified"
    assert curve.curves_.knots[2] == ()  # two values stay linear
    assert curve.coef_.shape == (1, curve.curves_.n_slopes) == (1, 11)
    assert curve.score(test, labels) > line.score(test, labels) + 0.05
    s = curve.coef_[0][curve.curves_.of(0)]
    assert s[0] * s[-1] < 0.0  # a hump


def test_knots_are_in_standard_units_of_the_rows_whatever_their_units():
    X, y, _ = _data()
    moved = X * [100.0, 0.1, 1.0] + [7.0, -3.0, 0.0]
    one = make_pipeline(StandardScaler(), _model()).fit(X, y)
    other = make_pipeline(StandardScaler(), _model()).fit(moved, y)
    np.testing.assert_allclose(one.decision_function(X), other.decision_function(moved), atol=2e-3)
    model = _model(knots=[1.0, -1.0, 0.0], additive=[0]).fit(X, y)
    wanted = X[:, 0].mean() + X[:, 0].std() * np.array([-1.0, 0.0, 1.0])
    np.testing.assert_allclose(model.curves_.knots[0], wanted, rtol=1e-9)
    assert model.curves_.knots[1:] == ((), ())


def test_sparse_rows_give_the_same_model():
    X, y, _ = _data()
    X = np.where(np.abs(X) > 0.6, X, 0.0)
    dense, thin = _model().fit(X, y), _model().fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(dense.coef_, thin.coef_, atol=1e-4)
    scores = thin.decision_function(sparse.csr_array(X))
    np.testing.assert_allclose(scores, thin.decision_function(X), atol=1e-12)


def test_rules_are_kept_by_name():
    X, _, f = _data()
    frame = pd.DataFrame(X, columns=["age", "dose", "sex"])
    shapes = {"age": "concave", "dose": ["increasing", "flat ends"]}
    model = DRFLRegressor(norm="linf", radius=0.005, additive=["age", "dose"], shapes=shapes)
    model.fit(frame, f)
    age, dose = (model.coef_[model.curves_.of(j)] for j in (0, 1))
    assert (np.diff(age) <= 0.0).all()
    assert age[0] > 0.0 > age[-1]
    assert (dose >= 0.0).all()
    assert dose[0] == dose[-1] == 0.0
    assert dose.max() > 0.2
    assert model.score(frame, f) > 0.8


def test_a_client_of_radius_0_takes_part_where_curves_have_rules():
    X, y, _ = _data()
    model = _model(shapes={0: "concave"}, radius={"a": 0.05, "b": 0.0}, intercept="shared")
    model.fit(X, y, clients=np.repeat(["a", "b"], 200))
    assert model.status_.kind == "certified"
    assert not any(record.failures for record in model.result_.history)
    assert np.isfinite(model.client_losses_).all()


def test_three_classes_have_a_curve_each(tmp_path):
    """In one problem: a hump in the middle is beyond three lines."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 2))
    y = np.where(np.abs(X[:, 0]) < 0.6, "middle", np.where(X[:, 1] > 0.0, "up", "down"))
    y = np.where(rng.random(500) < 0.15, rng.choice(["up", "middle", "down"], 500), y)
    models = [
        _model(additive=additive, tol=1e-4).fit(X, y, clients=np.repeat(["a", "b"], 250))
        for additive in (None, "all")
    ]
    assert models[1].coef_.shape == (3, models[1].curves_.n_slopes)
    assert models[1].score(X, y) > models[0].score(X, y) + 0.1
    save(models[1], tmp_path / "model.json")
    np.testing.assert_array_equal(load(tmp_path / "model.json").predict(X), models[1].predict(X))
    assert models[1].problem_.classes == 3
    worst = models[1].worst_case(X[:40], y[:40], clients=np.full(40, "a"))["a"]
    assert worst.value <= worst.bound * (1.0 + 1e-9)
    assert worst.value > models[1].problem_.balls[0].radius  # rows move in x, and it costs


def test_linf_leaves_columns_out_and_slopes_calm():
    """The sum over columns of the largest slope: columns of noise are flat, to the last bit."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 8))
    y = 1.0 - X[:, 0] ** 2 + np.clip(X[:, 1], -0.5, 0.5) + 0.3 * rng.normal(size=400)
    given = {"additive": "all", "radius": 0.1, "tol": 1e-6}
    sparse_, dense = (DRFLRegressor(norm=norm, **given).fit(X, y) for norm in ("linf", "l1"))
    assert sparse_.status_.kind == "certified"
    used = [
        np.abs(model.coef_[model.curves_.of(j)]).max() > 1e-6
        for model in (sparse_, dense)
        for j in range(8)
    ]
    assert used[:8] == [True, True] + [False] * 6
    assert sum(used[8:]) > 2


def test_the_worst_case_is_within_the_bound_of_the_fit():
    X, y, _ = _data(200)
    for kappa in (np.inf, 2.0):
        clients = np.repeat(["a", "b"], 100)
        model = _model(label_cost=kappa, radius=0.05).fit(X, y, clients=clients)
        found = model.worst_case(X, y, clients=clients)
        exact = np.array([found[name].value for name in ("a", "b")])
        assert (exact <= model.client_losses_ + 1e-9).all()
        assert (exact >= 0.97 * model.client_losses_).all()
        d = found["a"].distribution()
        assert d.x.shape[1] == 3  # the adversary moves x, not ramps


def test_what_makes_no_curve_is_refused():
    X, y, _ = _data(60)
    for wrong, sentence in [
        ({"norm": "l2"}, "norm='l1' or norm='linf'"),
        ({"additive": "age"}, "must be None, 'all' or a list"),
        ({"additive": [9]}, "there is no column 9"),
        ({"additive": None, "shapes": {0: "convex"}}, "rules for curves"),
        ({"additive": [1], "shapes": {0: "convex"}}, "not in additive"),
        ({"shapes": {0: "wavy"}}, "unknown shape"),
        ({"shapes": {0: "convex"}, "radius": 0.0}, "radius above 0"),
        ({"solver": "admm"}, "knows no curves"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            _model(**wrong).fit(X, y)
    for mask in ([True, False, True], np.array([True, False, True])):
        with pytest.raises(TypeError, match="True or False names none"):
            _model(additive=mask).fit(X, y)
    with pytest.raises(TypeError, match="True or False names none"):
        _model(shapes={True: "convex"}).fit(X, y)
    with pytest.raises(TypeError, match="shapes must have a rule"):
        _model(shapes={0: None}).fit(X, y)
    frame = pd.DataFrame(X, columns=["age", "dose", "sex"])
    with pytest.raises(ValueError, match="names the column 0 twice"):
        _model(shapes={"age": "increasing", 0: "convex"}).fit(frame, y)
    with pytest.raises(TypeError, match="knots must be"):
        _model(knots="many").fit(X, y)
    model = _model(shapes={0: "convex"})
    assert clone(model).get_params() == model.get_params()


def test_pieces_have_rows_enough_at_every_client():
    column = np.concatenate([np.linspace(0.0, 1.0, 100), np.linspace(0.0, 0.5, 100), [0.7]])
    member = np.repeat([0, 1], [100, 101])
    curves = Curves([[0.02, 0.3, 0.6, 0.9]])
    counts = [curves.counts(0, column[member == s]) for s in (0, 1)]
    knots = [curves.knots[0][p] for p in enough_rows(np.array(counts))]
    assert knots == [0.3]
    piece = np.searchsorted(knots, column)
    for s in (0, 1):
        counts = np.bincount(piece[member == s], minlength=2)
        assert ((counts == 0) | (counts >= 5)).all()
    assert len(_model(knots=[0.0, 3.5]).fit(*_data()[:2]).curves_.knots[0]) == 1
    assert len(standard_knots(4)) == 4


def test_columns_of_few_values_have_slopes_that_rows_tell_apart():
    """As many slopes as values would leave one to chance, and no standard errors at all."""
    X, y, _ = _data()
    X[:, 1] = np.random.default_rng(0).integers(4, size=len(X))
    clients = np.repeat(["a", "b"], 200)
    model = _model(knots=[-0.8, 0.0, 0.8], additive=[1, 2]).fit(X, y, clients=clients)
    assert [len(knots) for knots in model.curves_.knots] == [0, 2, 0]
    assert (np.diag(model.inference().covariance) > 0.0).all()
