"""From a file to a table, whatever its format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from drfl._registry import listed, nearest
from drfl.tables.convert import CONVERTERS, converted, read_converted
from drfl.tables.delimited import cells_of, read_delimited, read_head
from drfl.tables.libsvm import read_libsvm
from drfl.tables.parquet import parquet_texts, read_parquet
from drfl.tables.reading import Reading, TableError
from drfl.tables.table import Table

FORMATS: dict[str, Callable[[Path, Reading], Table]] = {
    ".csv": read_delimited,
    ".tsv": read_delimited,
    ".txt": read_delimited,
    ".libsvm": read_libsvm,
    ".svm": read_libsvm,
    ".svmlight": read_libsvm,
    ".parquet": read_parquet,
    ".pq": read_parquet,
    **dict.fromkeys(CONVERTERS, read_converted),
}
"""Readers by the ending of a file's name."""

__all__ = ["FORMATS", "Reading", "read_table"]


def read_column(path: str | Path, name: str) -> list[str]:
    """The texts of one column as they are in the file, a row each: an id, not a category."""
    path = Path(path)
    _require_known(path)
    if path.suffix.lower() in CONVERTERS:
        return converted(path, lambda plain: read_column(plain, name))
    if path.suffix.lower() in (".parquet", ".pq"):
        names, texts = parquet_texts(path, name)
    elif FORMATS[path.suffix.lower()] is read_delimited:
        names, separator = read_head(path)
        at = names.index(name) if name in names else 0
        texts = [row[at].strip() for row in cells_of(path, separator)]
    else:
        raise TableError(f"{path} has no columns with names: leave {name!r} out")
    if name not in names:
        near = nearest(name, names)
        hint = f"did you mean {near!r}? " if near else ""
        raise TableError(f"{path} has no column {name!r}: {hint}it has {listed(names)}")
    return texts


def read_table(path: str | Path, reading: Reading = Reading()) -> Table:  # noqa: B008  (frozen)
    """Read a file with one of the endings in `FORMATS`, in blocks."""
    path = Path(path)
    _require_known(path)
    try:
        table = FORMATS[path.suffix.lower()](path, reading.in_file())
        if reading.where is not None:
            name, value = reading.where
            table = table.only(np.array([text == value for text in read_column(path, name)]))
    except PermissionError:
        raise TableError(f"{path} may not be read: check its permissions") from None
    except OSError as error:
        raise TableError(f"{path} cannot be read: {error.strerror or error}") from None
    table = table.with_plain_wholes()
    return table.renamed({new: old for new, old in reading.names.items() if reading.wanted(new)})


def _require_known(path: Path) -> None:
    if path.is_dir():
        raise TableError(f"{path} is a folder: name a file")
    if not path.exists():
        raise TableError(f"{path} does not exist: check the path")
    if path.suffix.lower() not in FORMATS:
        raise TableError(
            f"{path} ends in {path.suffix or 'nothing'!r}, which says no known format: rename it "
            f"to one of {', '.join(FORMATS)}"
        )
