"""The ONNX graph predicts what the model predicts."""

import numpy as np
import pandas as pd
import pytest

import drfl as library
from drfl.estimators.data_warnings import DataWarning
from drfl.models import export_onnx, read_model
from drfl.tables import Number, encoded, read_table
from kit.program import THREE, drfl, write_csv, write_numbers

ORDER = ("prediction", "scores")


def test_a_message_says_what_to_install(trained, tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"drfl\[onnx\]"):
        export_onnx(read_model(trained / "RUN" / "model.json"), tmp_path / "m.onnx")


def same_predictions(model, file, path):
    """Run the graph on the columns of a file; scores and predictions must agree."""
    runtime = pytest.importorskip("onnxruntime")
    export_onnx(model, path)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    table = read_table(file)
    inputs = {}
    for column in model.columns:
        if isinstance(column, Number):
            inputs[column.name] = table.number(column.name)[:, None]
        else:
            words = np.array(table.levels[column.name], dtype=object)
            inputs[column.name] = words[table.text(column.name)][:, None]
    prediction, scores = session.run(list(ORDER), inputs)
    expected = model.scores(encoded(table, model.columns))
    if model.target.classes is None:
        assert np.allclose(prediction, expected[:, 0], rtol=1e-9)
        return
    assert np.allclose(scores, expected, rtol=1e-9)
    labels = [model.target.classes[k] for k in model.positions(expected)]
    assert prediction.tolist() == labels


def test_two_classes(trained, tmp_path):
    pytest.importorskip("onnx")
    model = read_model(trained / "RUN" / "model.json")
    same_predictions(model, trained / "b.csv", tmp_path / "m.onnx")


def test_an_unknown_value_without_an_other(tmp_path):
    pytest.importorskip("onnx")
    rows = [[k % 7, "fm"[k % 3 > 0], "ny"[k % 3 > 0 and k % 7 > 2]] for k in range(60)]
    file = write_csv(tmp_path / "a.csv", ["x", "sex", "ill"], rows)
    drfl("train", "--client", file.name, "--target", "ill", "--out", "R", cwd=tmp_path)
    model = read_model(tmp_path / "R" / "model.json")
    new = write_csv(tmp_path / "new.csv", ["x", "sex"], [[3, "f"], [3, "m"], [3, "?!"]])
    same_predictions(model, new, tmp_path / "m.onnx")


def test_texts_are_read_as_in_a_prediction(tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    texts = ["north", "not known (yet)", ""]
    rows = [[k % 7, texts[k % 3], "ny"[k % 3 > 0 and k % 7 > 2]] for k in range(60)]
    write_csv(tmp_path / "a.csv", ["x", "ward", "ill"], rows)
    asked = ("--target", "ill", "--missing", "mean", "--out", "R")
    drfl("train", "a.csv", *asked, cwd=tmp_path)
    given = ["north", " NORTH ", "Not  Known (Yet)", "not-known (yet)", None, "nowhere"]
    frame = pd.DataFrame({"x": 3.0, "ward": given})
    path = tmp_path / "R" / "model.json"
    export_onnx(read_model(path), tmp_path / "m.onnx")
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    columns = {"x": frame[["x"]].to_numpy(), "ward": frame[["ward"]].fillna("").to_numpy(object)}
    scores = session.run(["scores"], columns)[0][:, 0]
    assert len(set(scores.round(6))) == 4  # three levels, and what was not trained
    with pytest.warns(DataWarning, match="2 rows hold a value of 'ward' that was not trained"):
        assert scores == pytest.approx(library.load(path).decision_function(frame))


@pytest.mark.parametrize("missing", ["mean", "indicator"])
def test_numbers_filled_and_scaled(tmp_path, missing):
    pytest.importorskip("onnx")
    (file,) = write_numbers(tmp_path, n_clients=1)
    lines = file.read_text().splitlines()
    lines[4] = "," + lines[4].partition(",")[2]
    file.write_text("\n".join(lines) + "\n")
    arguments = ("--client", file.name, "--target", "days", "--missing", missing, "--out", "R")
    drfl("train", *arguments, cwd=tmp_path)
    same_predictions(read_model(tmp_path / "R" / "model.json"), file, tmp_path / "m.onnx")


def test_many_classes_of_numbers(tmp_path):
    pytest.importorskip("onnx")
    rng = np.random.default_rng(0)
    rows = [[f"{rng.normal() + 2 * k:.3f}", k] for k in (1, 2, 3) for _ in range(20)]
    file = write_csv(tmp_path / "p.csv", ["u", "y"], rows)
    arguments = ("--client", "p.csv", "--target", "y", "--task", "classification", "--out", "R")
    drfl("train", *arguments, cwd=tmp_path)
    same_predictions(read_model(tmp_path / "R" / "model.json"), file, tmp_path / "m.onnx")


def test_scaling_per_client_has_no_graph(files):
    pytest.importorskip("onnx")
    drfl("train", *THREE, "--scale", "per-client", "--tol", "1e-2", "--out", "R", cwd=files)
    with pytest.raises(ValueError, match="per-client"):
        export_onnx(read_model(files / "R" / "model.json"), files / "m.onnx")
