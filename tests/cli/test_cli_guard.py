"""`drfl train --guard`, its ledgers and `drfl audit`."""

import json
import re
import shutil
import signal
import subprocess

import numpy as np
import pytest

from drfl.privacy import Guard, audit
from drfl.privacy.journal import Journal
from drfl.protocols.data_request import DataRequest
from drfl.protocols.station import Station
from kit.program import command, drfl, environment, records_of, write_csv

N = 400
FILES = ("--client", "a.csv", "--client", "b.csv", "--client", "c.csv", "--target", "ill")
NAMES = ["age", "lab", "ward", "ill"]


def patients(rng, n_rows=N):
    """Rows with a ward 'north' of 6 patients."""
    X = (rng.normal(size=(n_rows, 2)) * [10.0, 1.0] + [50.0, 0.0]).round(3)
    ward = np.where(rng.random(n_rows) < 0.3, "east", "south")
    ward[:6] = "north"
    ill = (X[:, 0] - 50.0) / 10.0 + 0.5 * X[:, 1] + rng.normal(size=n_rows) > 0
    labels = np.where(ill, "yes", "no")
    return [[*x, w, t] for x, w, t in zip(X.tolist(), ward, labels, strict=True)]


def write_files(folder):
    rng = np.random.default_rng(0)
    for name in "abc":
        write_csv(folder / f"{name}.csv", NAMES, patients(rng))


def audited(text):
    """The numbers of an audit: k, answers, rank, allowed rank, leverage, its limit, scalars."""
    numbers = re.match(
        r".*: 400 rows, k = (\d+)\n"
        r"answers: (\d+) \(\d+ new, \d+ told before\), 0 refused\n"
        r"independent answers: (\d+) of (\d+) that are allowed\n"
        r"largest part of one row in them: (\S+) of (\S+) allowed\n"
        r"bits: \d+ coefficients of 12 bits each\n"
        r"cells told: the smallest of \d+ rows\n"
        r"scalars: (\d+) \(\d metrics\)\n"
        r"sums over all rows: 1\nreadings of the rows: 1$",
        text,
    )
    assert numbers, text
    return [float(number) for number in numbers.groups()]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A folder with three files and the guarded run RUN; do not change it."""
    folder = tmp_path_factory.mktemp("guarded")
    write_files(folder)
    lines = ["guard = 5", "tol = 0.1", 'target = "ill"', "[clients]"]
    lines += [f'{name} = "{name}.csv"' for name in "abc"]
    (folder / "drfl.toml").write_text("\n".join(lines) + "\n")
    drfl("train", "drfl.toml", "--out", "RUN", cwd=folder)
    return folder


def test_the_run_says_which_guard_it_had(guarded):
    start = records_of(guarded / "RUN")[0]
    assert start["guard"] == "guard: k = 5, ledger at RUN/ledger"
    written = drfl("report", "RUN", "--quick", cwd=guarded).out.removeprefix("written: ").strip()
    assert "Guard: k = 5, ledger at RUN/ledger." in (guarded / written).read_text()


def test_every_client_has_a_ledger_that_can_be_audited(guarded):
    for name in "abc":
        path = guarded / "RUN" / "ledger" / f"{name}.ledger"
        text = audit(path)
        k, answers, rank, allowed, leverage, limit, scalars = audited(text)
        assert (k, allowed, limit) == (5, 80, 0.2)
        assert 2 < rank <= answers + 2 <= 152
        assert leverage <= limit
        assert 1 <= scalars <= 30
        (sums,) = [e for e in Journal(path).peek() if e.kind == "sums"]
        ages = np.loadtxt(guarded / f"{name}.csv", delimiter=",", skiprows=1, usecols=0)
        told = [sums.arrays[name][0] for name in ("count", "sum", "squares")]
        assert told == pytest.approx([N, ages.sum(), ((ages - ages.mean()) ** 2).sum()])
    said = drfl("audit", "RUN/ledger/c.ledger", cwd=guarded)
    assert said.out.startswith("RUN/ledger/c.ledger: 400 rows")
    assert said.out.splitlines()[1:] == text.splitlines()[1:]


def test_the_accuracy_is_a_rounded_scalar(guarded):
    result = next(r for r in records_of(guarded / "RUN") if r["kind"] == "result")
    files = ("a.csv", "b.csv", "c.csv")
    exact = drfl("evaluate", "RUN/model.json", *files, "--json", cwd=guarded).records
    for name, record in zip("abc", exact, strict=True):
        assert list(result["clients"][name]) == ["accuracy"]
        told = result["clients"][name]["accuracy"]
        assert 0.0 < abs(record["accuracy"] - told) <= 5.0 / N


def test_a_killed_run_goes_on_with_its_ledgers(tmp_path):
    write_files(tmp_path)
    arguments = ("train", *FILES, "--guard", "5", "--tol", "1e-9", "--max-rounds", "8")
    process = subprocess.Popen(
        command(*arguments, "--out", "KILLED", "--json"),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    for line in process.stdout:
        if '"kind": "round"' in line:
            process.send_signal(signal.SIGKILL)
            break
    process.stdout.close()
    assert process.wait(timeout=60) == -signal.SIGKILL
    ledger = tmp_path / "KILLED" / "ledger" / "a.ledger"
    before = ledger.read_bytes()
    drfl("train", "--resume", "KILLED", "--quiet", cwd=tmp_path, code=4)
    after, model = ledger.read_bytes(), (tmp_path / "KILLED" / "model.json").read_bytes()
    assert after.startswith(before)
    assert len(after) > len(before)
    answers = audited(audit(ledger))[1]
    # Exact methods are compared under the same ledger.
    resume = ("train", "--resume", "KILLED", "--compare", "afl", "--quiet")
    drfl(*resume, cwd=tmp_path, code=4)
    assert ledger.read_bytes().startswith(after)
    assert audited(audit(ledger))[1] > answers
    assert (tmp_path / "KILLED" / "model.json").read_bytes() == model
    (record,) = [r for r in records_of(tmp_path / "KILLED") if r["kind"] == "comparison"]
    assert [list(scores) for scores in record["clients"].values()] == [["accuracy"]] * 3


def test_a_report_reads_no_rows_behind_the_guard(guarded):
    said = drfl("report", "RUN", "--rows", cwd=guarded, code=3)
    assert "--rows needs the clients' files, and a run without a guard" in said.err


@pytest.fixture
def copied(guarded, tmp_path):
    """A copy of the guarded run that may be changed."""
    copy = shutil.copytree(guarded, tmp_path / "copy")
    config = copy / "RUN" / "config.toml"
    config.write_text(config.read_text().replace(str(guarded), str(copy)))
    return copy


def test_a_run_does_not_go_on_without_its_guard(copied):
    config = copied / "RUN" / "config.toml"
    text = config.read_text()
    assert "guard = 5\n" in text
    config.write_text(text.replace("guard = 5\n", ""))
    said = drfl("train", "--resume", "RUN", cwd=copied, code=3)
    assert said.err.startswith("drfl: the run in RUN had guard = 5, not None: resume it")


def test_a_run_does_not_go_on_with_a_new_ledger(copied):
    (copied / "RUN" / "ledger" / "b.ledger").unlink()
    said = drfl("train", "--resume", "RUN", cwd=copied, code=3)
    assert said.err == (
        "drfl: the ledger RUN/ledger/b.ledger of client 'b' is gone: put it back, a run cannot go "
        "on with a new one\n"
    )


def test_resuming_a_finished_run_asks_nothing(copied):
    kept = [*sorted((copied / "RUN" / "ledger").glob("*.ledger")), copied / "RUN" / "model.json"]
    before = [path.read_bytes() for path in kept]
    assert len(before) == 4
    drfl("train", "--resume", "RUN", "--quiet", cwd=copied)
    assert [path.read_bytes() for path in kept] == before


EVERYWHERE = "a.csv, b.csv, c.csv: "
REFUSED = {
    "--guard 5 --select mean": "a guard does not go with --select, whose folds would pass it by",
    "--guard 5 --compare erm,wafl": "a guard does not let 'wafl' be compared, it knows erm, afl, ",
    "--guard 41": EVERYWHERE + "400 rows are too few for a guard of k = 41: it needs at least 410",
    "--guard 5 --target ward": EVERYWHERE
    + "a guard knows two classes or a numeric target: each of",
    "--guard 7 --target ward": EVERYWHERE
    + "a class has 6 rows, fewer than k = 7: its sums would tell",
}


@pytest.mark.parametrize("options", REFUSED)
def test_what_a_guard_does_not_know_is_refused_before_any_work(guarded, options):
    said = drfl("train", *FILES, "--out", "NEW", *options.split(), cwd=guarded, code=3)
    assert said.err.startswith(f"drfl: {REFUSED[options]}")
    assert said.err.count("\n") == 1
    assert not (guarded / "NEW").exists()


LATE = {  # what only some client, or all of them together, can refuse
    "--client {folder}/few.csv": "few.csv: 20 rows are too few for a guard of k = 5",
    "--additive nope": "additive names 'nope', but the columns are 'age', 'lab', 'ward'",
    "--label-cost 1e-9": "client 'a', client 'b', client 'c': a guard knows label costs from",
}


@pytest.mark.parametrize("options", LATE)
def test_no_ledger_is_left_by_a_run_that_is_refused(guarded, options, tmp_path):
    write_csv(tmp_path / "few.csv", NAMES, patients(np.random.default_rng(1), 20))
    asked = ("train", *FILES, "--guard", "5", *options.format(folder=tmp_path).split())
    said = drfl(*asked, "--out", tmp_path / "of" / "NEW", cwd=guarded, code=3)
    assert LATE[options] in said.err
    assert not (tmp_path / "of").exists()
    (tmp_path / "ledger").mkdir()  # what was there before stays there
    drfl(*asked, "--out", tmp_path, cwd=guarded, code=3)
    assert (tmp_path / "ledger").exists()


def test_too_many_columns_are_refused_before_a_ledger_is_begun(tmp_path):
    X = np.random.default_rng(0).normal(size=(100, 10)).round(3)
    rows = [[*x, int(x[0] > 0)] for x in X.tolist()]
    write_csv(tmp_path / "a.csv", [*(f"u{j}" for j in range(10)), "y"], rows)
    options = ("--client", "a.csv", "--target", "y", "--guard", "5", "--out", "NEW")
    said = drfl("train", *options, cwd=tmp_path, code=3)
    assert "a.csv: 11 parameters on 100 rows are too many for a guard of k = 5" in said.err
    assert not (tmp_path / "NEW").exists()


def test_categories_below_k_are_merged(tmp_path):
    path = write_csv(tmp_path / "a.csv", NAMES, patients(np.random.default_rng(0)))
    told = {}
    for k in (None, 5, 8):
        station = Station("a", path, None if k is None else Guard(k))
        facts = json.loads(station.look(DataRequest("ill"))["facts"].tobytes())
        told[k] = facts["texts"]["ward"]
    assert told[None]["values"]["north"] == 6
    # Of the 6 rows of 'north' fewer than 5 are of one class, too few for 'other' as well.
    for k in (5, 8):
        assert list(told[k]["values"]) == ["south"]
        assert told[k]["other"]


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("RUN/ledger", "RUN/ledger is a folder: name one ledger, a file"),
        ("a.csv", "a.csv is not a ledger: give the path of a guard's own"),
    ],
)
def test_what_is_no_ledger_is_not_audited(guarded, path, sentence):
    assert drfl("audit", path, cwd=guarded, code=3).err == f"drfl: {sentence}\n"
