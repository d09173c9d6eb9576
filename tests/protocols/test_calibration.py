"""A calibration over sites is that of their files, and no score leaves."""

import numpy as np
import pytest

from drfl import Policy
from drfl.models import read_model
from drfl.models.calibration import Labelled, calibrated_model
from drfl.models.file_rows import read_rows
from drfl.privacy import Guard
from drfl.privacy.dp import DifferentialPrivacy
from drfl.protocols.calibration import calibrate
from drfl.protocols.federation import Remote
from drfl.protocols.station import Station
from kit.program import THREE, drfl
from kit.stations import Loopback


@pytest.fixture(scope="module")
def model(trained):
    return read_model(trained / "RUN" / "model.json")


def sites(folder, names, **more):
    engine = Loopback([Station(name, folder / f"{name}.csv", **more) for name in names])
    return engine, Remote(engine, names)


def here(model, folder, names, kind):
    files = {name: read_rows(model, folder / f"{name}.csv", target=True) for name in names}
    rows = {name: Labelled(file.X, file.y) for name, file in files.items()}
    return calibrated_model(model, rows, kind=kind).calibrations


@pytest.mark.parametrize("kind", ["intercept", "slope"])
@pytest.mark.parametrize("names", [["a"], ["a", "b", "c"]])
def test_sites_fit_what_their_files_would(trained, model, kind, names):
    engine, federation = sites(trained, names)
    found, known = calibrate(federation, model, kind), here(model, trained, names, kind)
    assert set(found.calibrations) == set(known) == {"a" if len(names) == 1 else "*"}
    for name, made in found.calibrations.items():
        assert made.kind == kind
        assert made.slope == pytest.approx(known[name].slope, abs=1e-6)
        assert made.intercept == pytest.approx(known[name].intercept, abs=1e-6)
    # On the rows that it was fitted to, the mean probability is the share of positive ones.
    files = [read_rows(model, trained / f"{name}.csv", target=True) for name in names]
    z = np.concatenate([found.at(names[0]).scores(f.X, f.X)[:, 0] for f in files])
    share = np.concatenate([f.y for f in files]).mean()
    assert (1 / (1 + np.exp(-z))).mean() == pytest.approx(share, abs=1e-6)
    sent = [array for _, reply in engine.sent for array in reply.arrays.values()]
    assert not any(len(files[0].y) in array.shape for array in sent)


def test_each_of_several_classes_against_the_rest(tmp_path):
    rng = np.random.default_rng(4)
    for name, shift in (("a", 0.0), ("b", 0.0), ("c", 0.8)):  # c is a new site
        x = rng.normal(size=80)
        stage = np.digitize(x + shift + rng.logistic(size=80), [-0.7, 0.9])
        lines = [f"{v:.4f},s{k}" for v, k in zip(x, stage, strict=True)]
        (tmp_path / f"{name}.csv").write_text("x,stage\n" + "\n".join(lines) + "\n")
    two = ("--client", "a.csv", "--client", "b.csv", "--target", "stage", "--out")
    drfl("train", *two, "RUN", "--multiclass", "ovr", "--quiet", cwd=tmp_path)
    model = read_model(tmp_path / "RUN" / "model.json")
    found = calibrate(sites(tmp_path, ["c"])[1], model, "intercept").calibrations["c"]
    known = here(model, tmp_path, ["c"], "intercept")["c"]
    assert found.intercept == pytest.approx(known.intercept, abs=1e-6)
    assert len(set(np.round(found.intercept, 2))) == 3
    drfl("train", *two, "JOINT", "--quiet", cwd=tmp_path)
    joint = read_model(tmp_path / "JOINT" / "model.json")
    for names in (["c"], ["a", "b", "c"]):  # all classes in one problem have theirs together
        found = calibrate(sites(tmp_path, names)[1], joint, "intercept").calibrations
        known = here(joint, tmp_path, names, "intercept")
        for name, made in found.items():
            assert made.intercept == pytest.approx(known[name].intercept, abs=1e-6)
    with pytest.raises(ValueError, match="a slope is fitted to the score of one class"):
        calibrate(sites(tmp_path, ["a", "b"])[1], joint, "slope")


@pytest.mark.parametrize(
    "why", [{"guard": Guard(k=5)}, {"privacy": DifferentialPrivacy(1.0, 1e-6, 2.0)}]
)
@pytest.mark.parametrize("kind", ["intercept", "slope"])
def test_who_guards_rows_refuses_before_it_reads_them(trained, model, why, kind, monkeypatch):
    monkeypatch.setattr("drfl.protocols.station.read_rows", None)
    with pytest.raises(ValueError, match="its policy, guard or rows do not allow it"):
        calibrate(sites(trained, ["a"], **why)[1], model, kind)


def test_a_policy_holds_for_a_calibration_too(trained, model):
    for policy in (Policy(allow_losses={"hinge"}), Policy(allow_targets={"age"})):
        with pytest.raises(ValueError, match="its policy, guard or rows do not allow it"):
            calibrate(sites(trained, ["a"], policy=policy)[1], model, "slope")
    with pytest.raises(ValueError, match="client 'a' refuses the matrices"):
        calibrate(sites(trained, ["a"], policy=Policy(curvature=False))[1], model, "intercept")
    calibrate(sites(trained, ["a"], policy=Policy(curvature=False))[1], model, "slope")


def test_one_class_and_a_number_get_a_sentence(trained, model, tmp_path):
    lines = (trained / "a.csv").read_text().splitlines()
    one = [line for line in lines if not line.endswith("yes")]
    assert len(one) > 10
    (tmp_path / "a.csv").write_text("\n".join(one) + "\n")
    with pytest.raises(ValueError, match="no intercept fits the scores"):
        calibrate(sites(tmp_path, ["a"])[1], model, "intercept")
    number = (*THREE[:-2], "--target", "age", "--out", str(tmp_path / "AGE"), "--quiet")
    drfl("train", *number, cwd=trained)
    with pytest.raises(ValueError, match="can be one row's own number"):
        calibrate(sites(trained, ["a"])[1], read_model(tmp_path / "AGE/model.json"), "intercept")
