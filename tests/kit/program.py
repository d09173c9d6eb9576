"""The program as its users meet it: files, and what it says."""

import contextlib
import csv
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial

import numpy as np

from drfl.cli.main import run
from drfl.datasets import load_heart
from drfl.report import Plan

WORDS = {1.0: "typical", 2.0: "atypical", 3.0: "none", 4.0: "silent"}


@dataclass
class Said:
    """What a process has said."""

    code: int
    out: str
    err: str

    @property
    def records(self):
        return [json.loads(line) for line in self.out.splitlines()]


def command(*arguments, validation=False):
    """The program; trainings are not validated unless that is what a test is about."""
    if arguments[:1] == ("train",) and not validation:
        arguments = (*arguments, "--no-validation")
    return [sys.executable, "-m", "drfl", *map(str, arguments)]


def environment():
    return os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}


def drfl(*arguments, cwd, code=0, validation=False):
    """Run the program here, without a process of its own; another exit code fails the test."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in "oe")
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            found = run(command(*arguments, validation=validation)[3:])
        except SystemExit as end:  # of argparse
            found = end.code
    return _said(found, code, *(_text(stream) for stream in (out, err)))


def shorten_reports(monkeypatch):
    """Let reports fit little again, where how often is not the question."""
    monkeypatch.setattr("drfl.report.Plan", partial(Plan, bootstrap=2, draws=1))


def drfl_process(*arguments, cwd, code=0, validation=False):
    """The same as users do, where what matters is the process."""
    done = subprocess.run(
        command(*arguments, validation=validation),
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    return _said(done.returncode, code, done.stdout, done.stderr)


def _text(stream):
    stream.flush()
    return stream.buffer.getvalue().decode("utf-8")


def _said(found, code, out, err):
    assert found == code, out + err
    assert "Traceback" not in err
    return Said(found, out, err)


def write_csv(path, names, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)
    return path


def heart_rows():
    """Names and rows of the heart data with two columns of text and a text target."""
    heart = load_heart(scaled=False)
    rows = []
    for x, y in zip(heart.data.tolist(), heart.target, strict=True):
        row = [f"{value:g}" for value in x]
        row[1] = "m" if x[1] else "f"
        row[2] = WORDS[x[2]]
        rows.append([*row, "yes" if y > 0 else "no"])
    return [*heart.feature_names, "disease"], rows


def write_hospitals(folder):
    """a.csv, b.csv and c.csv: the heart patients in three parts."""
    names, rows = heart_rows()
    order = np.random.default_rng(0).permutation(len(rows))
    for name, part in zip("abc", np.array_split(order, 3), strict=True):
        write_csv(folder / f"{name}.csv", names, [rows[i] for i in part])


def write_numbers(folder, n_rows=40, n_clients=3, seed=0):
    """Clients s0.csv, ... with two features and a numeric target, in odd units."""
    rng = np.random.default_rng(seed)
    files = []
    for s in range(n_clients):
        X = rng.normal(size=(n_rows, 2)) * [1000.0, 0.01] + [5000.0, 1.0]
        y = 3.0 + (X[:, 0] - 5000.0) / 500.0 - 200.0 * (X[:, 1] - 1.0) + rng.normal(size=n_rows)
        rows = [[repr(float(v)) for v in (*x, t)] for x, t in zip(X, y, strict=True)]
        files.append(write_csv(folder / f"s{s}.csv", ["money", "dose", "days"], rows))
    return files


THREE = ("--client", "a.csv", "--client", "b.csv", "--client", "c.csv", "--target", "disease")


def records_of(run):
    """The records of a run."""
    lines = (run / "records.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]
