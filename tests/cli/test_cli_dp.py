"""`drfl train --guard dp`: what is told of files, what a run says, and what is refused."""

import json
import re

import numpy as np
import pytest

from drfl.client import RefusedError
from drfl.privacy.dp import DifferentialPrivacy, Spending
from drfl.protocols.data_request import DataRequest, array_text
from drfl.protocols.station import Station
from drfl.tables import TableError
from drfl.wire import Failure, Message
from kit.program import drfl, records_of, write_csv

RANGES = {"age": (20.0, 90.0), "bmi": (15.0, 45.0)}
TRAIN = (
    *("train", "--client", "a.csv", "--client", "b.csv", "--target", "ill", "--guard", "dp"),
    *("--privacy-epsilon", "4", "--ranges", "age=20:90,bmi=15:45", "--classes", "no,yes"),
)


def write_patients(path, seed, n_rows=3000, change=None):
    rng = np.random.default_rng(seed)
    age, bmi = rng.uniform(20, 90, n_rows).round(1), rng.uniform(15, 45, n_rows).round(1)
    score = (age - 55.0) / 15.0 + 0.1 * (bmi - 30.0)
    ill = np.where(rng.random(n_rows) < 1.0 / (1.0 + np.exp(-score)), "yes", "no")
    rows = [list(row) for row in zip(age.tolist(), bmi.tolist(), ill, strict=True)]
    if change is not None:
        rows[7] = change
    return write_csv(path, ["age", "bmi", "ill"], rows)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dp")
    # Noise cannot be foreseen: with so many rows it is hardly ever too large for a global bound.
    write_patients(folder / "a.csv", 1, n_rows=9000)
    write_patients(folder / "b.csv", 2, n_rows=9000)
    said = drfl(*TRAIN, "--out", "RUN", cwd=folder)
    return folder, said.out


def test_a_run_says_what_was_promised_and_how_surely_it_is_proved(trained):
    folder, said = trained
    assert "guard: differential privacy, epsilon = 4, delta = 1e-06, ledger at RUN/ledger" in said
    assert "the solver is 'private'" in said
    assert "with probability 99 % the objective is above that of the optimum by at most" in said
    assert "fewer than 10000 rows" in said
    start = records_of(folder / "RUN")[0]
    assert start["guard"].startswith("guard: differential privacy, epsilon = 4")
    model = json.loads((folder / "RUN" / "model.json").read_text())
    assert "with probability 99 %" in json.dumps(model)
    drfl("report", "RUN", "--quick", cwd=folder)
    page = (folder / "RUN" / "report.html").read_text()
    assert "proved with probability 99 %" in page
    assert "differential privacy, epsilon = 4" in page


def test_the_budget_is_spent_and_can_be_audited(trained):
    folder, _ = trained
    budget = DifferentialPrivacy(4.0).budget
    assert Spending(folder / "RUN/ledger/a.ledger").spent == pytest.approx(budget)
    said = drfl("audit", "RUN/ledger/a.ledger", cwd=folder).out
    assert "answers: 4, 0 refused" in said
    assert re.search(r"epsilon 4\.\d+ at delta 1e-09, 4 at delta 1e-06", said)


def test_a_run_that_is_resumed_costs_nothing_and_gives_the_same_model(trained):
    folder, _ = trained
    before = (folder / "RUN" / "model.json").read_bytes()
    spent = Spending(folder / "RUN/ledger/a.ledger").spent
    drfl("train", "--resume", "RUN", "--quiet", cwd=folder)
    assert (folder / "RUN" / "model.json").read_bytes() == before
    assert Spending(folder / "RUN/ledger/a.ledger").spent == spent


def request(**changed):
    return DataRequest(
        **{"target": "ill", "missing": "mean", "ranges": RANGES, "classes": ("no", "yes")} | changed
    )


def station(path, **settings):
    return Station("a", path, privacy=DifferentialPrivacy(1.0, norm=1.0, **settings))


def test_the_preflight_tells_the_same_of_neighbouring_files(tmp_path):
    one = write_patients(tmp_path / "one.csv", 1)
    other = write_patients(tmp_path / "other.csv", 1, change=[20.0, "", "yes"])
    told = [station(path).look(request()) for path in (one, other)]
    for name in told[0]:
        assert told[0][name].tobytes() == told[1][name].tobytes()
    facts = array_text(told[0]["facts"])
    assert facts["rows"] == 3000
    assert facts["target"]["values"] == [["no", 0], ["yes", 0]]
    assert (told[0]["sum"] / 3000).tolist() == [55.0, 30.0]  # the middles of the ranges


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"ranges": {}}, "the public range of every column"),
        ({"ranges": {"age": (20.0, 20.0)}}, "ranges of finite length"),
        ({"classes": ()}, "either two classes or a range of the target"),
        ({"classes": ("a", "b", "c")}, "either two classes or a range of the target"),
        ({"missing": "drop"}, "--scale federated and --missing mean"),
        ({"scale": "per-client"}, "--scale federated and --missing mean"),
        ({"categorical": ("age",)}, "numbers only"),
        ({"ranges": RANGES | {"weight": (0.0, 1.0)}}, "has no column 'weight' of numbers"),
    ],
)
def test_what_would_have_to_be_found_out_from_rows_is_refused(tmp_path, changed, sentence):
    path = write_patients(tmp_path / "a.csv", 1, n_rows=50)
    with pytest.raises(TableError, match=re.escape(sentence)):
        station(path).look(request(**changed))


def test_nothing_without_noise_is_answered(tmp_path):
    path = write_patients(tmp_path / "a.csv", 1, n_rows=50)
    for kind in ("evaluate", "explain"):
        with pytest.raises(RefusedError):
            station(path).handle(Message(kind, 0, {}))
    wrong = Message("preflight", 0, {"request": request(ranges={"x": (0, 1)}).to_bytes()})
    assert Failure.of(station(path).answer(wrong)) in (Failure.REFUSED, Failure.ERROR)
