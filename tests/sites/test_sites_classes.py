"""Three classes in one problem over real processes: the same to the last digit as with files."""

import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris

from drfl.models import read_model
from kit.real_sites import drfl_sites, real_sites

pytestmark = pytest.mark.slow

TRAINING = {"target": "species", "radius": 0.05, "label_cost": 1.0, "validation": True}


def gardens(names=("east", "west")):
    """Iris as CSV texts, every other row."""
    data = load_iris()
    head = "sl,sw,pl,pw,species"
    rows = [
        ",".join([*map(str, x), data.target_names[k]])
        for x, k in zip(data.data, data.target, strict=True)
    ]
    return {name: "\n".join([head, *rows[s :: len(names)]]) + "\n" for s, name in enumerate(names)}


def drfl(folder, *arguments):
    command = [sys.executable, "-m", "drfl", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def test_three_classes_over_sites_are_those_of_the_files(tmp_path):
    data = gardens()
    own = {name: {"guard": 0} for name in data}
    files = [f"{name}.csv" for name in data]
    with real_sites(tmp_path, data, settings=own, training=TRAINING) as sites:
        drfl_sites("run", "--out", "RUN", cwd=sites.folder, seconds=280)
        settings = ("--target=species", "--radius=0.05", "--label-cost=1")
        clients = [f"--client={file}" for file in files]
        drfl(sites.folder, "train", *clients, *settings, "--out=HERE")
        ours, theirs = (read_model(sites.folder / run / "model.json") for run in ("RUN", "HERE"))
        assert ours.joint
        assert ours.coef.shape == (3, 4)
        assert ours.certificates[0].status.kind == "certified"
        assert np.array_equal(ours.coef, theirs.coef)
        assert np.array_equal(ours.intercept, theirs.intercept)
        assert ours.certificates == theirs.certificates
        # The adversary names the classes that labels are changed to, over the network too.
        there = drfl_sites(
            "explain", "RUN/model.json", "--json", cwd=sites.folder, seconds=280
        ).stdout
        here = drfl(sites.folder, "explain", "RUN/model.json", *files, "--json")
        for line, other in zip(there.splitlines(), here.splitlines(), strict=True):
            found, entry = json.loads(line), json.loads(other)
            assert found["worst_loss"] == pytest.approx(entry["worst_loss"])
            assert found["labels_moved_to"] == pytest.approx(entry["labels_moved_to"])
            assert sum(found["labels_moved_to"].values()) > 0.0
        said = drfl_sites("explain", "RUN/model.json", cwd=sites.folder, seconds=280).stdout
        assert "east: labels are changed to " in said
        there = drfl_sites(
            "evaluate", "RUN/model.json", "--json", cwd=sites.folder, seconds=280
        ).stdout
        scores = [entry for entry in map(json.loads, there.splitlines()) if "site" in entry]
        here = drfl(sites.folder, "evaluate", "RUN/model.json", *files, "--json")
        for found, entry in zip(scores, map(json.loads, here.splitlines()), strict=True):
            assert found["site"] == entry["file"].removesuffix(".csv")
            assert found["accuracy"] == pytest.approx(entry["accuracy"])
            assert found["balanced_accuracy"] == pytest.approx(entry["balanced_accuracy"])
