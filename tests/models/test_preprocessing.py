"""Pipelines as people build them: reports, model files and selections of all of a pipeline."""

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

import drfl
from drfl.report import Plan

pandas = pytest.importorskip("pandas")

N = 80
rng = np.random.default_rng(0)
FRAME = pandas.DataFrame(
    {
        "age": rng.normal(50.0, 9.0, N),
        "dose": np.where(np.arange(N) % 7 == 0, np.nan, rng.normal(3.0, 1.0, N)),
        "ward": np.array(["a", "b", "c"])[np.arange(N) % 3],
        "grade": np.arange(N) % 2 + 1,
        "unused": np.arange(N),
    }
)
Y = np.where(
    FRAME["age"] + 4.0 * (FRAME["ward"] == "b") + rng.normal(0.0, 5.0, N) > 51, "ill", "no"
)
CLIENTS = np.array(["north", "south"])[np.arange(N) // 40]
NUMBERS = make_pipeline(SimpleImputer(), StandardScaler())


def transformer(drop=None, numbers=NUMBERS):
    return ColumnTransformer(
        [
            ("numbers", numbers, ["dose", "age"]),
            ("words", OneHotEncoder(drop=drop), ["ward", "grade"]),
        ]
    )


def fitted(before, X=FRAME):
    pipeline = make_pipeline(before, drfl.DRFLClassifier(radius=0.05, tol=1e-4))
    return pipeline.fit(X, Y, drflclassifier__clients=CLIENTS)


@pytest.mark.parametrize("drop", [None, "first", "if_binary"])
@pytest.mark.parametrize(
    "numbers",
    [
        NUMBERS,
        make_pipeline(SimpleImputer(strategy="median"), MinMaxScaler()),
        make_pipeline(StandardScaler(), SimpleImputer(), RobustScaler()),
        make_pipeline(SimpleImputer(), MaxAbsScaler()),
    ],
)
@pytest.mark.sampled(2)
def test_a_saved_pipeline_predicts_what_it_predicted(tmp_path, drop, numbers):
    pipeline = fitted(transformer(drop, numbers))
    drfl.save(pipeline, tmp_path / "model.json")
    loaded = drfl.load(tmp_path / "model.json")
    assert set(loaded.feature_names_in_) == {"age", "dose", "ward", "grade"}
    found, wanted = loaded.decision_function(FRAME), pipeline.decision_function(FRAME)
    assert np.allclose(found, wanted, rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match=r"'z'.*the model knows"):
        loaded.predict(FRAME.assign(ward="z"))


def test_rows_of_an_array_and_columns_chosen_by_kind(tmp_path):
    X = FRAME[["age", "grade", "unused"]].to_numpy(dtype=float)
    scaled = ColumnTransformer([("s", StandardScaler(), [2, 0])], remainder="passthrough")
    pipeline = fitted(scaled, X)
    drfl.save(pipeline, tmp_path / "model.json")
    loaded = drfl.load(tmp_path / "model.json")
    assert loaded.feature_names_in_.tolist() == ["x3", "x1", "x2"]
    assert np.allclose(loaded.decision_function(X[:, [2, 0, 1]]), pipeline.decision_function(X))
    kinds = make_column_selector(dtype_include=object), make_column_selector(dtype_include=float)
    chosen = ColumnTransformer([("w", OneHotEncoder(), kinds[0]), ("n", NUMBERS, kinds[1])])
    frame = FRAME.assign(ward=FRAME["ward"].astype(object))
    drfl.save(fitted(chosen, frame), tmp_path / "kinds.json")
    assert drfl.load(tmp_path / "kinds.json").feature_names_in_.tolist() == ["ward", "age", "dose"]


def test_what_a_model_file_cannot_say_is_refused(tmp_path):
    X = FRAME[["age", "grade"]]
    for before, words in (
        (PCA(2), "PCA has no place in a model file"),
        (make_pipeline(StandardScaler(), PCA(1)), "PCA has no place"),
        (
            ColumnTransformer([("a", StandardScaler(), [0]), ("b", MinMaxScaler(), [0])]),
            "used twice",
        ),
    ):
        with pytest.raises(TypeError, match=words):
            drfl.save(fitted(before, X), tmp_path / "model.json")


def test_a_report_of_a_pipeline_with_categories(tmp_path):
    pipeline = fitted(transformer("first"))
    plan = Plan(bootstrap=2, methods=("erm",), radii=False, validation=False)
    drfl.report(pipeline, tmp_path / "r.html", FRAME, Y, CLIENTS, plan=plan)
    page = (tmp_path / "r.html").read_text()
    assert "ward=b" in page
    assert "north" in page


def test_a_selection_chooses_for_the_last_step():
    grid = {"drflclassifier__radius": [0.0, 0.1]}
    pipeline = make_pipeline(transformer(), drfl.DRFLClassifier(tol=1e-3))
    found = drfl.select(pipeline, FRAME, Y, CLIENTS, grid=grid, folds=3, verbose=0)
    alone = drfl.select(
        drfl.DRFLClassifier(tol=1e-3),
        transformer().fit_transform(FRAME),
        Y,
        CLIENTS,
        grid={"radius": [0.0, 0.1]},
        folds=3,
        verbose=0,
    )
    assert found.best_params == alone.best_params
    assert found.estimator.predict(FRAME).shape == (N,)
    assert np.array_equal(found.estimator[-1].coef_, alone.estimator.coef_)
