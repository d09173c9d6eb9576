r"""How good linear models are, on rows as they are and under Gaussian noise.

Noise :math:`N(m,s^2)` in every feature adds :math:`N(m\,1^\top w,\ s^2\|w\|^2)` to a score: the
expected accuracy and the expected squared error are formulas, and no draws are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from drfl.arrays import Array
from drfl.datasets import add_noise

Noise = tuple[float, float]
"""Mean and standard deviation."""


@dataclass(frozen=True)
class Models:
    """P linear models: coef (P, n) and intercept (P,)."""

    coef: Array
    intercept: Array

    def scores(self, X: Array) -> Array:
        """w'x + b (N, P)."""
        return np.asarray(X @ self.coef.T + self.intercept)

    def only(self, k: int) -> Models:
        """One of them."""
        return Models(self.coef[k : k + 1], self.intercept[k : k + 1])


def mean_scores(
    models: Models, X: Array, y: Array, weight: Array, noise: Noise, *, regression: bool
) -> Array:
    """Expected accuracy, or minus the expected squared error (P,): larger is better.

    Parameters
    ----------
    models : Models
        What is judged.
    X, y, weight : arrays of shape (N, n), (N,), (N,)
        By which rows.
    noise : tuple of float
        Mean and standard deviation of the noise in every feature.
    regression : bool
        Whether y are numbers rather than -1 and +1.
    """
    share = weight / weight.sum()
    shift = noise[0] * models.coef.sum(axis=1)
    spread = noise[1] * np.linalg.norm(models.coef, axis=1)
    z = models.scores(X) + shift
    if regression:
        return np.asarray(-(share @ (z - y[:, None]) ** 2 + spread**2))
    # A score of 0 is the first class, as in `predict`: the limit of no noise is taken from there.
    sure = np.where(z > 0.0, 1.0, 0.0)
    safe = np.where(spread > 0.0, spread, 1.0)
    positive = np.where(spread > 0.0, ndtr(z / safe), sure)
    return np.asarray(share @ np.where(y[:, None] > 0.0, positive, 1.0 - positive))


def drawn_scores(
    models: Models,
    X: Array,
    y: Array,
    noise: Noise,
    draws: int,
    rng: np.random.Generator,
    *,
    regression: bool,
) -> Array:
    """The same, as the mean over some draws of the noise."""
    ones = np.ones(len(y))
    found = [
        mean_scores(models, add_noise(X, *noise, rng), y, ones, (0.0, 0.0), regression=regression)
        for _ in range(draws)
    ]
    return np.asarray(np.mean(found, axis=0))


def sweep_scores(
    models: Models,
    tests: Sequence[tuple[Array, Array]],
    noises: Sequence[Noise],
    *,
    draws: int,
    seed: int,
    regression: bool,
) -> Array:
    """Scores (levels, clients, P); draws, if any, are the same for every method."""
    found = np.empty((len(noises), len(tests), len(models.intercept)))
    for k, noise in enumerate(noises):
        for s, (X, y) in enumerate(tests):
            if draws:
                rng = np.random.default_rng([seed, 1, k, s])
                found[k, s] = drawn_scores(models, X, y, noise, draws, rng, regression=regression)
            else:
                ones = np.ones(len(y))
                found[k, s] = mean_scores(models, X, y, ones, noise, regression=regression)
    return found
