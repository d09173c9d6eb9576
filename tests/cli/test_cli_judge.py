"""``drfl evaluate`` judges probabilities, for files and groups of rows."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import brier_score_loss, roc_auc_score

import drfl as library
from kit.program import THREE, drfl, records_of

MODEL = "RUN/model.json"


def test_groups_and_thresholds_agree_with_scikit_learn(trained):
    flags = ["--threshold", "0.3", "--by", "sex", "--by", "age:50,65", "--json"]
    said = drfl("evaluate", MODEL, "a.csv", "b.csv", *flags, cwd=trained).records
    told = {entry["rows_of"]: entry for entry in said if "rows_of" in entry}
    frame = pd.concat([pd.read_csv(trained / f"{c}.csv", keep_default_na=False) for c in "ab"])
    p = library.load(trained / MODEL).predict_proba(frame)[:, 1]
    y = (frame["disease"] == "yes").to_numpy()
    sex, age = frame["sex"].to_numpy(), frame["age"].to_numpy()
    groups = {
        "all files": np.ones(180, bool),
        "a.csv": np.arange(180) < 90,
        "b.csv": np.arange(180) >= 90,
        "sex = f": sex == "f",
        "sex = m": sex == "m",
        "age < 50": age < 50,
        "50 <= age < 65": (age >= 50) & (age < 65),
        "age >= 65": age >= 65,
    }
    assert set(told) == set(groups)
    for name, at in groups.items():
        entry = told[name]
        assert (entry["rows"], entry["positive"]) == (at.sum(), y[at].sum())
        assert entry["brier"] == pytest.approx(brier_score_loss(y[at], p[at]))
        assert entry["majority"] == pytest.approx(max(y[at].mean(), 1 - y[at].mean()))
        (decided,) = entry["decisions"]
        assert decided["called_positive"] == (p[at] > 0.3).sum()
        assert sum(b["rows"] for b in entry["calibration"]) <= at.sum()
    assert told["a.csv"]["auc"] == pytest.approx(roc_auc_score(y[:90], p[:90]))
    assert told["a.csv"]["auc_low"] < told["a.csv"]["auc"] < told["a.csv"]["auc_high"]


def test_what_cannot_be_judged_is_refused(trained):
    wrong = drfl("evaluate", MODEL, "a.csv", "--threshold", "1.5", cwd=trained, code=3)
    assert "between 0 and 1" in wrong.err
    wrong = drfl("evaluate", MODEL, "a.csv", "--by", "town", cwd=trained, code=3)
    assert "has no column 'town'" in wrong.err
    youngest = int(pd.read_csv(trained / "a.csv")["age"].min()) + 1
    said = drfl("evaluate", MODEL, "a.csv", "--by", f"age:{youngest}", cwd=trained)
    assert f"fewer than 5 rows, not told: age < {youngest}" in said.out


def test_scores_that_are_no_probabilities_are_not_judged(files):
    drfl("train", *THREE, "--loss", "hinge", "--tol", "0.1", "--out", "RUN", "--quiet", cwd=files)
    assert "Brier" not in drfl("evaluate", MODEL, "a.csv", cwd=files).out
    refused = drfl("evaluate", MODEL, "a.csv", "--by", "sex", cwd=files, code=3)
    assert "judge probabilities" in refused.err


def test_a_validation_judges_groups_and_decisions_on_held_out_rows(trained, tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.csv").write_bytes((trained / f"{name}.csv").read_bytes())
    groups = ("--by", "sex", "--by", "age:50,65", "--threshold", "0.3,0.5")
    said = drfl("train", *THREE, *groups, "--out", "RUN", cwd=tmp_path, validation=True)
    assert "probabilities on held-out rows" in said.out + said.err
    (told,) = [r for r in records_of(tmp_path / "RUN") if r["kind"] == "validation"]
    frame = pd.concat([pd.read_csv(tmp_path / f"{c}.csv", keep_default_na=False) for c in "abc"])
    ill, age = frame["disease"] == "yes", frame["age"]
    known = {
        "sex = m": frame["sex"] == "m",
        "sex = f": frame["sex"] == "f",
        "age < 50": age < 50,
        "50 <= age < 65": (age >= 50) & (age < 65),
        "age >= 65": age >= 65,
    }
    assert set(told["groups"]) == set(known)
    for name, at in known.items():
        found = told["groups"][name]
        assert (found["rows"], found["positive"]) == (at.sum(), (at & ill).sum())
    everyone = told["probabilities"]["all clients"]
    assert everyone["thresholds"] == [0.3, 0.5]
    at = {d["threshold"]: d for d in everyone["decisions"]}
    assert at[0.3]["called_positive"] > at[0.5]["called_positive"]
    assert at[0.3]["sensitivity"] >= at[0.5]["sensitivity"]
    # Held-out rows have the accuracy of the threshold 0.5.
    right = at[0.5]["sensitivity"] * ill.sum() + at[0.5]["specificity"] * (~ill).sum()
    assert everyone["accuracy"] == pytest.approx(right / 270)
    drfl("report", "RUN", cwd=tmp_path)
    page = (tmp_path / "RUN/report.html").read_text()
    for words in (
        "negative predictive value",
        "50 &lt;= age &lt; 65",
        "Decisions in groups of rows",
    ):
        assert words in page


@pytest.mark.parametrize(
    ("by", "sentence"),
    [
        ("town", "column of the model"),
        ("age", "say where to divide them"),
        ("age:x", "COLUMN:CUT,CUT"),
    ],
)
def test_groups_that_cannot_be_are_refused_before_a_training(trained, tmp_path, by, sentence):
    for name in "abc":
        (tmp_path / f"{name}.csv").write_bytes((trained / f"{name}.csv").read_bytes())
    refused = drfl("train", *THREE, "--by", by, "--out", "RUN", cwd=tmp_path, code=3)
    assert sentence in refused.err
    assert not (tmp_path / "RUN").exists()


def test_a_calibrated_hinge_model_is_judged(trained, tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.csv").write_bytes((trained / f"{name}.csv").read_bytes())
    hinge = ("--loss", "hinge", "--tol", "0.1", "--out", "RUN", "--quiet")
    drfl("train", *THREE, *hinge, cwd=tmp_path)
    three = ("a.csv", "b.csv", "c.csv")
    drfl("calibrate", MODEL, *three, "--kind", "slope", "--out", "platt.json", cwd=tmp_path)
    said = drfl("evaluate", "platt.json", "a.csv", "--threshold", "0.5", "--json", cwd=tmp_path)
    (judged,) = [entry for entry in said.records if "rows_of" in entry]
    assert judged["rows"] == 90
    assert judged["brier"] < judged["brier_of_share"]


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--no-validation", "--threshold", "0.3"), "is left out"),
        (("--loss", "hinge", "--by", "sex"), "the loss 'hinge' does not give"),
    ],
)
def test_a_training_says_that_nothing_comes_of_thresholds_and_groups(files, flags, why):
    asked = ("train", *THREE, "--tol", "0.1", "--out", "RUN", *flags)
    said = drfl(*asked, cwd=files, validation=True)
    assert f"threshold and by are for the probabilities of a validation, which {why}" in said.err


def test_one_class_alone_has_dashes_and_no_interval(trained, tmp_path):
    frame = pd.read_csv(trained / "a.csv", keep_default_na=False)
    frame[frame["disease"] == "yes"].to_csv(tmp_path / "ill.csv", index=False)
    asked = ("evaluate", trained / MODEL, "ill.csv", "--threshold", "0.5")
    line = drfl(*asked, cwd=tmp_path).out.partition("rows of")[2].splitlines()[1]
    assert line.split()[3] == "-"
    assert line.split()[-2:] == ["-", "-"]
    assert "nan" not in drfl(*asked, cwd=tmp_path).out.partition("probabilities")[2]
    (told,) = (r for r in drfl(*asked, "--json", cwd=tmp_path).records if "rows_of" in r)
    assert told["auc_low"] == told["auc_high"] == "nan"


def test_a_table_without_rows_is_not_begun(trained, tmp_path):
    head = (trained / "a.csv").read_text().splitlines()[:3]
    (tmp_path / "few.csv").write_text("\n".join(head) + "\n")
    said = drfl("evaluate", trained / MODEL, "few.csv", cwd=tmp_path)
    assert "fewer than 5 rows, not told: few.csv" in said.out
    assert "rows of" not in said.out
