"""Sites left out in turn: what does each do to the others, where nobody but itself has its rows?"""

import numpy as np
import pytest

import drfl
from drfl.privacy import Guard
from drfl.protocols.federation import Remote
from drfl.protocols.station import Station
from drfl.report import write
from drfl.training.left_out import without
from drfl.training.run_folder import RunFolder
from drfl.training.settings import from_values
from drfl.training.train import train
from kit.program import write_csv
from kit.stations import Loopback, Silent

NAMES = ("east", "north", "south")


class Hearing(Silent):
    """Keeps what it is warned of."""

    def __init__(self):
        self.warnings = []

    def warn(self, sentence):
        self.warnings.append(sentence)


def files(folder, liar=None):
    rng = np.random.default_rng(4)
    found = {}
    for name in NAMES:
        X = rng.normal(size=(80, 3)).round(4)
        ill = (X @ [1.0, -0.7, 0.4] + 0.4 * rng.normal(size=80) > 0).astype(int)
        ill = 1 - ill if name == liar else ill
        rows = [[*x, y] for x, y in zip(X.tolist(), ill.tolist(), strict=True)]
        found[name] = write_csv(folder / f"{name}.csv", ["age", "dose", "lab", "ill"], rows)
    return found


def trained(folder, paths, guard=None, **values):
    """Records of a training at sites, and what its people were warned of."""
    usual = {"target": "ill", "radius": "0.02", "mixture_radius": "0.2", "loss": "logistic"}
    settings = from_values(usual | values, dict.fromkeys(paths))
    stations = [Station(name, path, guard and Guard(guard)) for name, path in paths.items()]
    listener, run = Hearing(), RunFolder(folder / "RUN", folder / "kept")
    outcome = train(settings, run, Remote(Loopback(stations), list(paths)), listener, fresh=True)
    return [r for r in outcome.records.all if r["kind"] == "left_out"], listener.warnings


@pytest.mark.parametrize("liar", [None, "south"])
@pytest.mark.sampled(2)
def test_who_harms_the_others_is_named(tmp_path, liar):
    found, warnings = trained(tmp_path, files(tmp_path, liar))
    assert [record["client"] for record in found] == list(NAMES)
    assert any("Without south the model would have" in told for told in warnings) == bool(liar)
    page = write(tmp_path / "RUN", tmp_path / "report.html").read_text("utf-8")
    assert "One client left out in turn" in page
    assert ("Without south the model would have" in page) == bool(liar)
    assert "Without east the model would have" not in page


def test_the_losses_are_those_of_models_of_the_others(tmp_path):
    """By a solver that has all rows at hand."""
    paths = files(tmp_path)
    found, _ = trained(tmp_path, paths, scale="none")
    problem = drfl.Problem("logistic", drfl.Ball(0.02, "l2"), drfl.Mixture("proportional", 0.2))
    tables = {n: np.loadtxt(path, delimiter=",", skiprows=1) for n, path in paths.items()}
    for record in found:
        others = [
            drfl.Client(n, t[:, :3], 2.0 * t[:, 3] - 1.0)
            for n, t in tables.items()
            if n != record["client"]
        ]
        alone = without(problem, dict.fromkeys(NAMES, 80), record["client"])
        truth = drfl.solve(alone, others, solver="local", tol=1e-8)
        mean = np.mean(list(truth.client_losses.values()))
        assert record["without"] == pytest.approx(mean, rel=5e-3)


@pytest.mark.parametrize("asked", [None, "true"])
def test_under_a_guard_it_has_to_be_asked_for(tmp_path, asked):
    more = {} if asked is None else {"leave_out": asked}
    found, _ = trained(tmp_path, files(tmp_path), 5, max_rounds="6", **more)
    assert bool(found) == bool(asked)
