r"""What one row can add to a number: the unit of every grid.

A grid of a fixed step would hide nothing of a question that is large. Here :math:`s_j` is the size
of column j, a power of the fourth root of 2 above its root mean square, and

.. math:: \mathrm{reach}(w,b)=\sum_j|w_j|s_j+|b|

bounds the mean of :math:`|\langle w,x\rangle+b|`. A value at (w, b) has the unit
:math:`\mathrm{Lip}\,(t+\mathrm{reach})`, a constant :math:`\mathrm{Lip}\,t`, with t the size of the
targets, or 1 for margins. Other units of a column, a target or a loss leave every number that is
told as coarse as before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.rows import Rows

FARTHEST = 1e3
"""No question reaches farther, in units of the target."""


@dataclass(frozen=True)
class Units:
    """Of the numbers that a client tells.

    Attributes
    ----------
    sizes : (n,)
        Of the columns.
    target : float
        Of the targets; 1 for margins.
    lipschitz : float
        Of the loss.
    nothing : float
        What the loss is without a model, or a bound of it.
    """

    sizes: Array
    target: float
    lipschitz: float
    nothing: float

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
