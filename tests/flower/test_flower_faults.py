"""A SuperNode that is killed and replies that are spoiled, in one run of real processes."""

import numpy as np

from drfl.protocols.station import Station
from drfl.sites.progress import ProgressLog
from drfl.training.local_files import Files
from drfl.training.run_folder import RunFolder
from drfl.training.settings import from_values
from drfl.training.train import train
from kit.lossy import ChangingEngine, with_arrays
from kit.real_flower import PAIR, SETTINGS, last_run, result_of


def test_a_killed_supernode_comes_back_and_bad_replies_are_refused(deployed):
    """Killed in the middle of a round; NaN; another shape: the bits are those of the files."""
    deployed.behave(held=1, r2="nan", r3="shape")
    deployed.run()
    deployed.in_the_middle()
    deployed.kill("node-north")
    deployed.supernode("north")
    deployed.release()
    result = deployed.end()
    told = {round: failures["west"] for round, failures in result["failures"].items()}
    assert told == {
        3: "array 'value' has NaN or infinite entries",
        4: "array 'value' must have shape (2, any), got (4, 1)",
    }
    assert not any("north" in failures for failures in result["failures"].values())
    assert "attempt" not in deployed.said("run")
    (model,) = result["models"]
    assert model["status"]["kind"] == "certified"
    here = at_hand(deployed.folder)
    assert result["models"] == here["models"]
    assert result["failures"] == here["failures"]
    model = last_run(deployed) / "model.json"
    assert model.read_bytes() == (deployed.folder / "HERE" / "model.json").read_bytes()


def at_hand(folder):
    """The same training by the serial engine, with the same two replies spoiled."""

    def spoil(name, reply):
        if name != "west" or reply.round not in (2, 3):
            return reply
        value = reply.arrays["value"]
        return with_arrays(reply, value=value + np.nan if reply.round == 2 else value.repeat(2, 0))

    files = {name: folder / f"{name}.csv" for name in PAIR}
    stations = [Station(name, path) for name, path in files.items()]
    run = RunFolder(folder / "HERE")
    federation = Files(stations, ChangingEngine(spoil))
    train(from_values(SETTINGS, files), run, federation, ProgressLog(), fresh=True)
    return result_of(folder / "HERE")
