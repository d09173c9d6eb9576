"""Table 1 of real sites with a guard: four hospitals with gaps, one with ages in months."""

import json

import numpy as np
import pytest

from drfl.datasets import load_four_hospitals
from kit.real_sites import drfl_sites, real_sites

pytestmark = pytest.mark.slow

COLUMNS = ("age", "resting_blood_pressure", "serum_cholesterol", "max_heart_rate")
MONTHS = "va"


def four_hospitals():
    """The columns (N, n) of every hospital, NaN where a value is missing, and their CSV texts."""
    found = load_four_hospitals()
    X = found.data[:, [found.feature_names.index(name) for name in COLUMNS]].copy()
    X[found.hospital == MONTHS, 0] *= 12.0
    ill = np.where(found.target > 0, "yes", "no")
    rows, texts = {}, {}
    for name in np.unique(found.hospital).tolist():
        mine = found.hospital == name
        rows[name] = X[mine]
        lines = [
            ",".join([*("" if np.isnan(v) else f"{v:g}" for v in row), label])
            for row, label in zip(X[mine], ill[mine], strict=True)
        ]
        texts[name] = "\n".join([",".join([*COLUMNS, "disease"]), *lines]) + "\n"
    return rows, texts


@pytest.fixture(scope="module")
def inspected(tmp_path_factory):
    """What `drfl sites inspect` says, its cells, and what left every site; the guard is k = 5."""
    folder, (_, texts) = tmp_path_factory.mktemp("tables"), four_hospitals()
    with real_sites(folder, texts) as started:
        said = drfl_sites("inspect", cwd=folder)
        again = drfl_sites("inspect", "--json", cwd=folder)
        ledgers = {name: started.ledger(name) for name in texts}
    return said, [json.loads(line) for line in again.stdout.splitlines()], ledgers


def test_the_table_is_that_of_the_files_as_far_as_a_guard_tells_it(inspected):
    said, records, _ = inspected
    rows, _ = four_hospitals()
    cells = {(r["column"], r["client"]): r for r in records if r["kind"] == "cell"}
    assert {client for _, client in cells} == set(rows)
    for name, X in rows.items():
        for j, column in enumerate(COLUMNS):
            x, cell = X[:, j], cells[column, name]
            gaps = np.isnan(x).mean()
            if 0 < np.isnan(x).sum() < 5 or np.isfinite(x).sum() < 5:
                continue  # few gaps are no gaps under a guard, and few values are none
            assert cell["missing"] == pytest.approx(gaps, abs=5 / len(x))
            assert cell["mean"] == pytest.approx(np.nanmean(x), rel=1e-3)
            assert cell["deviation"] == pytest.approx(np.nanstd(x), rel=1e-2)
    assert "Table 1: mean (standard deviation)" in said.stdout
    assert "filled at switzerland: serum_cholesterol 100%" in said.stdout


def test_months_are_told_from_years_by_sums_alone(inspected):
    said, _, _ = inspected
    assert f"column 'age' has mean 712.2 at '{MONTHS}'" in said.stderr
    assert "they look like years and months" in said.stderr


def test_what_left_the_sites_are_sums_that_are_in_their_ledgers(inspected):
    _, _, ledgers = inspected
    for sent in ledgers.values():
        kinds = [entry["kind"] for entry in sent]
        assert set(kinds) <= {"hello/reply", "preflight/reply"}
        assert kinds.count("preflight/reply") == 2
