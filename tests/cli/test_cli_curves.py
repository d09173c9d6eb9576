"""Additive models from the command line: train, curves, predict, explain, report."""

import json

import numpy as np
import pytest

import drfl as library
from kit.program import drfl


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three clients whose risk has a hump in age and rises with dose."""
    where, rng = tmp_path_factory.mktemp("curves"), np.random.default_rng(0)
    for name in "abc":
        age, dose = 50.0 + 10.0 * rng.normal(size=100), 3.0 + rng.normal(size=100)
        sex = rng.choice(["m", "f"], 100)
        f = 1.2 - ((age - 50.0) / 10.0) ** 2 + (dose - 3.0) + 0.4 * rng.normal(size=100)
        ill = np.where(f > 0.0, "yes", "no")
        rows = [
            f"{a:.2f},{d:.3f},{s},{i}" for a, d, s, i in zip(age, dose, sex, ill, strict=True)
        ]
        (where / f"{name}.csv").write_text("\n".join(["age,dose,sex,ill", *rows]), encoding="utf-8")
    files = [f"--client={where / name}.csv" for name in "abc"]
    common = [*files, "--target=ill", "--radius=0.02", "--no-validation", "--quiet"]
    code = drfl(
        "train", *common, "--additive=age,dose", "--increasing=dose", f"--out={where / 'RUN'}"
    ).code
    assert code == 0
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
    said = drfl("curves", str(folder / "RUN")).out
    assert "dose: increasing" in said
    places = [float(line.split()[0]) for line in said.splitlines() if line.startswith("    ") and
              line.split()[0].replace(".", "").isdigit()]
    assert all(30.0 < place < 70.0 for place in places[:4])
    assert all(1.0 < place < 5.0 for place in places[4:])


def test_predictions_are_those_of_the_curves(folder):
    """Recomputed here from the model file: slopes times ramps, typed anew."""
    data = json.loads((folder / "RUN" / "model.json").read_text(encoding="utf-8"))
    out = drfl("predict", str(folder / "RUN" / "model.json"), str(folder / "a.csv")).out
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
            inner = [min(max(z, a), b) - a for a, b in zip(knots[:-1], knots[1:], strict=True)]
            ramps = [min(z - knots[0], 0.0), *inner, max(z - knots[-1], 0.0)]
            total += float(np.dot(coef["coef"][at : at + len(ramps)], ramps))
            at += len(ramps)
        assert score == pytest.approx(total, abs=1e-9)


def test_explain_and_report_know_curves(folder):
    files = [str(folder / f"{name}.csv") for name in "abc"]
    said = drfl("explain", str(folder / "RUN" / "model.json"), *files).out
    assert "carried by" in said
    assert drfl("report", str(folder / "RUN")).code == 0
    page = (folder / "RUN" / "report.html").read_text(encoding="utf-8")
    assert "What are its curves?" in page


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--additive=ages"], "additive names 'ages'"),
        (["--additive=sex"], "categories"),
        (["--additive=age", "--convex=dose"], "name it in additive too"),
        (["--additive=age", "--norm=l2"], "norm='l1' or norm='linf'"),
        (["--additive=age", "--scale=none"], "standard units"),
        (["--additive=age", "--guard=5"], "without a guard"),
    ],
)
def test_what_makes_no_curve_is_one_sentence(folder, flags, sentence):
    files = [f"--client={folder / name}.csv" for name in "abc"]
    done = drfl("train", *files, "--target=ill", *flags, f"--out={folder / 'NONE'}")
    assert done.code != 0
    assert sentence in done.err
    assert "unexpected" not in done.err


def test_a_line_has_no_curves_to_show(folder):
    files = [f"--client={folder / name}.csv" for name in "ab"]
    out = f"--out={folder / 'LINE'}"
    assert drfl("train", *files, "--target=ill", "--no-validation", "--quiet", out).code == 0
    done = drfl("curves", str(folder / "LINE"))
    assert done.code != 0
    assert "no curves" in done.err
