"""Parquet files, read in batches by pyarrow (``pip install 'drfl[parquet]'``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from drfl.arrays import Array
from drfl.tables.reading import LARGEST, Reading, TableError
from drfl.tables.table import Growing, Table, coded

BATCH = 65_536


def _opened(path: Path) -> Any:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise TableError(
            f"{path} is a Parquet file, which needs pyarrow: pip install 'drfl[parquet]'"
        ) from None
    try:
        return parquet.ParquetFile(path)
    except pyarrow.ArrowInvalid:
        raise TableError(f"{path} is not a Parquet file, or a damaged one") from None


def parquet_texts(path: Path, name: str) -> tuple[list[str], list[str]]:
    """The names of all columns, and one of them as texts; empty if there is none of this name."""
    file = _opened(path)
    names = list(file.schema_arrow.names)
    values = file.read(columns=[name]).column(0).to_pylist() if name in names else []
    return names, ["" if value is None else str(value).strip() for value in values]


def read_parquet(path: Path, reading: Reading) -> Table:
    """Read a Parquet file; rows are counted from 1 where CSV files have lines."""
    file = _opened(path)
    names = [name for name in file.schema_arrow.names if reading.wanted(name)]
    types = [file.schema_arrow.field(name).type for name in names]
    text = [
        name
        for name, kind in zip(names, types, strict=True)
        if name in reading.text or not _is_number(kind)
    ]
    plain = [name for name in names if name not in text]
    numbers, codes = Growing(np.float64, len(plain)), Growing(np.int32, len(text))
    known: list[dict[str, int]] = [{} for _ in text]
    for number, batch in enumerate(file.iter_batches(BATCH, columns=names)):
        numbers.append(_numbers(path, batch, plain, 1 + number * BATCH))
        block = np.empty((len(batch), len(text)), dtype=np.int32)
        for k, name in enumerate(text):
            values = batch.column(name).to_pylist()
            block[:, k] = coded(known[k], ["" if v is None else str(v) for v in values])
        codes.append(block)
    n_rows = file.metadata.num_rows
    if n_rows == 0:
        raise TableError(f"{path} has no rows: a client needs at least one")
    return Table(
        path=path,
        columns=tuple(names),
        n_rows=n_rows,
        numbers=numbers.finish().reshape(n_rows, -1),
        number_names=tuple(plain),
        codes=codes.finish().reshape(n_rows, -1),
        levels={name: list(values) for name, values in zip(text, known, strict=True)},
        not_numbers={},
        header=tuple(file.schema_arrow.names),
        lines=lambda rows: [row + 1 for row in rows],
    )


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _numbers(path: Path, batch: Any, names: list[str], first: int) -> Array:
    block = np.empty((len(batch), len(names)))
    for k, name in enumerate(names):
        block[:, k] = batch.column(name).cast("float64").to_numpy(zero_copy_only=False)
        bad = np.flatnonzero(np.abs(block[:, k]) > LARGEST)
        if len(bad):
            raise TableError(
                f"{path}, row {first + int(bad[0])}: column {name!r} holds "
                f"{block[bad[0], k]:g}, which is not a finite number that can be squared: write a "
                "number, or leave it empty"
            )
    return block
