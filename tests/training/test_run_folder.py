"""The folder of a run: what a resumed run depends on, and records as strict JSON."""

import json
import math

import pytest

from drfl.training.run_folder import FOLDER, PRIVATE, Records, RunFolder, versions
from drfl.training.settings import from_values
from kit.program import write_csv


@pytest.fixture
def begun(tmp_path):
    """A folder whose run has begun, and its settings."""
    path = write_csv(tmp_path / "a.csv", ["age", "ill"], [[50, 1], [60, 0]])
    settings = from_values({"target": "ill", "tol": "0.01"}, {"a": path})
    folder = RunFolder.new(str(tmp_path / "RUN"))
    folder.close_to_others()
    folder.create(settings)
    folder.check_identity(settings)
    return folder, settings


def test_a_run_that_has_begun_is_found_with_its_settings(begun, tmp_path):
    folder, settings = begun
    assert folder.begun
    again = RunFolder.find(str(folder.path))
    assert again.settings({}).all() == settings.all()
    assert again.settings({"tol": "0.5"})["tol"] == 0.5
    assert folder.path.stat().st_mode & 0o777 == FOLDER
    assert folder.config.stat().st_mode & 0o777 == PRIVATE
    with pytest.raises(ValueError, match="holds a run already"):
        RunFolder.new(str(folder.path))
    with pytest.raises(ValueError, match="holds no run"):
        RunFolder.find(str(tmp_path))


def test_what_a_run_depends_on_may_not_change(begun):
    folder, settings = begun
    folder.check_identity(settings.with_values(max_rounds=7, validation=False))  # these may
    with pytest.raises(ValueError, match=r"had tol = 0.01, not 0.1"):
        folder.check_identity(settings.with_values(tol=0.1))
    with pytest.raises(ValueError, match="had guard = None, not 5"):
        folder.check_identity(settings.with_values(guard=5))
    settings.clients["a"].write_text("age,ill\n50,1\n61,0\n")
    with pytest.raises(ValueError, match=r"a\.csv has changed since the run"):
        folder.check_identity(settings)


def test_what_was_found_out_is_remembered_and_cuts_are_forgotten(begun):
    folder, _ = begun
    assert folder.remembered("radius") is None
    folder.remember("radius", {"radius": math.inf})
    assert folder.remembered("radius") == {"radius": "inf"}
    assert not folder.forget_cuts()
    folder.cuts(0).write_bytes(b"of rows")
    assert folder.forget_cuts()
    assert not folder.cuts(0).exists()


def test_records_are_written_as_they_come_and_replaced_at_once(begun):
    folder, _ = begun
    records = Records()
    records.add("start", **versions())
    records.open(folder.records)
    assert records.add("round", gap=math.inf) == {"kind": "round", "gap": "inf"}

    def written():
        return [json.loads(line) for line in folder.records.read_text().splitlines()]

    assert [record["kind"] for record in written()] == ["start", "round"]
    assert {"python", "drfl", "numpy"} <= set(written()[0])
    records.rewrite(records.all[1:])
    assert written() == records.all == [{"kind": "round", "gap": "inf"}]
    assert folder.records.stat().st_mode & 0o777 == PRIVATE


def test_the_files_of_a_run_made_elsewhere_are_taken_over_for_the_owner(begun, tmp_path):
    folder, _ = begun
    mine = RunFolder(tmp_path / "MINE")
    mine.take_over(folder.path)
    assert mine.config.read_bytes() == folder.config.read_bytes()
    assert mine.config.stat().st_mode & 0o777 == PRIVATE
    assert not mine.begun  # what a resumed run needs stays where it was made
