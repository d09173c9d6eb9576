"""Networks at sites: real gates, each with its data in a process of its own."""

import json

import numpy as np
import pytest
from torch import nn

import drfl
from drfl.client import Policy, RefusedError, RemoteClient
from drfl.native import FedAvg
from drfl.protocols.agreement import preflight
from drfl.protocols.data_request import DataRequest
from drfl.protocols.federation import Remote, bind_message, binding_of
from drfl.protocols.station import Station
from drfl.sites.carrier import PollingCarrier
from drfl.sites.engine import SitesEngine
from drfl.sites.gate import open_gate
from drfl.torch import MODULES, Model
from drfl.wire import WireError

NAMES = ("north", "south")
CLASSES = ("none", "mild", "severe")
METHOD = FedAvg(local_steps=2, step_size=0.2, batch_size=16, seed=4)
PACKAGE = """\
from torch import nn


def build():
    return nn.Sequential(nn.Linear(2, 5), nn.Tanh(), nn.Linear(5, 3)).double()
"""


class Wires(PollingCarrier):
    """Brings questions to the gates of this process, and keeps what comes back."""

    def __init__(self, gates):
        super().__init__(silence=60.0, patience=60.0)
        self.gates, self.answers = gates, []

    def call(self, site, number, question, seconds, timeout):
        answer = self.gates[site].answer(number, question, seconds)
        self.answers.append(answer)
        return answer


@pytest.fixture
def ward(tmp_path, monkeypatch):
    """A package that every site has installed, with a name for its module."""
    (tmp_path / "ward_layers.py").write_text(PACKAGE)
    info = tmp_path / "ward_layers-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ward-layers\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[drfl.modules]\nward layers = ward_layers:build\n")
    monkeypatch.syspath_prepend(tmp_path)


def settings_of(folder, name, **site):
    rng = np.random.default_rng(len(name) + NAMES.index(name))
    X = rng.normal(size=(60, 2))
    classes = np.array(CLASSES)[np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3])]
    rows = [f"{a:.6f},{b:.6f},{c}" for (a, b), c in zip(X, classes, strict=True)]
    (folder / f"{name}.csv").write_text("\n".join(["age,bmi,ill", *rows]) + "\n")
    home = folder / name
    home.mkdir()
    kit = {"schema": 1, "name": name, "project": "p", "host": "localhost", "port": 1}
    (home / "kit.json").write_text(json.dumps(kit))
    lines = {"data": f"../{name}.csv", "guard": 0, **site}
    text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in lines.items())
    (home / "site.toml").write_text(text + "\n")
    return home / "site.toml"


def federated(carrier, problem, max_rounds=6):
    federation = Remote(SitesEngine(carrier, NAMES), NAMES)
    agreed = preflight(DataRequest("ill"), NAMES, federation.ask)
    run = drfl.solve(
        problem,
        federation.place(agreed, None),
        solver=METHOD,
        engine=federation.engine,
        max_rounds=max_rounds,
    )
    return run, agreed


def test_sites_train_a_network_by_the_name_of_its_module(ward, tmp_path, monkeypatch):
    """Bit for bit as where the rows are at hand; what a site has not installed it refuses."""
    problem = drfl.Problem(
        Model("ward layers"), drfl.Ball(0.1, "l2", order=2), drfl.Mixture("uniform")
    )
    settings = {name: settings_of(tmp_path, name, allow_losses=["network"]) for name in NAMES}
    gates = {name: open_gate(path) for name, path in settings.items()}
    try:
        carrier = Wires(gates)
        run, agreed = federated(carrier, problem)
        monkeypatch.setitem(MODULES, "here only", lambda: nn.Linear(2, 3).double())
        with pytest.raises(ValueError, match="cannot take part"):
            federated(carrier, drfl.Problem(Model("here only")))
    finally:
        for gate in gates.values():
            gate.close()
    here = [station_of(tmp_path, name).client(agreed, None) for name in NAMES]
    same = drfl.solve(problem, here, solver=METHOD, max_rounds=6)
    assert run.coef.tobytes() == same.coef.tobytes()
    assert run.objective < run.history[0].objective
    assert not any(b"torch" in answer or b"ward" in answer for answer in carrier.answers)


def station_of(folder, name, **options):
    station = Station(name, folder / f"{name}.csv", **options)
    station.look(DataRequest("ill"))
    return station


def bind(station, agreed, problem):
    client = RemoteClient(
        "north", tuple(agreed.features), "north", 0, binding_of(agreed, None, folds=False)
    )
    return station.handle(bind_message(client, problem))


def test_what_a_station_refuses(ward, tmp_path):
    settings_of(tmp_path, "north")
    station = station_of(tmp_path, "north", policy=Policy(allow_losses={"logistic"}))
    facts = {"north": station}
    agreed = preflight(
        DataRequest("ill"),
        ["north"],
        lambda asked: {n: facts[n].handle(m) for n, m in asked.items()},
    )
    with pytest.raises(RefusedError, match="the loss 'network'"):
        bind(station, agreed, drfl.Problem(Model("ward layers")))
    with pytest.raises(WireError, match="a class that there is not"):
        bind(station_of(tmp_path, "north"), agreed, drfl.Problem("hinge"))
