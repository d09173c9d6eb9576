"""Predictions that mean what they say, whatever company a row comes in."""

import csv
import io

import numpy as np
import pytest

import drfl as drfl_package
from drfl.estimators import DataWarning
from kit.program import drfl, write_csv

TOWNS = ("rome", "bern", "oslo")


def write(path, n=60, seed=0, towns=TOWNS, ids=True):
    rng = np.random.default_rng(seed)
    age, dose = rng.normal(50.0, 9.0, n).round(2), rng.normal(3.0, 1.0, n).round(3)
    town = [towns[k % len(towns)] for k in range(n)]
    ill = np.where(age + 5 * dose + rng.normal(0.0, 6.0, n) > 65, "yes", "no")
    rows = [
        [f"00{k}", a, d, t, y]
        for k, (a, d, t, y) in enumerate(zip(age, dose, town, ill, strict=True))
    ]
    names = ["patient", "age", "dose", "town", "ill"]
    return write_csv(path, names, rows)


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("predict")
    # Four rows of 'riva' are too few to be named: they are 'other'.
    write(found / "a.csv", 40, 0, (*TOWNS, *TOWNS, *TOWNS, "riva"))
    write(found / "b.csv", 60, 1)
    common = ("--client", "a.csv", "--client", "b.csv", "--target", "ill", "--exclude", "patient")
    for name, scale in (("FED", "federated"), ("OWN", "per-client")):
        options = ("--scale", scale, "--loss", "logistic", "--tol", "1e-3", "--out", name)
        drfl("train", *common, *options, cwd=found)
    return found


def test_a_client_is_not_named_in_vain(folder):
    said = drfl("predict", "FED/model.json", "b.csv", "--client", "b", cwd=folder, code=3).err
    assert "is one model for all clients, with nothing of 'b' alone: leave out --client" in said


def test_numbers_of_many_values_are_no_categories(tmp_path):
    for file, seed in (("a.csv", 0), ("b.csv", 1)):
        write(tmp_path / file, 80, seed)
    options = ("--target", "ill", "--exclude", "patient", "--categorical", "age")
    said = drfl("train", "a.csv", "b.csv", *options, cwd=tmp_path, code=3).err
    assert "column 'age' is to be categories, and has more than 50 different values" in said
    assert said.rstrip().endswith("or take it as numbers")


def test_a_row_alone_has_the_score_that_it_has_in_company(folder, tmp_path):
    lines = (folder / "b.csv").read_text().splitlines(keepends=True)
    alone = tmp_path / "one.csv"
    alone.write_text("".join(lines[:2]))
    scores = [
        table(drfl("predict", "FED/model.json", file, cwd=folder).out)[0]["score"]
        for file in ("b.csv", alone)
    ]
    assert float(scores[0]) == pytest.approx(float(scores[1]))
    said = drfl("predict", "OWN/model.json", alone, cwd=folder, code=3)
    assert "a row alone has no score" in said.err
    assert "--scale-from FILE" in said.err
    scores = [
        table(drfl("predict", "OWN/model.json", file, "--scale-from", "b.csv", cwd=folder).out)
        for file in ("b.csv", alone)
    ]
    assert float(scores[0][0]["score"]) == pytest.approx(float(scores[1][0]["score"]))
    said = drfl("evaluate", "OWN/model.json", "b.csv", cwd=folder)
    assert "and so is every file here: give all rows of a client, not some" in said.err


def test_a_value_that_was_not_trained_is_other_and_said(folder, tmp_path):
    lines = (folder / "b.csv").read_text().replace("oslo", "Paris").splitlines(keepends=True)
    new = tmp_path / "new.csv"
    new.write_text("".join(lines))
    said = drfl("predict", "FED/model.json", new, cwd=folder)
    assert "20 rows hold a value of 'town' that was not trained: it is 'other'" in said.err
    rare = tmp_path / "rare.csv"
    rare.write_text("".join(lines).replace("Paris", "riva"))
    assert drfl("predict", "FED/model.json", rare, cwd=folder).out == said.out
    # What differs in case and blanks alone is the same.
    same = tmp_path / "same.csv"
    same.write_text((folder / "b.csv").read_text().replace("oslo", " OSLO "))
    assert drfl("predict", "FED/model.json", same, cwd=folder) == drfl(
        "predict", "FED/model.json", "b.csv", cwd=folder
    )


def test_without_rare_values_other_is_the_mean_over_those_that_were_trained(folder, tmp_path):
    common = ("--target", "ill", "--exclude", "patient", "--tol", "1e-3", "--out", tmp_path / "R")
    drfl("train", "--client", "b.csv", *common, cwd=folder)
    head, first, *_ = (folder / "b.csv").read_text().splitlines()
    rows = [first.replace("rome", town) for town in (*TOWNS, "Paris")]
    new = tmp_path / "new.csv"
    new.write_text("\n".join([head, *rows]))
    model = tmp_path / "R" / "model.json"
    said = drfl("predict", model, new, cwd=folder)
    assert (
        "1 row holds a value of 'town' that was not trained: it is 'other', here the mean over"
        in said.err
    )
    *known, paris = (float(row["score"]) for row in table(said.out))
    assert len(set(known)) == 3  # none of them, also not the reference
    assert paris == pytest.approx(np.mean(known), rel=1e-9)  # b.csv has 20 rows of each
    new.write_text("\n".join([head, *rows[:1]]))
    assert "not trained" not in drfl("predict", model, new, cwd=folder).err
    new.write_text("\n".join([head, *rows]))
    assert "1 row holds a value of 'town'" in drfl("evaluate", model, new, cwd=folder).err
    loaded = drfl_package.load(model)
    frame = {"age": [50.0], "dose": [3.0], "town": ["Paris"]}
    with pytest.warns(DataWarning, match="1 row holds a value of 'town' that was not trained"):
        loaded.predict(frame)


def test_ids_probabilities_and_files_that_are_there(folder, tmp_path):
    out = tmp_path / "p.csv"
    drfl("predict", "FED/model.json", "b.csv", "--out", out, "--id", "patient", cwd=folder)
    found = table(out.read_text())
    assert [row["patient"] for row in found[:3]] == ["000", "001", "002"]
    assert float(found[0]["probability no"]) + float(found[0]["probability yes"]) == pytest.approx(
        1
    )
    said = drfl("predict", "FED/model.json", "b.csv", "--out", out, cwd=folder, code=3)
    assert f"{out} exists" in said.err
    drfl("predict", "FED/model.json", "b.csv", "--out", out, "--force", cwd=folder)
    assert "patient" not in table(out.read_text())[0]
    said = drfl("predict", "FED/model.json", "b.csv", "--id", "patent", cwd=folder, code=3)
    assert "has no column 'patent'" in said.err


def test_all_missing_columns_are_named_at_once(folder, tmp_path):
    write_csv(tmp_path / "few.csv", ["town"], [["rome"]])
    said = drfl("predict", "FED/model.json", tmp_path / "few.csv", cwd=folder, code=3)
    assert "has no columns 'age', 'dose', which the model needs: add them" in said.err
