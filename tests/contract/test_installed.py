"""A package that adds what the pages add: the program and real sites know it once it is installed.

Installed means here what pip would leave: modules and an entry point in a folder of the path.
"""

import os
import subprocess
import sys

import pytest

from drfl.losses import LOSSES, Huber
from kit.pages import ROOT, blocks
from kit.program import write_csv
from kit.real_sites import drfl_sites, hospitals, real_sites

REGISTER = """
import numpy as np

from drfl.engines import ENGINES
from drfl.losses import LOSSES
from drfl.native import METHODS
from drfl.norms import NORMS
from drfl.solvers import SOLVERS
from ward_engine import ThreadsEngine
from ward_loss import LogCosh
from ward_method import Momentum
from ward_norm import LargestInUnits

LOSSES["log_cosh"] = LogCosh
NORMS["largest_in_units"] = LargestInUnits(np.array([1.0, 0.5, 2.0]))
SOLVERS["kelley"] = "ward_solver:Kelley"
METHODS["momentum"] = Momentum
ENGINES["threads"] = ThreadsEngine
"""
PAGES = {"loss": "a", "norm": "a", "solver": "a", "method": "a", "engine": "an"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder of the package: of every page the code up to its last class."""
    folder = tmp_path_factory.mktemp("installed")
    for what, article in PAGES.items():
        code = [b.text for b in blocks(ROOT / "docs" / f"adding-{article}-{what}.md", "python")]
        last = max(i for i, text in enumerate(code) if "\nclass " in f"\n{text}")
        (folder / f"ward_{what}.py").write_text("\n".join(code[: last + 1]), encoding="utf-8")
    (folder / "ward.py").write_text(REGISTER, encoding="utf-8")
    info = folder / "ward-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ward\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[drfl.extensions]\nward = ward\n")
    return folder


def drfl(installed, *arguments, cwd):
    path = os.pathsep.join(filter(None, [str(installed), os.environ.get("PYTHONPATH", "")]))
    return subprocess.run(
        [sys.executable, "-m", "drfl", *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": path},
    )


def files(folder):
    for name in ("north", "south"):
        rows = [[(7 * i) % 11, (5 * i) % 13, (3 * i) % 7, 0.5 * ((7 * i) % 11)] for i in range(30)]
        write_csv(folder / f"{name}.csv", ["a", "b", "c", "score"], rows)
    return ["--client=north.csv", "--client=south.csv", "--target", "score"]


@pytest.mark.slow
def test_the_program_lists_and_uses_it(installed, tmp_path):
    listed = drfl(installed, "list", cwd=tmp_path)
    assert listed.returncode == 0, listed.stderr
    for name in ("log_cosh", "largest_in_units", "kelley", "momentum", "threads"):
        assert name in listed.stdout
    added = ["--loss", "log_cosh", "--norm", "largest_in_units", "--radius", "0.05"]
    options = [*files(tmp_path), *added, "--engine", "processes", "--no-validation"]
    done = drfl(installed, "train", *options, "--out", "RUN", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    done = drfl(installed, "predict", "RUN/model.json", "north.csv", "--out", "p.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_package_that_cannot_be_imported_is_named(tmp_path):
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[drfl.extensions]\nbroken = not_there\n")
    done = drfl(tmp_path, "list", cwd=tmp_path)
    assert done.returncode == 3
    assert "the extension 'broken' (not_there) cannot be loaded" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_real_sites_use_what_is_installed_there(installed, tmp_path, monkeypatch):
    # The project's file is read in this process, too, which has no such package.
    monkeypatch.setitem(LOSSES, "log_cosh", Huber)
    path = os.pathsep.join(filter(None, [str(installed), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PYTHONPATH", path)
    training = {"loss": "log_cosh", "target": "thal", "radius": 0.05}
    data = hospitals()
    with real_sites(
        tmp_path, data, settings={name: {"guard": 0} for name in data}, training=training
    ):
        drfl_sites("run", "--out", "RUN", cwd=tmp_path)
    assert '"log_cosh"' in (tmp_path / "RUN" / "model.json").read_text(encoding="utf-8")
