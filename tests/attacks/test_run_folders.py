"""What somebody else on the same machine can read of a run without a guard."""

import json
import stat
from itertools import combinations

import numpy as np
import pytest

from drfl.run.checkpoint import Checkpoint
from drfl.training.run_folder import RunFolder
from kit.program import drfl, write_csv

N, NAMES = 60, ("age", "dose", "lab")


@pytest.fixture(scope="module")
def rows():
    """Rows (N, 4): three columns and a label, each row another one."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 3)).round(4)
    y = (X @ [1.0, -0.7, 0.4] + 0.6 * rng.normal(size=N) > 0).astype(int)
    return np.column_stack([X, y])


@pytest.fixture
def folder(rows, tmp_path):
    for name, part in (("a", rows[: N // 2]), ("b", rows[N // 2 :])):
        lines = [[*row[:3].tolist(), int(row[3])] for row in part]
        write_csv(tmp_path / f"{name}.csv", [*NAMES, "ill"], lines)
    return tmp_path


def train(folder, *options):
    told = ("--client", "a.csv", "--client", "b.csv", "--target", "ill", "--scale", "none")
    told += ("--loss", "hinge", "--norm", "l1")  # whose cuts are sums of whole rows
    return drfl("train", *told, "--radius", "0.01", "--out", "RUN", *options, cwd=folder)


def open_to_others(run):
    """The files that any user of the machine may read, if the folders above allow it."""
    if not run.stat().st_mode & stat.S_IXOTH:
        return []
    inside = [path for path in run.rglob("*") if path.is_file()]
    return [path for path in inside if path.stat().st_mode & stat.S_IROTH]


def rows_told(paths, client, n_rows):
    """Rows with label that differ two cuts of a client: y x / N, from the answers in files."""
    cuts = []
    for path in paths:
        if not path.name.startswith("model-"):
            continue
        with path.open("rb") as file:
            file.readline()
            identity = json.loads(file.readline())
        for entry in Checkpoint(path, identity).rounds():
            cuts += list(entry.answers.replies[client].arrays["cuts"][:, 0, :])
    return [n_rows * (one - other) for one, other in combinations(cuts, 2)]


def recovered(rows, told):
    """How many rows (x, y) are among what was told: a cut is a constant, then slopes of w and b."""
    found = 0
    for *x, label in rows.tolist():
        y = 2.0 * label - 1.0
        row = y * np.array([*x, 1.0])
        found += any(np.allclose(sign * t[1:], row, atol=1e-6) for t in told for sign in (-1, 1))
    return found


def test_the_cuts_of_a_run_give_rows_away_to_who_can_read_them(rows, folder, table):
    """The attack itself, on a folder as it would be with the usual modes and kept cuts."""
    train(folder, "--keep-cuts")
    run = folder / "RUN"
    assert open_to_others(run) == []
    for path in [run, *run.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    found = recovered(rows[: N // 2], rows_told(open_to_others(run), "a", N // 2))
    assert found >= 3
    attack = "another account reads the folder of a run (without: kept cuts of mode 0644)"
    table(attack, f"{found} of {N // 2} rows", "no cuts are left, mode 0600")


def test_nobody_else_reads_a_run_and_no_cut_outlives_its_certificate(rows, folder):
    said = train(folder)
    run = folder / "RUN"
    assert "WITHOUT A GUARD" in said.err
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [run, *run.rglob("*")]}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}
    for path in modes:
        path.chmod(0o755 if path.is_dir() else 0o644)
    assert rows_told(open_to_others(run), "a", N // 2) == []  # not even then


def test_a_run_that_is_not_certified_keeps_its_cuts_to_go_on(folder):
    said = drfl(
        *("train", "--client", "a.csv", "--client", "b.csv", "--target", "ill"),
        *("--max-rounds", "2", "--out", "RUN"),
        cwd=folder,
        code=4,
    )
    assert "WITHOUT A GUARD" in said.err
    log = folder / "RUN" / "checkpoint" / "model-0"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    drfl("train", "--resume", "RUN", "--max-rounds", "200", cwd=folder)
    assert not log.exists()


def test_a_folder_with_other_things_in_it_keeps_its_mode(folder):
    run = folder / "RUN"
    run.mkdir(mode=0o755)
    (run / "notes.txt").write_text("mine")
    train(folder)
    assert stat.S_IMODE(run.stat().st_mode) == 0o755
    assert [path.name for path in open_to_others(run)] == ["notes.txt"]


def test_a_run_fetched_from_a_server_is_closed_too(tmp_path):
    """Whatever modes the files came with."""
    fetched = tmp_path / "fetched"
    fetched.mkdir()
    (fetched / "records.jsonl").write_text("{}\n")
    (fetched / "records.jsonl").chmod(0o644)
    run = RunFolder(tmp_path / "RUN")
    run.take_over(fetched)
    assert stat.S_IMODE(run.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(run.records.stat().st_mode) == 0o600
    assert run.records.read_text() == "{}\n"
