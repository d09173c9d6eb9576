"""By what a ledger knows its data, and what an answer is about."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.rows import Rows
from drfl.rows.parts import is_sparse
from drfl.tables import Reading, TableError, read_table


def rows_key(rows: Rows) -> bytes:
    """A fingerprint of rows as they came, in their order; scaling plays no role."""
    sha = hashlib.sha256(repr((rows.n_rows, rows.n_features)).encode())
    for block in rows.blocks():
        part = rows.X[block]
        dense: Array = np.asarray(part.toarray() if is_sparse(part) else part, dtype=np.float64)
        sha.update(np.ascontiguousarray(dense).tobytes())
    sha.update(np.ascontiguousarray(rows.y).tobytes())
    return sha.digest()


def row_prints(rows: Rows) -> NDArray[np.uint8]:
    """A fingerprint of every row as it came, (N, 32)."""
    found = []
    for block in rows.blocks():
        part = rows.X[block]
        dense = part.toarray() if is_sparse(part) else np.asarray(part)
        whole = np.column_stack([dense, rows.y[block]]).astype(np.float64)
        found += [hashlib.sha256(row.tobytes()).digest() for row in whole]
    return np.frombuffer(b"".join(found), np.uint8).reshape(len(found), 32)


def file_prints(path: Path, where: tuple[str, str] | None = None) -> NDArray[np.uint8] | None:
    """A fingerprint of every row of a file by its values, (N, 32), whatever its format.

    All columns count, also those that a training leaves out. A file that cannot be read as a whole,
    or has too many columns to be kept densely, is known by its lines. With ``where``, a column and
    a value of it, the rows that have this value.
    """
    try:
        table = read_table(path, Reading(where=where))
    except TableError:
        return _line_prints(path)
    if table.sparse:
        return _line_prints(path)
    parts = []
    for name in sorted(table.columns):
        if table.is_text(name):
            digests = [hashlib.sha256(level.encode()).digest() for level in table.levels[name]]
            known = np.frombuffer(b"".join([*digests, bytes(32)]), np.uint8).reshape(-1, 32)
            parts.append(known[table.text(name)])  # a missing one is -1, the last
        else:
            values = np.asarray(table.number(name), dtype=np.float64) + 0.0
            values = np.where(np.isnan(values), np.nan, values)
            parts.append(np.ascontiguousarray(values).view(np.uint8).reshape(-1, 8))
    found = [hashlib.sha256(row.tobytes()).digest() for row in np.hstack(parts)]
    return np.frombuffer(b"".join(found), np.uint8).reshape(len(found), 32)


def _line_prints(path: Path) -> NDArray[np.uint8] | None:
    """A fingerprint of every line of a file of text, (lines, 32); None for other files."""
    with path.open("rb") as file:
        if b"\0" in file.read(4096):
            return None
        file.seek(0)
        found = [hashlib.sha256(line.strip()).digest() for line in file if line.strip()]
    return np.frombuffer(b"".join(found), np.uint8).reshape(len(found), 32)


def meaning_of(rows: Rows) -> bytes:
    """A fingerprint of the numbers that a model sees: entries, labels, shift, scale and ramps.

    Columns, target, positive class, categories and units are all in it, since whatever of them is
    other makes other numbers. Two problems with the same fingerprint have the same answers.
    """
    sha = hashlib.sha256(rows_key(rows))
    for fold in (rows.shift, rows.scale):
        sha.update(b"-" if fold is None else b"+" + fold.tobytes())
    if rows.ramps is not None:
        sha.update(rows.ramps.tobytes())
    return sha.digest()


def file_key(path: Path, keep: NDArray[np.bool_] | None) -> bytes:
    """A fingerprint of a file and of which of its rows are used (None: all).

    Columns, target and categories play no role: every training on these rows has one ledger.
    """
    with path.open("rb") as file:
        sha = hashlib.file_digest(file, "sha256")
    if keep is not None:
        sha.update(b"\0" + np.packbits(keep).tobytes())
    return sha.digest()
