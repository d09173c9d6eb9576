r"""The mean loss of one client, its gradient, and that of a batch of its rows.

A model is one vector x: (w, b) with an intercept, otherwise w.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Site
from drfl.differentiable import ClientLoss


def loss_of(site: Site) -> ClientLoss:
    """What a site's clients lose: under a linear model, or under a network."""
    return LinearLoss(site) if site.network is None else site.network


class LinearLoss(ClientLoss):
    r"""The mean loss of a linear model, :math:`F_s(x) = \sum_i p_i L_i(x)`."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.name, site.rows.n_rows)
        self.rows, self.loss = site.rows, site.oracle.loss
        self.fit_intercept, self.is_margin = site.fit_intercept, site.oracle.is_margin

    def value(self, x: Array) -> float:
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

    def batch_gradient(self, x: Array, chosen: NDArray[np.intp]) -> Array:
        w, b = self.split(x)
        X, y = self.rows.take(chosen), self.rows.y[chosen]
        _, slopes = self.pointwise(self._arguments(X @ w + b, y), w)
        masses = self.rows.masses(chosen) * (self.rows.n_rows / len(chosen))
        weights = masses * slopes * y if self.is_margin else masses * slopes
        g = weights @ X + self.shrinkage(w, float(masses @ slopes**2))
        return self._joined(g, float(weights.sum()))

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
