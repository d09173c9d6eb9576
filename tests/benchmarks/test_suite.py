"""The table of `make bench` and its guard; what it measures is not measured here."""

import pytest

from benchmarks.suite import records
from benchmarks.suite.__main__ import judged
from benchmarks.suite.race import race
from benchmarks.suite.row import Row, Skipped


def test_targets_are_judged_both_ways():
    assert Row("s", "faster", 120.0, at_least=100).met
    assert not Row("s", "slower", 80.0, at_least=100).met
    assert Row("s", "flat", 1.0, at_most=1.1).met
    assert not Row("s", "steep", 1.2, at_most=1.1).met
    assert Row("s", "no target", 0.1).met
    with pytest.raises(ValueError, match="one target"):
        Row("s", "both", 1.0, at_least=1, at_most=2)


@pytest.fixture
def stored(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "STORED", tmp_path / "stored.json")
    records.store(
        [
            Row("s", "ratio", 10.0),
            Row("s", "slope", 1.0, at_most=1.1),
            Row("s", "x", 1.0, guarded=False),
        ]
    )


@pytest.mark.usefixtures("stored")
def test_a_loss_of_more_than_a_quarter_is_a_regression():
    fine = [Row("s", "ratio", 8.1), Row("s", "slope", 1.24, at_most=1.1)]
    assert records.regressions(fine) == []
    worse = [Row("s", "ratio", 7.9), Row("s", "slope", 1.26, at_most=1.1)]
    assert records.regressions(worse) == worse
    better = [Row("s", "ratio", 100.0), Row("s", "slope", 0.1, at_most=1.1)]
    assert records.regressions(better) == []


@pytest.mark.usefixtures("stored")
def test_only_what_is_stored_and_guarded_is_compared():
    assert records.regressions([Row("s", "x", 0.01), Row("s", "new", 0.01)]) == []
    assert set(records.stored()) == {"s: ratio", "s: slope"}


@pytest.mark.usefixtures("stored")
def test_storing_a_section_keeps_the_others():
    records.store([Row("t", "other", 3.0)])
    assert records.stored() == {"s: ratio": 10.0, "s: slope": 1.0, "t: other": 3.0}


def test_the_table_says_what_was_missed_and_what_was_not_run():
    lines = [
        Row("s", "slow", 0.5, at_least=1, detail="2 s"),
        Skipped("s", "cvxpy", "not installed"),
    ]
    text = "\n".join(records.table(lines))
    assert "| slow | 0.5 | ≥ 1 | **missed** | 2 s |" in text
    assert "- s: cvxpy: not installed" in text


def test_contenders_run_in_turns_and_the_best_time_counts():
    order: list[str] = []
    lanes = race({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, repeats=3)
    assert order == ["a", "b"] * 3
    assert [lane.runs for lane in lanes.values()] == [3, 3]


@pytest.mark.usefixtures("stored")
def test_a_check_names_what_it_could_not_compare(capsys):
    assert judged([Row("s", "ratio", 10.0), Row("s", "slope", 1.0, at_most=1.1)], None) == 0
    assert "0 stored rows not checked" in capsys.readouterr().out
    assert judged([Row("s", "ratio", 10.0)], None) == 0
    assert "1 stored rows not checked: s: slope" in capsys.readouterr().out
    assert judged([Row("s", "ratio", 10.0), Row("s", "new", 1.0)], None) == 1
    assert "s: new: nothing is stored to compare it with" in capsys.readouterr().out
    assert judged([], None) == 1
