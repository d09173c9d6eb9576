r"""What curvature to expect at a model, from the second moments of the rows alone.

If :math:`\zeta=(x,1)` has mean :math:`\mu`, covariance :math:`\Sigma` and is about normal, then a
score :math:`s=\theta^T\zeta` is normal, and given the score the row is normal too, so that

.. math::
    \mathbb{E}\,h(s)\,\zeta\zeta^T = \mathbb{E}\,h(m+\tau u)\,
    \big[\Sigma-cc^T+(\mu+uc)(\mu+uc)^T\big], \qquad c=\Sigma\theta/\tau,\ u\sim N(0,1),

three integrals of one variable. It shapes steps and regions; no proof rests on it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.solvers.private.client import least_quotient

NODES = np.linspace(-5.0, 5.0, 81)
WEIGHTS = np.exp(-0.5 * NODES**2) / np.exp(-0.5 * NODES**2).sum()
PATH = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Surrogate:
    """Rows as a normal distribution.

    Parameters
    ----------
    loss : Loss
        L.
    mean, covariance : arrays of shape (d,), (d, d)
        Of zeta; 0 is taken for the mean where there is no intercept.
    """

    loss: Loss
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
