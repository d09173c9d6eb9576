r"""The rows of the logistic loss, the soft maximum of two lines.

.. math:: P\log(1+e^{-z}) = \max_{0\le\alpha\le P} -\alpha z + P\,\mathrm{ent}(\alpha/P)

Entropy is a barrier by itself: there are no slacks, and Newton's method is applied to
:math:`-z=\mathrm{logit}(\alpha/P)` with alpha as a variable of its own. After a full step the
multipliers balance exactly, as a lower bound needs it.
"""

from __future__ import annotations

import math

import numpy as np

from drfl.arrays import Array
from drfl.solvers.local.cones import reach


class Entropy:
    """Rows of the logistic loss; the interface is that of `Pieces`."""

    degree, flips, at = 0, False, None
    second = 0.0

    def __init__(self) -> None:
        self.share = self.full = self.P = self.alpha = self.dalpha = self.dP = np.zeros(0)

    def start(self, z: Array, lam: Array | float, P: Array, room: Array | float) -> None:
        """The slopes at z, a little inside."""
        self.P = P
        self.alpha = P * np.clip(_sigmoid(z), 1e-8, 1.0 - 1e-8)
        self.share = self.full = self.alpha / self.P

    def centre(self, z: Array, lam: Array | float, P: Array, mu: float) -> None:
        """The slopes at z."""
        self.start(z, lam, P, 0.0)

    def gap(self, primal: float = 0.0, dual: float = 0.0) -> float:
        """No products here."""
        return 0.0

    @property
    def slope(self) -> Array:
        """What a row pulls at z."""
        return -self.alpha

    def values(self, z: Array) -> Array:
        """What a row of mass 1 is worth at these slopes."""
        return entropy(self.share) - self.share * z

    def prepare(self) -> None:
        """Curvature of the rows at the present point."""
        self.share = self.alpha / self.P
        self.hzz = self.alpha * (1.0 - self.share)
        self.jz = -self.share
        self.per_mass = np.zeros_like(self.share)

    def correct(self, weight: float) -> None:
        """No products here."""

    def recentre(self, primal: float, dual: float, target: float) -> None:
        """No products here."""

    def measure(self, z: Array, lam: Array | float, P: Array) -> None:
        """How far the slopes are from those at z."""
        self.gz = self.hzz * (z + np.log(self.share / (1.0 - self.share)))

    def aim(self, target: float) -> None:
        """Constant parts of the step: gz is known."""

    def move(self, dz: Array, dlam: Array | float, dP: Array | float) -> None:
        """The steps that go with a step of z and P."""
        self.dP = np.broadcast_to(dP, self.P.shape)
        self.dalpha = self.share * self.dP - self.hzz * dz - self.gz

    def reach(self) -> tuple[float, float]:
        """How far the multipliers can go."""
        room = reach(self.P - self.alpha, self.dP - self.dalpha)
        return math.inf, min(reach(self.alpha, self.dalpha), room)

    def update(self, primal: float, dual: float) -> None:
        """Go so far; where a whole step would lead is kept, every row for itself."""
        self.full = np.clip((self.alpha + self.dalpha) / (self.P + self.dP), 1e-300, 1.0)
        self.alpha = self.alpha + dual * self.dalpha
        self.P = self.P + dual * self.dP
        self.share = self.alpha / self.P


def entropy(share: Array) -> Array:
    """-x log x - (1-x) log (1-x)."""
    rest = 1.0 - share
    tiny = np.finfo(np.float64).tiny
    return -share * np.log(np.maximum(share, tiny)) - rest * np.log(np.maximum(rest, tiny))


def _sigmoid(z: Array) -> Array:
    """Minus the slope of the loss."""
    e = np.exp(-np.abs(z))
    return np.where(z > 0.0, e, 1.0) / (1.0 + e)
