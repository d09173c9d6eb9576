r"""One client's worst-case loss as a minimum over a few extra variables, described by cuts.

.. math:: F(x)=\min_y\{\,p:\ A_0y\le b_0,\ y\ge l,\ \text{all cuts}\,\},\qquad
          y=(x,\,p,\,\text{extra variables}),\quad x=(w,b).

The multiplier :math:`\lambda` is such an extra variable, as in the paper's client step, so a cut
needs one pass over the rows and no search for :math:`\lambda`; what is known exactly (the dual
norm, the clipping of w in a box) is written down and need not be learned from cuts. A frame never
says more than F: every cut is valid for ever.

Where all clients share one multiplier it is the last entry of x instead, the radius is the
server's affair, and F is the mean loss at that price: infinite below the least price.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array
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
    shared : bool
        Whether x ends with everybody's multiplier.
    lam : int
        The entry of the multiplier: the last one of x, or the first one after p.
    A, b : arrays of shape (r, m) and (r,)
        The exact rows.
    lower : array of shape (m,)
        Lower bounds of the variables.
    busy : int
        The variables from this one on are 0 more often than not, with lower bound 0.
    """

    def __init__(self, oracle: Oracle, dimension: int, extra: int, *, shared: bool = False) -> None:
        self.oracle, self.rows, self.shared = oracle, oracle.rows, shared
        self.n, self.d = oracle.rows.n_features, dimension
        self.lam = dimension - 1 if shared else dimension + 1
        self.size = dimension + 1 + extra
        self.A, self.b = np.zeros((0, self.size)), np.zeros(0)
        self.busy = self.size
        self.lower = np.full(self.size, UNBOUNDED)
        self.lower[self.d] = 0.0  # losses are nonnegative

    @abstractmethod
    def start(self, x: Array) -> Array:
        """Some y for this x, the exact rows satisfied; p is left 0.

        Only a shared multiplier below the least price is changed, to that price.
        """

    def feasible(self, y: Array) -> Array:
        """The same y with a shared multiplier raised to the least price, if it is below."""
        return y

    @abstractmethod
    def touch(self, y: Array) -> Touch:
        """Evaluate at y."""

    @abstractmethod
    def summary(self, rows: Array, right: Array, weights: Array, *, lifted: bool) -> Array | None:
        r"""A valid cut of F made of valid rows, in the form in which the bundle method sends cuts.

        Constant, [slope in lambda], [slopes in a clipped model, if ``lifted``], slope in x (with
        a shared lambda, if there is one); None
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
        k = self.d - self.shared
        H = self.rows.gram(loss.curvature(z) * self.rows.mass())[:k, :k]
        return np.pad(H, (0, self.d - k))

    def combine(self, rows: Array, right: Array, weights: Array) -> tuple[Array, float]:
        """The weighted sum of rows, scaled so that the coefficient of p is -1."""
        row = weights @ rows
        return -row / row[self.d], -float(weights @ right) / row[self.d]

    def split(self, x: Array) -> tuple[Array, float]:
        """Coefficients and intercept."""
        return x[: self.n], float(x[self.n]) if self.d - self.shared > self.n else 0.0
