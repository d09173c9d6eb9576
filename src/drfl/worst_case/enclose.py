"""Data outside their support: an error by default, for the Wasserstein ball may be empty.

The paper keeps a box and adds noise to the data. The printed constraints then mute the noisy rows
instead of protecting them.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from drfl._registry import lookup
from drfl.losses import Task
from drfl.rows import Rows
from drfl.supports import Box, Support, WholeSpace

OnOutside = Literal["error", "widen", "clip"]


def enclose(
    rows: Rows, support: Support, task: Task, on_outside: OnOutside = "error"
) -> tuple[Rows, Support]:
    """Make sure that a support holds its rows.

    Parameters
    ----------
    rows : Rows
        A client's data.
    support : Support
        Where they are supposed to live.
    task : {"classification", "regression"}
        Whether the support has a say about y.
    on_outside : {"error", "widen", "clip"}
        What to do with rows outside: name them in a ValueError, move the sides of the support out
        to hold them, or move the rows to the nearest point of the box.

    Returns
    -------
    tuple
        Rows and a support that holds them: the same ones if nothing was outside.
    """
    act = lookup("on_outside", on_outside, {"error": _refuse, "widen": _widen, "clip": _clip})
    support.check(rows.n_features, task)
    if isinstance(support, WholeSpace) or not _any_outside(rows, support):
        return rows, support
    return act(rows, support)


def tolerance(rows: Rows) -> float:
    """What counts as rounding: a bound given in float64 is not exact for float32 rows."""
    return 1e-9 if rows.X.dtype == np.float64 else 1e-6


def _any_outside(rows: Rows, support: Support) -> bool:
    near = tolerance(rows)
    if isinstance(support, Box):  # the extremes of the columns stand for all rows
        ends = np.array(rows.column_range())
        y_ends = np.array([rows.y.min(), rows.y.max()])
        return bool(support.distance(ends, y_ends, near).any())
    return any(support.distance(x, rows.y[at], near).any() for at, x in rows.dense_blocks())


def _refuse(rows: Rows, support: Support) -> tuple[Rows, Support]:
    near = tolerance(rows)
    distance = np.concatenate(
        [support.distance(x, rows.y[at], near) for at, x in rows.dense_blocks()]
    )
    outside = np.flatnonzero(distance)
    first = ", ".join(str(row) for row in outside[:3])
    many = "1 row lies" if len(outside) == 1 else f"{len(outside)} rows lie"
    raise ValueError(
        f"{many} outside the {support.name} (first: {first}; the largest distance is "
        f"{distance.max():.3g}): correct the rows or the {support.name}, or choose "
        'on_outside="widen" or "clip"'
    )


def _widen(rows: Rows, support: Support) -> tuple[Rows, Support]:
    if isinstance(support, Box):
        ends = np.array(rows.column_range())
        return rows, support.widened(ends, np.array([rows.y.min(), rows.y.max()]))
    for at, x in rows.dense_blocks():
        support = support.widened(x, rows.y[at])
    return rows, support


def _clip(rows: Rows, support: Support) -> tuple[Rows, Support]:
    if not isinstance(support, Box):
        raise ValueError(
            f"rows cannot be clipped to a {support.name}: choose on_outside='widen', or project "
            "the rows before"
        )
    low, high = support.bounds(rows.n_features)
    return rows.clipped(low, high, support.y_low, support.y_high), support
