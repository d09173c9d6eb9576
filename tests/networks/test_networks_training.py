"""A network from files to a model file, as every training: settings, run folder, program, sites."""

import json
import re
import sys

import numpy as np
import pytest
import torch
from networks_kit import mlp  # it registers modules
from torch import nn

import drfl
from drfl.models import ModelError, export_onnx, read_model
from drfl.protocols.data_request import text_array
from drfl.protocols.federation import Remote
from drfl.protocols.station import Station
from drfl.sites.carrier import Carrier, Outcome
from drfl.sites.driver import STATE, drive
from drfl.sites.gate import HELLO
from drfl.sites.order import make_order
from drfl.sites.progress import ProgressLog
from drfl.sites.setup.project import read_project
from drfl.torch import TorchClassifier, TorchRegressor
from drfl.training.local_files import files_here
from drfl.training.problems import check_before_reading
from drfl.training.run_folder import RunFolder
from drfl.training.settings import from_values
from drfl.training.train import train
from drfl.wire import decode, encode
from kit.program import drfl as program
from kit.program import records_of
from kit.stations import Loopback

NAMES = ("north", "south", "west")
NETWORK = {
    "target": "ill",
    "module": "mlp:6",
    "radius": 0.1,
    "max_rounds": 9,
    "step_size": 0.3,
    "batch_size": 16,
    "participation": 0.7,
    "seed": 3,
    "validation": False,
}


@pytest.fixture
def folder(tmp_path):
    for s, name in enumerate(NAMES):
        rng = np.random.default_rng(s)
        X = rng.normal(size=(40 + s, 2))
        grades = np.array(["none", "mild", "severe"])[np.digitize(X[:, 0] * X[:, 1], [-0.3, 0.3])]
        sex = rng.choice(["f", "m"], len(X))
        lines = ["age,bmi,sex,ill,sick,dose"]
        for (a, b), c, grade in zip(X, sex, grades, strict=True):
            sick = "yes" if a > b else "no"
            lines.append(f"{50 + 10 * a:.4f},{25 + b:.4f},{c},{grade},{sick},{abs(a) + 7:.4f}")
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n", "utf-8")
    return tmp_path


def settings_of(folder, **change):
    left = {"ill", "sick", "dose"} - {change.get("target", "ill")}
    files = {name: folder / f"{name}.csv" for name in NAMES}
    settings = from_values({**NETWORK, "exclude": sorted(left), **change}, files)
    check_before_reading(settings)
    return settings


def trained(folder, out="RUN", **change):
    settings, run = settings_of(folder, **change), RunFolder(folder / out)
    outcome = train(settings, run, files_here(settings, run), ProgressLog(), fresh=True)
    assert outcome.complete
    assert not outcome.proved
    return outcome


def rows_of(folder, name, columns=("age", "bmi", "sex")):
    lines = [line.split(",") for line in (folder / f"{name}.csv").read_text().splitlines()]
    return {c: [row[lines[0].index(c)] for row in lines[1:]] for c in columns}


def numbers(columns):
    return {k: v if k == "sex" else [float(x) for x in v] for k, v in columns.items()}


def test_from_files_to_a_model_file_and_its_predictions(folder):
    outcome = trained(folder)
    model = read_model(folder / "RUN" / "model.json")
    assert model.coef.tobytes() == outcome.model.coef.tobytes()
    assert model.problem.to_dict()["loss"] == {
        "name": "network",
        "module": "mlp:3-6-3",
        "loss": "cross_entropy",
    }
    loaded = drfl.load(folder / "RUN" / "model.json")
    rows = numbers(rows_of(folder, "north"))
    # What the network itself says of the scaled rows.
    module = model.problem.network.module_at(model.coef[0])
    shift, scale = model.scaling(None)
    sex = [float(s == "m") for s in rows["sex"]]
    X = (np.column_stack([rows["age"], rows["bmi"], sex]) - shift) / scale
    with torch.no_grad():
        output = module(torch.tensor(X))
    np.testing.assert_allclose(
        loaded.predict_proba(rows), nn.functional.softmax(output, dim=1).numpy(), rtol=1e-10
    )
    assert (loaded.predict(rows) == loaded.classes_[output.argmax(dim=1)]).all()
    told = next(r for r in records_of(folder / "RUN") if r["kind"] == "result")
    truth = np.array(rows_of(folder, "north", ["ill"])["ill"])
    assert told["clients"]["north"]["accuracy"] == np.mean(loaded.predict(rows) == truth)
    assert told["models"][0]["coef"] == []


def test_the_program_trains_shows_and_judges_it(folder):
    def do(*words, code=0):
        return program(*words, cwd=folder, code=code)

    files = [f"--client={name}.csv" for name in NAMES]
    how = ["--target=sick", "--exclude=ill,dose", "--module=mlp:4", "--radius=0.1", "--order=inf"]
    said = do("train", *files, *how, "--max-rounds=6", "--step-size=0.2", "--out=RUN").out
    assert "the network 'mlp:3-4-2' with 26 parameters" in said
    assert "all rounds were made" in said
    for command in (["evaluate", "--threshold=0.5"], ["evaluate", "--noise=0.5"], ["predict"]):
        assert do(command[0], "RUN/model.json", "north.csv", *command[1:]).out
    shown = do("explain", "RUN/model.json", "north.csv", "--rows=1").out
    assert "the worst loss was found, and is at most" in shown
    assert "north.csv, line" in shown
    assert "no standard errors: a network" in do("summary", "RUN", code=3).err
    assert "no curves" in do("curves", "RUN", code=3).err
    assert (
        "a network is not calibrated here"
        in do("calibrate", "RUN/model.json", "north.csv", code=3).err
    )
    do("report", "RUN")
    page = re.sub(r"<[^>]*>", " ", (folder / "RUN" / "report.html").read_text("utf-8"))
    intervals = [r for r in records_of(folder / "RUN") if r["kind"] == "interval"]
    assert [r["client"] for r in intervals] == list(NAMES)
    for record in intervals:
        assert record["lower"] <= record["upper"]
        assert f"{record['upper']:.4g}" in page
    assert "That is not proved." in page
    with pytest.raises(ValueError, match="has no graph here"):
        export_onnx(read_model(folder / "RUN" / "model.json"), folder / "x.onnx")


def test_a_run_goes_on_with_more_rounds_to_the_same_bits(folder):
    """The checkpoint of a network that made all its rounds is kept: more may be asked for."""
    whole = trained(folder, "WHOLE")
    trained(folder, "PART", max_rounds=4)
    program("train", "--resume=PART", "--max-rounds=9", cwd=folder, code=0)
    again = read_model(folder / "PART" / "model.json")
    assert again.coef.tobytes() == whole.model.coef.tobytes()


@pytest.mark.parametrize("method", ["fedavg", "dual_admm"])
def test_sites_train_it_to_the_same_bits(folder, method):
    """Stations behind the codec, as `drfl sites run` reaches them."""
    change = {"solver": method, "mixture_radius": 0.3 if method == "dual_admm" else 0.0}
    here = trained(folder, **change)
    settings = settings_of(folder, **change)
    stations = [Station(name, folder / f"{name}.csv") for name in NAMES]
    federation = Remote(Loopback(stations), NAMES)
    train(settings, RunFolder(folder / "SITES"), federation, ProgressLog(), fresh=True)
    there = read_model(folder / "SITES" / "model.json")
    assert there.coef.tobytes() == here.model.coef.tobytes()
    told = [
        [r for r in records_of(folder / run) if r["kind"] == "interval"] for run in ("RUN", "SITES")
    ]
    assert told[0] == told[1] != []


class Nearby(Carrier):
    """Stations in this process that say hello as sites do."""

    def __init__(self, stations):
        self.stations = stations

    def carry(self, questions, deadline):
        return {
            site: Outcome(encode(self.answer(site, decode(asked.message))), False, 0.0)
            for site, asked in questions.items()
        }

    def answer(self, site, message):
        if message.kind == HELLO:
            about = {"drfl": drfl.__version__, "guard": 0, "schema": 1, "python": "3.11"}
            return message.reply({"about": text_array(about)})
        return self.stations[site].answer(message)


def test_the_driver_of_sites_carries_it_out(folder, monkeypatch):
    """What `drfl sites run` and the Flower app do with the project's file."""
    monkeypatch.setenv(STATE, str(folder / "state"))
    monkeypatch.setattr("drfl.sites.driver.LAST_WORDS", 0.0)
    here = trained(folder, "HERE")
    lines = {**NETWORK, "exclude": ["dose", "sick"]}
    project = [f"sites = {json.dumps(NAMES)}", "[training]"]
    project += [f"{key} = {json.dumps(value)}" for key, value in lines.items()]
    (folder / "sites.toml").write_text("\n".join(project) + "\n", "utf-8")
    stations = {name: Station(name, folder / f"{name}.csv") for name in NAMES}
    drive(
        make_order(read_project(folder / "sites.toml"), "train", "ab" * 16, 0),
        present=list(NAMES),
        carrier=lambda silence, patience: Nearby(stations),
        results=folder,
        publish=lambda name, answer: None,
    )
    outcome = json.loads((folder / "RUN" / "outcome.json").read_text("utf-8"))
    assert (outcome["status"], outcome["exit"]) == ("max_rounds", 0)
    there = read_model(folder / "RUN" / "model.json")
    assert there.coef.tobytes() == here.model.coef.tobytes()


@pytest.mark.parametrize(
    "change",
    [
        {"target": "dose"},
        {"target": "dose", "loss": "squared", "scale": "none", "step_size": 1e-4},
        {"target": "sick", "loss": "logistic", "scale": "per-client", "leave_out": True},
        {
            "target": "sick",
            "solver": "scaffold",
            "radius": {"north": 0.1, "south": 0.0, "west": 0.2},
        },
    ],
    ids=["numbers", "unscaled", "one output", "radii"],
)
def test_other_targets_and_scales(folder, change):
    outcome = trained(folder, **change)
    model = read_model(folder / "RUN" / "model.json")
    assert model.coef.tobytes() == outcome.model.coef.tobytes()
    result = next(r for r in records_of(folder / "RUN") if r["kind"] == "result")
    assert set(result["clients"]) == set(NAMES)
    if change["target"] == "dose":
        loaded = drfl.load(folder / "RUN" / "model.json")
        rows = numbers(rows_of(folder, "north"))
        truth = np.array(rows_of(folder, "north", ["dose"])["dose"], dtype=float)
        mse = np.mean((loaded.predict(rows) - truth) ** 2)
        assert result["clients"]["north"]["mse"] == pytest.approx(mse)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"module": "mlp:"}, "names no layers"),
        ({"module": "mlp:0"}, "names no layers"),
        ({"module": "mlp:9999999999"}, "more than 10000000 parameters"),
        ({"module": "no such"}, "unknown module 'no such'"),
        ({"solver": "bundle"}, "unknown solver 'bundle'"),
        ({"loss": "hinge"}, "unknown loss 'hinge'"),
        ({"guard": 5}, "guard is for linear models"),
        ({"compare": "erm"}, "compare is for linear models"),
        ({"select": "mean"}, "select is for linear models"),
        ({"additive": "all"}, "additive is for linear models"),
        ({"support": {"age": [0, 120]}}, "support is for linear models"),
        ({"label_cost": 1.0}, "label_cost is for linear models"),
        ({"radius": "confidence"}, "give a number"),
        ({"local_steps": 0}, "local_steps must be"),
        ({"participation": 0.0}, "participation must be"),
        ({"module": None, "order": "inf"}, "order is for networks"),
        ({"module": None, "batch_size": 3}, "batch_size is for networks"),
    ],
)
def test_what_does_not_go_with_a_network_is_refused_before_a_file_is_read(folder, change, sentence):
    values = {**NETWORK, **change}
    if change.get("module", "") is None:
        values = {"target": "ill", **{k: v for k, v in change.items() if k != "module"}}
    with pytest.raises(ValueError, match=sentence):
        check_before_reading(from_values(values, {"north": folder / "no such.csv"}))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"loss": "huber"}, "'huber' does not fit the target"),
        ({"loss": "logistic"}, "for two classes, not 3"),
        ({"module": "mlp"}, "does not take rows of 3 columns"),
        ({"order": 1.0}, "no ball of order 1"),
        ({"mixture_radius": 0.2, "solver": "fedavg"}, "mixture of radius 0"),
    ],
)
def test_what_the_data_rule_out_is_refused(folder, change, sentence):
    with pytest.raises(ValueError, match=sentence):
        trained(folder, **change)
    assert not (folder / "RUN" / "model.json").exists()


# ---------------------------------------------------------------------------- the model file
def test_a_fitted_network_with_a_name_is_saved_and_loaded(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.integers(0, 3, 60)
    for kind, target in ((TorchClassifier, y), (TorchRegressor, y / 3.0)):
        name = "mlp" if kind is TorchClassifier else "line"
        fitted = kind(name, rounds=4, random_state=0).fit(X, target)
        drfl.save(fitted, tmp_path / "model.json")
        loaded = drfl.load(tmp_path / "model.json")
        assert (loaded.predict(X) == fitted.predict(X)).all()
        if kind is TorchClassifier:
            np.testing.assert_allclose(loaded.predict_proba(X), fitted.predict_proba(X), rtol=1e-9)
    with pytest.raises(ValueError, match="register it"):
        drfl.save(TorchClassifier(mlp, rounds=1).fit(X, y), tmp_path / "other.json")
    assert not (tmp_path / "other.json").exists()


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (lambda d: d["problem"]["loss"].update(module="mlp:3-99999-99999-3"), "more than 10000000"),
        (lambda d: d["problem"]["loss"].update(module="gone"), "unknown module 'gone'"),
        (lambda d: d["problem"]["loss"].update(module="mlp:3-7-3"), "must have 52 numbers, got 45"),
        (lambda d: d["problem"]["loss"].update(loss="squared"), "does not fit its target"),
        (lambda d: d.update(calibrations={}), "'calibrations' are for linear models"),
        (lambda d: d["coefficients"].append(d["coefficients"][0]), "must have 1 entries, got 2"),
        (lambda d: d["coefficients"][0]["coef"].__setitem__(0, "nan"), "finite number"),
    ],
)
def test_an_edited_file_is_refused_with_a_sentence(folder, edit, sentence):
    trained(folder)
    path = folder / "RUN" / "model.json"
    data = json.loads(path.read_text("utf-8"))
    edit(data)
    path.write_text(json.dumps(data), "utf-8")
    with pytest.raises(ModelError, match=sentence):
        read_model(path)


def test_where_torch_is_not_installed_that_is_said(folder, monkeypatch):
    trained(folder)
    monkeypatch.delitem(sys.modules, "drfl.torch")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ModelError, match=r"networks need PyTorch: pip install 'drfl\[torch\]'"):
        read_model(folder / "RUN" / "model.json")
    with pytest.raises(ImportError, match="networks need PyTorch"):
        settings_of(folder)
