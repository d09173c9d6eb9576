"""Files and messages that want code to run where a network is read: none of it does."""

import json
import pickle
import shutil

import numpy as np
import pytest
import torch
from networks_kit import clients

import drfl
from drfl.client import Site
from drfl.models import ModelError, read_model
from drfl.native import FedAvg
from drfl.run.checkpoint import CheckpointError
from drfl.torch import Model, TorchClassifier
from drfl.wire import Failure, Message, WireError, decode, encode

PROBLEM = drfl.Problem(Model("mlp"), drfl.Ball(0.1, "l2", order=2))


class Trap:
    """Whoever unpickles it makes a file."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.fixture
def sprung(tmp_path):
    """The file that is there once something was unpickled; nothing may make it."""
    path = tmp_path / "sprung"
    pickle.loads(pickle.dumps(Trap(path))).close()
    assert path.exists()  # the trap works
    path.unlink()
    yield path
    assert not path.exists()


def streams(trap):
    """What is a pickle, in the ways that people save networks."""
    return {"pickle": pickle.dumps(trap), "module": pickle.dumps({"state_dict": trap})}


def saved(folder):
    rng = np.random.default_rng(0)
    model = TorchClassifier("mlp", rounds=1, random_state=0)
    model.fit(rng.normal(size=(60, 4)), np.arange(60) % 3)
    drfl.save(model, folder / "model.json")
    return folder / "model.json"


def test_a_model_file_that_is_a_pickle_is_refused(sprung, tmp_path):
    path = tmp_path / "model.json"
    for stream in streams(Trap(sprung)).values():
        path.write_bytes(stream)
        for read in (read_model, drfl.load):
            with pytest.raises(ModelError):
                read(path)
    torch.save({"weights": Trap(sprung)}, path)
    with pytest.raises(ModelError):
        drfl.load(path)


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "builtins:exec",
        "torch.hub:load",
        "test_networks_malice:Trap",
        "../../model",
        "mlp:4-6-3; import os",
        "mlp:__import__('os')",
        "",
    ],
)
def test_the_name_of_a_module_is_looked_up_and_never_executed(name, sprung, tmp_path):
    path = saved(tmp_path)
    data = json.loads(path.read_text("utf-8"))
    data["problem"]["loss"]["module"] = name
    path.write_text(json.dumps(data), "utf-8")
    with pytest.raises(ModelError, match=r"unknown module|names no layers"):
        read_model(path)


def test_parameters_are_numbers_and_nothing_else(sprung, tmp_path):
    path = saved(tmp_path)
    text = path.read_text("utf-8")
    data = json.loads(text)
    data["coefficients"][0]["coef"] = pickle.dumps(Trap(sprung)).decode("latin-1")
    path.write_text(json.dumps(data), "utf-8")
    with pytest.raises(ModelError):
        read_model(path)


def test_a_message_that_is_a_pickle_or_holds_objects_is_none(sprung):
    for stream in streams(Trap(sprung)).values():
        with pytest.raises(WireError):
            decode(stream)
    with pytest.raises(WireError):
        encode(Message("fedavg", 1, {"x": np.array([Trap(sprung)], dtype=object)}))
    site = Site(clients()[0], PROBLEM)
    stream = np.frombuffer(pickle.dumps(Trap(sprung)), dtype=np.uint8)
    assert Failure.of(site.answer(Message("fedavg", 1, {"x": stream}), FedAvg.handlers))


def test_a_checkpoint_that_is_a_pickle_is_refused(sprung, tmp_path):
    path, stop = tmp_path / "run.drfl", [lambda record: record.round == 2]
    method = FedAvg(seed=1)
    drfl.solve(PROBLEM, clients(), solver=method, max_rounds=5, checkpoint=path, callbacks=stop)
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    assert files
    for file in files:
        shutil.copy(file, tmp_path / "kept")
        file.write_bytes(pickle.dumps(Trap(sprung)))
        with pytest.raises((CheckpointError, WireError, ValueError)):
            drfl.solve(PROBLEM, clients(), solver=method, max_rounds=5, checkpoint=path)
        shutil.copy(tmp_path / "kept", file)
