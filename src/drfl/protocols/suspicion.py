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

CODES = 3
"""So many codes beside each other, such as -9, -8 and -7, are looked for."""
FEW = 5
"""Of what fewer rows hold nothing is told."""
DISTINCT = 10
"""A column with fewer different values is a scale, where any number can be usual."""
ENOUGH = 50
"""In fewer rows different whole numbers, or one column that divides the classes, are chance."""
FAR = 1e3
"""A value that is so many times farther from the middle than the usual ones is told of."""

TAILS = [0.25, 0.1, 0.05, 0.02]
"""Where a column is mostly the same, what is usual is seen farther out."""

NOTHING: dict[str, Any] = {"codes": {}, "far": {}, "ids": [], "perfect": [], "scale": 0}


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
        columns that alone tell the target; ``scale``: how many different whole numbers the target
        has where these are few enough to be classes or grades, else 0.
    """
    if table.sparse:
        return NOTHING
    found: dict[str, Any] = {"codes": {}, "far": {}, "ids": [], "perfect": [], "scale": 0}
    y = _positions(table, target, keep)
    found["scale"] = 0 if table.is_text(target) else _grades(y)
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
    """Numbers that many rows hold and that lie apart from all others, by more than these spread."""
    found: list[list[float]] = []
    while codes := _spikes(x) or [[-code, count] for code, count in _spikes(-x)]:
        found += codes
        x = x[~np.isin(x, [code for code, _ in codes])]
    return found


def _spikes(x: Array) -> list[list[float]]:
    """The least values, if each is held by many rows and the next one is far away."""
    values, counts = np.unique(x, return_counts=True)
    for m in range(1, min(CODES, len(values) - DISTINCT) + 1):
        rest = x[x >= values[m]]
        if counts[m - 1] < FEW or len(rest) < FEW:
            return []
        if values[m] - values[m - 1] > rest.std():
            return [[float(values[k]), int(counts[k])] for k in range(m)]
    return []


def _far(x: Array) -> int:
    """The power of ten by which the farthest value is farther from the middle than is usual."""
    low, high = np.quantile(x, [TAILS, 1.0 - np.array(TAILS)])
    usual = next((width for width in (high - low).tolist() if width > 0.0), 0.0)
    ratio = float(np.abs(x - np.median(x)).max()) / usual if usual > 0.0 else 0.0
    return int(np.log10(ratio)) if ratio >= FAR else 0


def _grades(y: Array) -> int:
    """How many different whole numbers there are, of 3 to 9; two are classes anyway."""
    values = np.unique(y[~np.isnan(y)])
    whole = bool((values == np.round(values)).all())
    return len(values) if whole and 2 < len(values) < DISTINCT and len(y) >= ENOUGH else 0


def _is_id(x: Array) -> bool:
    return bool((x == np.round(x)).all()) and len(np.unique(x)) == len(x)


def _tells(x: Array, y: Array, *, text: bool) -> bool:
    """Whether a column alone tells the target: by its levels, a threshold, or a line."""
    if len(x) < ENOUGH or np.isnan(y).any():
        return False
    classes, counts = np.unique(y, return_counts=True)
    levels = np.unique(x)
    if len(classes) == 1 or len(levels) == 1:
        return False
    if len(levels) < DISTINCT or (text and len(levels) <= len(classes) * 2):
        # Every level is of one class, and none of them is a chance.
        pairs = np.unique(np.column_stack([x, y]), axis=0)
        return len(pairs) == len(levels) and int(counts.min()) >= FEW
    if len(classes) == 2 and not text:
        one, other = x[y == classes[0]], x[y == classes[1]]
        apart = one.max() < other.min() or other.max() < one.min()
        return bool(apart) and int(counts.min()) >= FEW
    return not text and abs(float(np.corrcoef(x, y)[0, 1])) > 1.0 - 1e-9
