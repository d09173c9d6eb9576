r"""Whether a loss is what it states, by numbers: a wrong statement would be a wrong proof.

Every loss from outside passes here once, before its first use. The numbers are those of a grid,
so that a loss which passes is not proved to be right; but a wrong slope, conjugate, range or line
does not get far.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from drfl.arrays import Array
from drfl.losses.base import Loss

# Arguments around which losses bend, and one where they have become lines.
SIZES = np.concatenate([np.linspace(0.0, 4.0, 81), np.geomspace(4.5, 60.0, 24)])
GRID = np.concatenate([-SIZES[:0:-1], SIZES])
FAR = 1e8
CLOSE = 1e-7  # relative, also of a slope at its end
NEAR = 1e-5  # half the width of a difference


def check(loss: Loss) -> None:
    """Refuse a loss that is not what it states, with one sentence."""
    if not (isinstance(getattr(loss, "name", None), str) and hasattr(loss, "task")):
        raise ValueError(f"the loss {type(loss).__name__} must state its name and its task")
    with np.errstate(all="ignore"):
        for statement in STATEMENTS:
            wrong = statement(loss)
            if wrong:
                raise ValueError(f"the loss {loss.name!r} is not what it states: {wrong}")


def _numbers(loss: Loss) -> str:
    low, high = loss.slope_range
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        return f"slope_range must be two finite numbers, the lower one first, got {(low, high)}"
    v = np.linspace(low, high, 41)
    for method, at in (("value", GRID), ("slope", GRID), ("curvature", GRID), ("conjugate", v)):
        found = getattr(loss, method)(at.copy())
        if not (isinstance(found, np.ndarray) and found.shape == at.shape):
            return f"{method} must return one number for each of its argument's, as an array"
        if not np.isfinite(found).all():
            bad = at[~np.isfinite(found)][0]
            return f"{method} is not a finite number at {bad:g}"
    return ""


def _nonnegative(loss: Loss) -> str:
    value, curvature = loss.value(GRID), loss.curvature(GRID)
    if (value < -CLOSE).any():
        return f"it is negative at {GRID[value.argmin()]:g}, and lower bounds rest on L >= 0"
    if (curvature < 0.0).any():
        return f"its curvature is negative at {GRID[curvature.argmin()]:g}"
    return ""


def _slopes(loss: Loss) -> str:
    """The slopes of chords lie between those at their ends: convexity, and subgradients."""
    value, slope = loss.value(GRID), loss.slope(GRID)
    chord = np.diff(value) / np.diff(GRID)
    room = CLOSE * loss.lipschitz + 1e-13 * np.abs(value[1:]) / np.diff(GRID)
    for wrong in (slope[:-1] > chord + room, slope[1:] < chord - room):
        if wrong.any():
            where = GRID[:-1][wrong][0]
            return f"slope is no subgradient of a convex function near z = {where:g}"
    both = loss.value_and_slope(GRID.copy())
    if not (_same(both[0], value) and _same(both[1], slope)):
        return "value_and_slope does not return value and slope"
    return ""


def _range(loss: Loss) -> str:
    (low, high), room = loss.slope_range, CLOSE * loss.lipschitz
    found = loss.slope(np.array([-FAR, *GRID, FAR]))
    if (found < low - room).any() or (found > high + room).any():
        return (
            f"slopes between {found.min():g} and {found.max():g} are not in its slope_range "
            f"[{low:g}, {high:g}]"
        )
    if abs(found[0] - low) > 1e-3 * (high - low) or abs(found[-1] - high) > 1e-3 * (high - low):
        return (
            f"its slopes end at {found[0]:g} and {found[-1]:g}, not at the ends of its "
            f"slope_range [{low:g}, {high:g}]"
        )
    if loss.task == "classification" and high != 0.0:
        return f"a loss of margins does not increase: slope_range must end with 0, not {high:g}"
    if loss.task not in ("classification", "regression"):
        return f"task must be 'classification' or 'regression', got {loss.task!r}"
    return ""


def _conjugate(loss: Loss) -> str:
    r"""Fenchel: :math:`L(z)+L^*(v)\ge vz`, with equality at :math:`v=L'(z)`."""
    value, slope, v = loss.value(GRID), loss.slope(GRID), np.linspace(*loss.slope_range, 41)
    size = CLOSE * (1.0 + np.abs(GRID) * loss.lipschitz)
    own = value + loss.conjugate(np.clip(slope, *loss.slope_range)) - GRID * slope
    if (np.abs(own) > size).any():
        z = GRID[np.abs(own / size).argmax()]
        return f"L(z) + L*(L'(z)) = z L'(z) does not hold at z = {z:g}: look at conjugate"
    above = loss.conjugate(v)[:, None] + value - np.outer(v, GRID)
    if (above < -size).any():
        return f"L(z) + L*(v) >= vz does not hold for v = {v[(above < -size).any(axis=1)][0]:g}"
    return ""


def _curvature(loss: Loss) -> str:
    """It serves the metric, where right at most points is right; of a corner it also proves."""
    z = GRID + NEAR
    if (loss.rounded or len(loss.soft) == 2) and (loss.curvature(z) > _most_curved(loss, z)).any():
        where = z[loss.curvature(z) > _most_curved(loss, z)][0]
        return f"curvature is above the second derivative near z = {where:g}, and proofs rest on it"
    found = (loss.slope(z + NEAR) - loss.slope(z - NEAR)) / (2.0 * NEAR)
    off = np.abs(found - loss.curvature(z)) > 1e-3 * (1.0 + np.abs(found))
    if off.mean() > 0.2:
        return f"curvature is not the derivative of slope, as near z = {z[off][0]:g}"
    return ""


def _most_curved(loss: Loss, z: Array) -> Array:
    """The second derivative of the one corner that the loss states, with room for rounding."""
    (a, c), (b, d) = loss.rounded or loss.soft
    over = (a - b) * z + c - d  # how far the first line is above the second
    if loss.rounded:
        inside = np.abs(over - 0.5 * (a * a - b * b)) <= 0.5 * (a - b) ** 2 + CLOSE
        return np.where(inside, 1.0 + CLOSE, 0.0)
    e = np.exp(-np.abs(over))
    return np.asarray((1.0 + CLOSE) * (a - b) ** 2 * e / (1.0 + e) ** 2)


def _kinks(loss: Loss) -> str:
    if loss.pieces and not loss.kinks:
        return "a loss with pieces has kinks, and it states none"
    for kink in loss.kinks:
        before, after = loss.slope(np.array([kink - NEAR, kink + NEAR]))
        if after - before <= 1e-2 * loss.lipschitz:
            return f"its slope does not jump at the kink {kink:g}"
    return ""


def _lines(loss: Loss) -> str:
    """The three ways of being made of lines, and L(-z)."""
    value = loss.value(GRID)
    if sum(map(bool, (loss.pieces, loss.rounded, loss.soft))) > 1:
        return "it is made of lines in more than one way: state one of pieces, rounded and soft"
    if loss.pieces and not _same(value, _heights(loss.pieces).max(axis=0)):
        return "it is not the maximum of its pieces"
    if loss.soft and not _same(value, np.logaddexp.reduce(_heights(loss.soft), axis=0)):
        return "it is not the soft maximum of the lines in soft"
    if loss.rounded and (len(loss.rounded) != 2 or not _same(value, _rounded(loss))):
        return "it is not the two lines in rounded with a round corner"
    if loss.flipped is not None:
        z = GRID[GRID >= 0.0]
        slope, constant = loss.flipped
        if not _same(loss.value(-z), slope * z + constant):
            return "L(-z) is not the line in flipped for z >= 0"
    if loss.linear_gain and not _same(loss.value(-GRID) - value, GRID):
        return "L(-z) - L(z) is not z, and linear_gain says so"
    return ""


def _heights(lines: tuple[tuple[float, float], ...]) -> Array:
    return np.array([slope * GRID + constant for slope, constant in lines])


def _rounded(loss: Loss) -> Array:
    """The best share of the first line: a parabola in it, cut off at 0 and 1."""
    (a, c), (b, d) = loss.rounded
    share = np.clip(((a - b) * GRID + c - d - (a - b) * b) / (a - b) ** 2, 0.0, 1.0)
    v = share * a + (1.0 - share) * b
    return np.asarray(v * GRID + share * c + (1.0 - share) * d - 0.5 * v * v)


def _same(found: Array, expected: Array) -> bool:
    return bool(np.allclose(found, expected, rtol=CLOSE, atol=CLOSE))


STATEMENTS: tuple[Callable[[Loss], str], ...] = (
    _numbers,
    _nonnegative,
    _range,
    _slopes,
    _conjugate,
    _kinks,
    _lines,
    _curvature,
)
