r"""A radius that is a statement of confidence.

With the radius :math:`\rho` the robust model's score may be off by :math:`\rho` in the ground norm
before the model moves. The score at the truth is about normal, :math:`Z\sim N(0,PVP^T)`, with the
intercept profiled out by :math:`P=[I,-H_{wb}/H_{bb}]`. So the true coefficients are among those
that the robust problem could have found with probability :math:`1-\alpha` if :math:`\rho` is the
:math:`(1-\alpha)` quantile of :math:`\|Z\|`, over the Lipschitz constant of the loss.
"""

from __future__ import annotations

import numpy as np

from drfl.inference.estimate import Estimate
from drfl.losses import Loss
from drfl.norms import Norm

DRAWS = 20_000


def confidence_radius(
    estimate: Estimate, loss: Loss, norm: Norm, n_features: int, level: float = 0.95
) -> float:
    """The quantile, from draws with a fixed seed.

    Parameters
    ----------
    estimate : Estimate
        The unpenalised model.
    loss : Loss
        Of the problem.
    norm : Norm
        The ground norm.
    n_features : int
        How many of the coefficients are not the intercept.
    level : float
        The confidence.
    """
    H, V, n = estimate.hessian, estimate.score_covariance, n_features
    P = np.eye(n)
    if len(H) > n and H[n, n] > 0.0:
        P = np.hstack([P, -H[:n, n:] / H[n, n]])
    values, vectors = np.linalg.eigh(P @ V @ P.T)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    Z = np.random.default_rng(0).normal(size=(DRAWS, n)) @ root.T
    return float(np.quantile(norm(Z), level)) / loss.lipschitz
