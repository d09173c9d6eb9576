"""One column of numbers or codes, and what looks wrong in it: codes, outliers, ids, copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drfl.arrays import Array
from drfl.defaults import FEW_ROWS

CODES = 3  # so many codes beside each other, such as -9, -8 and -7, are looked for
DISTINCT = 10  # a column with fewer different values is a scale, where any number can be usual
CODED = frozenset(float(digit * (10**k - 1) // 9) for digit in (7, 8, 9) for k in range(1, 6))
"""9, 99, 999 and the like: what people write for a missing value, often with a minus sign."""
ENOUGH = 50
"""In fewer rows different whole numbers, or one column that divides the classes, are chance."""
FAR = 1e3  # a value that is so many times farther from the middle than the usual ones is told of
DENSE = 3.0  # a numbering has at most so many times as many places as rows
TAILS = [0.25, 0.1, 0.05, 0.02]
"""Where a column is mostly the same, what is usual is seen farther out."""
FULL = 0.5  # a column of sparse rows that so many of them store is like one of an array


def nothing() -> dict[str, Any]:
    """Nothing is found yet."""
    return {"codes": {}, "far": {}, "ids": [], "perfect": [], "scale": 0}


NOTHING = nothing()


def column_of(rows: Any, j: int) -> Array:
    """The values (N,) of a column of an array or a CSC array."""
    if isinstance(rows, np.ndarray):
        return np.asarray(rows[:, j])
    x = np.zeros(rows.shape[0])
    at = slice(rows.indptr[j], rows.indptr[j + 1])
    x[rows.indices[at]] = rows.data[at]
    return x


def look(
    found: dict[str, Any],
    name: Any,
    x: Array,
    y: Array,
    *,
    text: bool,
    stored: bool = False,
    ends: Sequence[float] = (),
) -> None:
    """Look at the values of one column, and write down what is found, as `hints` returns it.

    x and y (N,) are its values, or the codes of its texts, and the target beside, of all rows or of
    a sample. ``stored``: they are of sparse rows; where most of them are 0, a 0 is no value.
    ``ends`` are the least and the largest value of all rows, beside a sample.
    """
    values = x[x != 0.0] if stored and np.count_nonzero(x) < FULL * len(x) else x
    if not text and len(values):
        codes = _codes(values)
        codes += _usual_codes(values[~np.isin(values, [code for code, _ in codes])])
        found["codes"] |= {name: codes} if codes else {}
        far = _far(np.append(values, ends))
        found["far"] |= {name: far} if far else {}
    if tells(x, y, text=text):
        found["perfect"].append(name)


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
        if counts[m - 1] < FEW_ROWS or len(rest) < FEW_ROWS:
            return []
        if values[m] - values[m - 1] > rest.std():
            return [[float(values[k]), int(counts[k])] for k in range(m)]
    return []


def _usual_codes(x: Array) -> list[list[float]]:
    """Codes that everybody uses, held by few rows or in a scale of few values.

    A code such as -999 tells nobody's value, so it is named; how many rows hold it is not told if
    they are few.
    """
    found: list[list[float]] = []
    while codes := _usual_run(x):
        counts = [int((x == code).sum()) for code in codes]
        found += [[c, n if n >= FEW_ROWS else 0] for c, n in zip(codes, counts, strict=True)]
        x = x[~np.isin(x, codes)]
    return found


def _usual_run(x: Array) -> list[float]:
    """The least or the largest values, if they are codes and apart from all others.

    By more than these spread; in a scale, where 0 is as usual as 1 and 2, by more than all of it.
    """
    values = np.unique(x)
    for ordered in (values, values[::-1]):
        scale = len(values) <= DISTINCT
        usual = [abs(v) in CODED or (not scale and v in (0.0, -1.0)) for v in ordered[:CODES]]
        run = usual.index(False) if False in usual else len(usual)
        for m in range(min(run, len(values) - 1), 0, -1):
            rest = x[np.isin(x, ordered[m:])]
            # Of two values the larger one may be anything.
            if len(rest) < FEW_ROWS or (len(values) == m + 1 and ordered[m - 1] > ordered[m]):
                continue
            spread = np.ptp(rest) if scale else rest.std()
            if abs(ordered[m] - ordered[m - 1]) > spread:
                return [float(code) for code in ordered[:m]]
    return []


def _far(x: Array) -> int:
    """The power of ten by which the farthest value is farther from the middle than is usual."""
    low, high = np.quantile(x, [TAILS, 1.0 - np.array(TAILS)])
    usual = next((width for width in (high - low).tolist() if width > 0.0), 0.0)
    ratio = float(np.abs(x - np.median(x)).max()) / usual if usual > 0.0 else 0.0
    return int(np.log10(ratio)) if ratio >= FAR else 0


def is_id(x: Array) -> bool:
    """Whether whole numbers differ in every row."""
    return len(x) >= ENOUGH and bool((x == np.round(x)).all()) and len(np.unique(x)) == len(x)


def is_numbering(x: Array) -> bool:
    """Whether numbers differ in every row and are one step apart: a numbering, scaled or not."""
    if len(x) < ENOUGH:
        return False
    steps = np.diff(np.sort(x))
    least = float(steps.min())
    if least <= 0.0 or float(steps.sum()) > DENSE * len(x) * least:
        return False
    return bool((np.abs(steps / least - np.round(steps / least)) <= 1e-3).all())


def tells(x: Array, y: Array, *, text: bool) -> bool:
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
        return len(pairs) == len(levels) and int(counts.min()) >= FEW_ROWS
    if len(classes) == 2 and not text:
        one, other = x[y == classes[0]], x[y == classes[1]]
        apart = one.max() < other.min() or other.max() < one.min()
        return bool(apart) and int(counts.min()) >= FEW_ROWS
    return not text and abs(float(np.corrcoef(x, y)[0, 1])) > 1.0 - 1e-9
