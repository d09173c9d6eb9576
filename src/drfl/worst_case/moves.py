r"""Where the adversary may take a row: the maximisers of :math:`L-\lambda d` over a support.

Every place offered is a point of the support, so what it yields is never too much; a maximiser is
always among them, so it is never too little. The loss at a fixed place is convex in (w, b) and
linear in lambda: whichever place is best also gives the subgradient.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.uncertainty import Ball

Step = tuple[Array, Array]  # displacements of the rows (m, n) and of the targets (m,)


class Escape(NamedTuple):
    r"""The best way to infinity inside the support, of length 1 (or less).

    ``rate`` is :math:`\max\sigma(\langle w,dx\rangle-dy)` over recession directions with
    :math:`\|dx\|+\kappa|dy|\le1`.
    """

    rate: float
    dx: Array
    dy: float


class Moves(ABC):
    """The moves open to a row under one loss, one ball and one w."""

    accuracy: ClassVar[float] = 2e-13
    """To which the moves are maximisers."""

    def __init__(self, loss: Loss, ball: Ball, w: Array) -> None:
        self.loss, self.ball, self.w = loss, ball, w
        self.targets_move = loss.task == "regression" and math.isfinite(ball.label_cost)

    @abstractmethod
    def steps(self, x: Array, y: Array, z: Array, lam: float) -> Iterator[Step]:
        """Displacements of a block of rows at the price lam, one for each kind of move.

        Parameters
        ----------
        x, y, z : arrays of shape (m, n), (m,) and (m,)
            Rows, their labels (perhaps already flipped) or targets, and the arguments of the loss.
        lam : float
            The price of transport, at least what `first_price` returns.
        """

    @abstractmethod
    def escape(self, sigma: float) -> Escape:
        """The best way to infinity that raises (sigma > 0) or lowers the score."""

    def first_price(self, floor: float, top: float) -> float:
        """Where the search for lam starts; the moves may have no maximiser at the floor itself."""
        return floor

    @property
    def reach(self) -> float:
        r""":math:`\max(\|w\|_*,1/\kappa)`: at prices from Lip times this nothing moves."""
        rate = self.ball.norm.dual(self.w)
        return max(rate, 1.0 / self.ball.label_cost) if self.targets_move else rate


class PieceMoves(Moves):
    """Moves under a piecewise-linear loss: one linear program per piece."""

    def steps(self, x: Array, y: Array, z: Array, lam: float) -> Iterator[Step]:
        is_margin = self.loss.task == "classification"
        for piece in self.loss.pieces:
            if abs(piece.slope) * self.reach > lam:  # otherwise the gain is 0
                sigma = np.sign(piece.slope) * (y if is_margin else np.ones(len(y)))
                yield self.best_step(x, y, sigma, abs(piece.slope), lam)

    @abstractmethod
    def best_step(self, x: Array, y: Array, sigma: Array, size: float, lam: float) -> Step:
        r"""The maximisers of :math:`\mathrm{size}\,\sigma_i(\langle w,dx\rangle-dy)-\lambda d`.

        Parameters
        ----------
        x, y : arrays of shape (m, n) and (m,)
            Rows and labels or targets.
        sigma : array of shape (m,)
            -1 or +1 for each row.
        size, lam : float
            The slope of the loss, positive, and the price.
        """
