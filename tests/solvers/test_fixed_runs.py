"""Bounds and rounds of fixed problems stay what they were."""

import json

import pytest

from kit.fixed_runs import STORED, runs

NAMES = sorted(json.loads(STORED.read_text(encoding="utf-8")))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_fixed_runs_are_what_was_stored():
    """To within what another BLAS moves; `kit.fixed_runs` compares bits, on one machine."""
    stored, seen, otherwise = json.loads(STORED.read_text(encoding="utf-8")), [], []
    for name, found in runs():
        seen.append(name)
        wanted = stored[name]
        assert found.get("refused") == wanted.get("refused"), name
        if "refused" in wanted:
            continue
        assert found["status"] == wanted["status"], name
        bounds, expected = (
            [float.fromhex(v) for v in run["numbers"][-2:]] for run in (found, wanted)
        )
        assert bounds == pytest.approx(expected, rel=3e-6, abs=1e-9), name
        # A bound at the edge of the tolerance can cost a round more or less.
        assert abs(found["rounds"] - wanted["rounds"]) <= 2, name
        if found["rounds"] != wanted["rounds"]:
            otherwise.append(name)
    assert len(otherwise) <= 8, otherwise
    assert sorted(seen) == NAMES
