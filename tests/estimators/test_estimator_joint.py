"""All classes in one problem: estimators, files, ONNX, selection, validation, adversary."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import drfl
from drfl import baselines
from drfl.estimators import DRFLClassifier
from drfl.models import read_model, write_model
from drfl.models.estimator import loaded, model_of
from drfl.selection import select, select_curves
from kit.joint_referee import JointReferee


@pytest.fixture(scope="module")
def flowers():
    data = load_iris()
    X = StandardScaler().fit_transform(data.data)
    return X, data.target_names[data.target], np.arange(150) % 3


@pytest.fixture(scope="module")
def garden(flowers):
    return DRFLClassifier(radius=0.05, label_cost=2.0).fit(*flowers)


def test_the_default_has_all_classes_in_one_problem(flowers, garden):
    X, y, clients = flowers
    assert garden.problem_.classes == 3
    assert garden.coef_.shape == (3, 4)
    assert garden.intercept_.shape == (3,)
    assert isinstance(garden.result_, drfl.Result)
    assert garden.gap_ <= 1e-6
    codes = np.searchsorted(garden.classes_, y).astype(float)
    data = {str(c): (X[clients == c], codes[clients == c]) for c in range(3)}
    assert JointReferee.of(garden.problem_, data).judge(garden.result_, 1e-6) == []


def test_probabilities_are_the_softmax_of_the_scores(flowers, garden):
    X = flowers[0]
    z, p = garden.decision_function(X), garden.predict_proba(X)
    np.testing.assert_allclose(p, np.exp(z) / np.exp(z).sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(garden.predict(X), garden.classes_[p.argmax(axis=1)])


def test_with_next_to_no_radius_it_is_softmax_regression(flowers):
    X, y, _ = flowers
    noisy = X + np.random.default_rng(0).normal(size=X.shape)  # not separable
    model = DRFLClassifier(radius=1e-6).fit(noisy, y)
    plain = LogisticRegression(C=np.inf, tol=1e-9, max_iter=2000).fit(noisy, y)
    np.testing.assert_allclose(model.predict_proba(noisy), plain.predict_proba(noisy), atol=2e-3)


def test_the_worst_case_of_the_fit_is_the_objective(flowers, garden):
    X, y, clients = flowers
    worst = garden.worst_case(X, y, clients)
    values = np.array([worst[c].value for c in garden.client_names_])
    np.testing.assert_allclose(values, garden.client_losses_, rtol=1e-9)
    np.testing.assert_allclose(garden.client_weights_ @ values, garden.objective_, rtol=1e-9)
    found = worst[0].distribution()
    assert (found.y != np.searchsorted(garden.classes_, y[clients == 0])[found.source]).any()


def test_a_file_holds_the_model(flowers, garden, tmp_path):
    X = flowers[0]
    write_model(model_of(garden), tmp_path / "model.json")
    model = read_model(tmp_path / "model.json")
    assert (model.joint, model.n_problems, len(model.certificates)) == (True, 1, 1)
    again = loaded(model)
    frame = dict(zip(again.feature_names_in_, X.T, strict=True))
    np.testing.assert_allclose(again.predict_proba(frame), garden.predict_proba(X))
    np.testing.assert_array_equal(again.predict(frame), garden.predict(X))


def test_an_onnx_graph_predicts_the_same(flowers, garden, tmp_path):
    pytest.importorskip("onnx")
    reference = pytest.importorskip("onnx.reference")
    from drfl.models.onnx import export_onnx

    X = flowers[0]
    export_onnx(model_of(garden), tmp_path / "model.onnx")
    session = reference.ReferenceEvaluator(str(tmp_path / "model.onnx"))
    inputs = {i.name: X[:, [k]] for k, i in enumerate(session.proto_.graph.input)}
    prediction, scores = session.run(None, inputs)
    np.testing.assert_allclose(scores, garden.decision_function(X), atol=1e-9)
    np.testing.assert_array_equal(prediction.astype(str), garden.predict(X).astype(str))


def test_classes_and_weights_of_rows_count(flowers):
    X, y, clients = flowers
    weight = np.where(y == "setosa", 2.0, 1.0)
    one = DRFLClassifier(radius=0.05, class_weight={"setosa": 2.0}).fit(X, y, clients)
    other = DRFLClassifier(radius=0.05).fit(X, y, clients, sample_weight=weight)
    np.testing.assert_allclose(one.objective_, other.objective_, rtol=1e-9)


def test_engines_give_the_same_model(flowers):
    X, y, clients = flowers
    one = DRFLClassifier(radius=0.05).fit(X, y, clients)
    other = DRFLClassifier(radius=0.05, engine="processes").fit(X, y, clients)
    np.testing.assert_array_equal(one.coef_, other.coef_)


@pytest.mark.slow
def test_selection_and_validation(flowers):
    X, y, clients = flowers
    found = select(
        DRFLClassifier(), X, y, clients=clients, grid={"radius": [0.01, 1.0]}, folds=3, verbose=0
    )
    assert found.best_params == {"radius": 0.01}
    assert found.estimator.problem_.classes == 3
    lonely = np.where(y == "setosa", 0, clients)  # clients 1 and 2 never saw a setosa
    told = DRFLClassifier(radius=0.02).validate(X, y, lonely, folds=2)
    new_rows = next(iter(told.measures.values()))  # the split without client 0 tells nothing
    assert new_rows["model"]["accuracy"].mean > 0.85
    assert set(new_rows["model"]) == {"accuracy", "log_loss"}
    for way in ("joint", "ovr"):
        judged = DRFLClassifier(radius=0.02, multiclass=way).validate(X, y, clients, folds=2)
        assert list(judged.probabilities) == ["setosa", "versicolor", "virginica"]
        for label, facts in judged.probabilities.items():
            assert facts["rows"] == len(y)
            assert facts["positive"] == (y == label).sum()
            assert facts["auc"] > 0.9
    with pytest.raises(ValueError, match="multiclass cannot be in the grid"):
        select(DRFLClassifier(), X, y, grid={"multiclass": ["ovr", "joint"]}, verbose=0)


@pytest.mark.slow
def test_many_columns_are_one_against_the_rest():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 700)), np.arange(60) % 3
    X[:, 0] += 3.0 * y
    model = DRFLClassifier(tol=1e-2, radius=0.5).fit(X, y, clients=np.arange(60) % 2)
    assert model.problem_.classes is None
    assert len(model.result_) == 3


def test_slopes_count_not_columns(flowers, monkeypatch):
    monkeypatch.setattr("drfl.defaults.AT_ONCE", 40)
    X, y, clients = flowers
    given = {"norm": "l1", "radius": 0.1, "tol": 1e-2}
    assert DRFLClassifier(**given).fit(X, y, clients).problem_.classes == 3
    few = DRFLClassifier(**given, additive=[2], knots=2).fit(X, y, clients)
    assert (few.problem_.classes, few.curves_.n_slopes) == (3, 6)
    many = DRFLClassifier(**given, additive="all").fit(X, y, clients)
    assert many.curves_.n_slopes > 40 / 3
    assert many.problem_.classes is None
    assert len(many.result_) == 3
    found = select_curves(many, X, y, clients, radii=[0.1], folds=2, verbose=0)
    assert found.estimator.problem_.classes is None  # lines, too, which would be few enough


def test_what_is_too_large_together_is_told_in_its_own_words():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 90)), np.arange(600) % 20
    given = {"norm": "l1", "additive": "all", "multiclass": "joint", "radius": 0.5}
    with pytest.raises(ValueError, match="coefficients are too many") as told:
        DRFLClassifier(**given).fit(X, y)
    assert "take one class against the rest" in str(told.value)
    assert "l2" not in str(told.value)


@pytest.mark.parametrize("multiclass", ["auto", "joint", "ovr"])
def test_rules_for_shapes_are_for_one_score(flowers, multiclass):
    """In every class's score they would push all classes up together."""
    X, y, clients = flowers
    model = DRFLClassifier(
        norm="l1", additive=[2], shapes={2: "increasing"}, multiclass=multiclass, tol=1e-2
    )
    with pytest.raises(ValueError, match="3 classes each has a score"):
        model.fit(X, y, clients)
    kept = y != "setosa"
    model.fit(X[kept], y[kept], clients[kept])  # of two classes there is one
    assert (model.coef_[0][model.curves_.of(2)] >= 0.0).all()


def test_a_selection_decides_once(flowers):
    """Parameters in a grid do not change how classes are told apart, which scores depend on."""
    X, y, clients = flowers
    grid = {"loss": ["logistic", "smooth_hinge"]}
    with pytest.raises(ValueError, match="several classes at once have the losses"):
        select(DRFLClassifier(), X, y, clients=clients, grid=grid, folds=2, verbose=0)


def test_erm_is_one_problem_too(flowers):
    X, y, clients = flowers
    noisy = X + np.random.default_rng(0).normal(size=X.shape)
    model = baselines.ERMClassifier().fit(noisy, y, clients)
    assert model.problem_.classes == 3
    plain = LogisticRegression(C=np.inf, tol=1e-9, max_iter=2000).fit(noisy, y)
    np.testing.assert_allclose(model.predict_proba(noisy), plain.predict_proba(noisy), atol=2e-3)


def test_sparse_curves_of_three_classes_are_one_problem(flowers):
    """Columns whose curves rise alike in all classes cost nothing, and noise gets no curve."""
    X, y, clients = flowers
    noise = np.random.default_rng(0).normal(size=(len(X), 2))
    wide = np.column_stack([X, noise])
    given = {"norm": "linf", "additive": "all", "knots": 2, "radius": 0.05, "tol": 1e-4}
    model = DRFLClassifier(**given).fit(wide, y, clients)
    assert model.problem_.classes == 3
    assert model.status_.kind == "certified"
    curves = model.curves_
    apart = [np.ptp(model.coef_[:, curves.of(j)], axis=0).max() for j in range(curves.n)]
    assert max(apart[len(X[0]) :]) < 1e-3 < max(apart)
    assert model.score(wide, y) > 0.9
    worst = model.worst_case(wide, y, clients)
    for name, bound in zip(model.client_names_, model.client_losses_, strict=True):
        assert worst[name].value <= bound * (1.0 + 1e-6)


@pytest.mark.parametrize(
    "params",
    [
        {"loss": "smooth_hinge"},
        {"support": drfl.Box(-5.0, 5.0), "loss": "hinge"},
        {"solver": "local"},
        {"intercept": "per_client", "label_cost": 1.0},
        {"multiclass": "ovr"},
    ],
)
@pytest.mark.sampled(2)
def test_what_cannot_be_at_once_is_one_against_the_rest(flowers, params):
    X, y, clients = flowers
    model = DRFLClassifier(**{"radius": 0.1, "tol": 1e-2} | params).fit(X, y, clients)
    assert model.problem_.classes is None
    assert len(model.result_) == 3


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"loss": "smooth_hinge"}, "several classes at once have the losses"),
        ({"support": drfl.Box(-5.0, 5.0), "norm": "l1"}, "leave out the support"),
        ({"solver": "local"}, "knows no several classes at once"),
        ({"intercept": "per_client", "label_cost": 1.0}, "per client only if labels stay"),
        ({"multiclass": "all"}, "multiclass"),
    ],
)
def test_what_was_asked_for_and_cannot_be_is_refused(flowers, params, why):
    with pytest.raises(ValueError, match=why):
        DRFLClassifier(**{"radius": 0.1, "multiclass": "joint"} | params).fit(*flowers)
