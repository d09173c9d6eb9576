"""A run that is killed or interrupted at any moment goes on, and ends in the same model."""

import signal
import subprocess
import time

import numpy as np
import pytest

from kit.program import command, drfl, environment, records_of, write_csv

ARGUMENTS = ("--client", "p.csv", "--client", "q.csv", "--target", "y", "--loss", "logistic")
HARD = (*ARGUMENTS, "--label-cost", "1", "--tol", "1e-9")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with data and an uninterrupted run WHOLE, and how long that took."""
    folder = tmp_path_factory.mktemp("whole")
    rng = np.random.default_rng(0)
    w = rng.normal(size=30)
    for name in ("p", "q"):
        X = rng.normal(size=(2000, 30)).round(3)
        y = X @ w + 3.0 * rng.normal(size=2000) > 0
        rows = [[*x, int(t)] for x, t in zip(X.tolist(), y, strict=True)]
        write_csv(folder / f"{name}.csv", [*(f"u{j}" for j in range(30)), "y"], rows)
    start = time.monotonic()
    drfl("train", *HARD, "--out", "WHOLE", "--quiet", cwd=folder)
    return folder, time.monotonic() - start


def ended(folder, arguments, number, seconds):
    """Start the program and send it a signal after a while; its exit code and what it said."""
    process = subprocess.Popen(
        command("train", *arguments),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_killed_at_random_moments(whole):
    folder, seconds = whole
    rng = np.random.default_rng(0)
    run = folder / "KILLED"
    for _ in range(6):
        resume = ("--resume", run) if (run / "config.toml").exists() else (*HARD, "--out", run)
        ended(folder, (*resume, "--quiet"), signal.SIGKILL, rng.uniform(0.3, 1.0) * seconds)
    if (run / "config.toml").exists():
        drfl("train", "--resume", run, "--quiet", cwd=folder)
    else:
        drfl("train", *HARD, "--out", run, "--quiet", cwd=folder)
    assert (run / "model.json").read_bytes() == (folder / "WHOLE" / "model.json").read_bytes()
    one, other = (
        [r["objective"] for r in records_of(r) if r["kind"] == "round"]
        for r in (run, folder / "WHOLE")
    )
    assert one == other


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_interrupted_it_says_how_to_resume(whole, number):
    folder, _ = whole
    name = f"INT{int(number)}"
    process = subprocess.Popen(
        command("train", *HARD, "--out", name, "--json"),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stdout:
        if '"round": 2,' in line:
            process.send_signal(number)
            break
    process.stdout.read()
    err = process.stderr.read()
    process.stdout.close()
    process.stderr.close()
    assert process.wait(timeout=60) == 130
    warned, *said = err.splitlines()
    assert "WITHOUT A GUARD" in warned
    assert said == [
        f"drfl: interrupted; the rounds done are kept in {name}/checkpoint: continue with "
        f"`drfl train --resume {name}`"
    ]
    assert not (folder / name / "model.json").exists()
    drfl("train", "--resume", name, "--quiet", cwd=folder)
    model = (folder / name / "model.json").read_bytes()
    assert model == (folder / "WHOLE" / "model.json").read_bytes()


def test_resuming_a_finished_run_changes_nothing(trained_copy):
    before = (trained_copy / "RUN" / "model.json").read_bytes()
    drfl("train", "--resume", "RUN", "--quiet", cwd=trained_copy)
    assert (trained_copy / "RUN" / "model.json").read_bytes() == before


def test_other_settings_are_refused(trained_copy):
    said = drfl("train", "--resume", "RUN", "--radius", "0.5", cwd=trained_copy, code=3)
    assert said.err.startswith("drfl: the run in RUN had radius = 'auto', not 0.5: resume it")
    config = trained_copy / "RUN" / "config.toml"
    config.write_text(config.read_text().replace('norm = "l2"', 'norm = "l1"'))
    said = drfl("train", "--resume", "RUN", cwd=trained_copy, code=3)
    assert "had norm = 'l2', not 'l1'" in said.err


def test_other_data_are_refused(trained_copy):
    path = trained_copy / "b.csv"
    path.write_text(path.read_text().replace("yes", "no", 1))
    said = drfl("train", "--resume", "RUN", cwd=trained_copy, code=3)
    assert "b.csv has changed since the run in RUN started" in said.err


def test_a_damaged_checkpoint_is_refused(trained_copy):
    (trained_copy / "RUN" / "checkpoint" / "identity.json").write_text("{")
    said = drfl("train", "--resume", "RUN", cwd=trained_copy, code=3)
    assert "damaged" in said.err


def test_a_run_is_not_overwritten(trained_copy):
    out = ("--client", "a.csv", "--target", "disease", "--out", "RUN")
    said = drfl("train", *out, cwd=trained_copy, code=3)
    assert "RUN holds a run already" in said.err
