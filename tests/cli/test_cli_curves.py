"""Additive models from the command line: train, curves, predict, explain, report."""

import json
from itertools import pairwise

import numpy as np
import pytest

import drfl as library
from drfl.cli.main import INPUT
from kit.program import drfl, shorten_reports

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


def test_bars_of_all_curves_have_one_scale(folder):
    """A curve that a rule makes flat has none, though its slopes are 0 up to rounding alone."""
    given = ["--decreasing=dose", "--radius=0.02", "--quiet", "--out=FLAT"]
    drfl("train", *FILES, "--additive=age,dose", *given, cwd=folder)
    age, dose = drfl("curves", "FLAT", cwd=folder).out.split("dose: decreasing")
    assert "#" * 30 in age
    assert "#" not in dose


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


@pytest.mark.slow
def test_explain_and_report_know_curves(folder, monkeypatch):
    shorten_reports(monkeypatch)
    said = drfl("explain", "RUN/model.json", "a.csv", "b.csv", "c.csv", cwd=folder).out
    assert "carried by" in said
    drfl("report", "RUN", cwd=folder)
    page = (folder / "RUN" / "report.html").read_text(encoding="utf-8")
    assert "What are its curves?" in page
    charts = json.loads(page.split('id="charts">')[1].split("</script>")[0])
    drawn = {chart["title"]: chart for chart in charts if "band" in chart and chart["bars"]}
    assert sorted(drawn) == ["age", "dose"]
    for chart in drawn.values():
        assert [line["name"] for line in chart["series"]] == [
            "robust curve",
            "linear model",
            "unpenalised curve",
        ]
        assert len(chart["band"]) > 40
        assert sum(rows for _, _, rows in chart["bars"]) == 300  # the histogram of all rows
        assert all(rows >= 15 for _, _, rows in chart["bars"])


def test_the_band_is_that_of_a_model_without_a_penalty(folder):
    """Fitted anew with statsmodels on ramps typed here: the curve and its sandwich errors."""
    import statsmodels.api as sm

    lines = (folder / "RUN" / "records.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    (result,) = [record for record in records if record["kind"] == "result"]
    rows = [
        line.split(",")
        for name in "abc"
        for line in (folder / f"{name}.csv").read_text(encoding="utf-8").splitlines()[1:]
    ]
    columns, middles = [], []
    for j, curve in enumerate(result["curves"]):
        x = np.array([float(row[j]) for row in rows])
        at, mean = np.array(curve["band"]["x"]), x.mean()
        knots, places = curve["knots"], np.append(at, mean)
        pairs = [(-np.inf, knots[0]), *pairwise(knots), (knots[-1], np.inf)]
        columns += [np.clip(x, a, b) - (a if np.isfinite(a) else b) for a, b in pairs]
        ramps = np.stack([np.clip(places, a, b) for a, b in pairs], axis=1)
        middles.append(ramps[:-1] - ramps[-1])
    X = np.column_stack([*columns, [float(row[2] == "m") for row in rows], np.ones(300)])
    y = np.array([float(row[3] == "yes") for row in rows])
    fit = sm.GLM(y, X, family=sm.families.Binomial()).fit(cov_type="HC0")
    start = 0
    for curve, rise in zip(result["curves"], middles, strict=True):
        own = slice(start, start + rise.shape[1])
        start = own.stop
        np.testing.assert_allclose(curve["band"]["y"], rise @ fit.params[own], atol=1e-4)
        cov = fit.cov_params()[own, own]
        half = 1.959964 * np.sqrt(np.einsum("zp,pq,zq->z", rise, cov, rise))
        width = np.array(curve["band"]["high"]) - np.array(curve["band"]["y"])
        np.testing.assert_allclose(width, half, rtol=2e-3, atol=1e-4)


def test_the_summary_has_slopes_in_the_units_of_the_files(folder):
    said = drfl("summary", "RUN", "--json", cwd=folder).out
    entries = [json.loads(line) for line in said.splitlines()]
    names = [entry["name"] for entry in entries]
    assert len(names) == 5 + 5 + 1 + 1
    model = library.load(folder / "RUN" / "model.json")
    data = json.loads((folder / "RUN" / "model.json").read_text(encoding="utf-8"))
    scale = [column["scale"] for column in data["columns"][:2]]
    slopes = model.coef_[0]
    robust = [entry["robust"] for entry in entries[:10]]
    np.testing.assert_allclose(robust, slopes[:10] / np.repeat(scale, 5), rtol=1e-6)
    assert "age: all 5 are zero" in drfl("summary", "RUN", cwd=folder).out


def test_the_line_beside_a_curve_keeps_the_rule_that_a_line_can_keep(folder):
    """Of a rule that the rows contradict: a line without it would be another kind of model."""
    given = ["--decreasing=dose", "--radius=0.02", "--quiet", "--out=AGAINST"]
    drfl("train", *FILES, "--additive=dose", *given, cwd=folder)
    lines = (folder / "AGAINST" / "records.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    (result,) = [record for record in records if record["kind"] == "result"]
    (curve,) = result["curves"]
    assert curve["line"][-1] <= curve["line"][0]


def test_processes_and_a_guard_train_curves(folder):
    """Two processes give the same bits; a guard a valid bound, and the curve it allows."""
    flags = ["--radius=0.02", "--quiet", "--additive=age,dose", "--increasing=dose"]
    drfl("train", *FILES, *flags, "--engine=processes", "--out=TWO", cwd=folder)
    one, two = (library.load(folder / run / "model.json") for run in ("RUN", "TWO"))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert one.gap_ == two.gap_
    drfl("train", *FILES, *flags, "--guard=2", "--tol=0.2", "--out=GUARDED", cwd=folder)
    guarded = library.load(folder / "GUARDED" / "model.json")
    curves, kept = one.problem_.curves, guarded.problem_.curves
    assert any(kept.knots)
    assert all(set(own) <= set(all_) for own, all_ in zip(kept.knots, curves.knots, strict=True))
    if kept == curves:
        assert guarded.lower_bound_ <= one.objective_ * (1.0 + 1e-9)
    assert guarded.gap_ <= 0.2


@pytest.mark.slow
def test_the_program_takes_curves_only_where_they_pay(folder):
    """auto compares on held-out rows: a hump needs a curve, a line in dose does not."""
    rng = np.random.default_rng(1)
    for name in "de":
        dose = 3.0 + rng.normal(size=120)
        ill = np.where(dose - 3.0 + 0.4 * rng.normal(size=120) > 0.0, "yes", "no")
        rows = [f"{d:.3f},{i}" for d, i in zip(dose, ill, strict=True)]
        (folder / f"{name}.csv").write_text("\n".join(["dose,ill", *rows]), encoding="utf-8")
    flags = ["--additive=auto", "--folds=3", "--no-validation", "--tol=1e-4"]
    said = drfl("train", *FILES, *flags, "--out=HUMP", cwd=folder).out
    assert "curves are taken" in said
    assert any(library.load(folder / "HUMP" / "model.json").problem_.curves.knots)
    line = ["--client=d.csv", "--client=e.csv", "--target=ill", "--increasing=dose"]
    said = drfl("train", *line, *flags, "--out=STRAIGHT", cwd=folder).out
    assert "lines are taken" in said
    straight = library.load(folder / "STRAIGHT" / "model.json").problem_
    assert straight.curves.knots == ((),)  # a line that keeps its rule
    assert straight.curves.shapes == (("increasing",),)
    lines = (folder / "HUMP" / "records.jsonl").read_text(encoding="utf-8").splitlines()
    (selection,) = [r for r in map(json.loads, lines) if r["kind"] == "selection"]
    assert selection["rule"] == "one_se"
    assert {point["params"]["model"] for point in selection["table"]} == {"lines", "curves"}


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--additive=ages"], "additive names 'ages'"),
        (["--additive=age", "--norm=l2"], "norm='l1' or norm='linf'"),
        (["--additive=age", "--guard=dp"], "ramps, of which curves are made, may be longer"),
        (["--additive=age", "--radius=confidence"], "slopes between knots that somebody"),
        (["--additive=auto", "--guard=5"], "does not go with --additive auto"),
        (["--additive=all", "--increasing=sex"], "increasing names 'sex', which holds categories"),
        (["--knots=3"], "knots is for curves: name their columns in --additive"),
        (["--additive=age", "--convex=age", "--select=new_client"], "follows no rules for shapes"),
        (["--additive=age", "--compare=erm,fedavg"], "leave fedavg out of --compare: it knows no"),
        (["--additive=age", "--compare=wafl"], "leave wafl out of --compare: curves are for one"),
        (["--intercept=per-client", "--compare=scaffold"], "it knows no intercept per client"),
        (["--max-weight=0.5", "--compare=afl_steps"], "it knows no max_weight"),
    ],
)
def test_what_makes_no_curve_is_one_sentence(folder, flags, sentence):
    said = drfl("train", *FILES, *flags, "--out=NONE", cwd=folder, code=INPUT).err
    assert sentence in said
    assert not (folder / "NONE").exists()  # before any work


def test_a_line_has_no_curves_to_show(folder):
    drfl("train", *FILES, "--quiet", "--out=LINE", cwd=folder)
    assert "no curves" in drfl("curves", "LINE", cwd=folder, code=INPUT).err
