r"""What every worst-case oracle answers: the heart is one function of one client, F_s(w).

.. math::
    F(w,b) = \sup_{P:\,W(P,\hat P)\le\rho} E_P L
           = \min_{\lambda\ge0}\ \rho\lambda + \sum_i p_i\,a_i(w,b,\lambda),\qquad
    a_i = \sup_{(x,y)\in\Xi} L(w,b;x,y) - \lambda\,d\big((x,y),(x_i,y_i)\big).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.rows import Rows
from drfl.uncertainty import Ball


@dataclass(frozen=True)
class Distribution:
    r"""A worst-case distribution: atoms with their masses and where they came from.

    Attributes
    ----------
    source : array of shape (K,)
        The row each atom was moved from.
    mass : array of shape (K,)
        The mass of each atom; they sum to 1.
    x : array of shape (K, n)
        Where the atom is now.
    y : array of shape (K,)
        Its label or target now.
    cost : float
        Total transport cost, at most the radius.
    expected_loss : float
        :math:`E_P L` at the model it was built for.
    attained : bool
        False if the supremum is only approached (mass escaping to infinity).
    tolerance : float
        ``value - expected_loss`` is at most this.
    """

    source: NDArray[np.intp]
    mass: Array
    x: Array
    y: Array
    cost: float
    expected_loss: float
    attained: bool
    tolerance: float


@dataclass(frozen=True)
class WorstCase:
    r"""The worst-case loss of one client at one model.

    Attributes
    ----------
    value : float
        :math:`F(w,b)`.
    gradient : array of shape (n,)
        With ``intercept_gradient`` a subgradient of F at (w, b); (K, n) for K classes at once.
    intercept_gradient : float, or array of shape (K,)
        Its last entry, or entries.
    multiplier : float
        A minimising :math:`\lambda`, the price of transport.
    bound : float or None
        Where the value is what was found: what F is proved to be at most. None: it is exact.
    """

    value: float
    gradient: Array
    intercept_gradient: float | Array
    multiplier: float
    _distribution: Callable[[], Distribution] = field(repr=False, compare=False)
    bound: float | None = None

    def distribution(self) -> Distribution:
        """What the adversary does: computed when asked for."""
        return self._distribution()


class Oracle(ABC):
    """F of one client: its rows, a loss and a ball, nothing else."""

    def __init__(self, rows: Rows, loss: Loss, ball: Ball) -> None:
        self.rows, self.loss, self.ball = rows, loss, ball

    @abstractmethod
    def evaluate(self, w: Array, b: float) -> WorstCase:
        """F and a subgradient at (w, b)."""

    @abstractmethod
    def distribution(self, w: Array, b: float) -> Distribution:
        """A worst-case distribution at (w, b)."""

    @property
    def is_margin(self) -> bool:
        """Whether the loss is of the margin y(<w,x>+b) (else of the residual <w,x>+b-y)."""
        return self.loss.task == "classification"

    def arguments(self, z: Array, y: Array) -> Array:
        """The argument of the loss for scores z and labels or targets y."""
        return y * z if self.is_margin else z - y
