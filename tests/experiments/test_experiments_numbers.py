"""A tiny version of each experiment gives the stored numbers, and its text and figures are made.

Tolerances: a model is proved to a relative gap of 2e-4 or less, and with other libraries another
model within it may be found. So a test row or two may be classified otherwise (0.04 in accuracy),
errors may differ by 2 %, gaps by half a digit. Radii are sorted distances of random samples and
agree to the step of the radii.
"""

import json

import numpy as np
import pytest
from experiments_kit import STORED, numbers, run, tiny

from experiments import NAMES
from experiments.protocol import PROTOCOLS
from experiments.registry import find

TOLERANCES = {
    "volume": {"atol": 1.1e-5},
    "convergence": {"atol": 0.5},
    "abalone": {"rtol": 0.02},
}

SWEPT = [name for name in NAMES if name in PROTOCOLS]


@pytest.fixture(scope="module", params=list(NAMES))
def finished(request):
    pytest.importorskip("matplotlib")
    return request.param, run(request.param)


@pytest.mark.sampled(8)
def test_stored_numbers(finished):
    name, done = finished
    expected = json.loads(STORED.read_text(encoding="utf-8"))[name]
    found = numbers(name, done)
    assert found.keys() == expected.keys()
    tolerance = TOLERANCES.get(name, {"atol": 0.04})
    for place, values in expected.items():
        np.testing.assert_allclose(found[place], values, **tolerance, err_msg=place)


@pytest.mark.sampled(4)
def test_text_and_figures(finished, tmp_path):
    name, done = finished
    settings = tiny(name)
    report = find(name).report(settings, done)
    assert report.findings
    assert any(line.startswith("|---") for line in report.tables)
    paths = find(name).draw(settings, done, tmp_path, name)
    assert {path.suffix for path in paths} == {".svg", ".png"}
    for path in paths:
        start = path.read_bytes()[:200]
        assert start.startswith(b"\x89PNG") if path.suffix == ".png" else b"<?xml" in start


@pytest.mark.parametrize("finished", SWEPT, indirect=True)
def test_oracle_is_never_worse_than_any_rule(finished):
    name, done = finished
    sign = -1.0 if name == "abalone" else 1.0
    for one in done:
        best = {row["method"]: row for row in one.rows if row["rule"] == "oracle"}
        for row in one.rows:
            if row["rule"].startswith("untuned"):
                continue  # not on the grid
            for sweep, values in row["sweeps"].items():
                leaked = best[row["method"]]["sweeps"][sweep]
                assert (sign * (np.array(leaked) - values) >= -1e-12).all()


@pytest.mark.parametrize("finished", ["abalone"], indirect=True)
def test_remark_on_abalone(finished):
    """DRFA and standard Huber regression do not coincide on abalone."""
    name, done = finished
    rows = {row["method"]: row for row in done[0].rows if row["rule"] == "mean"}
    erm, drfa = (np.array(rows[m]["sweeps"]["sd"]) for m in ("erm", "drfa"))
    assert (np.abs(drfa / erm - 1.0) > 0.01).all()
    answer = [s for s in find(name).report(tiny(name), done).findings if "coincide" in s]
    assert len(answer) == 1
    assert "does not hold" in answer[0]
