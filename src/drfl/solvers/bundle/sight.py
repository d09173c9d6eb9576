"""What a client sees at a point, and what every way of looking has in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drfl.losses import Array
from drfl.worst_case.oracle import Oracle


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
    slopes : (N,)
        Derivative of each row's part with respect to its argument.
    flipped : (N,) or None
        The share of each row that is flipped; None if no label moves.
    """

    value: float
    multiplier: float
    cuts: Array
    share: Array
    arguments: Array
    slopes: Array
    flipped: Array | None

    @property
    def groups(self) -> int:
        """How many groups the rows are in."""
        return len(self.share)

    @property
    def any_flip(self) -> bool:
        """Whether some label is flipped here."""
        return self.flipped is not None and bool(self.flipped.any())


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

    @property
    def masses(self) -> Array:
        """p (N,)."""
        return np.broadcast_to(self.rows.mass(), (self.rows.n_rows,))

    def signed(self, slopes: Array) -> Array:
        """Slopes in the argument of the loss as slopes in the score, or the other way round."""
        return slopes * self.rows.y if self.oracle.is_margin else slopes

    def sums(self, values: Array, groups: int) -> Array:
        """Sums of p_i values_i over the groups."""
        weighted = self.masses * values
        return np.array([weighted[k::groups].sum() for k in range(groups)])

    def slope_sums(self, slopes: Array, groups: int) -> tuple[Array, Array]:
        """Sums of p_i v_i x_i and of p_i v_i over the groups, v the slopes in the score."""
        return self.rows.group_sums(self.masses * self.signed(slopes), groups)
