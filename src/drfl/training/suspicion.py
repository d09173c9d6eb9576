"""What looks wrong in a file at a client, and may be told: codes for missing values, outliers, ids.

A certificate proves that the optimisation is right, not that the data are. None of this is told
under a guard, whose promise it would break.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.tables import Table

CODES = (-9.0, -99.0, -999.0, -9999.0, 0.0, 99.0, 999.0, 9999.0)
"""Numbers that often stand for a missing value."""
FEW = 5
"""Of what fewer rows hold nothing is told."""
DISTINCT = 10
"""A column with fewer different values is a scale, where any number can be usual."""
ENOUGH = 50
"""In fewer rows different whole numbers, or one column that divides the classes, are chance."""
FAR = 1e3
"""A value that is so many times farther from the middle than the usual ones is told of."""

NOTHING: dict[str, Any] = {"codes": {}, "far": {}, "ids": [], "perfect": []}


def hints(
    table: Table, names: list[str], target: str, keep: NDArray[np.bool_] | None
) -> dict[str, Any]:
    """What looks wrong, by column.

    Returns
    -------
    dict
        ``codes``: pairs of a number that looks like a code for "missing", and how many rows hold
        it; ``far``: the power of ten by which the farthest value is farther from the middle than
        the usual ones; ``ids``: columns of whole numbers that differ in every row; ``perfect``:
        columns that alone tell the target.
    """
    if table.sparse:
        return NOTHING
    found: dict[str, Any] = {"codes": {}, "far": {}, "ids": [], "perfect": []}
    y = _positions(table, target, keep)
    for name in names:
        x = _positions(table, name, keep)
        present = ~np.isnan(x)
        if not table.is_text(name) and present.any():
            values = x[present]
            found["codes"] |= {name: codes} if (codes := _codes(values)) else {}
            found["far"] |= {name: power} if (power := _far(values)) else {}
            if len(values) >= ENOUGH and _is_id(values):
                found["ids"].append(name)
        if _tells(x[present], y[present], text=table.is_text(name)):
            found["perfect"].append(name)
    return found


def _positions(table: Table, name: str, keep: NDArray[np.bool_] | None) -> Array:
    """Numbers, or the codes of text; NaN where there is none."""
    if table.is_text(name):
        codes = table.text(name).astype(np.float64)
        values = np.where(codes < 0, np.nan, codes)
    else:
        values = np.asarray(table.number(name), dtype=np.float64)
    return values if keep is None else values[keep]


def _codes(x: Array) -> list[list[float]]:
    """Codes that lie apart from all other values, by more than these spread."""
    found = []
    for code in CODES:
        others = x[x != code]
        count = len(x) - len(others)
        if count < FEW or len(others) < FEW or len(np.unique(others)) < DISTINCT:
            continue
        outside = code < others.min() or code > others.max()
        if outside and np.abs(others - code).min() > others.std():
            found.append([code, count])
    return found


def _far(x: Array) -> int:
    low, middle, high = np.quantile(x, [0.25, 0.5, 0.75])
    usual = high - low
    if usual <= 0.0:
        return 0
    ratio = float(np.abs(x - middle).max() / usual)
    return int(np.log10(ratio)) if ratio >= FAR else 0


def _is_id(x: Array) -> bool:
    return bool((x == np.round(x)).all()) and len(np.unique(x)) == len(x)


def _tells(x: Array, y: Array, *, text: bool) -> bool:
    """Whether a column alone tells the target: its levels, or a threshold; or a line."""
    if len(x) < ENOUGH or np.isnan(y).any():
        return False
    classes = np.unique(y)
    if len(classes) == 1 or len(np.unique(x)) == 1:
        return False
    if len(classes) == 2:
        one, other = x[y == classes[0]], x[y == classes[1]]
        if min(len(one), len(other)) < FEW:
            return False
        if text:
            return not set(one.tolist()) & set(other.tolist())
        return bool(one.max() < other.min() or other.max() < one.min())
    return not text and abs(float(np.corrcoef(x, y)[0, 1])) > 1.0 - 1e-9
