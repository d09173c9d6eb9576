"""What looks wrong in rows, and may be told of them: codes for missing values, outliers, ids.

A certificate proves that the optimisation is right, not that the data are. None of this is told
under a guard, whose promise it would break.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.inspection.column import DISTINCT, ENOUGH, column_of, is_id, look, nothing
from drfl.inspection.sparse_columns import worth_a_look
from drfl.tables import Table


def hints(
    table: Table, names: list[str], target: str, keep: NDArray[np.bool_] | None
) -> dict[str, Any]:
    """What looks wrong, by column.

    Returns
    -------
    dict
        ``codes``: pairs of a number that looks like a code for "missing", and how many rows hold
        it, 0 for fewer than 5; ``far``: the power of ten by which the farthest value is farther
        from the middle than the usual ones; ``ids``: columns of whole numbers that differ in every
        row; ``perfect``: columns that alone tell the target; ``scale``: how many different whole
        numbers the target has where these are few enough to be classes or grades, else 0.
    """
    found = nothing()
    y = _positions(table, target, keep)
    found["scale"] = 0 if table.is_text(target) else _grades(y)
    if table.sparse:
        _look_at_sparse(found, table, names, y, keep)
        return found
    for name in names:
        x = _positions(table, name, keep)
        present = ~np.isnan(x)
        look(found, name, x[present], y[present], text=table.is_text(name))
        if not table.is_text(name) and is_id(x[present]):
            found["ids"].append(name)
    return found


def _look_at_sparse(
    found: dict[str, Any],
    table: Table,
    names: Sequence[str],
    y: Array,
    keep: NDArray[np.bool_] | None,
) -> None:
    rows = table.numbers if keep is None else table.numbers[np.flatnonzero(keep)]
    by_column, wanted = rows.tocsc(), set(names)
    for j in worth_a_look(rows, y):
        name = table.number_names[j]
        if name in wanted:
            x = column_of(by_column, j)
            look(found, name, x, y, text=False, stored=True)
            if is_id(x):
                found["ids"].append(name)


def _positions(table: Table, name: str, keep: NDArray[np.bool_] | None) -> Array:
    """Numbers, or the codes of text; NaN where there is none."""
    if table.is_text(name):
        codes = table.text(name).astype(np.float64)
        values = np.where(codes < 0, np.nan, codes)
    else:
        values = np.asarray(table.number(name), dtype=np.float64)
    return values if keep is None else values[keep]


def _grades(y: Array) -> int:
    """How many different whole numbers there are, of 3 to 9; two are classes anyway."""
    values = np.unique(y[~np.isnan(y)])
    whole = bool((values == np.round(values)).all())
    return len(values) if whole and 2 < len(values) < DISTINCT and len(y) >= ENOUGH else 0
