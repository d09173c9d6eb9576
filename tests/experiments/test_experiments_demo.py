"""The demo."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_demo_compares_seven_methods_and_writes_a_report(tmp_path):
    environment = os.environ | {"PYTHONWARNINGS": "error", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "experiments", "demo", "--out", "D", "--splits", "1"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = done.stdout
    lines = said.splitlines()
    assert "?" not in said  # what stands for characters that a terminal must not get
    table = [line.split() for line in lines]
    methods = {
        row[0]: row[1:]
        for row in table
        if row and row[0] in ("local", "pooled", "erm", "afl", "drfa", "wafl", "drfl")
    }
    assert len(methods) == 7
    for cells in methods.values():
        assert len(cells) == 7
        assert 0.4 < float(cells[0].rstrip("%")) / 100 <= 1.0
        assert float(cells[4]) <= 1e-4
    assert (tmp_path / "D" / "report.html").exists()
    lines = (tmp_path / "D" / "records.jsonl").read_text(encoding="utf-8").splitlines()
    demo = [r for r in map(json.loads, lines) if r["kind"] == "demo"]
    assert [r["method"] for r in demo] == list(methods)
    assert (tmp_path / "D" / "data" / "south.csv").exists()
