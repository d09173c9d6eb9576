r"""One client's worst-case loss as a minimum over a few extra variables, described by cuts.

.. math:: F(x)=\min_y\{\,p:\ A_0y\le b_0,\ y\ge l,\ \text{all cuts}\,\},\qquad
          y=(x,\,p,\,\text{extra variables}),\quad x=(w,b).

The multiplier :math:`\lambda` is such an extra variable, as in the paper's client step, so a cut
needs one pass over the rows and no search for :math:`\lambda`; what is known exactly (the dual
norm, the clipping of w in a box) is written down and need not be learned from cuts. A frame never
says more than F: every cut is valid for ever.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from drfl.losses import Array
from drfl.worst_case.oracle import Oracle

UNBOUNDED = -1e30  # of the QP solver


@dataclass(frozen=True)
class Touch:
    r"""What one pass over the rows tells at y: a value and cuts ``rows @ y <= right``.

    ``value`` is at least F(x), and exactly what the new cuts allow for p at y.
    """

    value: float
    rows: Array  # (k, m)
    right: Array  # (k,)


class Frame(ABC):
    """The variables and exact rows of a client; ``d`` is the length of x, and p is entry d.

    Attributes
    ----------
    A, b : arrays of shape (r, m) and (r,)
        The exact rows.
    lower : array of shape (m,)
        Lower bounds of the variables.
    """

    def __init__(self, oracle: Oracle, dimension: int, extra: int) -> None:
        self.oracle, self.rows = oracle, oracle.rows
        self.n, self.d = oracle.rows.n_features, dimension
        self.size = dimension + 1 + extra
        self.A, self.b = np.zeros((0, self.size)), np.zeros(0)
        self.lower = np.full(self.size, UNBOUNDED)
        self.lower[self.d] = 0.0  # losses are nonnegative

    @abstractmethod
    def start(self, x: Array) -> Array:
        """Some y for this x, the exact rows satisfied; p is left 0."""

    @abstractmethod
    def touch(self, y: Array) -> Touch:
        """Evaluate at y."""

    @abstractmethod
    def summary(self, rows: Array, right: Array, weights: Array, *, lifted: bool) -> Array | None:
        r"""A valid cut of F made of valid rows, in the form in which the bundle method sends cuts.

        Constant, [slope in lambda], [slopes in a clipped model, if ``lifted``], slope in x; None
        if there is no such form. With the multipliers of a client step for weights it touches the
        epigraph at the projection.
        """

    def norm_curvature(self, x: Array) -> Array | None:
        """The second derivative of the dual norm where cuts have to learn it; else None."""
        return None

    def loss_curvature(self, x: Array) -> Array | None:
        """The second derivative of the mean loss if it is smooth; a guide, never trusted."""
        loss = self.oracle.loss
        if loss.kinks:
            return None
        w, b = self.split(x)
        z = self.oracle.arguments(self.rows.scores(w, b), self.rows.y)
        return self.rows.gram(loss.curvature(z) * self.rows.mass())[: self.d, : self.d]

    def combine(self, rows: Array, right: Array, weights: Array) -> tuple[Array, float]:
        """The weighted sum of rows, scaled so that the coefficient of p is -1."""
        row = weights @ rows
        return -row / row[self.d], -float(weights @ right) / row[self.d]

    def split(self, x: Array) -> tuple[Array, float]:
        """Coefficients and intercept."""
        return x[: self.n], float(x[self.n]) if self.d > self.n else 0.0
