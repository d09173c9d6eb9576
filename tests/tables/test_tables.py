"""Files become tables: every value in its place, however it is written, however large the file."""

import csv

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drfl.tables import (
    Category,
    Number,
    Reading,
    TableError,
    delimited,
    encoded,
    read_table,
)
from drfl.tables import encoding as encode_module
from drfl.tables import table as table_module
from drfl.tables.encoding import Withheld, missing_rows

words = st.sampled_from(["north", "so,uth", 'qu"ote', "two\nlines", " spaced ", "ümlaut", "", "NA"])
numbers = st.floats(-1e100, 1e100)


@given(
    st.lists(st.tuples(numbers, words, st.none() | numbers), min_size=1, max_size=20),
    st.sampled_from([",", ";", "\t"]),
    st.integers(20, 200),
)
def test_every_value_is_read(tmp_path_factory, rows, separator, block):
    path = tmp_path_factory.mktemp("t") / "t.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerow(["u", "town", "v"])
        writer.writerows([[repr(u), t, "" if v is None else repr(v)] for u, t, v in rows])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "BLOCK", block)
        table = read_table(path, Reading(text=frozenset({"town"})))
    assert table.n_rows == len(rows)
    assert table.number("u").tolist() == [u for u, _, _ in rows]
    read = [None if np.isnan(v) else v for v in table.number("v").tolist()]
    assert read == [v for _, _, v in rows]
    towns = [None if c < 0 else table.levels["town"][c] for c in table.text("town")]
    assert towns == [None if t in ("", "NA") else t.strip() for _, t, _ in rows]
    # The lines are those where the rows start.
    lines = path.read_text(encoding="utf-8").split("\n")
    for row, line in enumerate(table.lines(range(len(rows)))):
        assert lines[line - 1].startswith(repr(rows[row][0]))


@pytest.mark.parametrize("block", [50, 10**6])
def test_plain_numbers_take_the_fast_way_to_the_same_table(tmp_path, monkeypatch, block):
    values = np.random.default_rng(0).normal(size=(50, 4))
    lines = [",".join(map(repr, row)) for row in values.tolist()]
    monkeypatch.setattr(delimited, "BLOCK", block)
    path = tmp_path / "t.csv"
    path.write_text("a,b,c,d\n" + "\n".join(lines) + "\n")
    assert np.array_equal(read_table(path).numbers, values)
    # From the first line that is not plain, the other way goes on.
    path.write_text("a,b,c,d\n" + "\n".join([*lines, '"1",,3,4', *lines]) + "\n")
    table = read_table(path)
    assert np.array_equal(table.numbers[51:], values)
    assert table.missing("b").nonzero()[0].tolist() == [50]
    assert table.lines([49, 50, 60]) == [51, 52, 62]


@pytest.mark.parametrize("ending", ["csv", "svm"])
def test_large_tables_are_mapped_not_held(tmp_path, monkeypatch, ending):
    monkeypatch.setattr(table_module, "IN_MEMORY", 1000)
    values = np.random.default_rng(0).normal(size=(300, 5))
    path = tmp_path / f"t.{ending}"
    if ending == "csv":
        lines = ["a,b,c,d,e", *(",".join(map(repr, row)) for row in values.tolist())]
    else:
        lines = [
            " ".join(["1", *(f"{j + 1}:{v!r}" for j, v in enumerate(row))])
            for row in values.tolist()
        ]
    path.write_text("\n".join(lines) + "\n")
    table = read_table(path)
    held = table.numbers if ending == "csv" else table.numbers.data
    assert is_mapped(held)
    dense = table.numbers if ending == "csv" else table.numbers.toarray()
    assert np.array_equal(dense, values)
    columns = [Number(name) for name in table.number_names]
    monkeypatch.setattr(encode_module, "BLOCK", 100)
    X = encoded(table, columns)
    assert is_mapped(X if ending == "csv" else X.data)
    assert np.array_equal(X if ending == "csv" else X.toarray(), values)


def is_mapped(array):
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array is not None


def test_categories_become_features(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("town,u\nrome,1\nbern,\noslo,3\n")
    table = read_table(path)
    columns = [Category("town", "rome", ("oslo", "other"), other=True), Number("u", fill=9.0)]
    assert encoded(table, columns).tolist() == [[0, 0, 1], [0, 1, 9], [1, 0, 3]]
    assert encoded(table, columns, withheld=Withheld({"town": {"oslo"}}))[2].tolist() == [0, 1, 3]
    assert encoded(table, columns, np.array([True, False, True])).shape == (2, 3)
    assert missing_rows(table, columns).tolist() == [False] * 3
    assert missing_rows(table, [Number("u")]).tolist() == [False, True, False]
    with pytest.raises(TableError, match=r"line 3: column 'town' holds 'bern'.*'rome', 'oslo'"):
        encoded(table, [Category("town", "rome", ("oslo",))])


def test_a_byte_order_mark_and_windows_lines_do_no_harm(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbfa,b\r\n1,x\r\n2,y\r\n")
    table = read_table(path)
    assert table.columns == ("a", "b")
    assert table.number("a").tolist() == [1.0, 2.0]
    assert table.levels["b"] == ["x", "y"]


LIBSVM = {
    "index": ("1 0:2\n", "line 1", "'0:2'"),
    "order": ("1 1:1\n-1 2:1 2:3\n", "line 2", "ascending"),
    "value": ("1 1:x\n", "line 1", "'x'"),
    "label": ("yes 1:1\n", "line 1", "'yes'"),
    "no colon": ("1 1\n", "line 1", "'1'"),
    "infinite": ("1 1:inf\n", "line 1", "'inf'"),
    "empty": ("\n# nothing\n", "no rows"),
}


@pytest.mark.parametrize("kind", LIBSVM)
def test_bad_libsvm_files(tmp_path, kind):
    text, *expected = LIBSVM[kind]
    path = tmp_path / "t.svm"
    path.write_text(text)
    with pytest.raises(TableError) as caught:
        read_table(path)
    for part in (str(path), *expected):
        assert part in str(caught.value)


@pytest.mark.parametrize("others", ["7", "x"])
def test_a_code_with_an_underscore_is_no_number(tmp_path, others):
    """Python alone calls 1_100 a number, and ward 1_1 would be ward 11."""
    path = tmp_path / "t.csv"
    path.write_text(f"ward,u\n1_1,0\n{others},1\n11,2\n")
    table = read_table(path)
    assert [*table.levels["ward"]] == ["1_1", others, "11"]
    assert table.not_numbers["ward"] == (2, "1_1")


def test_lines_of_old_macs_are_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"u,v\r1,2\r3,4\r")
    with pytest.raises(TableError, match=r"line 1: lines end with a carriage return alone"):
        read_table(path)


def test_unknown_endings_and_folders(tmp_path):
    (tmp_path / "t.docx").write_text("")
    with pytest.raises(TableError, match=r"'.docx'.*rename"):
        read_table(tmp_path / "t.docx")
    with pytest.raises(TableError, match="folder"):
        read_table(tmp_path)


def test_parquet_is_the_same_table(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"u": [1.0, None, 3.5], "town": ["rome", "", "bern"], "k": [1, 2, 3]})
    parquet.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("u,town,k\n1.0,rome,1\n,,2\n3.5,bern,3\n")
    one, other = read_table(tmp_path / "t.parquet"), read_table(tmp_path / "t.csv")
    assert one.columns == other.columns
    assert np.array_equal(one.numbers, other.numbers, equal_nan=True)
    assert np.array_equal(one.codes, other.codes)
    assert one.levels == other.levels
    (tmp_path / "bad.parquet").write_text("no")
    with pytest.raises(TableError, match="not a Parquet file"):
        read_table(tmp_path / "bad.parquet")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "t.parquet").write_text("")
    with pytest.raises(TableError, match=r"pip install 'drfl\[parquet\]'"):
        read_table(tmp_path / "t.parquet")
