r"""Numbers that are no linear sums of rows leave only rounded, outward, with a secret dither.

The dither is a keyed hash of the question: another question has another one, which nobody outside
can predict, and the same question always the same.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from dataclasses import dataclass

# Ratio of neighbouring classes of an excess. Beside an old cut a server can ask again and again
# nearby, and the mean of many answers would tell what the dither hides: these are coarser.
FRESH, STALE = 1.5, 3.0


def dither(secret: bytes, question: bytes, purpose: str) -> float:
    """A number in [0, 1) that only the holder of the secret can predict."""
    digest = hmac.new(secret, purpose.encode() + b"\0" + question, hashlib.sha256).digest()
    return int.from_bytes(digest[:6], "big") / 2.0**48


def class_above(excess: float, floor: float, ratio: float, shift: float) -> float:
    """The excess rounded up to the floor times a power of the ratio, after a hidden shift."""
    if excess <= floor * ratio ** (-shift):
        return floor
    j = math.ceil(math.log(excess / floor) / math.log(ratio) + shift)
    return floor * ratio ** max(j, 0)


def grid_above(value: float, step: float, shift: float) -> float:
    """The value rounded up to a grid of this step; the shift, a part of it, moves the grid."""
    return step * (math.ceil(value / step - shift) + shift)


def grid_below(value: float, step: float, shift: float) -> float:
    """The value rounded down."""
    return -grid_above(-value, step, shift)


@dataclass(frozen=True)
class Rounding:
    """How a number is rounded outward: the step of its grid, and which side is the safe one."""

    step: float
    up: bool

    def __call__(self, value: float, shift: float) -> float:
        return (grid_above if self.up else grid_below)(value, self.step, shift)


def power_of_two(value: float) -> float:
    """The nearest power of 2: for numbers of which only the size matters."""
    return 2.0 ** round(math.log2(value)) if value > 0.0 else 1.0
