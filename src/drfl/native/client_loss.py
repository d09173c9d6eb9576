r"""The mean loss of one client, its gradient, and that of a batch of its rows.

A model is one vector x: (w, b) with an intercept, otherwise w.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Site

Gradient = Callable[[Array], Array]


class ClientLoss:
    r"""The mean loss of one client, :math:`F_s(x) = \sum_i p_i L_i(x)`, and its gradient.

    Where the loss has a kink, "gradient" means one of its subgradients.
    """

    def __init__(self, site: Site) -> None:
        self.name, self.rows, self.loss = site.name, site.rows, site.oracle.loss
        self.fit_intercept, self.is_margin = site.fit_intercept, site.oracle.is_margin

    def value(self, x: Array) -> float:
        """F(x)."""
        w, b = self.split(x)
        values, _ = self.pointwise(self._arguments(self.rows.scores(w, b), self.rows.y), w)
        return self.rows.mean(values)

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        """F(x) and a gradient, in one pass over the rows."""
        w, b = self.split(x)
        value = square = 0.0

        def visit(block: slice, z: Array) -> Array:
            nonlocal value, square
            y = self.rows.y[block]
            values, slopes = self.pointwise(self._arguments(z, y), w)
            value += self.rows.mean(values, block)
            square += self.rows.mean(slopes**2, block)
            weights = self.rows.mass(block) * slopes
            return np.asarray(weights * y if self.is_margin else weights)

        g, total = self.rows.sweep(w, b, visit)
        return value, self._joined(g + self.shrinkage(w, square), total)

    def gradient(self, x: Array) -> Array:
        """A gradient of F at x."""
        return self.value_and_gradient(x)[1]

    def batch_gradient(self, x: Array, chosen: NDArray[np.intp]) -> Array:
        """The gradient of the chosen rows: right on average if all are equally likely."""
        w, b = self.split(x)
        X, y = self.rows.take(chosen), self.rows.y[chosen]
        _, slopes = self.pointwise(self._arguments(X @ w + b, y), w)
        masses = self.rows.masses(chosen) * (self.rows.n_rows / len(chosen))
        weights = masses * slopes * y if self.is_margin else masses * slopes
        g = weights @ X + self.shrinkage(w, float(masses @ slopes**2))
        return self._joined(g, float(weights.sum()))

    def sampled(self, batch: int, seed: int, round: int) -> Gradient:
        """The gradients of one walk: of all rows, or every time of a fresh batch.

        Parameters
        ----------
        batch : int
            Rows of a batch; 0, or as many as there are: all rows.
        seed, round : int
            With the client's name they fix the draws, on every engine.
        """
        n_rows = self.rows.n_rows
        if not 0 < batch < n_rows:
            return self.gradient
        rng = np.random.default_rng([seed, round, *self.name.encode()])

        def gradient(x: Array) -> Array:
            return self.batch_gradient(x, rng.choice(n_rows, batch, replace=False))

        return gradient

    # ------------------------------------------------------------------ what WAFL changes
    def pointwise(self, z: Array, w: Array) -> tuple[Array, Array]:
        """Loss and slope of every row, from the margins or residuals z."""
        return self.loss.value_and_slope(z)

    def shrinkage(self, w: Array, mean_square: float) -> Array | float:
        """What the gradient has beside the rows; ``mean_square`` is that of the slopes."""
        return 0.0

    # ------------------------------------------------------------------ internals
    def split(self, x: Array) -> tuple[Array, float]:
        """W and b of a model."""
        return (x[:-1], float(x[-1])) if self.fit_intercept else (x, 0.0)

    def _joined(self, g: Array, b: float) -> Array:
        return np.append(g, b) if self.fit_intercept else g

    def _arguments(self, z: Array, y: Array) -> Array:
        return y * z if self.is_margin else z - y
