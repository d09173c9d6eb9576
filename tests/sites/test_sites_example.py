"""The example: a server and three hospitals on this machine, from nothing to a report."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from drfl.models import read_model
from kit.real_sites import flare_processes

EXAMPLE = Path(__file__).parents[2] / "examples" / "three-hospitals" / "run"


@pytest.fixture
def played(tmp_path):
    """What the example says, and the folder that it wrote."""
    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, EXAMPLE, out],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, out


def test_the_whole_story(played):
    said, out = played
    require_a_run(out / "RUN")
    assert "ended: the server, north, south, west" in said
    assert flare_processes(out) == []
    for name in ("north", "south", "west"):
        require_a_ledger(out / name / name)
        secret = (out / name / name / "flare" / "startup" / "client.key").read_bytes()
        files = (path for path in (out / "coordinator").rglob("*") if path.is_file())
        assert not any(secret in path.read_bytes() for path in files)


def require_a_run(run):
    """It is what a training on files at hand would have written."""
    (proof,) = read_model(run / "model.json").certificates
    assert proof.status.kind == "certified"
    assert 0.0 <= proof.gap <= 0.2  # its tol; what a guard costs depends on its secret
    kinds = [json.loads(line)["kind"] for line in (run / "records.jsonl").read_text().splitlines()]
    parts = ["start", "settings", "preflight", "problem", "inference", "messages", "result"]
    parts += ["validation"]
    assert [kind for kind in dict.fromkeys(kinds) if kind != "round"] == parts
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    for name in ("config.toml", "model.json", "records.jsonl"):
        assert stat.S_IMODE((run / name).stat().st_mode) == 0o600
    assert 'sites = ["north", "south", "west"]' in (run / "config.toml").read_text()
    assert (run / "report.html").stat().st_size > 10_000


def require_a_ledger(kit):
    """The hospital knows what has left it."""
    lines = (kit / "state" / "messages.jsonl").read_text().splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert kinds[:3] == ["hello/reply", "preflight/reply", "bind/reply"]
    assert "bundle/reply" in kinds
    assert "failure" not in kinds
