"""``drfl summary``: the table of a run is that of statsmodels on the pooled files."""

import csv

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

from kit.program import THREE, drfl, records_of, write_numbers


@pytest.fixture(scope="module")
def pooled(trained):
    frame = pd.concat([pd.read_csv(trained / f"{c}.csv", keep_default_na=False) for c in "abc"])
    y = (frame.pop("disease") == "yes").to_numpy(float)
    columns = []
    for name in frame:
        if name == "sex":
            columns.append(("sex=f", frame[name] == "f"))
        elif name == "chest_pain_type":
            levels = ("atypical", "none", "typical")
            columns += [(f"{name}={level}", frame[name] == level) for level in levels]
        else:
            columns.append((name, frame[name]))
    A = np.column_stack([np.asarray(c, dtype=float) for _, c in columns] + [np.ones(len(y))])
    return [n for n, _ in columns], A, y


def test_the_table_is_that_of_statsmodels(trained, tmp_path, pooled):
    names, A, y = pooled
    out = tmp_path / "table.csv"
    said = drfl("summary", "RUN", "--csv", out, "--level", "0.9", cwd=trained)
    logit = sm.Logit(y, A).fit(disp=0, tol=1e-12, maxiter=100, cov_type="HC0")
    with out.open() as file:
        rows = {row["name"]: row for row in csv.DictReader(file)}
    assert list(rows) == [*names, "intercept"]
    ends = logit.conf_int(alpha=0.1)
    for j, name in enumerate(rows):
        row = {k: float(v) for k, v in rows[name].items() if k != "name" and v}
        assert row["coef"] == pytest.approx(logit.params[j], rel=1e-5)
        assert row["se"] == pytest.approx(logit.bse[j], rel=1e-5)
        assert (row["low"], row["high"]) == pytest.approx(tuple(ends[j]), rel=1e-4, abs=1e-8)
        assert row["odds_ratio"] == pytest.approx(np.exp(logit.params[j]), rel=1e-4)
    age = A[:, names.index("age")]
    row = rows["age"]
    assert float(row["coef_per_sd"]) == pytest.approx(float(row["coef"]) * age.std(), rel=1e-3)
    at = [names.index(n) for n in names if n.startswith("chest_pain_type")]
    test = logit.wald_test(np.eye(len(names) + 1)[at], scalar=True, use_f=False)
    wald = f"chest_pain_type: all 3 are zero: chi2 {test.statistic:.4g}, 3 degrees"
    assert wald in said.out
    level = rows["chest_pain_type=none"]
    assert float(level["wald_chi2"]) == pytest.approx(test.statistic, rel=1e-4)
    assert (level["wald_degrees"], rows["intercept"]["wald_degrees"]) == ("3", "")
    one = logit.params[names.index("sex=f")] / logit.bse[names.index("sex=f")]
    assert f"sex: its coefficient is zero: chi2 {one**2:.4g}, 1 degree, p" in said.out
    assert f"log-likelihood {logit.llf:.6g}" in said.out
    assert "a 0.3333 (90), b 0.3333 (90), c 0.3333 (90)" in said.out
    (told,) = [r for r in records_of(trained / "RUN") if r["kind"] == "inference"]
    counted = [r for r in records_of(trained / "RUN") if r.get("message") == "inference/reply"]
    assert [r["count"] for r in counted] == [told["rounds"]] * 3


def test_few_clusters_are_warned_of_and_files_are_kept(trained, tmp_path):
    said = drfl("summary", "RUN", "--kind", "clustered", "--json", cwd=trained)
    assert "clustered by 3 clients are too small" in said.err
    assert len(said.records) == 16
    (tmp_path / "t.csv").write_text("mine")
    refused = drfl("summary", "RUN", "--csv", tmp_path / "t.csv", cwd=trained, code=3)
    assert "exists" in refused.err


def test_numbers_are_in_the_units_of_the_files(tmp_path):
    files = write_numbers(tmp_path)
    flags = [flag for file in files for flag in ("--client", file)]
    drfl("train", *flags, "--target", "days", "--epsilon", "1000", "--out", "RUN", cwd=tmp_path)
    rows = drfl("summary", "RUN", "--json", cwd=tmp_path).records
    frame = pd.concat([pd.read_csv(file) for file in files])
    A = sm.add_constant(frame[["money", "dose"]].to_numpy(), prepend=False)
    ols = sm.OLS(frame["days"].to_numpy(), A).fit(cov_type="HC0")
    for j, row in enumerate(rows):
        assert row["coef"] == pytest.approx(ols.params[j], rel=1e-6)
        assert row["se"] == pytest.approx(ols.bse[j], rel=1e-6)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--guard", "3", "--tol", "0.5"], "lets out no matrices H and J"),
        (["--loss", "hinge", "--tol", "0.1"], "'hinge' has no second derivative"),
        (["--inference", "false", "--tol", "0.1"], "told inference = false"),
    ],
)
def test_what_has_no_errors_says_why(flags, sentence, files):
    drfl("train", *THREE, *flags, "--out", "RUN", "--quiet", cwd=files, code=0)
    said = drfl("summary", "RUN", cwd=files, code=3)
    assert sentence in said.err
    assert said.err.count("\n") == 1


def test_a_radius_of_confidence(files):
    said = drfl("train", *THREE, "--radius", "confidence", "--out", "RUN", cwd=files)
    assert "95 % confidence" in said.out
    (problem,) = [r for r in records_of(files / "RUN") if r["kind"] == "settings"]
    assert problem["radius"] == "confidence"
    words = ["--guard", "3"]
    refused = drfl("train", *THREE, "--radius", "confidence", *words, cwd=files, code=3)
    assert "a guard does not let out" in refused.err
