r"""Cuts from curvature: what a tangent misses near its point, as far as that is certain.

A client knows its curvature H at :math:`\hat x`, and how far it *reaches*: pairs (R, c) such that

.. math:: u(\hat x+d)\ \ge\ u(\hat x)+g^\top d+\tfrac12c\,d^\top Hd
          \qquad\text{for all d with } |d|_H=(d^\top Hd)^{1/2}\le R.

Then for every step e with :math:`2|e|_H\le R` the tangent of the right-hand side at
:math:`\hat x+e` lies below u *everywhere*:

.. math:: u(\hat x+d)\ \ge\ u(\hat x)+g^\top d+c\,(e^\top Hd-\tfrac12e^\top He)
          \qquad\text{for all d.}

Within R it is a tangent of a convex function. Beyond, with :math:`|td|_H=R` and t < 1,
:math:`\psi(d)=u(\hat x+d)-u(\hat x)-g^\top d` is convex and 0 at 0, so that
:math:`\psi(d)\ge\psi(td)/t\ge\tfrac12cR|d|_H\ge c|e|_H|d|_H\ge c\,e^\top Hd`.

So the server moves a client's slope by cHe, at a price of the second order, without asking again:
where Newton's step has come close, what is left of the gradient is taken out at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array

CANCELLED = 1e-10  # of a step's size, column by column: what rounding may hide of its length


@dataclass(frozen=True)
class Reach:
    """A client's curvature at a point, and how far it reaches.

    Attributes
    ----------
    point : int
        The number of the point.
    H : (d, d)
        Positive semidefinite.
    radii, factors : (J,)
        R and c, as above.
    """

    point: int
    H: Array
    radii: Array
    factors: Array

    def factor(self, step: Array) -> float:
        """The largest c that holds for a step; 0 if it is too long."""
        size = float(np.sqrt(np.maximum(np.diag(self.H), 0.0)) @ np.abs(step))
        # A long step along which H is flat would be all rounding, and so would be He.
        length = np.sqrt(max(float(step @ self.H @ step), 0.0) + CANCELLED * size**2)
        return float(self.factors[self.radii >= 2.0 * length].max(initial=0.0))

    def gain(self, step: Array) -> float:
        """What u is above its tangent, at least, after a step of any length."""
        length = np.sqrt(max(float(step @ self.H @ step), 0.0))
        gains = 0.5 * self.factors * np.minimum(length, self.radii) * length
        return float(gains.max(initial=0.0))

    def moved(self, cut: Array, x: Array, step: Array, factor: float) -> Array:
        """The cut (c, g) that touches u at x, moved by a step."""
        bent = factor * (self.H @ step)
        return np.asarray(cut + np.append(-float(bent @ (x + 0.5 * step)), bent))
