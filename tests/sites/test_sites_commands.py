"""The coordinator's commands on real processes: check, run, evaluate, explain, stop."""

import json
import subprocess
import sys

import numpy as np
import pytest

from drfl.models import read_model
from drfl.sites.flare.session import connect
from drfl.sites.os_processes import wait_until
from kit.program import records_of
from kit.real_sites import Program, drfl_sites, hospitals, real_sites

pytestmark = pytest.mark.slow

TRAINING = {"radius": 0.05, "mixture_radius": 0.2}


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """Three hospitals without a guard: their answers can be compared to the last digit."""
    folder, data = tmp_path_factory.mktemp("commands"), hospitals()
    own, training = {name: {"guard": 0} for name in data}, TRAINING | {"validation": True}
    with real_sites(folder, data, settings=own, training=training, rejoin=5.0) as started:
        yield started


@pytest.fixture(scope="module")
def trained(sites):
    """The folder of a run over the sites."""
    drfl_sites("run", "--out", "RUN", cwd=sites.folder)
    return sites.folder / "RUN"


@pytest.fixture(scope="module")
def here(sites):
    """The same training with the files at hand."""
    files = [f"--client={name}.csv" for name in sites.sites]
    settings = [f"--{key.replace('_', '-')}={value}" for key, value in TRAINING.items()]
    drfl(sites.folder, "train", *files, "--target=disease", *settings, "--out=HERE")
    return sites.folder / "HERE"


def drfl(folder, *arguments):
    command = [sys.executable, "-m", "drfl", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def test_check(sites):
    said = drfl_sites("check", cwd=sites.folder).stdout
    for name in sites.sites:
        assert f"\n{name:5}  yes" in said
    assert "360 days" in said
    assert "3 clients, 270 rows, target 'disease': 2 classes" in said


def test_inspect(sites):
    """Table 1 of the sites is that of the same files at hand, warnings and all."""
    there = drfl_sites("inspect", cwd=sites.folder)
    files = [f"{name}.csv" for name in sites.sites]
    here = drfl(sites.folder, "inspect", *files, "--target=disease")
    table = here[here.index("Table 1") : here.index("scaling:")]
    assert table in there.stdout
    lines = drfl_sites("inspect", "--json", cwd=sites.folder).stdout.splitlines()
    cells = [json.loads(line) for line in lines]
    assert {cell["client"] for cell in cells if cell["kind"] == "cell"} == set(sites.sites)


def test_a_run_is_that_of_the_files_at_hand(trained, here):
    ours, theirs = read_model(trained / "model.json"), read_model(here / "model.json")
    assert np.array_equal(ours.coef, theirs.coef)
    assert np.array_equal(ours.intercept, theirs.intercept)
    assert ours.certificates == theirs.certificates
    assert {path.name for path in trained.iterdir()} >= {
        "config.toml",
        "records.jsonl",
        "model.json",
    }
    # How good it is on what it has not seen is told over the network to the last digit, too.
    one, other = (
        [record for record in records_of(run) if record["kind"] == "validation"]
        for run in (trained, here)
    )
    assert one == other
    assert one[0]["measures"]["a new client"]["model"]["accuracy"]["mean"] > 0.7


def test_evaluate(sites, trained):
    noise = ("--noise", "0.5", "--json")
    lines = drfl_sites("evaluate", "RUN/model.json", *noise, cwd=sites.folder).stdout
    said = [json.loads(line) for line in lines.splitlines()]
    there = [entry for entry in said if "site" in entry]
    judged = {entry["rows_of"]: entry for entry in said if "rows_of" in entry}
    assert set(judged) == {"all clients", *sites.sites}
    assert all(entry["rows"] == 90 for name, entry in judged.items() if name in sites.sites)
    files = [f"{name}.csv" for name in sites.sites]
    lines = drfl(sites.folder, "evaluate", "RUN/model.json", *files, *noise)
    for found, entry in zip(there, map(json.loads, lines.splitlines()), strict=True):
        assert found.pop("site") == entry.pop("file").removesuffix(".csv")
        assert entry.pop("rows") == 90
        assert found == pytest.approx(entry)


def test_groups_and_thresholds(sites, trained):
    """What sites tell of groups is what their files say; what they hide is said to be hidden."""
    flags = ("--threshold", "0.5", "--by", "oldpeak:1", "--json")
    there = drfl_sites("evaluate", "RUN/model.json", *flags, cwd=sites.folder).stdout
    told = {e["rows_of"]: e for e in map(json.loads, there.splitlines()) if "rows_of" in e}
    files = [f"{name}.csv" for name in sites.sites]
    here = drfl(sites.folder, "evaluate", "RUN/model.json", *files, *flags)
    known = {e["rows_of"]: e for e in map(json.loads, here.splitlines()) if "rows_of" in e}
    assert set(told) >= {"all clients", "oldpeak < 1", "oldpeak >= 1"}
    for name in ("oldpeak < 1", "oldpeak >= 1"):
        for key in ("rows", "positive", "brier", "majority"):
            assert told[name][key] == pytest.approx(known[name][key])
    refused = drfl_sites("evaluate", "RUN/model.json", "--threshold", "2", cwd=sites.folder, code=3)
    assert "between 0 and 1" in refused.stderr


def test_own_intercepts(sites):
    """An intercept of every site: model, proof and standard errors are those of the files."""
    plan = (sites.folder / "sites.toml").read_text().replace("validation = true", "", 1)
    own = 'intercept = "per-client"\nvalidation = false\n'
    (sites.folder / "own.toml").write_text(plan + own)
    drfl_sites("run", "--config", "own.toml", "--out", "OWN", cwd=sites.folder, seconds=280)
    files = [f"--client={name}.csv" for name in sites.sites]
    settings = [f"--{key.replace('_', '-')}={value}" for key, value in TRAINING.items()]
    more = (*settings, "--intercept=per-client", "--no-validation", "--out=OWN-HERE")
    drfl(sites.folder, "train", *files, "--target=disease", *more)
    runs = [sites.folder / run for run in ("OWN", "OWN-HERE")]
    ours, theirs = (read_model(run / "model.json") for run in runs)
    assert ours.problem.own_intercepts
    assert np.array_equal(ours.coef, theirs.coef)
    assert ours.certificates == theirs.certificates
    assert set(ours.calibrations) == set(sites.sites)
    assert ours.calibrations == theirs.calibrations
    one, other = ([r["point"] for r in records_of(run) if r["kind"] == "inference"] for run in runs)
    assert one == other
    assert len(one[0]) == len(ours.features)


@pytest.mark.parametrize("kind", ["intercept", "slope"])
def test_calibrate(sites, trained, kind):
    """What sites fit, together or one alone, is what their files would."""
    for names in ([], ["west"]):
        which = [f"--site={name}" for name in names]
        there, here = f"there-{kind}-{len(names)}.json", f"here-{kind}-{len(names)}.json"
        flags = ("--kind", kind, "--out")
        said = drfl_sites(
            "calibrate", "RUN/model.json", *which, *flags, there, cwd=sites.folder
        ).stdout
        assert f"the calibrated model: {there}" in said
        files = [f"{name}.csv" for name in names or sites.sites]
        drfl(sites.folder, "calibrate", "RUN/model.json", *files, *flags, here)
        ours, theirs = (read_model(sites.folder / name).calibrations for name in (there, here))
        assert set(ours) == set(theirs) == {names[0] if names else "*"}
        for name, found in ours.items():
            assert found.slope == pytest.approx(theirs[name].slope, abs=1e-6)
            assert found.intercept == pytest.approx(theirs[name].intercept, abs=1e-6)
    again = ("calibrate", "RUN/model.json", "--kind", kind, "--out", there)
    assert "exists" in drfl_sites(*again, cwd=sites.folder, code=3).stderr
    unknown = drfl_sites(*again[:2], "--site", "rome", cwd=sites.folder, code=3).stderr
    assert "rome" in unknown


def test_evaluate_says_how_many_rows_hold_what_was_not_trained(sites, tmp_path):
    counts = {}
    for name in sites.sites:
        head, *lines = (sites.folder / f"{name}.csv").read_text().splitlines(keepends=True)
        assert head.split(",")[-2] == "thal"
        known = [line for line in lines if line.split(",")[-2] != "6"]
        (tmp_path / f"{name}.csv").write_text("".join([head, *known]))
        counts[name] = len(lines) - len(known)
    files = [f"{name}.csv" for name in sites.sites]
    settings = ("--target=disease", "--categorical=thal", "--no-validation", "--out=FEWER")
    drfl(tmp_path, "train", *files, *settings)
    said = drfl_sites("evaluate", tmp_path / "FEWER" / "model.json", cwd=sites.folder).stderr
    for name, count in counts.items():
        assert count > 0
        rows = f"{count} rows" if count >= 5 else "fewer than 5 rows"
        assert f"{name}: {rows} hold a value of 'thal' that was not trained" in said


def test_explain(sites, trained):
    lines = drfl_sites("explain", "RUN/model.json", "--json", cwd=sites.folder).stdout
    there = [json.loads(line) for line in lines.splitlines()]
    files = [f"{name}.csv" for name in sites.sites]
    lines = drfl(sites.folder, "explain", "RUN/model.json", *files, "--json")
    for found, entry in zip(there, map(json.loads, lines.splitlines()), strict=True):
        assert found["client"] == entry["client"]
        assert found["worst_loss"] == pytest.approx(entry["worst_loss"])


def test_selection(sites):
    plan = (sites.folder / "sites.toml").read_text().replace("radius = 0.05", "", 1)
    (sites.folder / "choose.toml").write_text(plan + 'select = "mean"\nfolds = 3\n')
    drfl_sites("run", "--config", "choose.toml", "--out", "CHOSEN", cwd=sites.folder, seconds=280)
    files = [f"--client={name}.csv" for name in sites.sites]
    select = ("--select=mean", "--folds=3", "--mixture-radius=0.2")
    drfl(sites.folder, "train", *files, "--target=disease", *select, "--out=CHOSEN-HERE")
    ours, theirs = (
        read_model(sites.folder / run / "model.json") for run in ("CHOSEN", "CHOSEN-HERE")
    )
    assert np.array_equal(ours.coef, theirs.coef)


def test_curves(sites):
    """An additive model over the sites is that of the files, pieces, bands and all."""
    plan = (sites.folder / "sites.toml").read_text().replace("validation = true", "", 1)
    curved = 'additive = ["max_heart_rate", "oldpeak"]\ndecreasing = ["max_heart_rate"]\n'
    (sites.folder / "curves.toml").write_text(plan + curved + "validation = false\n")
    drfl_sites("run", "--config", "curves.toml", "--out", "CURVES", cwd=sites.folder, seconds=280)
    files = [f"--client={name}.csv" for name in sites.sites]
    settings = [f"--{key.replace('_', '-')}={value}" for key, value in TRAINING.items()]
    curves = ("--additive=max_heart_rate,oldpeak", "--decreasing=max_heart_rate", "--no-validation")
    more = (*settings, *curves, "--out=CURVES-HERE")
    drfl(sites.folder, "train", *files, "--target=disease", *more)
    runs = [sites.folder / run for run in ("CURVES", "CURVES-HERE")]
    ours, theirs = (read_model(run / "model.json") for run in runs)
    assert any(ours.problem.curves.knots)
    assert np.array_equal(ours.coef, theirs.coef)
    assert ours.certificates == theirs.certificates
    one, other = ([r for r in records_of(run) if r["kind"] == "result"] for run in runs)
    assert one[0]["curves"] == other[0]["curves"]
    assert "band" in one[0]["curves"][0]


def test_an_interrupted_run_is_continued(sites, trained):
    program = Program("run", "--out", "AGAIN", cwd=sites.folder)
    program.until("270 rows")
    program.process.terminate()
    program.end()
    assert program.process.returncode == 130
    assert "the rounds done are kept at the server" in program.text
    resume = program.text.split("--resume ")[1].split("`")[0]
    drfl_sites("run", "--resume", resume, "--out", "AGAIN", cwd=sites.folder)
    again = read_model(sites.folder / "AGAIN" / "model.json")
    assert np.array_equal(again.coef, read_model(trained / "model.json").coef)


def test_fewer_than_the_quorum(sites):
    assert sites.sites["west"].stop() == 130
    # FLARE forgets a site that sends no heartbeat.
    with connect(sites.layout) as session:
        assert wait_until(lambda: "west" not in session.connected(), 60.0, 1.0)
    said = drfl_sites("run", "--out", "NEVER", cwd=sites.folder, code=3).stderr
    assert said == (
        "drfl: 2 sites are connected, the quorum is 3: wait for 'west', or set a smaller quorum\n"
    )
    sites.join("west").until("has joined")


def test_the_end(sites):
    said = drfl_sites("stop", cwd=sites.folder).stdout
    assert said == "ended: the server, north, south, west\n"
    for program in (sites.server, *sites.sites.values()):
        assert program.end() == 0
        assert "the coordinator has ended it" in program.text


def test_an_ordinary_day_has_no_refusals(sites):
    """The last one of the module: nothing that the commands need was dropped."""
    states = [sites.layout.state, *(sites.kit(name) / "state" for name in sites.sites)]
    assert [state for state in states if (state / "refused.jsonl").exists()] == []
