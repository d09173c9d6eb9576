r"""A loss whose row may be moved at a quadratic price: the inner supremum of WAFL, closed.

.. math:: \varphi(w;x,y) = \sup_{x'}\ L(w;x',y) - \tfrac\gamma2\|x'-x\|_2^2
          = \sup_t\ L(z+t) - \frac{t^2}{2a} = \max_v\ vz - L^*(v) + \tfrac a2v^2,
          \qquad a = \|w\|_2^2/\gamma,

because a row is best moved along w. A maximising v is the derivative in z, and
:math:`v^2/2` that in a.
"""

from __future__ import annotations

import numpy as np

from drfl.arrays import Array
from drfl.losses import Huber, Logistic, Loss, SmoothHinge

NEWTON_STEPS = 60


def penalised(loss: Loss, z: Array, a: float) -> tuple[Array, Array]:
    r""":math:`\varphi` and v for margins or residuals z (N,).

    Parameters
    ----------
    loss : Loss
        L: piecewise linear, smooth hinge, Huber or logistic.
    z : array of shape (N,)
        Margins or residuals.
    a : float
        How far rows move: :math:`\|w\|^2/\gamma\ge0`.
    """
    if a == 0.0:
        return loss.value_and_slope(z)
    if loss.pieces:
        slopes = np.array([piece.slope for piece in loss.pieces])
        constants = np.array([piece.constant for piece in loss.pieces])
        lines = slopes * z[:, None] + constants + 0.5 * a * slopes**2
        best = lines.argmax(axis=1)
        return lines[np.arange(len(z)), best], slopes[best]
    if isinstance(loss, SmoothHinge):
        v = -_quadratic(1.0 - z, a, 1.0)
    elif isinstance(loss, Huber):
        v = np.where(z < 0.0, -1.0, 1.0) * _quadratic(np.abs(z), a, loss.epsilon)
    elif isinstance(loss, Logistic):
        v = -_logistic(z, a)
    else:
        raise ValueError(f"the supremum of {loss.name} is not known in closed form")
    return v * z - loss.conjugate(v) + 0.5 * a * v * v, v


def _quadratic(r: Array, a: float, most: float) -> Array:
    r"""Maximise :math:`ur-(1-a)u^2/2` over u in [0, most]."""
    if a < 1.0:
        return np.clip(r / (1.0 - a), 0.0, most)
    # Convex in u: one of the ends.
    return np.where(most * r - 0.5 * (1.0 - a) * most**2 > 0.0, most, 0.0)


def _logistic(z: Array, a: float) -> Array:
    r"""Maximise :math:`-uz+H(u)+au^2/2`, H the entropy, over u in (0, 1).

    Where :math:`u=\sigma(s)`, the derivative is :math:`h(s)=a\sigma(s)-z-s`. The function minus its
    linear part is symmetric about u = 1/2, so the maximum has u >= 1/2 if and only if z <= a/2, and
    the other case is its mirror image with a - z. On s >= 0, h is concave and falls from
    :math:`h(0)\ge0` to :math:`-\infty` behind its root: Newton's method comes down from a - z.
    """
    mirrored = z > 0.5 * a
    c = np.where(mirrored, a - z, z)
    s = a - c
    for _ in range(NEWTON_STEPS):
        u = 1.0 / (1.0 + np.exp(-s))
        slope = a * u * (1.0 - u) - 1.0
        move = (a * u - c - s) / np.minimum(slope, -1e-12)
        s = np.maximum(s - move, 0.0)
        if (np.abs(move) <= 1e-13 * (1.0 + s)).all():
            break
    u = 1.0 / (1.0 + np.exp(-s))
    return np.where(mirrored, 1.0 - u, u)
