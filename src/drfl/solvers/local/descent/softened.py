r"""Losses that Newton's method can follow: smooth ones as they are, sharp corners made soft.

.. math:: L_\mu(z)=\mu\log\sum_ke^{(a_kz+c_k)/\mu},\qquad L\le L_\mu\le L+\mu\log K.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array
from drfl.losses import Loss


@dataclass(frozen=True)
class Softened:
    """A loss with a width of its corners; 0: the loss itself, which is smooth.

    Its slopes are slopes of the loss, and prove what they prove of it.
    """

    loss: Loss
    width: float = 0.0

    def value_and_slope(self, z: Array) -> tuple[Array, Array]:
        """L_mu(z) and its slope."""
        if self.width == 0.0:
            return self.loss.value_and_slope(z)
        top, shares, total = self._shares(z)
        value = top + self.width * np.log(total)
        slope = np.zeros_like(z)
        for (a, _), share in zip(self.loss.pieces, shares, strict=True):
            slope += a * share
        return value, slope / total

    def curvature(self, z: Array, slope: Array) -> Array:
        r"""The second derivative, where the slope is this.

        With two lines it is :math:`(v-a_1)(a_2-v)/\mu`.
        """
        lines = self.loss.pieces if self.width > 0.0 else self.loss.soft
        if len(lines) == 2:
            low, high = sorted((lines[0].slope, lines[1].slope))
            return np.asarray((slope - low) * (high - slope) / (self.width or 1.0))
        if self.width == 0.0:
            return self.loss.curvature(z)
        _, shares, total = self._shares(z)
        square = sum(a * a * share for (a, _), share in zip(lines, shares, strict=True))
        return np.asarray(np.maximum(square / total - slope * slope, 0.0) / self.width)

    def steepness(self, z: Array, slope: Array) -> Array:
        r"""The second derivative of a parabola that touches the loss and is lowest where it is.

        For a loss with one round corner, lowest at :math:`z_0`, that is :math:`L'(z)/(z-z_0)`. It
        does not vanish on the lines beside the corner, where the second derivative does. For others
        it is the second derivative.
        """
        if not self.loss.rounded:
            return self.curvature(z, slope)
        (a, c), (b, e) = self.loss.rounded
        away = z + (e - c) / (b - a)
        safe = np.where(away == 0.0, 1.0, away)
        return np.asarray(np.where(away == 0.0, 1.0, slope / safe))

    def _shares(self, z: Array) -> tuple[Array, list[Array], Array]:
        lines = [a * z + c for a, c in self.loss.pieces]
        top = lines[0]
        for line in lines[1:]:
            top = np.maximum(top, line)
        shares = [np.exp((line - top) / self.width) for line in lines]
        return top, shares, np.asarray(sum(shares))
