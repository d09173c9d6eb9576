"""Files that are made into CSV before they are read: compressed ones, Excel, SAS, SPSS, Stata."""

from __future__ import annotations

import csv
import gzip
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from drfl.tables.delimited import read_delimited
from drfl.tables.reading import Reading, TableError
from drfl.tables.table import Table

T = TypeVar("T")

LEAST = 1e-75
"""pandas reads the 0 of a transport file of SAS as the least number of its format, 5.4e-79."""


def read_converted(path: Path, reading: Reading) -> Table:
    """Read a file by way of a temporary CSV file; rows are counted as the lines of that."""
    table = converted(path, lambda plain: read_delimited(plain, reading))
    return replace(table, path=path, lines=lambda rows: [row + 2 for row in rows])


def converted(path: Path, read: Callable[[Path], T]) -> T:
    """What is read of a file by way of a temporary CSV file."""
    with TemporaryDirectory(prefix="drfl-") as folder:
        plain = Path(folder) / f"{path.name}.csv"
        try:
            CONVERTERS[path.suffix.lower()](path, plain)
            return read(plain)
        except TableError as error:
            raise TableError(str(error).replace(str(plain), str(path))) from None


def _gzip(path: Path, plain: Path) -> None:
    if Path(path.stem).suffix.lower() not in (".csv", ".tsv", ".txt"):
        raise TableError(f"{path} must be called .csv.gz, .tsv.gz or .txt.gz: rename it")
    try:
        with gzip.open(path, "rb") as source, plain.open("wb") as out:
            shutil.copyfileobj(source, out)
    except (OSError, EOFError):
        raise TableError(f"{path} is not compressed by gzip, or was cut off") from None


def _excel(path: Path, plain: Path) -> None:
    try:
        import openpyxl
    except ImportError:
        raise TableError(
            f"{path} is an Excel file, which needs openpyxl: pip install 'drfl[excel]', or save it "
            "as CSV"
        ) from None
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception as error:  # zip, XML and its own: all mean the same
        raise TableError(f"{path} is not an Excel file, or a damaged one") from error
    try:
        if len(book.sheetnames) > 1:
            raise TableError(
                f"{path} has {len(book.sheetnames)} sheets: save the one that is meant in a file "
                "of its own, or as CSV"
            )
        with plain.open("w", encoding="utf-8", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            for row in book.worksheets[0].iter_rows(values_only=True):
                writer.writerow(["" if cell is None else _text(cell) for cell in row])
    finally:
        book.close()


def _text(cell: Any) -> str:
    """As the cell would stand in a CSV file."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def _statistics(path: Path, plain: Path) -> None:
    try:
        import pandas
    except ImportError:
        raise TableError(
            f"{path} is a file of SAS, SPSS or Stata, which needs pandas: install it, or save the "
            "file as CSV there"
        ) from None
    readers = {".sas7bdat": "read_sas", ".xpt": "read_sas", ".dta": "read_stata"}
    name = readers.get(path.suffix.lower(), "read_spss")
    extra = {"encoding": "utf-8"} if name == "read_sas" else {}
    try:
        frame = getattr(pandas, name)(path, **extra)
    except ImportError:
        raise TableError(
            f"{path} is a file of SPSS, which needs pyreadstat beside pandas: install it, or save "
            "the file as CSV there"
        ) from None
    except Exception as error:  # each format has its own
        raise TableError(f"{path} cannot be read by pandas: save it as CSV") from error
    if path.suffix.lower() == ".xpt":
        numbers = frame.select_dtypes("number").columns
        frame[numbers] = frame[numbers].mask(frame[numbers].abs() < LEAST, 0.0)
    frame.to_csv(plain, index=False)


CONVERTERS: dict[str, Callable[[Path, Path], None]] = {
    ".gz": _gzip,
    ".xlsx": _excel,
    ".sas7bdat": _statistics,
    ".xpt": _statistics,
    ".sav": _statistics,
    ".dta": _statistics,
}
"""By the ending of a file's name."""
