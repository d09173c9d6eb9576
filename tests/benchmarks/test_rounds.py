"""What `benchmarks/rounds.py --check` compares and says; the rounds are not measured here."""

import json
import math
from argparse import Namespace
from importlib import import_module
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    return import_module("rounds")


@pytest.fixture
def report(script, monkeypatch, tmp_path):
    monkeypatch.setattr(script, "STORED", tmp_path / "rounds.json")
    script.STORED.write_text(json.dumps({"rounds: a": [5.0, 6.0], "rounds: b": [3.0, 3.0]}))
    return script.Report(Namespace(store=False, seeds=None))


def test_rounds_that_grew_are_missed(report):
    assert report._compare("rounds: a", {"certified": 5.0, "worst": 6.0}) == "median 5, worst 6"
    assert not report.missed
    for worse in ({"certified": 6.0, "worst": 6.0}, {"certified": 5.0, "worst": 7.0}):
        assert "GREW from 5, 6" in report._compare("rounds: a", worse)
    assert len(report.missed) == 2


def test_a_row_of_which_nothing_is_stored_is_missed(report):
    assert "NOT STORED" in report._compare("rounds: new", {"certified": 5.0, "worst": 6.0})
    assert len(report.missed) == 1


def test_a_row_without_an_end_has_no_rounds_to_store(report):
    never = {"certified": math.inf, "worst": math.inf}
    assert report._compare("classes: hard", never) == ""
    assert not report.missed
    assert "GREW" in report._compare("rounds: a", never)


def test_stored_rows_that_were_not_checked_are_named(script, report):
    report._compare("rounds: a", {"certified": 5.0, "worst": 6.0})
    left = script.unchecked(report.stored, report.rounds)
    assert left == "1 stored rows not checked: rounds: b"
    report._compare("rounds: b", {"certified": 3.0, "worst": 3.0})
    assert script.unchecked(report.stored, report.rounds) == "0 stored rows not checked"


def test_every_stored_row_is_a_row_of_its_own(script):
    """Names of cases in the guarded sections differ, and nothing else is stored."""
    names = {"libsvm": "a9a", "arff": "cal.housing"}
    labels = [
        f"{section}: {case.label(names.get(case.data, case.data))}"
        for section in script.GUARDED
        for case in script.SECTIONS[section]
    ]
    assert len({*labels}) == len(labels)
    stored = json.loads((FOLDER / "rounds.json").read_text("utf-8"))
    assert {*stored} <= {*labels}
