"""Validation is part of training: what it prints, writes, and what it says where it cannot be."""

import numpy as np
import pytest

from drfl import DRFLClassifier
from drfl.models import read_model
from drfl.protocols.federation import Remote
from drfl.protocols.station import Station
from drfl.selection.validation import NEW_CLIENT
from drfl.tables import read_table
from drfl.training.local_files import files_here
from drfl.training.run_folder import RunFolder
from drfl.training.settings import from_values
from drfl.training.train import train
from kit.program import THREE, drfl, records_of, write_hospitals
from kit.stations import Loopback, Silent

FEW = ["--folds", "2", "--tol", "1e-4", "--exclude", "chest_pain_type,sex"]


@pytest.fixture(scope="module")
def validated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("validated")
    write_hospitals(folder)
    said = drfl("train", *THREE, *FEW, "--out", "RUN", cwd=folder, validation=True)
    return folder, said


def rows_of(folder):
    """The rows as the model sees them, in the order of the clients."""
    model = read_model(folder / "RUN" / "model.json")
    X, y, names = [], [], []
    for name in "abc":
        table = read_table(folder / f"{name}.csv")
        features = [(table.number(c.name) - c.shift) / c.scale for c in model.columns]
        X.append(np.column_stack(features))
        y += np.array(table.levels["disease"])[table.text("disease")].tolist()
        names += [name] * table.n_rows
    return np.vstack(X), np.array(y), np.array(names)


def test_a_training_says_how_good_it_is_on_what_it_has_not_seen(validated):
    folder, said = validated
    (record,) = [r for r in records_of(folder / "RUN") if r["kind"] == "validation"]
    X, y, names = rows_of(folder)
    found = DRFLClassifier(tol=1e-4).validate(X, y, names, folds=2, random_state=0)
    for question, methods in found.measures.items():
        for method, measures in methods.items():
            for measure, value in measures.items():
                told = record["measures"][question][method][measure]
                # Which rows are in which fold depends on the units of the columns.
                near = 0.02 if question == NEW_CLIENT else 0.1
                assert told["mean"] == pytest.approx(value.mean, abs=near), (question, method)
    for line in found.measures:
        assert f"on {line}" in said.out
    for method in ("majority", "local", "erm", "model"):
        assert f"  {method} " in said.out
    assert "is not a bound for a client that was not there" in said.out
    drfl("report", "RUN", cwd=folder)
    page = (folder / "RUN" / "report.html").read_text(encoding="utf-8")
    assert page.index("Is the optimisation proved?") < page.index("it has not seen?")
    assert page.index("it has not seen?") < page.index("Whom does it serve?")
    assert "needed radius" in page


def test_sites_tell_the_same(validated, tmp_path):
    folder, _ = validated
    values = {"target": "disease", "folds": 2, "tol": 1e-4, "exclude": ["chest_pain_type", "sex"]}
    files = {name: folder / f"{name}.csv" for name in "abc"}
    settings = from_values(values, files)
    run = RunFolder.new(str(tmp_path / "sites"))
    engine = Loopback([Station(name, path) for name, path in files.items()])
    train(settings, run, Remote(engine, list(files)), Silent(), fresh=True)

    def told(path):
        (record,) = [r for r in records_of(path) if r["kind"] == "validation"]
        return record

    assert told(run.path) == told(folder / "RUN")


def test_under_a_guard_it_says_why_not(tmp_path):
    write_hospitals(tmp_path)
    values = {"target": "disease", "guard": 3, "tol": 0.5, "exclude": ["chest_pain_type", "sex"]}
    settings = from_values(values, {name: tmp_path / f"{name}.csv" for name in "abc"})
    run = RunFolder.new(str(tmp_path / "RUN"))
    heard = Heard()
    train(settings, run, files_here(settings, run), heard, fresh=True)
    (record,) = [r for r in records_of(run.path) if r["kind"] == "validation"]
    assert "out of the ledger" in record["failure"]
    assert any(sentence.startswith("not validated: under a guard") for sentence in heard.warned)


class Heard(Silent):
    """Remembers what it was warned of."""

    def __init__(self):
        self.warned = []

    def warn(self, sentence):
        self.warned.append(sentence)


def test_settings_that_have_served_badly_are_named(tmp_path):
    write_hospitals(tmp_path)
    said = drfl("train", *THREE, "--scale", "per-client", "--out", "RUN", cwd=tmp_path)
    assert "worse in all 8 data sets of our study" in said.err
