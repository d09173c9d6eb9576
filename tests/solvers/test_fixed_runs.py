"""Models, bounds and rounds of fixed problems stay what they were."""

import json

import pytest

from kit.fixed_runs import STORED, runs

NAMES = sorted(json.loads(STORED.read_text(encoding="utf-8")))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_fixed_runs_are_what_was_stored():
    stored, seen = json.loads(STORED.read_text(encoding="utf-8")), []
    for name, found in runs():
        seen.append(name)
        wanted = stored[name]
        assert found.get("refused") == wanted.get("refused"), name
        if "refused" not in wanted:
            assert (found["status"], found["rounds"]) == (wanted["status"], wanted["rounds"]), name
            numbers = [float.fromhex(v) for v in found["numbers"]]
            expected = [float.fromhex(v) for v in wanted["numbers"]]
            assert numbers == pytest.approx(expected, rel=1e-7, abs=1e-9), name
    assert sorted(seen) == NAMES
