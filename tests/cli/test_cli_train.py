"""`drfl train` on files: what it writes is what the library computes on the same rows."""

import tomllib

import numpy as np
import pytest

import drfl as library
from drfl.models import read_model
from drfl.tables import Category, Number, read_table
from drfl.training.settings import FIELDS
from kit.program import THREE, drfl, records_of, write_csv, write_numbers


def test_three_files_give_a_certified_model(trained):
    run = trained / "RUN"
    model = read_model(run / "model.json")
    assert model.target.classes == ("no", "yes")
    assert model.certificates[0].status.kind == "certified"
    assert {c.name: c.rows for c in model.clients} == {"a": 90, "b": 90, "c": 90}
    config = tomllib.loads((run / "config.toml").read_text())
    assert config["target"] == "disease"
    assert list(config["clients"]) == ["a", "b", "c"]
    assert (run / "checkpoint").is_dir()
    kinds = [record["kind"] for record in records_of(run)]
    assert kinds[:4] == ["start", "settings", "preflight", "problem"]
    rounds = model.certificates[0].rounds
    assert kinds[4 : 4 + rounds] == ["round"] * rounds
    assert kinds[4 + rounds : -1] == ["inference", *["messages"] * 6]
    assert kinds[-4:-1] == ["messages"] * 3
    assert kinds[-1] == "result"


def test_the_model_is_that_of_the_estimator_on_the_same_rows(trained):
    model = read_model(trained / "RUN" / "model.json")
    X, y, names = [], [], []
    for name in "abc":
        table = read_table(trained / f"{name}.csv")
        features = []
        for column in model.columns:
            if isinstance(column, Number):
                features.append((table.number(column.name) - column.shift) / column.scale)
            else:
                words = np.array(table.levels[column.name])[table.text(column.name)]
                agreed = [column.reference, *column.levels]
                words = np.where(np.isin(words, agreed), words, "other")
                features += [words == level for level in column.levels]
        X.append(np.column_stack(features).astype(float))
        y.append(np.array(table.levels["disease"])[table.text("disease")])
        names += [name] * table.n_rows
    X = np.vstack(X)
    numbers = [k for k, f in enumerate(model.features) if "=" not in f]
    assert np.allclose(X[:, numbers].mean(axis=0), 0.0, atol=1e-12)
    assert np.allclose(X[:, numbers].std(axis=0), 1.0)
    fitted = library.DRFLClassifier().fit(X, np.concatenate(y), clients=names)
    certificate = model.certificates[0]
    assert fitted.objective_ == pytest.approx(certificate.objective, rel=3e-6)
    assert fitted.problem_ == model.problem


def test_what_the_preflight_found_is_printed(files):
    said = drfl("train", *THREE, "--out", "RUN", cwd=files).out
    assert "3 clients, 270 rows, target 'disease': 2 classes" in said
    assert "sex: m (reference), f" in said
    assert "scaling: federated" in said
    assert "  age: 54.433 and 9.0922" in said
    assert "certified" in said


def test_quiet_says_nothing_and_json_one_object_per_line(files):
    said = drfl("train", *THREE, "--out", "Q", "--quiet", cwd=files)
    assert (said.out, said.err) == ("", "")
    said = drfl("train", *THREE, "--out", "J", "--json", cwd=files)
    assert said.err.startswith("drfl: warning: WITHOUT A GUARD: ")
    assert said.err.count("\n") == 1
    kinds = [record["kind"] for record in said.records]
    assert kinds[0] == "start"
    assert kinds[-1] == "result"
    assert (files / "Q" / "model.json").read_text() == (files / "J" / "model.json").read_text()


def test_init_writes_settings_that_train_the_same_model(trained, tmp_path):
    out = tmp_path / "settings.toml"
    drfl("init", "a.csv", "b.csv", "c.csv", "--out", out, cwd=trained)
    settings = tomllib.loads(out.read_text())
    assert settings["target"] == "disease"  # the last column
    drfl("train", out, "--out", tmp_path / "RUN", "--quiet", cwd=tmp_path)
    same = (tmp_path / "RUN" / "model.json").read_text()
    assert same == (trained / "RUN" / "model.json").read_text()


def test_init_leaves_out_what_cannot_be_used_and_says_what_it_found(tmp_path):
    rng = np.random.default_rng(0)
    rows = [[f"P{k}", f"{rng.normal():.3f}", "" if k == 3 else 1, k % 2] for k in range(60)]
    write_csv(tmp_path / "p.csv", ["id", "u", "v", "y"], rows)
    drfl("init", "p.csv", cwd=tmp_path)
    text = (tmp_path / "drfl.toml").read_text()
    settings = tomllib.loads(text)
    assert settings["exclude"] == ["id"]
    assert "'v': numbers from 1 to 1; 1 missing" in text
    said = drfl("train", "drfl.toml", "--missing", "drop", "--out", "RUN", cwd=tmp_path)
    assert "column 'v' is the same in every row" in said.err
    # Every setting stands there with its default, and all of them are read as they are.
    lines = [line.removeprefix("# ") for line in text.splitlines() if " = " in line]
    names = {line.partition(" = ")[0] for line in lines}
    assert set(FIELDS) - {"support"} <= names
    assert "exists already" in drfl("init", "p.csv", cwd=tmp_path, code=3).err


def test_flags_override_the_file(files):
    settings = 'target = "disease"\nradius = 0.5\nloss = "hinge"\n[clients]\nx = "a.csv"\n'
    (files / "s.toml").write_text(settings)
    arguments = ("--radius", "0.02", "--norm", "l2", "--label-cost", "2", "--loss", "logistic")
    drfl("train", "s.toml", *arguments, "--mixture-radius", "0", "--out", "RUN", cwd=files)
    problem = read_model(files / "RUN" / "model.json").problem
    ball = problem.ball_of("x")
    assert (ball.radius, ball.norm.name, ball.label_cost) == (0.02, "l2", 2.0)
    assert problem.loss.name == "logistic"


def test_a_radius_and_a_name_for_every_client(files):
    clients = ("--client", "north=a.csv", "--client", "south=b.csv", "--target", "disease")
    drfl("train", *clients, "--radius", "north=0.1,south=0.2", "--out", "RUN", cwd=files)
    problem = read_model(files / "RUN" / "model.json").problem
    assert [problem.ball_of(name).radius for name in ("north", "south")] == [0.1, 0.2]


def test_a_numeric_target_is_predicted_in_its_own_units(tmp_path):
    files = write_numbers(tmp_path)
    clients = [part for file in files for part in ("--client", file.name)]
    drfl("train", *clients, "--target", "days", "--radius", "0", "--out", "RUN", cwd=tmp_path)
    model = read_model(tmp_path / "RUN" / "model.json")
    said = drfl("evaluate", "RUN/model.json", "s0.csv", "--json", cwd=tmp_path).records[0]
    table = read_table(files[0])
    X = np.column_stack([table.number("money"), table.number("dose")])
    y = table.number("days")
    error = model.scores(X)[:, 0] - y
    assert said["mse"] == pytest.approx(np.mean(error**2))
    assert said["mae"] == pytest.approx(np.mean(np.abs(error)))
    assert said["mse"] < 2.0  # the noise has variance 1, the target about 8


def test_explain_tells_how_far_a_numeric_target_moves(tmp_path):
    (file,) = write_numbers(tmp_path, n_clients=1)
    # Moving the target by one deviation costs 0.1, which is cheaper than any feature.
    arguments = ("--target", "days", "--radius", "0.02", "--label-cost", "0.1", "--out", "RUN")
    drfl("train", "--client", file.name, *arguments, cwd=tmp_path)
    said = drfl("explain", "RUN/model.json", file.name, "--json", cwd=tmp_path).records[0]
    scale = read_model(tmp_path / "RUN" / "model.json").target.scale
    assert said["features_moved"] == 0.0
    assert said["target_moved"] == pytest.approx(0.2 * scale, rel=1e-3)


def test_libsvm_and_csv_of_the_same_rows_give_the_same_model(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("p", "q"):
        X = rng.normal(size=(30, 4)) * (rng.random((30, 4)) < 0.5)
        y = np.where(X.sum(axis=1) + rng.normal(size=30) > 0, 1, -1)
        lines = [
            " ".join([str(t), *(f"{j + 1}:{v!r}" for j, v in enumerate(x) if v)])
            for x, t in zip(X.tolist(), y, strict=True)
        ]
        (tmp_path / f"{name}.svm").write_text("\n".join(lines) + "\n")
        rows = [[t, *map(repr, x)] for x, t in zip(X.tolist(), y, strict=True)]
        write_csv(tmp_path / f"{name}.csv", ["label", "x1", "x2", "x3", "x4"], rows)
    drfl("train", "--client", "p.svm", "--client", "q.svm", "--out", "S", cwd=tmp_path)
    clients = ("--client", "p.csv", "--client", "q.csv", "--target", "label")
    drfl("train", *clients, "--out", "C", cwd=tmp_path)
    one, other = (read_model(tmp_path / run / "model.json") for run in "SC")
    assert one.certificates[0].objective == pytest.approx(other.certificates[0].objective, rel=3e-6)
    assert one.target.classes == (-1, 1)
    predictions = [drfl("predict", "S/model.json", f, cwd=tmp_path).out for f in ("p.svm", "p.csv")]
    assert [line.split(",")[0] for line in predictions[0].splitlines()] == [
        line.split(",")[0] for line in predictions[1].splitlines()
    ]


def test_parquet_and_csv_give_the_same_model(trained, tmp_path):
    pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    for name in "abc":
        parquet.write_table(csv.read_csv(trained / f"{name}.csv"), tmp_path / f"{name}.parquet")
    clients = [part for name in "abc" for part in ("--client", f"{name}.parquet")]
    drfl("train", *clients, "--target", "disease", "--out", "RUN", cwd=tmp_path)
    model = (tmp_path / "RUN" / "model.json").read_text()
    assert model == (trained / "RUN" / "model.json").read_text()
    said = drfl("predict", "RUN/model.json", "a.parquet", cwd=tmp_path)
    assert said.out == drfl("predict", "RUN/model.json", "a.csv", cwd=trained).out


def test_more_than_two_classes(tmp_path):
    rng = np.random.default_rng(0)
    centers = {"red": (3.0, 0.0), "green": (-3.0, 0.0), "blue": (0.0, 4.0)}
    for name in ("p", "q"):
        rows = [
            [*(f"{v:.4f}" for v in rng.normal(size=2) + center), colour]
            for colour, center in centers.items()
            for _ in range(15)
        ]
        write_csv(tmp_path / f"{name}.csv", ["u", "v", "colour"], rows)
    clients = ("--client", "p.csv", "--client", "q.csv", "--target", "colour")
    drfl("train", *clients, "--out", "RUN", cwd=tmp_path)
    model = read_model(tmp_path / "RUN" / "model.json")
    assert model.target.classes == ("blue", "green", "red")
    assert (len(model.coef), len(model.certificates)) == (3, 1)  # one problem of three scores
    said = drfl("evaluate", "RUN/model.json", "p.csv", "q.csv", "--json", cwd=tmp_path).records
    assert min(entry["accuracy"] for entry in said) > 0.9
    drfl("explain", "RUN/model.json", "p.csv", "q.csv", cwd=tmp_path)


def test_missing_values_are_dropped_or_filled(tmp_path):
    rng = np.random.default_rng(0)
    rows = {name: rng.normal(size=(20, 2)).round(3).tolist() for name in "pq"}
    known = np.array([x[0] for name in "pq" for x in rows[name]])
    for name in "pq":
        table = [[*map(str, x), int(x[0] + x[1] > 0)] for x in rows[name]]
        if name == "p":
            table[3][0], table[7][0] = "", "NA"
        write_csv(tmp_path / f"{name}.csv", ["u", "v", "y"], table)
    known = np.delete(known, [3, 7])
    clients = ("--client", "p.csv", "--client", "q.csv", "--target", "y")
    said = drfl("train", *clients, "--missing", "drop", "--out", "D", cwd=tmp_path)
    assert "2 with missing values are left out" in said.out
    assert read_model(tmp_path / "D" / "model.json").clients[0].rows == 18
    drfl("train", *clients, "--missing", "mean", "--out", "M", cwd=tmp_path)
    column = read_model(tmp_path / "M" / "model.json").columns[0]
    assert isinstance(column, Number)
    assert column.fill == pytest.approx(known.mean())
    said = drfl("predict", "D/model.json", "p.csv", cwd=tmp_path)
    assert "2 rows lack a value" in said.err
    assert said.out.splitlines()[4].strip(",") == ""
    assert len(drfl("predict", "M/model.json", "p.csv", cwd=tmp_path).out.splitlines()) == 21


@pytest.mark.parametrize("scale", ["none", "per-client"])
def test_other_scalings(files, scale):
    said = drfl("train", *THREE, "--scale", scale, "--tol", "1e-3", "--out", "R", cwd=files, code=0)
    assert f"scaling: {scale}" in said.out
    model = read_model(files / "R" / "model.json")
    assert model.scale == scale
    accuracy = drfl("evaluate", "R/model.json", "a.csv", "--json", cwd=files).records[0]
    result = records_of(files / "R")[-1]
    # Rare values count as `other` in the training alone, so a few rows may differ.
    assert accuracy["accuracy"] == pytest.approx(result["clients"]["a"]["accuracy"], abs=0.05)


def test_a_support_is_in_the_units_of_the_file(tmp_path):
    files = write_numbers(tmp_path, n_clients=2)
    clients = [part for file in files for part in ("--client", file.name)]
    bounds = {"money": (0.0, 10000.0), "dose": (0.5, 1.5), "days": (-50.0, 60.0)}
    support = ",".join(f"{name}={low}:{high}" for name, (low, high) in bounds.items())
    arguments = ("--target", "days", "--support", support, "--out", "R", "--tol", "1e-4")
    drfl("train", *clients, *arguments, "--loss", "epsilon_insensitive", cwd=tmp_path)
    model = read_model(tmp_path / "R" / "model.json")
    box = model.problem.ball_of("s0").support
    for column, *sides in zip(model.columns, *box.bounds(2), strict=True):
        units = [side * column.scale + column.shift for side in sides]
        assert units == pytest.approx(bounds[column.name])
    y = [side * model.target.scale + model.target.shift for side in (box.y_low, box.y_high)]
    assert y == pytest.approx(bounds["days"])


def test_rare_values_become_other(tmp_path):
    rng = np.random.default_rng(0)
    for name, rare in (("p", "Zanzibar"), ("q", "oslo")):
        towns = ["oslo"] * 12 + ["rome"] * 10 + ["bern"] * 6
        towns = [*towns, rare, rare] if name == "p" else ["rome"] * 20 + [rare] * 3
        rows = [[f"{rng.normal():.3f}", t, int(rng.random() < 0.5)] for t in towns]
        write_csv(tmp_path / f"{name}.csv", ["u", "town", "y"], rows)
    clients = ("--client", "p.csv", "--client", "q.csv", "--target", "y")
    drfl("train", *clients, "--out", "R", cwd=tmp_path)
    text = (tmp_path / "R" / "model.json").read_text() + (tmp_path / "R/records.jsonl").read_text()
    assert "Zanzibar" not in text
    town = read_model(tmp_path / "R" / "model.json").columns[1]
    assert town == Category("town", "rome", ("bern", "oslo", "other"), other=True)


def test_others_are_trained_beside_it(files):
    methods = "erm,afl,drfa,wafl,fedavg"
    said = drfl("train", *THREE, "--compare", methods, "--out", "R", "--json", cwd=files)
    compared = {r["method"]: r for r in said.records if r["kind"] == "comparison"}
    assert list(compared) == methods.split(",")
    for name in ("erm", "afl", "drfa", "wafl"):
        assert compared[name]["gap"] <= 1e-6
    for record in compared.values():
        assert set(record["clients"]) == {"a", "b", "c"}
        assert 0.5 < min(c["accuracy"] for c in record["clients"].values()) <= 1.0


def test_the_radius_is_selected(files):
    select = ("--select", "mean", "--folds", "2", "--tol", "1e-3")
    said = drfl("train", *THREE, *select, "--out", "R", cwd=files)
    assert "has the best mean score" in said.out
    (selection,) = [r for r in records_of(files / "R") if r["kind"] == "selection"]
    assert selection["radius"] in [point["params"]["radius"] for point in selection["table"]]
    model = read_model(files / "R" / "model.json")
    assert model.problem.ball_of("a").radius == selection["radius"]


def test_short_of_the_tolerance_is_an_exit_code_and_a_model(files):
    drfl("train", *THREE, "--max-rounds", "3", "--out", "R", cwd=files, code=4)
    assert read_model(files / "R" / "model.json").certificates[0].status.kind == "max_rounds"
    # The same run goes on from there with more rounds.
    drfl("train", "--resume", "R", "--max-rounds", "200", "--quiet", cwd=files)
    assert read_model(files / "R" / "model.json").certificates[0].status.kind == "certified"


def test_the_default_folder_is_named_after_the_time(files):
    drfl("train", *THREE, "--quiet", cwd=files)
    (run,) = (files / "runs").iterdir()
    assert (run / "model.json").exists()
