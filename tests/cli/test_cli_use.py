"""What is done with a model: predict, evaluate, explain, report; and list, help."""

import csv
import importlib
import io
import json
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

import drfl as library
from drfl.cli.list import MOVES, PROVE
from drfl.cli.main import COMMANDS
from drfl.models import read_model
from drfl.training.problems import known_methods
from drfl.training.settings import RULES
from kit.program import THREE, command, drfl, environment, write_csv

MODEL = "RUN/model.json"


def test_predict_agrees_with_the_loaded_estimator(trained, tmp_path):
    said = drfl("predict", MODEL, "a.csv", cwd=trained)
    rows = list(csv.DictReader(io.StringIO(said.out)))
    estimator = library.load(trained / MODEL)
    frame = pd.read_csv(trained / "a.csv", keep_default_na=False)
    assert [row["prediction"] for row in rows] == estimator.predict(frame).tolist()
    scores = [float(row["score"]) for row in rows]
    assert scores == pytest.approx(estimator.decision_function(frame).tolist())
    drfl("predict", MODEL, "a.csv", "--out", tmp_path / "out.csv", cwd=trained)
    assert (tmp_path / "out.csv").read_text() == said.out


def test_probabilities_come_with_the_logistic_loss(files):
    drfl("train", *THREE, "--loss", "logistic", "--out", "RUN", "--quiet", cwd=files)
    rows = list(csv.DictReader(io.StringIO(drfl("predict", MODEL, "a.csv", cwd=files).out)))
    p = np.array([[float(r["probability no"]), float(r["probability yes"])] for r in rows])
    assert np.allclose(p.sum(axis=1), 1.0)
    frame = pd.read_csv(files / "a.csv", keep_default_na=False)
    assert np.allclose(p, library.load(files / MODEL).predict_proba(frame))


def test_predict_needs_no_target_and_other_columns_do_no_harm(trained, tmp_path):
    frame = pd.read_csv(trained / "a.csv", keep_default_na=False)
    frame = frame[frame.columns[::-1]].drop(columns="disease").assign(note="x,y")
    frame.to_csv(tmp_path / "new.csv", index=False)
    said = drfl("predict", trained / MODEL, tmp_path / "new.csv", cwd=tmp_path).out
    assert said == drfl("predict", MODEL, "a.csv", cwd=trained).out


def test_evaluate_agrees_with_scikit_learn(trained):
    said = drfl("evaluate", MODEL, "a.csv", "b.csv", "--json", cwd=trained).records
    estimator = library.load(trained / MODEL)
    assert [entry["file"] for entry in said] == ["a.csv", "b.csv"]
    for entry in said:
        frame = pd.read_csv(trained / entry["file"], keep_default_na=False)
        predicted, scores = estimator.predict(frame), estimator.decision_function(frame)
        y = frame["disease"].to_numpy()
        assert entry["accuracy"] == pytest.approx(np.mean(predicted == y))
        assert entry["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, predicted))
        assert entry["auc"] == pytest.approx(roc_auc_score(y == "yes", scores))


def test_noise_takes_its_toll(trained):
    said = drfl("evaluate", MODEL, "a.csv", "--noise", "0.5,5", "--json", cwd=trained).records
    assert [entry["noise"] for entry in said] == [0.0, 0.5, 5.0]
    assert said[2]["auc"] < said[0]["auc"] - 0.1
    table = drfl("evaluate", MODEL, "a.csv", "--noise", "0.5,5", cwd=trained).out
    assert f"{said[2]['auc']:.4g}" in table


def test_explain_agrees_with_the_certificate(files):
    arguments = ("--label-cost", "1", "--radius", "0.05", "--mixture-center", "proportional")
    drfl("train", *THREE, *arguments, "--exclude", "chest_pain_type", "--out", "RUN", cwd=files)
    said = drfl("explain", MODEL, "a.csv", "b.csv", "c.csv", "--json", cwd=files).records
    model = read_model(files / MODEL)
    total = sum(entry["weight"] * entry["worst_loss"] for entry in said)
    assert total == pytest.approx(model.certificates[0].objective, rel=1e-6)
    for entry, client in zip(said, model.clients, strict=True):
        assert entry["worst_loss"] == pytest.approx(client.losses[0], rel=1e-6)
        assert entry["worst_loss"] >= entry["loss"]
        # Changing a label costs 1, moving by 1 in all features together costs 1.
        cost = entry["labels_changed"] + entry["features_moved"]
        assert 0.0 < cost <= 0.05 + 1e-9
        assert sum(entry["carriers"].values()) == pytest.approx(1.0, abs=0.1)


def test_rows_are_shown_only_if_asked_for(trained):
    files = ("a.csv", "b.csv", "c.csv")
    assert "line" not in drfl("explain", MODEL, *files, cwd=trained).out
    said = drfl("explain", MODEL, *files, "--rows", "2", cwd=trained).out
    assert "a.csv, line" in said
    assert " -> " in said


def test_explain_knows_the_clients_of_a_model(files):
    clients = ("--client", "n=a.csv", "--client", "s=b.csv", "--target", "disease")
    drfl("train", *clients, "--radius", "n=0.1,s=0.2", "--out", "RUN", "--quiet", cwd=files)
    drfl("explain", MODEL, "n=a.csv", cwd=files)
    said = drfl("explain", MODEL, "a.csv", cwd=files, code=3)
    assert "'a' was no client of the training, which had 'n', 's'" in said.err


class Page(HTMLParser):
    """Collects the tags of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


def test_the_report_escapes_what_comes_from_data(tmp_path):
    evil = '<script>alert("x")</script>'
    rng = np.random.default_rng(0)
    for name in ("p", "q"):
        words = [evil if rng.random() < 0.5 else "<blink>" for _ in range(30)]
        rows = [[f"{rng.normal():.3f}", word] for word in words]
        write_csv(tmp_path / f"{name}.csv", [f"u{evil}", "y"], rows)
    clients = ("--client", "<marquee>=p.csv", "--client", "q.csv", "--target", "y")
    drfl("train", *clients, "--out", "RUN", "--tol", "1e-2", cwd=tmp_path)
    drfl("report", "RUN", cwd=tmp_path)
    text = (tmp_path / "RUN" / "report.html").read_text()
    page = Page(text)
    assert evil not in text
    assert not {"blink", "marquee"} & {tag for tag, _ in page.tags}
    assert "marquee" in text
    # Nothing is fetched from anywhere.
    sources = [v or "" for _, attrs in page.tags for k, v in attrs.items() if k in ("src", "href")]
    assert [source for source in sources if "//" in source] == []


def test_list_names_what_exists():
    said = drfl("list", cwd=".").out
    for name in ("hinge", "l1", "bundle", "erm", "one_se"):
        assert f"  {name}" in said
    assert drfl("list", "norms", cwd=".").out.splitlines()[0] == "norms:"
    assert "did you mean 'norms'" in drfl("list", "norm", cwd=".", code=3).err


def test_names_that_are_listed_are_those_of_the_library():
    from drfl.native import METHODS
    from drfl.norms import NORMS
    from drfl.selection.rules import RULES as SELECTION_RULES
    from drfl.solvers import SOLVERS

    assert list(RULES) == list(SELECTION_RULES)
    assert list(PROVE) == list(SOLVERS)
    assert list(MOVES) == list(NORMS)
    assert set(METHODS) == {n.removesuffix("_steps") for n in known_methods()} - {"erm"}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_an_example(name, tmp_path):
    said = drfl(name, "--help", cwd=tmp_path).out
    assert f"example:\n  drfl {name}" in said


def test_help_is_light(tmp_path):
    code = (
        "import sys, runpy; sys.argv = ['drfl', *sys.argv[1:]]\n"
        "try: runpy.run_module('drfl', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "heavy = {'scipy', 'sklearn', 'pandas', 'piqp'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)"
    )
    for arguments in (["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60
        )
        assert done.stderr == "[]\n", arguments


def test_without_a_command_there_is_help(tmp_path):
    assert "usage: drfl" in drfl(cwd=tmp_path).out


def test_a_reader_that_goes_away_does_no_harm(trained):
    process = subprocess.Popen(
        command("predict", MODEL, "a.csv"),
        cwd=trained,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    process.wait(timeout=60)
    assert err == b""


def test_json_lines_are_json(trained):
    out = drfl("evaluate", MODEL, "a.csv", "--json", cwd=trained).out
    assert all(isinstance(json.loads(line), dict) for line in out.splitlines())


def test_the_program_is_installed_under_its_name():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, _, name = project["scripts"]["drfl"].partition(":")
    assert callable(getattr(importlib.import_module(module), name))
