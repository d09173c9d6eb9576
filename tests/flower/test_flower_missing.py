"""Sites that leave, come late or have no door: real processes."""

import pytest

from kit.real_flower import Faulty, last_run, result_of

pytestmark = pytest.mark.slow


@pytest.fixture
def impatient(tmp_path):
    """A run that waits for minutes, not hours; nobody is started yet but the SuperLink."""
    made = Faulty(tmp_path, silence=300, rejoin=120)
    try:
        made.do("drfl", "flower", "init", "sites.toml")
        made.superlink()
        yield made
    finally:
        made.close()


def test_a_site_that_leaves_is_named_and_the_others_go_on(impatient):
    for name in ("north", "west"):
        impatient.open(name)
        impatient.supernode(name)
    impatient.behave(held=1)
    impatient.run()
    impatient.in_the_middle()
    impatient.kill("node-north")
    impatient.kill("door-north")
    result = impatient.end()
    said = impatient.said("run")
    assert "site 'north' is missing from now on: it gave no sign of life" in said
    assert "waiting 120 s for 'north' to come back" in said
    (model,) = result["models"]
    assert model["status"]["kind"] == "partial"
    assert "north fell silent" in model["status"]["message"]


def test_a_site_that_is_late_takes_part_in_the_next_attempt(impatient):
    """Before it, its SuperNode is there without a door, and that is said."""
    impatient.open("north")
    for name in ("north", "west"):
        impatient.supernode(name)
    impatient.run()
    impatient.until("run", "site 'west' is missing from now on: it was not connected")
    assert "finds no door: run `drfl flower site` there" in impatient.said("run")
    impatient.open("west")
    result, here = impatient.end(), impatient.undisturbed()
    assert "attempt 2, from the checkpoint" in impatient.said("run")
    assert result["models"] == here["models"]
    assert result_of(last_run(impatient))["rounds"] == here["rounds"]
