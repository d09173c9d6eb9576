"""The demo: every hospital left out in turn."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from drfl.cli.console import Console
from experiments.contest import METHODS, contest, table
from experiments.hospitals import patients, scaled, write_files

ROOT = Path(__file__).parents[2]


def test_gaps_and_scales_come_from_the_training_hospitals_alone():
    everyone = patients()
    train, new = scaled(
        everyone.take(everyone.hospital != "va"), everyone.take(everyone.hospital == "va")
    )
    assert np.isfinite(train.X).all()
    assert np.isfinite(new.X).all()
    np.testing.assert_allclose(train.X.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(train.X.std(axis=0), 1.0)
    # The age of the first patient at the new hospital, in the units of the others.
    age, others = everyone.X[everyone.hospital == "va"][0, 0], everyone.hospital != "va"
    own = everyone.X[others, 0]
    assert new.X[0, 0] == pytest.approx((age - own.mean()) / own.std())


def test_a_new_hospital_is_served_better_by_the_model_for_it():
    few = ("pooled, tuned", "drfl", "drfl, new client")
    pooled, plain, robust = contest(1, 0, Console(quiet=True), few, jobs=1)
    assert robust.log_loss < pooled.log_loss
    assert robust.mean > pooled.mean + 0.01
    assert abs(plain.mean - pooled.mean) < 0.01
    assert robust.gap <= 1e-4
    assert list(robust.accuracy) == ["cleveland", "hungarian", "switzerland", "va"]
    lines = table([pooled, plain, robust])
    assert len({len(line) for line in lines}) == 1


def test_the_files_are_the_patients(tmp_path):
    files = write_files(tmp_path)
    lines = {name: path.read_text().splitlines() for name, path in files.items()}
    assert {name: len(found) - 1 for name, found in lines.items()} == {
        "cleveland": 303,
        "hungarian": 294,
        "switzerland": 123,
        "va": 200,
    }
    assert lines["cleveland"][1] == "63,1,typical,145,233,1,hypertrophy,150,0,2.3,down,0,fixed,no"


@pytest.mark.slow
def test_the_demo_compares_seven_models_and_writes_a_report(tmp_path):
    environment = os.environ | {"PYTHONWARNINGS": "error", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "experiments", "demo", "--out", "D", "--repeats", "1"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for method in METHODS:
        assert any(line.startswith(method) for line in done.stdout.splitlines())
    assert (tmp_path / "D" / "report.html").exists()
    lines = (tmp_path / "D" / "records.jsonl").read_text(encoding="utf-8").splitlines()
    demo = [r for r in map(json.loads, lines) if r["kind"] == "demo"]
    assert [r["method"] for r in demo] == list(METHODS)
    for r in demo:
        assert r["gap"] == "nan" or r["gap"] <= 1e-3
