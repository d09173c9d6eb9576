"""Model files: what is written is read back; anything else is refused in one sentence."""

import copy
import json
import math
import os

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

import drfl
from drfl.models import (
    ClientPart,
    Model,
    ModelError,
    ProofRecord,
    export_onnx,
    read_model,
    write_model,
)
from drfl.models.plain import from_plain, to_plain
from drfl.solvers.base import Status, StatusKind
from drfl.tables import OTHER, Category, Number
from drfl.tables.encoding import Target

finite = st.floats(allow_nan=False, allow_infinity=False, width=64)
positive = st.floats(min_value=1e-300, max_value=1e300)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@st.composite
def columns(draw):
    found = []
    for name in draw(st.lists(names, min_size=1, max_size=4, unique=True)):
        if draw(st.booleans()):
            fill = draw(st.none() | finite)
            marked = fill is not None and draw(st.booleans())
            found.append(Number(name, draw(finite), draw(positive), fill, marked))
            continue
        words = names.filter(lambda word: word != OTHER)
        reference, *levels = draw(st.lists(words, min_size=2, max_size=4, unique=True))
        other = draw(st.booleans())
        levels = [*levels, OTHER] if other else levels
        shares = [] if other or draw(st.booleans()) else [draw(st.floats(0.0, 0.3)) for _ in levels]
        found.append(Category(name, reference, tuple(levels), other, tuple(shares)))
    return tuple(found)


@st.composite
def targets(draw):
    kind = draw(st.sampled_from(["number", "words", "integers"]))
    name = draw(names)
    if kind == "number":
        return Target(name, None, draw(finite), draw(positive))
    labels = names if kind == "words" else st.integers(-5, 5)
    return Target(name, tuple(sorted(draw(st.lists(labels, min_size=2, max_size=4, unique=True)))))


@st.composite
def models(draw):
    target, chosen = draw(targets()), draw(columns())
    count = 1 if target.classes is None or len(target.classes) == 2 else len(target.classes)
    width = sum(len(column.features) for column in chosen)
    loss = "huber" if target.classes is None else draw(st.sampled_from(["hinge", "logistic"]))
    support = draw(st.sampled_from([None, drfl.Box(-1.0, [math.inf] * width)]))
    ball = drfl.Ball(draw(st.floats(0, 1)), "l1", draw(st.sampled_from([0.5, math.inf])), support)
    numbers = st.floats(allow_nan=False)
    return Model(
        target=target,
        columns=chosen,
        scale=draw(st.sampled_from(["federated", "per-client", "none"])),
        missing=draw(st.sampled_from(["error", "drop", "mean"])),
        coef=np.array(draw(lists(lists(finite, width), count))),
        intercept=np.array(draw(lists(finite, count))),
        problem=drfl.Problem(loss, ball, drfl.Mixture(radius=math.inf)),
        certificates=tuple(
            ProofRecord(
                draw(numbers),
                draw(numbers),
                draw(numbers),
                Status(draw(st.sampled_from(StatusKind)), draw(names)),
                draw(st.integers(0, 10**6)),
            )
            for _ in range(count)
        ),
        clients=tuple(
            ClientPart(
                name, 3, tuple(draw(lists(numbers, count))), tuple(draw(lists(numbers, count)))
            )
            for name in draw(st.lists(names, max_size=3, unique=True))
        ),
        version="0.1.0",
    )


def lists(entries, length):
    return st.lists(entries, min_size=length, max_size=length)


@given(models())
def test_what_is_written_is_read_back(model):
    again = from_plain(json.loads(json.dumps(to_plain(model), allow_nan=False)))
    assert to_plain(again) == to_plain(model)
    assert (again.target, again.columns, again.problem) == (
        model.target,
        model.columns,
        model.problem,
    )
    assert np.array_equal(again.coef, model.coef)
    assert again.certificates == model.certificates
    assert again.clients == model.clients


def places(data, path=()):
    """Every path into nested lists and objects."""
    yield path
    if isinstance(data, dict | list):
        for key in data if isinstance(data, dict) else range(len(data)):
            yield from places(data[key], (*path, key))


wrong = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 10**400),
    st.text(max_size=3),
    st.sampled_from(["inf", "nan", [], {}, [[]], -1, 1e308, {"a": 1}]),
)


@given(models(), st.data())
def test_a_field_that_is_edited_or_removed_is_refused_or_makes_another_model(model, data):
    plain = to_plain(model)
    path = data.draw(st.sampled_from([p for p in places(plain) if p]))
    edited = copy.deepcopy(plain)
    holder = edited
    for key in path[:-1]:
        holder = holder[key]
    if data.draw(st.booleans()):
        del holder[path[-1]]
    else:
        holder[path[-1]] = data.draw(wrong)
    assume(edited != plain)
    try:
        found = from_plain(edited)
    except ModelError:
        return
    # What is accepted is a model in its own right: it can be written and used.
    assert to_plain(from_plain(to_plain(found))) == to_plain(found)
    assert np.isfinite(found.coef).all()
    assert found.coef.shape[1] == len(found.features)


@given(models(), st.floats(0, 1, exclude_max=True))
def test_a_file_that_was_cut_off_is_refused(tmp_path_factory, model, share):
    path = tmp_path_factory.mktemp("cut") / "model.json"
    write_model(model, path)
    whole = path.read_bytes()
    cut = int(share * len(whole.rstrip()))
    path.write_bytes(whole[:cut])
    with pytest.raises(ModelError, match=str(path)):
        read_model(path)


@given(st.binary(max_size=60))
def test_any_bytes_are_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("bytes") / "model.json"
    path.write_bytes(data)
    with pytest.raises(ModelError, match=str(path)):
        read_model(path)


HOSTILE = {
    "deep": "[" * 100_000,
    "huge number": '{"format": "drfl-model", "schema": 1' + "0" * 5000 + "}",
    "twice": '{"format": "drfl-model", "format": "drfl-model"}',
    "NaN": '{"format": NaN}',
    "pickle": "cos\nsystem\n(S'touch hacked'\ntR.",
    "another schema": '{"format": "drfl-model", "schema": 2}',
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.json").write_text(HOSTILE[kind])
    with pytest.raises(ModelError) as caught:
        read_model("model.json")
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == ["model.json"]


def test_writing_is_all_or_nothing(tmp_path, monkeypatch):
    path = tmp_path / "model.json"
    path.write_text("old")

    def broken(descriptor):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", broken)
    fitted = drfl.DRFLClassifier(radius=0.1).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(OSError, match="full"):
        drfl.save(fitted, path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["model.json"]


RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))


@pytest.mark.parametrize(
    "y",
    [
        np.where(X[:, 0] > 0, "b", "a"),
        (X[:, 0] > 0).astype(int),
        X[:, 0] > 0,
        RNG.integers(3, size=60),
    ],
)
def test_a_saved_classifier_predicts_the_same(tmp_path, y):
    fitted = drfl.DRFLClassifier("logistic").fit(X, y, clients=np.arange(60) % 2)
    drfl.save(fitted, tmp_path / "m.json")
    loaded = drfl.load(tmp_path / "m.json")
    check_is_fitted(loaded)
    assert is_classifier(loaded)
    assert np.array_equal(loaded.predict(X), fitted.predict(X))
    assert np.allclose(loaded.decision_function(X), fitted.decision_function(X))
    assert np.allclose(loaded.predict_proba(X), fitted.predict_proba(X))
    assert loaded.score(X, y) == fitted.score(X, y)
    assert np.array_equal(clone(loaded).predict(X), fitted.predict(X))
    drfl.save(loaded, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "m.json").read_text()


def test_a_saved_pipeline_takes_the_original_columns(tmp_path):
    frame = pd.DataFrame(X * [10.0, 0.1, 1.0] + 5.0, columns=["u", "v", "w"])
    y = frame["u"] - frame["v"]
    pipeline = make_pipeline(StandardScaler(), drfl.DRFLRegressor()).fit(frame, y)
    drfl.save(pipeline, tmp_path / "m.json")
    loaded = drfl.load(tmp_path / "m.json")
    assert is_regressor(loaded)
    assert np.allclose(loaded.predict(frame), pipeline.predict(frame))
    assert np.allclose(loaded.predict(frame[["w", "v", "u"]]), pipeline.predict(frame))
    assert np.allclose(loaded.predict(frame.to_numpy()), pipeline.predict(frame))
    assert loaded.gap_[0] <= 1e-6
    with pytest.raises(ValueError, match="no column 'u'"):
        loaded.predict(frame[["w", "v"]])
    with pytest.raises(ValueError, match="3 columns"):
        loaded.predict(X[:, :2])
    with pytest.raises(TypeError, match="fitted already"):
        loaded.fit(frame, y)


def test_what_cannot_be_saved_is_refused(tmp_path):
    path = tmp_path / "m.json"
    with pytest.raises(TypeError, match="none of drfl's estimators"):
        drfl.save(StandardScaler(), path)
    model = make_pipeline(MinMaxScaler(), drfl.DRFLRegressor())
    with pytest.raises(NotFittedError, match="not fitted yet"):
        drfl.save(model, path)
    assert not path.exists()


def test_an_additive_model_survives_a_file_and_a_graph(tmp_path):
    """Scaled columns, curves and a rule: the file and the ONNX graph predict what it did."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(150, 3)) * [3.0, 0.2, 1.0] + [10.0, 0.0, -1.0]
    X[:, 2] = rng.random(150) < 0.5
    f = -np.abs(X[:, 0] - 10.0) + X[:, 1] + X[:, 2]
    curved = {"norm": "l1", "radius": 0.01, "additive": "all", "shapes": {0: "concave"}}
    regressor = make_pipeline(StandardScaler(), drfl.DRFLRegressor(**curved)).fit(X, f)
    classifier = make_pipeline(StandardScaler(), drfl.DRFLClassifier(**curved)).fit(X, f > -1.0)
    for model in (regressor, classifier):
        path = tmp_path / "model.json"
        drfl.save(model, path)
        loaded = drfl.load(path)
        np.testing.assert_allclose(loaded._scores(X), _scores_of(model, X), rtol=1e-9)
        assert loaded.problem_.curves == model[-1].curves_
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    export_onnx(read_model(path), tmp_path / "model.onnx")
    session = runtime.InferenceSession(
        str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"]
    )
    inputs = {f"x{j + 1}": X[:, [j]] for j in range(3)}
    scores = session.run(["scores"], inputs)[0]
    np.testing.assert_allclose(scores[:, 0], classifier.decision_function(X), rtol=1e-9)


def _scores_of(model, X):
    scores = model.predict(X) if hasattr(model[-1], "epsilon") else model.decision_function(X)
    return scores[:, None]


def test_a_file_whose_slopes_do_not_fit_its_curves_is_refused(tmp_path):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(80, 1))
    model = drfl.DRFLRegressor(norm="l1", radius=0.01, additive="all").fit(X, X[:, 0])
    path = tmp_path / "model.json"
    drfl.save(model, path)
    data = json.loads(path.read_text(encoding="utf-8"))
    data["problem"]["curves"]["knots"][0].pop()
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(ModelError, match="'coef' must have"):
        read_model(path)
