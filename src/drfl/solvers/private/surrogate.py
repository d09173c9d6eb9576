"""What curvature to expect from second moments alone, and the next point from noisy slopes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.norms import Norm
from drfl.solvers.private.client import least_quotient

NODES = np.linspace(-5.0, 5.0, 81)
WEIGHTS = np.exp(-0.5 * NODES**2) / np.exp(-0.5 * NODES**2).sum()
PATH = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Surrogate:
    """Rows as a normal distribution."""

    loss: Loss  # L
    # Of zeta, (d,) and (d, d); 0 is taken for the mean where there is no intercept.
    mean: Array
    covariance: Array

    @classmethod
    def from_moments(
        cls, loss: Loss, moments: Array, noise: float, *, intercept: bool
    ) -> Surrogate:
        """Rows with these noisy second moments; eigenvalues below the noise are lifted to it."""
        mean, n = np.zeros(len(moments)), len(moments) - intercept
        if intercept:
            mean = np.append(moments[:-1, -1], 1.0)  # the last is known
        values, vectors = np.linalg.eigh((moments - np.outer(mean, mean))[:n, :n])
        covariance = np.zeros_like(moments)
        covariance[:n, :n] = (vectors * np.maximum(values, 2.0 * noise)) @ vectors.T
        return cls(loss, mean, covariance)

    @property
    def moments(self) -> Array:
        """The second moments, a positive definite matrix."""
        return self.covariance + np.outer(self.mean, self.mean)

    def curvature(self, x: Array) -> Array:
        """The expected Hessian of the mean loss at x."""
        return self._expected(x, self.loss.curvature)

    def between(self, x: Array, y: Array) -> Array:
        """Its mean on the way from x to y: the matrix that takes y - x to the change of slope."""
        steps = [self.curvature(x + part * (y - x)) for part in PATH]
        return np.asarray(np.mean(steps, axis=0))

    def least(self, x: Array, reach: float) -> Array:
        """What `least_curvature` of clients is expected to be, at one reach for all rows."""
        return self._expected(x, lambda z: least_quotient(self.loss, z, np.full_like(z, reach)))

    def _expected(self, x: Array, profile: Callable[[Array], Array]) -> Array:
        if self.loss.rounded:  # as if all rows were amid the corner: steps are short but safe
            return float(profile(np.array([_amid(self.loss)]))[0]) * self.moments
        spread = self.covariance @ x
        tau = float(np.sqrt(max(float(x @ spread), 1e-12)))
        scores = float(self.mean @ x) + tau * NODES
        # Which label a row has is not known: it agrees with the score as often as odds would say.
        agrees = expit(scores)
        h = WEIGHTS * (agrees * profile(scores) + (1.0 - agrees) * profile(-scores))
        c, mu = spread / tau, self.mean
        h0, h1, h2 = float(h.sum()), float(h @ NODES), float(h @ NODES**2)
        rest = self.covariance - np.outer(c, c) + np.outer(mu, mu)
        return h0 * rest + h1 * (np.outer(mu, c) + np.outer(c, mu)) + h2 * np.outer(c, c)


def _amid(loss: Loss) -> float:
    """Where the slope of a loss with one round corner is the mean of its ends."""
    (a, c), (b, d) = loss.rounded
    return 0.5 * (a + b) - (c - d) / (a - b)


SWEEPS = 5
ITERATIONS = 2000
STILL = 1e-13
FARTHEST = 3.0
"""How much scores may change in a step, root mean square over the rows."""


@dataclass(frozen=True)
class NoisySlope:
    """A noisy slope of the mean loss at a point, and what was paid for it."""

    x: Array
    slope: Array
    price: float


def newton(
    surrogate: Surrogate, told: list[NoisySlope], radius: float, norm: Norm, n: int
) -> tuple[Array, Array]:
    r"""Where the robust mean loss is expected to be least, and a subgradient of the norm there.

    All slopes count, by their price: each is carried to the new point by the expected curvature
    between the two, which is found by repetition.

    Returns
    -------
    tuple
        x (d,) and s (d,) with :math:`\|s\|\le1`, 0 beyond the n features.
    """
    base = told[-1].x
    total = sum(one.price for one in told)
    x, s = base, np.zeros_like(base)
    for _ in range(SWEEPS):
        g, H = np.zeros_like(base), np.zeros((len(base), len(base)))
        for one in told:
            curvature = surrogate.between(one.x, x)
            g += one.price / total * (one.slope + curvature @ (base - one.x))
            H += one.price / total * curvature
        x, s = proximal(g, H, base, radius, norm, n, s)
        # Where curvature fades away, as on separable rows, the next point would run away with it.
        moved = float(np.sqrt((x - base) @ surrogate.moments @ (x - base)))
        x = base + FARTHEST / max(moved, FARTHEST) * (x - base)
    return x, s


def proximal(
    g: Array, H: Array, base: Array, radius: float, norm: Norm, n: int, s: Array
) -> tuple[Array, Array]:
    r"""Minimise :math:`g^T(x-x_0)+\tfrac12\|x-x_0\|_H^2+R\|w\|_*`, by its dual.

    .. math:: \max_{\|s\|\le1}\ \min_x\ g^T(x-x_0)+\tfrac12\|x-x_0\|_H^2+R\,s^Tw

    Accelerated projected steps in s, begun again wherever they turn back.
    """
    inverse = np.linalg.inv(H)

    def best(s: Array) -> Array:
        return np.asarray(base - inverse @ (g + radius * s))

    if radius == 0.0:
        return best(np.zeros_like(g)), np.zeros_like(g)
    step = 1.0 / (radius * float(np.linalg.eigvalsh(inverse[:n, :n])[-1]))
    ahead, momentum = s, 1.0
    for _ in range(ITERATIONS):
        new = np.zeros_like(s)
        new[:n] = norm.project_ball(ahead[:n] + step * best(ahead)[:n])
        moved = new - s
        if float((new - ahead) @ moved) < 0.0:
            momentum = 1.0
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        ahead, momentum, s = new + (momentum - 1.0) / faster * moved, faster, new
        if float(np.abs(moved).max()) <= STILL:
            break
    return best(s), s
