"""Where a single row is on the central path: its multipliers at given lines, all products equal."""

from __future__ import annotations

import numpy as np

from drfl.arrays import Array

CENTRING = 4  # steps of Newton's method


def line_shares(lines: Array, tau: Array) -> Array:
    r"""Shares with equal products: :math:`\tau/(u-\mathrm{line}_k)`, which sum to 1."""
    if len(lines) == 1:
        return np.ones_like(lines)
    u = lines.max(axis=0) + tau
    for _ in range(CENTRING):  # convex and decreasing in u: Newton's method stays on the left
        inverse = 1.0 / (u - lines)
        u += (inverse.sum(axis=0) * tau - 1.0) / ((inverse**2).sum(axis=0) * tau)
    shares = tau / (u - lines)
    return np.asarray(shares / shares.sum(axis=0))


def curved_share(a: Array, lines: Array, tau: Array) -> Array:
    r"""The share x of the first of two lines with curvature between them.

    It solves :math:`Dx+k=\tau/x-\tau/(1-x)`, whose sides are monotone. The roots without the one
    or the other term on the right give a guess that is good everywhere.
    """
    jump = a[0] - a[1]
    D, k = jump * jump, jump * a[1] - (lines[0] - lines[1])
    low, high = (np.minimum(_root(D, b, tau), 1.0) for b in (k, -k - D))
    x = low / (low + high)
    for _ in range(CENTRING):
        rest = 1.0 - x
        value = D * x + k - tau / x + tau / rest
        step = -value / (D + tau / x**2 + tau / rest**2)
        x = np.clip(x + step, 0.1 * x, 1.0 - 0.1 * rest)
    return np.asarray(x)


def _root(D: Array, k: Array, tau: Array) -> Array:
    """The positive root of D x^2 + k x = tau."""
    root = np.sqrt(k * k + 4.0 * D * tau)
    return np.where(k > 0.0, 2.0 * tau / (k + root), (root - k) / (2.0 * D))


def curved_value(a: Array, lines: Array, share: Array) -> Array:
    """What two lines with curvature between them are worth at this share."""
    v = a[0] * share + a[1] * (1.0 - share)
    return np.asarray(share * lines[0] + (1.0 - share) * lines[1] - 0.5 * v * v)
