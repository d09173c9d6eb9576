"""A network over real FLARE processes: a server, two sites, the coordinator's commands."""

import json

import numpy as np
import pytest

from drfl.models import read_model
from kit.program import drfl, records_of
from kit.real_sites import drfl_sites, real_sites

NAMES = ("north", "south")
NETWORK = {
    "target": "ill",
    "module": "mlp:4",
    "radius": 0.1,
    "solver": "dual_admm",
    "mixture_radius": 0.3,
    "max_rounds": 5,
    "step_size": 0.3,
    "batch_size": 16,
    "seed": 3,
}


def patients(name):
    """What no line can tell."""
    rng = np.random.default_rng(NAMES.index(name))
    lines = ["age,bmi,ill"]
    for a, b in rng.normal(size=(60, 2)):
        lines.append(f"{50 + 10 * a:.3f},{25 + b:.3f},{'yes' if a * b > 0.0 else 'no'}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("flare")
    own = {name: {"guard": 0, "allow_losses": ["network"]} for name in NAMES}
    data = {name: patients(name) for name in NAMES}
    with real_sites(made, data, settings=own, training=NETWORK) as sites:
        drfl_sites("run", "--out", "RUN", cwd=made)
        for command in (["evaluate", "--json"], ["explain"]):
            words = [command[0], "RUN/model.json", *command[1:]]
            (made / f"{command[0]}.txt").write_text(drfl_sites(*words, cwd=made).stdout, "utf-8")
        (made / "ledger.json").write_text(json.dumps(sites.ledger("north")), "utf-8")
        yield made


def test_the_model_is_that_of_the_files_to_the_last_bit(folder):
    files = [f"--client={name}.csv" for name in NAMES]
    settings = [f"--{key.replace('_', '-')}={value}" for key, value in NETWORK.items()]
    drfl("train", *files, *settings, "--out=HERE", cwd=folder)
    here, there = (read_model(folder / run / "model.json") for run in ("HERE", "RUN"))
    assert there.problem.to_dict() == here.problem.to_dict()
    assert there.coef.tobytes() == here.coef.tobytes()
    told = {}
    for run in ("HERE", "RUN"):
        kinds = [r for r in records_of(folder / run) if r["kind"] in ("round", "interval")]
        told[run] = [(r["kind"], r.get("objective"), r.get("lower"), r.get("upper")) for r in kinds]
    assert told["RUN"] == told["HERE"]
    assert {kind for kind, *_ in told["RUN"]} == {"round", "interval"}


def test_the_sites_evaluate_and_explain_it(folder):
    """What they say is what the program says of the same files; no interval becomes a number."""
    files = [f"{name}.csv" for name in NAMES]
    here = drfl("explain", "RUN/model.json", *files, cwd=folder).out
    assert (folder / "explain.txt").read_text("utf-8") == here
    assert here.count("the worst loss was found, and is at most") == len(NAMES)
    lines = (folder / "evaluate.txt").read_text("utf-8").splitlines()
    there = {r["site"]: r["accuracy"] for r in map(json.loads, lines) if "site" in r}
    result = next(r for r in records_of(folder / "RUN") if r["kind"] == "result")
    assert there == {name: result["clients"][name]["accuracy"] for name in NAMES}


def test_what_leaves_a_site_has_the_length_of_the_model_not_of_the_data(folder):
    ledger = json.loads((folder / "ledger.json").read_text("utf-8"))
    rounds = [entry["arrays"] for entry in ledger if entry["kind"] == "dual_admm/reply"]
    shapes = {tuple(array["shape"]) for arrays in rounds for array in arrays.values()}
    d = (2 + 1) * 4 + (4 + 1) * 2
    # Once the number of rows and two sums beside it, in every other round a model and numbers.
    assert shapes == {(), (3,), (d,)}
