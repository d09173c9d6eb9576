"""Numbers that are no linear sums of rows leave only rounded, outward, with a secret dither.

The unit of every grid is what one row can add to a number.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.rows import Rows

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


FARTHEST = 1e3
"""No question reaches farther, in units of the target."""


@dataclass(frozen=True)
class Units:
    """Of the numbers that a client tells."""

    sizes: Array  # (n,), of the columns
    target: float  # of the targets; 1 for margins
    lipschitz: float  # of the loss
    nothing: float  # what the loss is without a model, or a bound of it

    @classmethod
    def of(cls, rows: Rows, loss: Loss) -> Units:
        """Those of these rows and a loss."""
        sizes = np.array([size_above(float(m)) for m in np.sqrt(np.abs(rows.moments()[1]))])
        if loss.task == "classification":
            return cls(sizes, 1.0, loss.lipschitz, float(loss.value(np.zeros(1))[0]))
        target = size_above(float(np.sqrt(np.mean(np.square(rows.y)))))
        return cls(sizes, target, loss.lipschitz, loss.lipschitz * target)

    def reach(self, w: Array, b: float) -> float:
        """A bound of the mean size of the scores."""
        return float(np.abs(w) @ self.sizes) + abs(b)

    def within(self, w: Array, b: float, part: float = 1.0) -> tuple[Array, float]:
        """The point, or one towards 0 if it is farther away than this part of the farthest."""
        reach, most = self.reach(w, b), part * FARTHEST * self.target
        return (w, b) if reach <= most else (w * (most / reach), b * (most / reach))

    def is_within(self, w: Array, b: float) -> bool:
        """Whether a point is not too far away."""
        return self.reach(w, b) <= FARTHEST * self.target

    def of_value(self, w: Array, b: float) -> float:
        """The unit of a value."""
        return self.lipschitz * (self.target + self.reach(w, b))

    @property
    def of_constant(self) -> float:
        """The unit of a constant."""
        return self.lipschitz * self.target

    def floor(self, w: Array, b: float, cut: float, part: float) -> float:
        """The smallest excess above a cut's value that is told of, if k rows are this part.

        Where a model is worse than none nobody needs its value closely, and there a single row
        can be all that is above the cut.
        """
        return part * max(part * self.of_value(w, b), cut - self.nothing)


def size_above(size: float) -> float:
    """The next power of the fourth root of 2, 0 for 0: of a size, without telling it."""
    return float(2.0 ** (math.ceil(4.0 * math.log2(size)) / 4.0)) if size > 0.0 else 0.0
