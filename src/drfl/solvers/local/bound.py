"""What a constraint on the norm of w must be able to do in the interior-point method."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from drfl.arrays import Array
from drfl.solvers.local.cones import Orthant, SecondOrder
from drfl.solvers.local.pieces import Pieces


class Bound(ABC):
    """The constraint, with its interior point; the first n variables are w, number ``t`` is t."""

    def __init__(self, n: int, t: int) -> None:
        self.n, self.t = n, t

    @abstractmethod
    def start(self, x: Array, price: float) -> None:
        """An interior point at which t is worth about ``price``."""

    @abstractmethod
    def gradient(self, out: Array) -> None:
        """Add the gradient."""

    @abstractmethod
    def add_hessian(self, H: Array) -> None:
        """Take the scaling of the present point and add the curvature."""

    def measure(self, x: Array) -> None:
        """Forget the corrections of the last step."""
        for part in self.parts:
            part.second = np.zeros(part.s.shape)

    def loosen(self, x: Array, by: float) -> None:
        """Move t, and the slacks with it, away from the bound."""
        x[self.t] += by
        self._widen(by)

    @abstractmethod
    def _widen(self, by: float) -> None:
        """Let the slacks follow t."""

    @abstractmethod
    def aim(self, x: Array, target: float, rhs: Array) -> None:
        """Set the goal of the step and add its part of the right-hand side."""

    @abstractmethod
    def move(self, dx: Array) -> None:
        """The step that goes with dx."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Orthant | SecondOrder | Pieces, ...]:
        """The cones, which know gaps and step lengths."""
