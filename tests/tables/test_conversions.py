"""Files as people have them: compressed, Excel, Stata, latin-1, numbers beyond all limits."""

import base64
import gzip
import zlib

import numpy as np
import pandas
import pytest

from drfl.tables import Reading, TableError, read_table

TEXT = "age,sex,ill\n50,m,1\n61.5,f,0\n,m,1\n"


XPT = (
    "c-r%Db#!qJQV4Q&_78H=f&d>+ry$3mNCgjMIYkICzzY-<f*peuKmdsb8mFLOre|OV;wKfSnCKZP-~@)|e*R%"
    "bW>!YVR>nqFM&{^z1qy)&7XSLX`Z@u{i1V+Z8JuNefZaToVCSHKkRXb}&&4ssG1xT(#0N14b@=%?`nm=a@~<"
    "&=|1vN#Ffed1Feav_lI0!-5CEEi!Y3Cnfz4tnPOTu{EesfL;ULQ`kZ@tn%*ml<xNwr=6l$jzf2UwfIU@6ilM"
    "%#CxsC!5hLddrm`;PaR*wNq1zz_70LcfmwE"
)
"""The same three rows as a transport file (version 5) of SAS, compressed."""


def same(table, other):
    assert table.columns == other.columns
    assert np.array_equal(table.numbers, other.numbers, equal_nan=True)
    assert table.levels == other.levels
    assert np.array_equal(table.codes, other.codes)


@pytest.fixture
def plain(tmp_path):
    (tmp_path / "a.csv").write_text(TEXT)
    return read_table(tmp_path / "a.csv")


def test_a_compressed_file_is_what_it_was(plain, tmp_path):
    path = tmp_path / "b.csv.gz"
    path.write_bytes(gzip.compress(TEXT.encode()))
    found = read_table(path)
    same(found, plain)
    assert found.path == path
    assert found.lines([2]) == [4]
    path.write_bytes(gzip.compress(TEXT.encode())[:-9])
    with pytest.raises(TableError, match=r"b\.csv\.gz is not compressed by gzip, or was cut off"):
        read_table(path)
    (tmp_path / "c.gz").write_bytes(gzip.compress(TEXT.encode()))
    with pytest.raises(TableError, match=r"must be called .csv.gz"):
        read_table(tmp_path / "c.gz")


def test_errors_in_a_converted_file_name_the_file(tmp_path):
    path = tmp_path / "b.csv.gz"
    path.write_bytes(gzip.compress(b"age,ill\n50,1\n60\n"))
    with pytest.raises(TableError) as error:
        read_table(path)
    assert str(error.value).startswith(f"{path}, line 3: it has 1 values")


def test_an_excel_file_is_what_it_shows(plain, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["age", "sex", "ill"], [50, "m", 1], [61.5, "f", 0], [None, "m", 1]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    same(read_table(tmp_path / "a.xlsx"), plain)
    book.create_sheet("more")
    book.save(tmp_path / "b.xlsx")
    with pytest.raises(TableError, match="has 2 sheets"):
        read_table(tmp_path / "b.xlsx")
    (tmp_path / "c.xlsx").write_text(TEXT)
    with pytest.raises(TableError, match="is not an Excel file, or a damaged one"):
        read_table(tmp_path / "c.xlsx")


def test_a_file_of_stata_is_read_by_pandas(plain, tmp_path):
    pandas.read_csv(tmp_path / "a.csv").to_stata(tmp_path / "a.dta", write_index=False)
    same(read_table(tmp_path / "a.dta"), plain)
    (tmp_path / "b.dta").write_text("no Stata")
    with pytest.raises(TableError, match="cannot be read by pandas: save it as CSV"):
        read_table(tmp_path / "b.dta")


def test_a_transport_file_of_sas_is_read_by_pandas_its_zeros_too(plain, tmp_path):
    (tmp_path / "a.xpt").write_bytes(zlib.decompress(base64.b85decode(XPT)))
    same(read_table(tmp_path / "a.xpt"), plain)
    found = read_table(tmp_path / "a.xpt", Reading(text=frozenset(["ill"])))
    assert found.levels["ill"] == ["1", "0"]
    for name in ("b.xpt", "b.sas7bdat"):
        (tmp_path / name).write_text("no SAS")
        with pytest.raises(TableError, match="cannot be read by pandas: save it as CSV"):
            read_table(tmp_path / name)


def test_a_file_of_spss_needs_another_package(tmp_path, monkeypatch):
    def absent(path):
        raise ImportError("`Import pyreadstat` failed.")

    monkeypatch.setattr(pandas, "read_spss", absent)
    (tmp_path / "a.sav").write_bytes(b"$FL2")
    with pytest.raises(TableError, match="SPSS, which needs pyreadstat beside pandas: install it"):
        read_table(tmp_path / "a.sav")
    frame = pandas.DataFrame({"age": [50.0, None], "sex": ["m", "f"]})
    monkeypatch.setattr(pandas, "read_spss", lambda path: frame)
    assert read_table(tmp_path / "a.sav").levels == {"sex": ["m", "f"]}


def test_latin_1_is_told_how_to_become_utf_8(tmp_path):
    (tmp_path / "a.csv").write_bytes("town,ill\nZürich,1\n".encode("latin-1"))
    with pytest.raises(TableError, match=r"line 2: it is not UTF-8 text.*iconv -f latin1"):
        read_table(tmp_path / "a.csv")


@pytest.mark.parametrize("number", ["1e200", "-1e308", "1e101"])
@pytest.mark.parametrize("word", ["1", "m"])
def test_numbers_that_cannot_be_squared_are_refused(tmp_path, number, word):
    path = tmp_path / "a.csv"
    path.write_text(f"age,sex,ill\n50,{word},1\n{number},{word},0\n")
    with pytest.raises(
        TableError, match=r"a.csv, line 3: column 'age' holds .* that can be squared"
    ):
        read_table(path)
    sparse = tmp_path / "a.svm"
    sparse.write_text(f"1 1:50\n-1 1:{number}\n")
    with pytest.raises(TableError, match=r"a.svm, line 2: .* that can be squared"):
        read_table(sparse)
    columns = {"age": [50.0, float(number)], "sex": [word, word], "ill": [1, 0]}
    pandas.DataFrame(columns).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(TableError, match=r"a.parquet, row 2: column 'age' .* can be squared"):
        read_table(tmp_path / "a.parquet")


def test_a_comma_is_a_decimal_point_if_that_is_said(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("age;ill\n50,5;1\n61;0\nNA;1\n")
    with pytest.raises(TableError, match="holds numbers with a comma"):
        read_table(path)
    numbers = read_table(path, Reading(decimal=",")).number("age")
    assert np.array_equal(numbers, [50.5, 61.0, np.nan], equal_nan=True)
    # Categories that hold commas are still categories.
    path.write_text('grade;ill\n"1,a";1\n"2,b";0\n')
    assert read_table(path).is_text("grade")


def test_thousands_are_not_advised_to_be_decimals(tmp_path):
    path = tmp_path / "a.csv"
    for values, advised in ((("1,070", "2,500"), True), (("1,07", "2,500"), False)):
        path.write_text("cost,y\n" + "".join(f'"{value}",{k}\n' for k, value in enumerate(values)))
        with pytest.raises(TableError, match="holds numbers with a comma, like '1,07") as caught:
            read_table(path)
        assert ("if it parts thousands, leave it out" in str(caught.value)) == advised


def test_text_of_two_bytes_has_its_own_remedy(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("age,ward\n50,north\n".encode("utf-16"))
    with pytest.raises(TableError, match="from UTF-16 by `iconv -f utf16 -t utf8`"):
        read_table(path)
