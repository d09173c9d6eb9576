"""Runs: resumed after a kill, the same on any number of processes, never mixed."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from experiments_kit import tiny

from drfl.cli.main import INPUT
from experiments.__main__ import main
from experiments.convergence import NATIVE, ROBUST
from experiments.records import Done, Records
from experiments.registry import find
from experiments.reproduce import reproduce
from experiments.volume import Volume

ROOT = Path(__file__).parents[2]
FEW = replace(Volume(), draws=200, systems=2, map_shifts=(0.0,), map_q=(0.5,))
SET = [f"--set={name}" for name in ("draws=200", "systems=2", "map_shifts=0", "map_q=0.5")]


TASKS = len(NATIVE) + len(ROBUST)


def rows_of(path):
    header, *lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return header, {json.dumps(line["task"]): line["rows"] for line in lines}


def experiments(*arguments, cwd, code=0):
    environment = os.environ | {"PYTHONWARNINGS": "error", "OPENBLAS_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = str(ROOT)
    command = [sys.executable, "-m", "experiments", *map(str, arguments)]
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_same_rows_on_two_processes(tmp_path):
    options = {"seeds": 2, "figures": False}
    for jobs in (1, 2):
        reproduce("volume", FEW, tmp_path / str(jobs), jobs=jobs, **options)
    one, two = (rows_of(tmp_path / jobs / "records.jsonl") for jobs in "12")
    assert one == two
    assert (tmp_path / "1/table.md").read_text() == (tmp_path / "2/table.md").read_text()


@pytest.mark.slow
def test_models_are_the_same_in_another_process(tmp_path):
    settings = replace(tiny("heart"), folds=2, rules=("mean", "oracle"), radii=(0.01, 0.05))
    for jobs in (1, 2):
        reproduce("heart", settings, tmp_path / str(jobs), seeds=2, jobs=jobs, figures=False)
    assert rows_of(tmp_path / "1/records.jsonl") == rows_of(tmp_path / "2/records.jsonl")


@pytest.mark.slow
def test_resumed_after_a_kill(tmp_path):
    """Killed without warning while it writes, a run goes on after its last whole task."""
    command = [sys.executable, "-m", "experiments", "convergence", "--quick", "--jobs=1"]
    command += ["--set=rounds=15", "--no-figures", "--out", str(tmp_path)]
    path = tmp_path / "convergence/records.jsonl"
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=ROOT)
    deadline = time.monotonic() + 100.0
    while time.monotonic() < deadline and not (path.exists() and len(path.read_bytes()) > 3000):
        time.sleep(0.05)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    whole = path.read_bytes().rpartition(b"\n")[0] + b"\n"
    path.write_bytes(whole)
    before = rows_of(path)[1]
    assert before
    path.write_bytes(whole + b'{"task": {"clients": 3, "alg')  # a line that was cut off
    done = experiments(*command[3:], cwd=tmp_path)
    after = rows_of(path)[1]
    assert len(after) == TASKS
    assert all(after[task] == rows for task, rows in before.items())
    assert f"convergence: {TASKS - len(before)} tasks" in done.stdout


def test_interrupted_processes_end(tmp_path):
    """An interrupt ends the workers too, says so, and leaves whole records."""
    command = [sys.executable, "-m", "experiments", "heart", "--jobs=2", "--seeds=2"]
    run = subprocess.Popen(
        [*command, "--no-figures", "--out", str(tmp_path)],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    path, deadline = tmp_path / "heart/records.jsonl", time.monotonic() + 60.0
    while time.monotonic() < deadline and not path.exists():
        time.sleep(0.05)
    time.sleep(1.0)
    run.send_signal(signal.SIGTERM)
    _, said = run.communicate(timeout=30)
    assert run.returncode == 130
    assert "Traceback" not in said
    assert len(path.read_text(encoding="utf-8").splitlines()) == 1


def test_more_seeds_go_on(tmp_path):
    first = reproduce("volume", FEW, tmp_path, seeds=1, jobs=1, figures=False)
    again = reproduce("volume", FEW, tmp_path, seeds=2, jobs=1, figures=False)
    assert first.fresh == 3
    assert again.fresh == 2


def test_other_settings_never_mix(tmp_path):
    reproduce("volume", FEW, tmp_path, seeds=1, jobs=1, figures=False)
    with pytest.raises(ValueError, match=r"other settings \(repeats\).*another --out"):
        reproduce("volume", replace(FEW, repeats=50), tmp_path, seeds=1, jobs=1, figures=False)


@pytest.mark.parametrize("text", ["", "no json\n", "[]\n", '{"a": 1}\n'])
def test_foreign_files_are_left_alone(tmp_path, text):
    path = tmp_path / "records.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match="holds no records"):
        Records(path, "volume", FEW.facts())
    assert path.read_text() == text


def test_infinities_survive(tmp_path):
    path = tmp_path / "records.jsonl"
    rows = [{"params": {"label_cost": float("inf")}, "value": [0.5]}]
    Records(path, "heart", {"radii": (float("inf"),)}).add(Done({"seed": 1}, rows, 1.0, 0.5))
    again = Records(path, "heart", {"radii": (float("inf"),)})
    assert [done.rows for done in again.done.values()] == [rows]


def test_command(tmp_path):
    pytest.importorskip("matplotlib")
    said = experiments("volume", *SET, "--seeds=1", "--jobs=1", "--out=here", cwd=tmp_path).stdout
    assert "What holds and what does not" in said
    folder = tmp_path / "here/volume"
    names = {"records.jsonl", "table.md"}
    names |= {f"volume{part}.{kind}" for part in ("", "-map") for kind in ("svg", "png")}
    assert {path.name for path in folder.iterdir()} == names
    assert (
        "python -m experiments volume --seeds 1 --set draws=200"
        in (folder / "table.md").read_text()
    )
    shown = experiments("abalone", "--settings", "--paper-literal", cwd=tmp_path).stdout
    assert "metric=literal" in shown
    assert not (tmp_path / "reproduction").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["haert"], "unknown experiment 'haert': did you mean 'heart'?"),
        (["heart", "--seeds=0"], "--seeds must be at least 1, got 0"),
        (["heart", "--set=bok=none"], "unknown setting 'bok': did you mean 'box'?"),
        (["heart", "--set=box"], "--set needs name=value"),
        (["heart", "--set=box=large"], "unknown box 'large'"),
        (["heart", "--set=folds=2.5"], "folds must be a whole number"),
        (["heart", "--set=radii=a"], "radii must be a number"),
        (["heart", "--set=box=literal", "--set=p=2"], "linear programs"),
        (["volume", "--set=p1=0.5,0.5"], "p1 must be a probability for each atom"),
        (["all", "--set=folds=2"], "--set belongs to one experiment"),
    ],
)
def test_errors_are_one_sentence(arguments, sentence, tmp_path, capsys):
    assert main([*arguments, "--out", str(tmp_path / "out")]) == INPUT
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'drfl\[plots\]'"):
        reproduce("volume", FEW, tmp_path, seeds=1, jobs=1)
    assert not list(tmp_path.iterdir())


def test_every_experiment_has_a_quick_version():
    for name in ("heart", "volume", "convergence", "heterogeneity"):
        settings = find(name).settings
        assert settings.quick() != settings
        assert settings.quick_seeds < settings.full_seeds
