"""What a client sees at a point, and what every way of looking has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drfl.arrays import Array
from drfl.worst_case.oracle import Oracle

Visit = Callable[[Array, slice], Array]


@dataclass(frozen=True)
class Sight:
    """What a client computed at a point; this never leaves it.

    Attributes
    ----------
    value, multiplier : float
        F and lambda*.
    cuts : (G, c)
        One cut per group: constant, [slope in lambda], [lift], slope in x.
    share : (G,)
        The masses of the groups.
    arguments : (N,)
        Margins or residuals, where the loss has its kinks.
    flipped : float
        How many rows are flipped, those flipped in part by their share.
    """

    value: float
    multiplier: float
    cuts: Array
    share: Array
    arguments: Array
    flipped: float = 0.0

    @property
    def groups(self) -> int:
        """How many groups the rows are in."""
        return len(self.share)


class View(ABC):
    """Turns points into what a client sees there.

    ``shared`` says whether x ends with everybody's multiplier.
    """

    shared: ClassVar[bool] = False

    def __init__(self, oracle: Oracle) -> None:
        self.oracle, self.rows, self.loss = oracle, oracle.rows, oracle.loss

    @abstractmethod
    def look(self, x: Array, groups: int) -> Sight:
        """Evaluate all rows at x = (w, b)."""

    def values(self, at: Sight) -> list[float]:
        """What is told of a point: F and, unless the norm of w gives it, the multiplier."""
        return [at.value, at.multiplier]

    def split(self, x: Array) -> tuple[Array, float]:
        """Coefficients and intercept."""
        n = self.rows.n_features
        return x[:n], float(x[n]) if len(x) > n else 0.0

    def arguments(self, w: Array, b: float) -> Array:
        """Margins or residuals (N,)."""
        return self.as_arguments(self.rows.scores(w, b))

    def as_arguments(self, z: Array, block: slice = slice(None)) -> Array:
        """Scores of a block of rows, in place, as arguments of the loss."""
        y = self.rows.y[block]
        if self.oracle.is_margin:
            z *= y
        else:
            z -= y
        return z

    def swept(self, w: Array, b: float, visit: Visit) -> tuple[Array, Array]:
        """Arguments (N,), and weighted sums (n + 1,) of the rows and of their weights, in one pass.

        ``visit(m, block)`` makes weights of the arguments of a block.
        """
        m = np.empty(self.rows.n_rows)

        def seen(block: slice, z: Array) -> Array:
            m[block] = self.as_arguments(z, block)
            return visit(z, block)

        g, gb = self.rows.sweep(w, b, seen)
        return m, np.append(g, gb)

    def weighted(self, slopes: Array, block: slice = slice(None)) -> Array:
        """Slopes in the arguments of a block, in place, as masses times slopes in the score."""
        if self.oracle.is_margin:
            slopes *= self.rows.y[block]
        slopes *= self.rows.mass(block)
        return slopes

    def shares(self, groups: int) -> tuple[Array, Array]:
        """The masses of the groups, and what to divide by: a weightless group says nothing."""
        masses = np.broadcast_to(self.rows.mass(), (self.rows.n_rows,))
        share = np.array([masses[k::groups].sum() for k in range(groups)])
        return share, np.where(share > 0.0, share, 1.0)

    def sums(self, values: Array, groups: int, block: slice = slice(0, None)) -> Array:
        """Sums of p_i values_i over those rows of the groups that are in a block."""
        weighted = self.rows.mass(block) * values
        firsts = ((k - block.start) % groups for k in range(groups))
        return np.array([weighted[first::groups].sum() for first in firsts])
