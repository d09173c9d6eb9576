"""An intercept of every client, and calibration, from the command line."""

import json

import pandas as pd
import pytest

from drfl.models import read_model
from kit.program import THREE, drfl

MODEL = "RUN/model.json"


@pytest.fixture(scope="module")
def own(tmp_path_factory, request):
    """A run with intercepts of a, b and c; d is a new site."""
    folder = tmp_path_factory.mktemp("own")
    source = request.getfixturevalue("trained")
    for name in "abc":
        (folder / f"{name}.csv").write_bytes((source / f"{name}.csv").read_bytes())
    frame = pd.read_csv(folder / "a.csv", keep_default_na=False)
    frame.to_csv(folder / "d.csv", index=False)
    flags = ("--intercept", "per-client", "--out", "RUN")
    said = drfl("train", *THREE, *flags, cwd=folder, validation=True)
    assert "intercepts of the clients" in said.out + said.err
    return folder


def test_the_model_serves_its_clients_and_refuses_others(own):
    model = read_model(own / MODEL)
    assert model.problem.own_intercepts
    assert set(model.calibrations) == {"a", "b", "c"}
    said = drfl("evaluate", MODEL, "a.csv", "b.csv", "--json", cwd=own)
    assert [entry["rows"] for entry in said.records] == [90, 90]
    refused = drfl("predict", MODEL, "d.csv", cwd=own, code=3)
    assert "these rows are of nobody" in refused.err
    assert "drfl calibrate MODEL NAME=FILE" in refused.err
    refused = drfl("evaluate", MODEL, "d.csv", cwd=own, code=3)
    assert "'d' has none" in refused.err
    there = drfl("predict", MODEL, "a.csv", "--client", "a", cwd=own)
    assert len(there.out.splitlines()) == 91
    assert "worst loss" in drfl("explain", MODEL, "a.csv", cwd=own).out


def test_a_new_site_is_calibrated_where_its_rows_are(own):
    said = drfl("calibrate", MODEL, "d.csv", "--out", "d.json", cwd=own)
    assert "d: score x 1" in said.out
    found, known = read_model(own / "d.json"), read_model(own / MODEL)
    # The same rows as those of a: the intercept without a radius is close to its own.
    assert found.calibrations["d"].intercept == pytest.approx(
        known.calibrations["a"].intercept, abs=0.1
    )
    assert drfl("evaluate", "d.json", "d.csv", cwd=own).out
    refused = drfl("calibrate", MODEL, "d.csv", "--out", "d.json", cwd=own, code=3)
    assert "exists" in refused.err
    pd.read_csv(own / "d.csv", keep_default_na=False).drop(columns="disease").to_csv(
        own / "unlabelled.csv", index=False
    )
    drfl("calibrate", MODEL, "e=unlabelled.csv", "--prevalence", "0.25", "--out", "e.json", cwd=own)
    drfl("predict", "e.json", "unlabelled.csv", "--client", "e", "--out", "p.csv", cwd=own)
    assert pd.read_csv(own / "p.csv")["probability yes"].mean() == pytest.approx(0.25, abs=1e-6)
    refused = drfl("calibrate", MODEL, "a.csv", "b.csv", "--prevalence", "0.2", cwd=own, code=3)
    assert "one file" in refused.err


def test_several_sites_calibrate_together(own):
    drfl("train", *THREE, "--loss", "hinge", "--tol", "0.1", "--out", "HINGE", "--quiet", cwd=own)
    flags = ("--kind", "slope", "--out", "platt.json")
    said = drfl("calibrate", "HINGE/model.json", "a.csv", "b.csv", "c.csv", *flags, cwd=own)
    assert "everyone without one of its own" in said.out
    drfl("predict", "platt.json", "a.csv", "--out", "h.csv", cwd=own)
    p = pd.read_csv(own / "h.csv")["probability yes"]
    assert ((p > 0.0) & (p < 1.0)).all()


@pytest.mark.slow
def test_the_report_judges_probabilities_on_held_out_rows(own):
    records = [json.loads(line) for line in (own / "RUN/records.jsonl").read_text().splitlines()]
    (validation,) = [r for r in records if r["kind"] == "validation"]
    told = validation["probabilities"]
    assert set(told) == {"all clients", "a", "b", "c"}
    assert told["all clients"]["rows"] == 270
    cells = [d["sensitivity"] for d in told["all clients"]["decisions"]]
    assert cells == sorted(cells, reverse=True)
    drfl("report", "RUN", cwd=own)
    page = (own / "RUN/report.html").read_text()
    for words in ("Calibration on held-out rows", "ROC curve on", "Decision curve", "Brier score"):
        assert words in page
    assert "intercept of a" in page
