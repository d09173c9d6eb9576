"""Tables for a reader."""

import pytest

from drfl.aligned import aligned


def test_columns_are_as_wide_as_their_widest_cell():
    lines = aligned([["site", "rows", "note"], ["northern", "7", ""], ["b", "1234567", "late"]])
    assert lines == [
        "site         rows  note",
        "northern        7",
        "b         1234567  late",
    ]


def test_columns_have_a_least_width_and_texts_begin_on_the_left():
    assert aligned([["a", "b", "c", "d"]], [3, 3], texts=(0, 2)) == ["a      b  c  d"]


def test_rows_have_the_same_number_of_cells():
    with pytest.raises(ValueError, match="zip"):
        aligned([["a", "b"], ["c"]])
