"""The program with three classes in one problem."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.metrics import roc_auc_score

from drfl.models import read_model
from drfl.models.file_rows import read_rows
from kit.program import drfl, shorten_reports


@pytest.fixture(scope="module")
def garden(tmp_path_factory):
    folder, data = tmp_path_factory.mktemp("garden"), load_iris()
    names = ["sl", "sw", "pl", "pw", "species"]
    for s in range(2):
        rows = [
            ",".join([*map(str, x), data.target_names[k]])
            for x, k in zip(data.data[s::2], data.target[s::2], strict=True)
        ]
        (folder / f"{'ab'[s]}.csv").write_text("\n".join([",".join(names), *rows]) + "\n")
    clients = ("--client", "a.csv", "--client", "b.csv", "--target", "species")
    said = drfl("train", *clients, "--label-cost", "1", "--out", "RUN", cwd=folder)
    return folder, said


def test_a_run_has_one_certificate_and_a_score_for_each_class(garden):
    folder, said = garden
    model = read_model(folder / "RUN" / "model.json")
    assert model.joint
    assert model.coef.shape == (3, 4)
    assert model.certificates[0].status.kind == "certified"
    assert "certified" in said.out


def test_explain_names_the_class_that_a_label_is_changed_to(garden):
    folder, _ = garden
    said = drfl("explain", "RUN/model.json", "a.csv", "--rows", "2", cwd=folder)
    assert "a: labels are changed to " in said.out
    assert " -> " in said.out
    facts = drfl("explain", "RUN/model.json", "a.csv", "--json", cwd=folder).records[0]
    assert sum(facts["labels_moved_to"].values()) == pytest.approx(facts["labels_changed"])


def test_predictions_have_joint_probabilities(garden):
    folder, _ = garden
    said = drfl("predict", "RUN/model.json", "a.csv", cwd=folder).out.splitlines()
    scores, told = np.split(np.array([float(v) for v in said[1].split(",")[1:]]), 2)
    np.testing.assert_allclose(told, np.exp(scores) / np.exp(scores).sum())


def test_the_report_tells_which_class_is_taken_for_which(garden, monkeypatch):
    folder, _ = garden
    shorten_reports(monkeypatch)
    drfl("report", "RUN", cwd=folder)
    page = (folder / "RUN" / "report.html").read_text()
    assert "taken for versicolor" in page
    assert "Probability of each class" in page
    assert "class virginica" in page


def test_probabilities_are_judged_by_class(garden):
    folder, _ = garden
    model = read_model(folder / "RUN" / "model.json")
    rows = read_rows(model, folder / "a.csv", target=True)
    p = model.probabilities(model.scores(rows.X, rows.X))
    asked = ("evaluate", "RUN/model.json", "a.csv", "--threshold", "0.4", "--by", "pw:1.0")
    told = {r["rows_of"]: r for r in drfl(*asked, "--json", cwd=folder).records if "rows_of" in r}
    for k, label in enumerate(model.target.classes):
        found, own = told[f"a.csv, class {label}"], rows.y == k
        assert found["auc"] == pytest.approx(roc_auc_score(own, p[:, k]))
        assert found["positive"] == own.sum()
        assert found["brier"] == pytest.approx(np.mean((p[:, k] - own) ** 2))
        assert found["decisions"][0]["called_positive"] == (p[:, k] > 0.4).sum()
        assert f"pw < 1, class {label}" in told
    assert "a.csv, class setosa" in drfl("evaluate", "RUN/model.json", "a.csv", cwd=folder).out


def test_a_run_judges_every_class_on_held_out_rows(garden, monkeypatch):
    folder, _ = garden
    asked = ("train", "--client", "a.csv", "--client", "b.csv", "--target", "species")
    drfl(*asked, "--by", "pw:1.3", "--out", "HELD", cwd=folder, validation=True)
    text = (folder / "HELD" / "records.jsonl").read_text()
    records = [json.loads(line) for line in text.splitlines()]
    (found,) = (r["probabilities"] for r in records if r["kind"] == "validation")
    assert list(found) == ["setosa", "versicolor", "virginica"]
    assert [facts["positive"] for facts in found.values()] == [50, 50, 50]
    assert all(facts["auc"] > 0.9 for facts in found.values())
    shorten_reports(monkeypatch)
    drfl("report", "HELD", cwd=folder)
    page = (folder / "HELD" / "report.html").read_text()
    assert "ROC curve on held-out rows, each class against the rest" in page
    assert "pw &lt; 1.3, class virginica" in page or "pw < 1.3, class virginica" in page


@pytest.mark.parametrize("norm", ["l1", "linf"])
@pytest.mark.slow
def test_three_classes_have_curves_in_one_problem(garden, norm, monkeypatch):
    folder, _ = garden
    shorten_reports(monkeypatch)
    files = ("--client", "a.csv", "--client", "b.csv", "--target", "species")
    out = f"BENT-{norm}"
    bent = (
        "--additive",
        "pl,pw",
        "--norm",
        norm,
        "--radius",
        "0.02",
        "--label-cost",
        "1",
        "--no-validation",
    )
    drfl("train", *files, *bent, "--out", out, cwd=folder)
    model = read_model(folder / out / "model.json")
    assert model.joint
    assert model.coef.shape == (3, model.problem.curves.n_slopes)
    assert model.certificates[0].status.kind == "certified"
    said = drfl("curves", out, cwd=folder).out
    assert "virginica in the score of its class" in said
    drfl("report", out, cwd=folder)
    page = (folder / out / "report.html").read_text()
    assert "pl, class virginica" in page
    # The adversary moves columns, not ramps, and not beyond what is proved.
    lines = drfl("explain", f"{out}/model.json", "a.csv", "b.csv", "--json", cwd=folder).records
    for facts, told in zip(lines, model.clients, strict=True):
        assert set(facts["moves"]) == {"sl", "sw", "pl", "pw"}
        assert facts["loss"] < facts["worst_loss"] <= told.losses[0] * (1.0 + 1e-9)


def test_standard_errors_say_why_there_are_none(garden):
    folder, _ = garden
    said = drfl("summary", "RUN", cwd=folder, code=3)
    assert "separate the classes" in said.err  # setosa can be told from all others


def test_standard_errors_of_all_classes_against_one(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    for name in "ab":
        X = rng.normal(size=(150, 2))
        z = np.column_stack([0.0 * X[:, 0], X[:, 0], X[:, 1]]) + rng.gumbel(size=(150, 3))
        stage = np.array(["low", "mid", "top"])[z.argmax(axis=1)]
        lines = [f"{10 + 2 * u},{v},{s}" for (u, v), s in zip(X, stage, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["u,v,stage", *lines]) + "\n")
    asked = ("train", "--client", "a.csv", "--client", "b.csv", "--target", "stage")
    drfl(*asked, "--out", "RUN", cwd=tmp_path)
    said = drfl("summary", "RUN", cwd=tmp_path).out
    assert "every class against low" in said
    assert "u: all 2 are zero: chi2" in said
    told = {r["name"]: r for r in drfl("summary", "RUN", "--json", cwd=tmp_path).records}
    assert set(told) == {f"{c}: {n}" for c in ("mid", "top") for n in ("u", "v", "intercept")}
    assert told["mid: u"]["low"] < 0.5 < told["mid: u"]["high"]  # the column has twice the spread
    assert told["mid: u"]["coef"] == pytest.approx(told["mid: u"]["coef_per_sd"] / 2, rel=0.1)
    turned = drfl("summary", "RUN", "--json", "--against", "mid", cwd=tmp_path).records
    assert turned[0]["name"] == "low: u"
    assert turned[0]["coef"] == pytest.approx(-told["mid: u"]["coef"])
    assert turned[0]["se"] == pytest.approx(told["mid: u"]["se"])
    shorten_reports(monkeypatch)
    drfl("report", "RUN", cwd=tmp_path)
    page = (tmp_path / "RUN" / "report.html").read_text()
    assert "class top against low" in page


def model_of(folder):
    return json.loads((folder / "model.json").read_text())


@pytest.mark.slow
def test_the_model_does_not_depend_on_what_it_is_compared_with(garden, tmp_path):
    folder, _ = garden
    files = (folder / "a.csv", folder / "b.csv", "--target", "species", "--tol", "1e-2")
    drfl("train", *files, "--out", "ALONE", cwd=tmp_path)
    alone = model_of(tmp_path / "ALONE")
    assert alone["problem"]["classes"] == 3
    names = "erm,afl,drfa,wafl,fedavg"
    said = drfl("train", *files, "--compare", names, "--out", "RUN", "--json", cwd=tmp_path)
    compared = {r["method"]: r for r in said.records if r["kind"] == "comparison"}
    assert list(compared) == names.split(",")
    assert all(compared[name]["gap"] <= 1e-2 for name in ("erm", "afl", "drfa", "wafl"))
    for record in compared.values():
        assert min(scores["accuracy"] for scores in record["clients"].values()) > 0.8
    assert model_of(tmp_path / "RUN") == alone
    said = drfl("train", "--resume", "ALONE", "--compare", "fedavg", cwd=tmp_path).out
    assert "fedavg is of one score: it tells each class from the rest" in said
    assert model_of(tmp_path / "ALONE") == alone
    drfl("train", *files, "--max-rounds", "3", "--out", "CUT", cwd=tmp_path, code=4)
    drfl("train", "--resume", "CUT", "--max-rounds", "200", "--compare", "wafl", cwd=tmp_path)
    assert model_of(tmp_path / "CUT") == alone


def test_records_are_read_by_scripts(garden):
    folder, _ = garden
    lines = (folder / "RUN" / "records.jsonl").read_text().splitlines()
    result = next(r for r in map(json.loads, lines) if r["kind"] == "result")
    assert np.array(result["models"][0]["coef"]).shape == (3, 4)


def test_rules_for_shapes_are_refused(garden, tmp_path):
    folder, _ = garden
    files = (folder / "a.csv", folder / "b.csv", "--target", "species", "--additive", "pl,pw")
    for way in ("auto", "joint", "ovr"):
        options = ("--increasing", "pl", "--multiclass", way, "--out", "RUN")
        said = drfl("train", *files, *options, cwd=tmp_path, code=3)
        assert "are for a number or two classes" in said.err
        assert not (tmp_path / "RUN").exists()


def test_a_solver_of_one_score_is_refused_before_any_work(garden, tmp_path):
    folder, _ = garden
    files = (folder / "a.csv", folder / "b.csv", "--target", "species")
    options = ("--multiclass", "joint", "--solver", "first_order", "--out", "RUN")
    said = drfl("train", *files, *options, cwd=tmp_path, code=3)
    assert "knows no several classes at once" in said.err
    assert not (tmp_path / "RUN").exists()


def test_a_new_intercept_of_each_class_has_its_name(garden):
    folder, _ = garden
    said = drfl("calibrate", "RUN/model.json", "a.csv", cwd=folder).out.splitlines()
    assert [line.split(":")[0] for line in said[:3]] == [
        f"a, class {label}" for label in ("setosa", "versicolor", "virginica")
    ]


@pytest.mark.parametrize(
    "options",
    [
        ("--multiclass", "ovr"),
        ("--loss", "smooth_hinge"),
        ("--additive", "pl", "--loss", "smooth_hinge"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("select", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.sampled(3)
def test_one_against_the_rest_is_validated_and_selected(garden, options, select, tmp_path):
    folder, _ = garden
    clients = ("--client", folder / "a.csv", "--client", folder / "b.csv", "--target", "species")
    how = ("--select", "one_se", "--folds", "2") if select else ()
    said = drfl("train", *clients, *options, *how, "--out", "RUN", cwd=tmp_path, validation=True)
    assert "not validated" not in said.out + said.err
    why = dict.fromkeys(("--loss", "--additive"), "the loss 'smooth_hinge' is of one score")
    told = [line for line in said.out.splitlines() if "told from the rest by a model" in line]
    assert len(told) == (options[0] in why)  # that it is as was asked for goes without saying
    assert all(why[options[0]] in line for line in told)
    records = (tmp_path / "RUN" / "records.jsonl").read_text().splitlines()
    assert "validation" in {json.loads(line)["kind"] for line in records}
    assert not read_model(tmp_path / "RUN" / "model.json").joint
