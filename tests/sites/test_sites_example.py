"""The example: a server and three hospitals on this machine, from nothing to a report."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from sites_kit import flare_processes

from drfl.models import read_model

EXAMPLE = Path(__file__).parents[2] / "examples" / "three-hospitals" / "run"


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """What the example says, and the folder that it wrote."""
    out = tmp_path_factory.mktemp("example") / "out"
    done = subprocess.run(
        [sys.executable, EXAMPLE, out],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, out


def test_it_writes_what_a_training_writes(played):
    _, out = played
    run = out / "RUN"
    (proof,) = read_model(run / "model.json").certificates
    assert proof.status.kind == "certified"
    assert 0.0 <= proof.gap <= 0.05
    kinds = [json.loads(line)["kind"] for line in (run / "records.jsonl").read_text().splitlines()]
    assert [k for k in dict.fromkeys(kinds) if k != "round"] == [
        "start",
        "settings",
        "preflight",
        "problem",
        "result",
    ]
    assert 'sites = ["north", "south", "west"]' in (run / "config.toml").read_text()
    assert (run / "report.html").stat().st_size > 10_000


def test_nothing_is_left_behind(played):
    said, out = played
    assert "ended: the server, north, south, west" in said
    assert flare_processes(out) == []


def test_every_hospital_knows_what_has_left(played):
    _, out = played
    for name in ("north", "south", "west"):
        lines = (out / name / name / "state" / "messages.jsonl").read_text().splitlines()
        kinds = [json.loads(line)["kind"] for line in lines]
        assert kinds[:3] == ["hello/reply", "preflight/reply", "bind/reply"]
        assert "bundle/reply" in kinds
        assert "failure" not in kinds


def test_no_key_of_a_hospital_was_ever_at_the_coordinator(played):
    _, out = played
    keys = [out / name / name / "flare" / "startup" / "client.key" for name in ("north", "west")]
    for key in keys:
        secret = key.read_bytes()
        files = (path for path in (out / "coordinator").rglob("*") if path.is_file())
        assert not any(secret in path.read_bytes() for path in files)
