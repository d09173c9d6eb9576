"""The experiment with networks: rows are divided honestly, and a small run ends in a table."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from experiments import neural_data
from experiments.neural import Neural, Shaking, Study, run, ways
from experiments.neural_report import report
from experiments.records import Done
from kit.pages import ROOT

QUICK = replace(Neural().quick(), rounds=5)


@pytest.mark.parametrize("name", neural_data.DATA)
def test_rows_train_choose_or_judge_but_never_two_of_them(name):
    split = neural_data.split(name, 0)
    assert len(split.fitting) == {"digits": 8, "four hospitals": 4}.get(name, 5)
    for parts in zip(split.fitting, split.choosing, split.testing, strict=True):
        total = sum(len(y) for _, y in parts)
        assert len(parts[2][1]) == pytest.approx(0.3 * total, abs=1)
        assert len(parts[1][1]) == pytest.approx(0.25 * 0.7 * total, abs=1)
    again = neural_data.split(name, 0)
    assert all((a[0] == b[0]).all() for a, b in zip(split.testing, again.testing, strict=True))
    if name != "digits":
        X = np.concatenate([X for X, _ in split.fitting])
        np.testing.assert_allclose(X.mean(axis=0), 0.0, atol=1e-9)


def test_noise_of_the_rival_is_fresh_in_every_step():
    shaking = Shaking(0.5, torch.Generator().manual_seed(0))
    rows = torch.zeros(2000, 3)
    (at,) = shaking.moved([(rows, None, None)], None)
    first, second = at(), at()
    assert not torch.equal(first, second)
    assert float(first.std()) == pytest.approx(0.5, rel=0.05)


def test_a_small_run_ends_in_a_table():
    task = {"data": "abalone", "seed": 0}
    rows = run(QUICK, task)
    assert [row["method"] for row in rows] == [*ways(QUICK), "linear (drfl)"]
    for row in rows:
        assert row["worst"] <= row["clean"] <= 1.0
    text = report(replace(QUICK, data=("abalone",)), [Done(task, rows, 1.0, 1.0)])
    assert any("Gaussian noise" in line for line in text.tables)
    assert "against Gaussian noise" in " ".join(text.findings)


def test_when_each_scheme_gets_to_an_objective():
    found = Study(QUICK, "digits", neural_data.split("digits", 0), 0).rounds_to_an_objective(0.3)
    assert found["fedavg"] <= QUICK.rounds
    assert found["dual_admm"] <= found["fedavg"]


def test_scripts_beside_the_benchmark_do_not_take_it_for_pytorch():
    """Python looks for modules in the folder of a script first."""
    command = "import sys; sys.path.insert(0, 'benchmarks'); import torch"
    told = subprocess.run(
        [sys.executable, "-c", command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "ImportError: this is a benchmark, not PyTorch" in told.stderr
