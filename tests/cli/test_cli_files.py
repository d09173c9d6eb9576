"""Files as people have them: one for all hospitals, other names, other formats, other letters."""

import json

import numpy as np
import pytest

from drfl.cli.main import run
from drfl.cli.report import _data
from drfl.protocols.station import Station
from kit.program import drfl, write_csv

TRAIN = ("--target", "ill", "--tol", "1e-3", "--quiet")
NAMES = ["id", "age", "dose", "ward", "ill"]


def patients(seed, n=60):
    rng = np.random.default_rng(seed)
    age, dose = rng.normal(50.0, 9.0, n).round(2), rng.normal(3.0, 1.0, n).round(3)
    ill = np.where(age + 5 * dose + rng.normal(0.0, 6.0, n) > 65, "yes", "no")
    ward = [("a", "b", "c")[k % 3] for k in range(n)]
    ids = [f"{seed}-{k}" for k in range(n)]
    return [list(row) for row in zip(ids, age.tolist(), dose.tolist(), ward, ill, strict=True)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two hospitals in a file each, in one file, and one with another name of a column."""
    found = tmp_path_factory.mktemp("files")
    parts = {"north": patients(0), "south": patients(1)}
    together = [[name, *row] for name, rows in parts.items() for row in rows]
    order = np.random.default_rng(0).permutation(len(together))
    for name, rows in parts.items():
        write_csv(found / f"{name}.csv", NAMES, [rows[k] for k in _kept(order, together, name)])
    write_csv(found / "all.csv", ["hospital", *NAMES], [together[k] for k in order])
    text = (found / "south.csv").read_text().replace("dose", "dose_mg", 1)
    (found / "other.csv").write_text(text)
    two = ("--client", "north.csv", "--client", "south.csv", "--exclude", "id")
    drfl("train", *two, *TRAIN, "--out", "TWO", cwd=found)
    return found


def _kept(order, together, name):
    """The rows of a hospital in the order in which the file of all has them."""
    before = [k for k in range(len(together)) if together[k][0] == name]
    return [before.index(k) for k in order.tolist() if k in before]


@pytest.fixture
def refused(folder, monkeypatch, capsys):
    """What the program says in this process when it refuses a file or a setting."""

    def said(*arguments):
        monkeypatch.chdir(folder)
        assert run(arguments) == 3
        return capsys.readouterr().err

    return said


def coefficients(path):
    model = json.loads((path / "model.json").read_text())
    return model["coefficients"], model["columns"]


def test_one_file_of_all_clients_is_the_same_as_one_for_each(folder):
    one = ("--client", "all.csv", "--client-column", "hospital", "--exclude", "id")
    drfl("train", *one, *TRAIN, "--out", "ONE", cwd=folder)
    found, wanted = coefficients(folder / "ONE"), coefficients(folder / "TWO")
    assert found[1] == wanted[1]
    assert found[0][0]["coef"] == pytest.approx(wanted[0][0]["coef"], abs=1e-3)
    drfl("train", "--resume", "ONE", cwd=folder)
    assert coefficients(folder / "ONE") == found
    assert {name: len(sample.y) for name, sample in _data(folder / "ONE").items()} == {
        "north": 60,
        "south": 60,
    }
    said = drfl("evaluate", "ONE/model.json", "all.csv", "--client-column", "hospital", cwd=folder)
    alone = drfl("evaluate", "ONE/model.json", "north.csv", cwd=folder)
    assert said.out.splitlines()[1].split()[1:] == alone.out.splitlines()[1].split()[1:] or (
        said.out.splitlines()[2].split()[1:] == alone.out.splitlines()[1].split()[1:]
    )
    assert (
        "south"
        in drfl(
            "explain", "ONE/model.json", "all.csv", "--client-column", "hospital", cwd=folder
        ).out
    )
    told = drfl(
        "inspect",
        "all.csv",
        "--client-column",
        "hospital",
        "--target",
        "ill",
        "--exclude",
        "id",
        cwd=folder,
    )
    assert "2 clients, 120 rows" in told.out


def test_one_file_under_guards_has_a_ledger_for_each_client(folder):
    one = ("--client", "all.csv", "--client-column", "hospital", "--exclude", "id,ward")
    drfl("train", *one, *TRAIN, "--guard", "4", "--tol", "0.9", "--out", "KEPT", cwd=folder)
    assert {path.name for path in (folder / "KEPT" / "ledger").glob("*.ledger")} == {
        "north.ledger",
        "south.ledger",
    }
    assert "60 rows, k = 4" in drfl("audit", "KEPT/ledger/north.ledger", cwd=folder).out


def test_a_column_of_clients_must_be_there_and_full(folder, refused):
    bad = ("--client", "all.csv", "--client-column", "hospitl")
    said = refused("train", *bad, *TRAIN, "--out", "BAD")
    assert "did you mean 'hospital'?" in said
    lines = (folder / "all.csv").read_text().splitlines()
    lines[3] = lines[3][5:]
    (folder / "gap.csv").write_text("\n".join(lines) + "\n")
    bad = ("--client", "gap.csv", "--client-column", "hospital")
    said = refused("train", *bad, *TRAIN, "--out", "BAD")
    assert "1 rows have no value of --client-column hospital, the first is row 3" in said


def test_columns_are_renamed_at_one_client(folder, refused):
    clients = ("--client", "north.csv", "--client", "south=other.csv", "--exclude", "id")
    said = refused("train", *clients, *TRAIN, "--out", "BAD")
    assert "'dose' (not at 'south'), 'dose_mg' (not at 'north')" in said
    drfl("train", *clients, *TRAIN, "--rename", "south:dose_mg=dose", "--out", "NEW", cwd=folder)
    assert coefficients(folder / "NEW") == coefficients(folder / "TWO")
    drfl("train", "--resume", "NEW", cwd=folder)
    assert len(_data(folder / "NEW")["south"].y) == 60
    renamed = drfl("predict", "NEW/model.json", "other.csv", "--rename", "dose_mg=dose", cwd=folder)
    assert renamed == drfl("predict", "NEW/model.json", "south.csv", cwd=folder)
    for entry, words in {
        "south:dose=x": "other.csv has no column 'dose' to rename: did you mean 'dose_mg'?",
        "east:dose=x": "--rename east:dose=x: there is no such client, there are 'north', 'south'",
        "dose": "write CLIENT:OLD=NEW",
    }.items():
        said = refused("train", *clients, *TRAIN, "--rename", entry, "--out", "BAD")
        assert words in said


def test_an_id_is_written_beside_also_from_excel_and_gzip(folder):
    openpyxl = pytest.importorskip("openpyxl")
    import gzip

    book = openpyxl.Workbook()
    for row in [NAMES, *patients(1)]:
        book.active.append(row)
    book.save(folder / "south.xlsx")
    (folder / "south.csv.gz").write_bytes(gzip.compress((folder / "south.csv").read_bytes()))
    for name in ("south.xlsx", "south.csv.gz"):
        said = drfl("predict", "TWO/model.json", name, "--id", "id", cwd=folder)
        assert said.out.splitlines()[0].startswith("id,prediction,score,probability no")
        assert {line.split(",")[0] for line in said.out.splitlines()[1:]} == {
            row[0] for row in patients(1)
        }


@pytest.mark.parametrize("line", [1, 5])
def test_letters_of_another_code_have_a_hint(folder, refused, line):
    lines = (folder / "south.csv").read_bytes().splitlines()
    lines[line - 1] = lines[line - 1] + b" \xe9"
    (folder / "latin.csv").write_bytes(b"\n".join(lines) + b"\n")
    said = refused("inspect", "latin.csv", "--target", "ill")
    assert f"latin.csv, line {line}: it is not UTF-8 text" in said
    assert "iconv -f latin1 -t utf8" in said


@pytest.mark.parametrize("value", ["1e200", "-1e160", "1e400", "inf"])
def test_numbers_that_cannot_be_squared_are_named_with_their_place(folder, refused, value):
    lines = (folder / "south.csv").read_text().splitlines()
    cells = lines[7].split(",")
    lines[7] = ",".join([cells[0], value, *cells[2:]])
    (folder / "huge.csv").write_text("\n".join(lines) + "\n")
    said = refused("inspect", "huge.csv", "--target", "ill", "--exclude", "id")
    assert f"huge.csv, line 8: column 'age' holds '{value}'" in said


def test_a_category_that_was_not_trained_is_never_the_reference(folder):
    """Every ward was frequent: 'other' is the mean over the wards that were trained."""
    south = (folder / "south.csv").read_text()
    (folder / "new.csv").write_text(south.replace(",b,", ",z,"))
    said = drfl("predict", "TWO/model.json", "new.csv", "--id", "id", cwd=folder)
    assert "20 rows hold a value of 'ward' that was not trained" in said.err
    usual = drfl("predict", "TWO/model.json", "south.csv", "--id", "id", cwd=folder)
    (folder / "reference.csv").write_text(south.replace(",b,", ",a,"))
    reference = drfl("predict", "TWO/model.json", "reference.csv", "--id", "id", cwd=folder)
    texts = (said.out, usual.out, reference.out)
    tables = [[line.split(",") for line in text.splitlines()[1:]] for text in texts]
    changed = [new for new, own, _ in zip(*tables, strict=True) if new != own]
    assert len(changed) == 20
    assert all(all(line) for line in changed)  # each has a prediction, and not the reference's
    assert not [new for new, own, ref in zip(*tables, strict=True) if new != own and new == ref]


def test_what_is_wrong_with_several_files_is_said_at_once(folder, refused):
    for name in ("north", "south"):
        text = (folder / f"{name}.csv").read_text().replace("ill", "sick", 1)
        (folder / f"{name}-sick.csv").write_text(text)
    files = ("north-sick.csv", "south-sick.csv")
    said = refused("inspect", *files, "--target", "ill")
    assert all(f"{file} has no column 'ill', the target" in said for file in files)


def test_settings_are_called_as_they_were_given(folder, refused):
    common = ("--client", "north.csv", "--client", "south.csv", *TRAIN, "--out", "BAD")
    for option, value, words in (
        ("--max-missing", "x", "--max-missing must be a number"),
        ("--missing", "median", "unknown --missing 'median': did you mean 'mean'?"),
        ("--missing-columns", "age", "--missing-columns: write COLUMN=HOW"),
        ("--missing-columns", "age=men", "unknown --missing-columns of 'age' 'men'"),
        ("--tol", "x", "--tol must be a number"),
    ):
        assert words in refused("train", *common, option, value)
    (folder / "bad.toml").write_text('tol = "x"\ntarget = "ill"\n[clients]\na = "north.csv"\n')
    assert "drfl: tol must be" in refused("train", "bad.toml")


@pytest.mark.parametrize("guard", [(), ("--guard", "4")])
def test_a_run_interrupted_before_its_first_round_can_be_resumed(
    folder, monkeypatch, capsys, guard
):
    def interrupted(station, request):
        raise KeyboardInterrupt

    monkeypatch.chdir(folder)
    out = f"EARLY{len(guard)}"
    options = ("--exclude", "id,ward", "--target", "ill", "--tol", "0.9", *guard, "--out", out)
    with monkeypatch.context() as patched:
        patched.setattr(Station, "look", interrupted)
        code = run(["train", "--client", "north.csv", "--client", "south.csv", *options])
    assert code == 130
    said = capsys.readouterr().err
    assert f"no round was done yet: continue with `drfl train --resume {out}`" in said
    assert run(["train", "--resume", out]) == 0
    assert (folder / out / "model.json").exists()
    assert (folder / out / "table-1.txt").exists()
