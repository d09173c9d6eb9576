"""The SuperLink is killed in the middle of a run: real processes."""

import pytest

from kit.real_flower import last_run

pytestmark = pytest.mark.slow


def test_the_superlink_is_killed_and_the_run_goes_on_to_the_same_bits(deployed):
    """The SuperNodes come back by themselves; the rounds done are not asked again."""
    deployed.behave(held=2)
    deployed.run()
    deployed.in_the_middle()
    deployed.orphan("superlink")
    deployed.kill("run")
    done = deployed.rounds("west")
    deployed.release()
    deployed.superlink()
    (number,) = [path.name for path in deployed.folder.glob("runs/*") if path.name.isdecimal()]
    deployed.run("--run-config", f'resume="{number}"')
    result, here = deployed.end(), deployed.undisturbed()
    assert result["models"] == here["models"]
    assert result["rounds"] == here["rounds"]
    assert deployed.rounds("west") <= here["rounds"] + 1
    assert done >= 2
    model = last_run(deployed) / "model.json"
    assert model.read_bytes() == (deployed.folder / "HERE" / "model.json").read_bytes()
