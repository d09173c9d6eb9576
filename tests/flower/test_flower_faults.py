"""What goes wrong between real SuperNodes and a SuperLink: killed, restarted, spoiled, late."""

import json
from pathlib import Path

import numpy as np
import pytest

from kit.real_flower import Deployment, last_run, patients, result_of

SITES = ("north", "west")
SLOW = 4.0  # seconds that the west takes for a round, where somebody strikes in the middle
TRAINING = {"target": "disease", "radius": "0.05", "loss": "logistic", "tol": "1e-6"}
FAULTY = Path(__file__).parents[1] / "sites" / "faulty"


class Faulty(Deployment):
    """Two sites, of which the west can be told to misbehave."""

    def __init__(self, folder):
        super().__init__(folder)
        self.command = folder / "misbehave.json"
        lines = [
            'sites = ["north", "west"]',
            "quorum = 1",
            "rejoin = 90",
            "silence = 400",
            "",
            "[training]",
        ]
        lines += [f"{key} = {json.dumps(value)}" for key, value in TRAINING.items()]
        (folder / "sites.toml").write_text("\n".join(lines) + "\n", "utf-8")
        self.connection("insecure = true")
        for name in SITES:
            (folder / f"{name}.csv").write_text(patients(name), "utf-8")
            (folder / name).mkdir()
            (folder / name / "site.toml").write_text("guard = 0\n", "utf-8")
        self.behave()

    def start(self):
        self.do("drfl", "flower", "init", "sites.toml")
        self.superlink()
        for name in SITES:
            self.open(name)
            self.supernode(name)

    def open(self, name):
        self.site(name, PYTHONPATH=str(FAULTY), MISBEHAVE=str(self.command))

    def behave(self, slow=0.0, **faults):
        """Let the sites be slow, or one misbehave in certain rounds: ``r3="nan"``."""
        told = {"slow": slow, "faults": {key[1:]: fault for key, fault in faults.items()}}
        self.command.write_text(json.dumps(told), "utf-8")

    def run(self, *more):
        """A training, in the background."""
        self.begin("run", "flwr", "run", "sites-app", "--stream", *more)

    def end(self, seconds=1200.0):
        """Wait for it."""
        assert self.running["run"].wait(seconds) == 0, self.said("run")
        return result_of(last_run(self))

    def in_the_middle(self, rounds=2):
        """Wait until so many rounds are answered."""
        before = self.rounds("north")
        self.wait(
            lambda: self.rounds("north") >= before + rounds, 1200.0, lambda: self.said("run"), "run"
        )

    def undisturbed(self):
        """The same training on the same files by the serial engine."""
        files = [f"--client={name}.csv" for name in SITES]
        settings = [f"--{key}={value}" for key, value in TRAINING.items()]
        self.do("drfl", "train", *files, *settings, "--quiet", "--out=HERE")
        return result_of(self.folder / "HERE")


@pytest.fixture
def deployed(tmp_path):
    made = Faulty(tmp_path)
    try:
        made.start()
        yield made
    finally:
        made.close()


def test_bad_replies_are_refused_and_a_supernode_that_is_killed_comes_back(deployed):
    """NaN, another shape, a SuperNode killed in the middle of a round: the end is the same."""
    deployed.behave(slow=SLOW, r1="nan", r2="shape")
    deployed.run()
    deployed.in_the_middle(1)
    deployed.kill("node-north")
    deployed.supernode("north")
    deployed.wait(lambda: deployed.rounds("north") > 1, 1200.0, lambda: deployed.said("run"), "run")
    deployed.behave()
    result, here = deployed.end(), deployed.undisturbed()
    assert [set(told.values()) for told in result["failures"].values()] == [{"withheld"}] * 2
    (one,), (two,) = result["models"], here["models"]
    assert one["status"]["kind"] == two["status"]["kind"] == "certified"
    np.testing.assert_allclose(one["coef"], two["coef"], atol=1e-3)
    assert "attempt" not in deployed.said("run")


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
