"""Additive models from the command line: train, curves, predict, explain, report."""

import json
from itertools import pairwise

import numpy as np
import pytest

import drfl as library
from drfl.cli.main import INPUT
from kit.program import drfl

FILES = ["--client=a.csv", "--client=b.csv", "--client=c.csv", "--target=ill"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three clients whose risk has a hump in age and rises with dose."""
    where, rng = tmp_path_factory.mktemp("curves"), np.random.default_rng(0)
    for name in "abc":
        age, dose = 50.0 + 10.0 * rng.normal(size=100), 3.0 + rng.normal(size=100)
        sex = rng.choice(["m", "f"], 100)
        f = 1.2 - ((age - 50.0) / 10.0) ** 2 + (dose - 3.0) + 0.4 * rng.normal(size=100)
        ill = np.where(f > 0.0, "yes", "no")
        rows = [f"{a:.2f},{d:.3f},{s},{i}" for a, d, s, i in zip(age, dose, sex, ill, strict=True)]
        (where / f"{name}.csv").write_text("\n".join(["age,dose,sex,ill", *rows]), encoding="utf-8")
    curved = ["--additive=age,dose", "--increasing=dose", "--out=RUN"]
    drfl("train", *FILES, "--radius=0.02", "--quiet", *curved, cwd=where)
    return where


def test_the_model_has_the_curves_that_were_asked_for(folder):
    model = library.load(folder / "RUN" / "model.json")
    curves = model.problem_.curves
    assert [len(knots) for knots in curves.knots] == [4, 4, 0]
    assert model.problem_.balls[0].norm.name == "l1"
    age, dose = (model.coef_[0][curves.of(j)] for j in (0, 1))
    assert age[0] > 0.0 > age[-1]
    assert (dose >= 0.0).all()
    line = library.DRFLClassifier(norm="l1", radius=0.02)
    assert line.get_params()["additive"] is None


def test_curves_are_printed_in_the_units_of_the_files(folder):
    said = drfl("curves", "RUN", cwd=folder).out
    assert "dose: increasing" in said
    firsts = [line.split()[0] for line in said.splitlines() if line.startswith("   ")]
    places = [float(word) for word in firsts if word[0].isdigit()]
    assert len(places) == 8
    assert all(30.0 < place < 70.0 for place in places[:4])
    assert all(1.0 < place < 5.0 for place in places[4:])


def test_predictions_are_those_of_the_curves(folder):
    """Recomputed here from the model file: slopes times ramps, typed anew."""
    data = json.loads((folder / "RUN" / "model.json").read_text(encoding="utf-8"))
    out = drfl("predict", "RUN/model.json", "a.csv", cwd=folder).out
    lines = [line.split(",") for line in out.splitlines()]
    scores = [float(line[lines[0].index("score")]) for line in lines[1:]]
    coef = data["coefficients"][0]
    rows = (folder / "a.csv").read_text(encoding="utf-8").splitlines()[1:]
    for row, score in zip(rows, scores, strict=True):
        total, at, values = coef["intercept"], 0, row.split(",")
        for column, value, knots in zip(
            data["columns"], values, data["problem"]["curves"]["knots"], strict=False
        ):
            if column["kind"] != "number":
                x = float(value == column["levels"][0])
                total += coef["coef"][at] * x
                at += 1
                continue
            z = (float(value) - column["shift"]) / column["scale"]
            inner = [min(max(z, a), b) - a for a, b in pairwise(knots)]
            ramps = [min(z - knots[0], 0.0), *inner, max(z - knots[-1], 0.0)]
            total += float(np.dot(coef["coef"][at : at + len(ramps)], ramps))
            at += len(ramps)
        assert score == pytest.approx(total, abs=1e-9)


def test_explain_and_report_know_curves(folder):
    said = drfl("explain", "RUN/model.json", "a.csv", "b.csv", "c.csv", cwd=folder).out
    assert "carried by" in said
    drfl("report", "RUN", cwd=folder)
    page = (folder / "RUN" / "report.html").read_text(encoding="utf-8")
    assert "What are its curves?" in page


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--additive=ages"], "additive names 'ages'"),
        (["--additive=age", "--norm=l2"], "norm='l1' or norm='linf'"),
        (["--additive=age", "--guard=5"], "without a guard"),
    ],
)
def test_what_makes_no_curve_is_one_sentence(folder, flags, sentence):
    said = drfl("train", *FILES, *flags, "--out=NONE", cwd=folder, code=INPUT).err
    assert sentence in said


def test_a_line_has_no_curves_to_show(folder):
    drfl("train", *FILES, "--quiet", "--out=LINE", cwd=folder)
    assert "no curves" in drfl("curves", "LINE", cwd=folder, code=INPUT).err
