"""The SuperLink is killed in the middle of a run: real processes."""

import pytest

from kit.real_flower import last_run

# Flower needs a machine that is not busy: it takes a client that needs 30 s to start for crashed.
pytestmark = pytest.mark.slow

SLOW = 4.0  # seconds that a site takes for a round


def test_the_superlink_is_killed_and_the_run_goes_on_to_the_same_bits(deployed):
    """The SuperNodes come back by themselves; the rounds done are not asked again."""
    deployed.behave(slow=SLOW)
    deployed.run()
    deployed.in_the_middle(2)
    deployed.kill("superlink")
    deployed.kill("run")
    done = deployed.rounds("west")
    deployed.behave()
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
