"""Nothing is told of fewer than five rows, nor can it be found by subtraction."""

import json

import pytest
from report_kit import run_records
from test_report_page import Page, page_of

from drfl.defaults import FEW_ROWS
from drfl.report.evidence import Evidence
from drfl.report.suppression import Groups


def groups(counts, rows=None, center="uniform"):
    classes = len(next(iter(counts.values())))
    rows = rows or {client: sum(n) for client, n in counts.items()}
    found = {"kind": "preflight", "rows": rows, "class_counts": counts}
    found["classes"] = [f"class {k}" for k in range(classes)]
    problem = {"kind": "problem", "mixture": {"center": center}}
    return Groups(Evidence([found, problem]))


def test_a_small_client_is_named_and_nothing_else():
    # Every number of the small client is one that occurs nowhere else.
    text = page_of(run_records())
    page = Page(text)
    row = next(part for part in text.split("<tr>")[1:] if "west" in part)
    assert row.split("</tr>")[0].count("–") == 7
    assert "&lt; 5" in row
    for number in ("66.7", "0.666", "0.777", "77.8", "0.123", "0.4242"):
        assert number not in page.words
    for chart in page.charts:
        names = [row["label"] for row in chart.get("rows", [])]
        assert "west" not in names or chart["title"] == "Sent by each client, in kB"
        assert "west" not in [line["name"] for line in chart.get("series", [])]
        for row in chart.get("rows", []):
            assert not any("west" in text for _, text in row["dots"])


def test_means_leave_small_clients_out():
    (first,) = [r for r in run_records() if r["kind"] == "result"]
    assert len(first["clients"]) == 3
    assert "Its mean accuracy over 2 clients is 80.0 %" in Page(page_of(run_records())).words


def test_a_small_class_takes_another_one_with_it():
    found = groups({"a": [40, 30, 4], "b": [9, 9, 9], "c": [3, 4, 50], "d": [0, 8, 9]})
    assert found.counts("a") == [40, None, None]
    assert found.counts("b") == [9, 9, 9]
    assert found.counts("c") == [None, None, 50]
    assert found.counts("d") == [None, None, 9]
    assert groups({"a": [40, 4]}).counts("a") == [None, None]


def test_two_classes_without_rows_are_not_company_enough():
    # Subtraction would tell that both are empty; together five rows are hidden at least.
    assert groups({"a": [0, 0, 40, 30]}).counts("a") == [None, None, 40, None]
    assert groups({"a": [2, 1, 1, 40, 30]}).counts("a") == [None, None, None, 40, None]
    assert groups({"a": [3, 2, 40, 30]}).counts("a") == [None, None, 40, 30]


def test_losses_and_weights_of_a_small_client_do_not_follow_from_the_others():
    """The weighted losses add up to the objective, the weights to 1."""
    found = groups({"a": [60, 60], "b": [20, 20], "c": [2, 1]})
    assert found.small == ["c"]
    assert found.company == ["b"]
    assert [client for client in "abc" if found.tells_parts(client)] == ["a"]
    assert found.scores("b", {"accuracy": 0.9}) == {"accuracy": 0.9}  # it is part of no total
    # Two small ones with five rows together need no company.
    assert groups({"a": [60, 60], "b": [20, 20], "c": [2, 1], "d": [1, 1]}).company == []
    assert groups({"a": [60, 60], "b": [20, 20], "c": [1, 1], "d": [1, 1]}).company == ["b"]
    assert groups({"a": [60, 60], "b": [20, 20]}).company == []


def test_the_page_leaves_out_the_parts_of_a_small_clients_company():
    page = Page(page_of(run_records()))
    assert "are left out too: south" in page.words
    # Objective 0.4035, weights 30, 40 and 30 %, losses 0.38, 0.456789 and 0.424242.
    for number in ("0.4567", "40.0 %"):
        assert number not in page.words
    for chart in page.charts:
        if "loss" in chart["title"] or "weights" in chart["title"]:
            assert [row["label"] for row in chart["rows"]] == ["north"]
    table = next(part for part in page.source.split("<table>") if "adversary&#x27;s choice" in part)
    assert "north" in table
    assert "south" not in table.split("</table>")[0]


def test_a_reason_that_names_a_small_client_is_not_told():
    records = run_records()
    selection = next(r for r in records if r["kind"] == "selection")
    selection["reason"] = "it has the best worst client: 'west' scores 0.1233"
    words = Page(page_of(records)).words
    assert "rests on a client of which nothing is told" in words
    assert "0.1233" not in words
    selection["reason"] = "it has the best worst client: 'north' scores 0.82"
    assert "'north' scores 0.82" in Page(page_of(records)).words


@pytest.mark.parametrize("few", range(FEW_ROWS))
def test_no_count_below_five_follows_from_the_others(few):
    found = groups({"a": [20, few, 30]})
    told = [n for n in found.counts("a") if n is not None]
    hidden = found.counts("a").count(None)
    # What is left over is shared by two classes at least, so neither is known.
    assert hidden == 2
    assert found.rows("a") - sum(told) >= 20


def test_metrics_of_single_classes_need_enough_rows_of_each():
    scores = {"accuracy": 0.9, "balanced_accuracy": 0.5, "auc": 0.7}
    found = groups({"a": [40, 4], "b": [40, 5], "c": [2, 2]})
    assert found.scores("a", scores) == {"accuracy": 0.9}
    assert found.scores("b", scores) == scores
    assert found.scores("c", scores) == {}


def test_totals_and_weights_do_not_give_a_small_client_away():
    assert groups({"a": [20, 20], "b": [2, 2]}).total() is None
    assert groups({"a": [20, 20], "b": [9, 9]}).total() == 58
    assert not groups({"a": [20, 20], "b": [2, 2]}, center="proportional").weights_are_shown
    assert groups({"a": [20, 20], "b": [9, 9]}, center="proportional").weights_are_shown


def test_a_client_of_unknown_size_counts_as_small():
    found = groups({"a": [20, 20], "b": [9, 9]}, rows={"a": 40, "b": None})
    assert list(found.shown) == ["a"]
    assert found.is_small("stranger")


def test_radii_that_depend_on_the_number_of_rows_are_not_told():
    records = run_records()
    balls = {c: {"radius": 0.1 / n**0.5, "norm": "l1"} for c, n in (("north", 60), ("west", 3))}
    problem = next(r for r in records if r["kind"] == "problem")
    del problem["ball"]
    problem["balls"] = balls
    next(r for r in records if r["kind"] == "settings")["radius"] = {"north": 1.5, "west": 0.577}
    text = page_of(records)
    assert json.dumps({"north": 0.1 / 60**0.5}).replace('"', "&quot;") in text
    assert str(0.1 / 3**0.5)[:6] not in text
    assert "0.577" not in text
