r"""What a loss states of itself; closed forms, solvers and proofs rest on nothing else.

Classification: :math:`z = y(\langle w,x\rangle+b)`, the margin. Regression:
:math:`z = \langle w,x\rangle+b-y`, the residual. A loss knows nothing of data, norms or solvers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from drfl.arrays import Array

Task = Literal["classification", "regression"]


class Line(NamedTuple):
    """A line ``slope * z + constant``."""

    slope: float
    constant: float


class Corner(NamedTuple):
    """What one corner adds, ``weight * max(0, sign * (z - kink))``; the sign is 1 or -1."""

    sign: float
    kink: float
    weight: float


class Loss(ABC):
    r"""A convex, nonnegative, Lipschitz loss :math:`L(z)`.

    The methods and the first three attributes are needed by all. A loss that is made of lines says
    how, in one of three ways, or not at all: then methods that need it leave it to others.

    Attributes
    ----------
    name : str
        The registered name.
    task : {"classification", "regression"}
        Whether z is a margin (then L is nonincreasing) or a residual.
    slope_range : tuple of float
        The domain of the conjugate: every slope lies in it, and its ends are approached as z goes
        to -inf and +inf. Margin losses should have (-1, 0): only then labels may flip, and rows
        may have a support.
    kinks : tuple of float
        Where the slope jumps; empty for smooth losses.
    pieces : tuple of Line
        Sharp corners: :math:`L(z) = \max_k a_kz+c_k`.
    rounded : tuple of Line
        Two lines with a round corner:
        :math:`L(z) = \max_{0\le\alpha\le1} vz+c-\tfrac12v^2`, where :math:`vz+c` is the line
        between them, :math:`\alpha` of the first and :math:`1-\alpha` of the second.
    soft : tuple of Line
        Soft corners: :math:`L(z) = \log\sum_k e^{a_kz+c_k}`.
    flipped : Line or None
        What :math:`L(-z)` is for z >= 0, if that is a line (margin losses).
    linear_gain : bool
        Whether :math:`L(-z)-L(z)=z`: what a flipped label adds is linear (margin losses).
    """

    name: ClassVar[str]
    task: ClassVar[Task]
    slope_range: tuple[float, float] = (-1.0, 0.0)
    kinks: tuple[float, ...] = ()
    pieces: tuple[Line, ...] = ()
    rounded: tuple[Line, ...] = ()
    soft: tuple[Line, ...] = ()
    flipped: Line | None = None
    linear_gain: bool = False

    @property
    def lipschitz(self) -> float:
        """The smallest Lipschitz constant; it is approached as z goes to -inf or +inf."""
        return max(abs(end) for end in self.slope_range)

    @property
    def probabilistic(self) -> bool:
        r"""Whether :math:`L(z)=\log(1+e^{-z})`: it is a likelihood, and scores are log-odds."""
        return self.task == "classification" and set(self.soft) == {(0.0, 0.0), (-1.0, 0.0)}

    @property
    def corners(self) -> tuple[Corner, ...]:
        r"""Sharp corners as a sum: :math:`L(z)=\sum_kc_k(\sigma_k(z-z_k))_+`.

        Empty for other losses, and where the least value of the loss is not 0.
        """
        lines, out = sorted(self.pieces), list[Corner]()
        for (a, c), (b, e) in pairwise(lines):
            kink = (c - e) / (b - a)
            out += [Corner(-1.0, kink, min(b, 0.0) - a)] if a < 0.0 else []
            out += [Corner(1.0, kink, b - max(a, 0.0))] if b > 0.0 else []
        least = min((max(a * k + c for a, c in lines) for _, k, _ in out), default=1.0)
        return tuple(out) if abs(least) < 1e-12 else ()

    @property
    def curvature_bound(self) -> float:
        """The largest second derivative of a loss with one round or soft corner; 0 for others.

        Such a second derivative rises to one peak or plateau and falls.
        """
        if self.rounded:
            return 1.0
        if len(self.soft) == 2:
            return 0.25 * (self.soft[0].slope - self.soft[1].slope) ** 2
        return 0.0

    @abstractmethod
    def value(self, z: Array) -> Array:
        """L(z)."""

    @abstractmethod
    def slope(self, z: Array) -> Array:
        """One subgradient of L at z; the derivative where there is one."""

    def value_and_slope(self, z: Array) -> tuple[Array, Array]:
        """L(z) and a subgradient, sharing work where that pays."""
        return self.value(z), self.slope(z)

    def curvature(self, z: Array) -> Array:
        """The second derivative where it exists; 0 for piecewise-linear losses."""
        return np.zeros_like(z)

    @abstractmethod
    def conjugate(self, v: Array) -> Array:
        r""":math:`L^*(v) = \sup_z vz - L(z)` for v in ``slope_range`` (not checked)."""
