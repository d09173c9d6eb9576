r"""Zero-concentrated differential privacy: what releases add up to, and what that promises.

Gaussian noise of standard deviation :math:`\sigma` on a quantity of l2 sensitivity :math:`\Delta`
is :math:`\rho`-zCDP with :math:`\rho=\Delta^2/2\sigma^2` (Bun and Steinke, 2016). The
:math:`\rho` of releases add up, also where each question depends on the answers before it.
"""

from __future__ import annotations

import math

STEPS = 64  # of a bisection: more than the bits of a number


def delta_of(rho: float, epsilon: float) -> float:
    r"""The smallest :math:`\delta` that is known for :math:`\rho`-zCDP at this :math:`\epsilon`.

    .. math::
        \delta = \min_{\alpha>1}\ \frac{e^{(\alpha-1)(\alpha\rho-\epsilon)}}{\alpha-1}
        \Big(1-\frac1\alpha\Big)^{\alpha}

    (Canonne, Kamath and Steinke, 2020, proposition 12.) The logarithm is convex in
    :math:`\alpha`, and every :math:`\alpha` is a valid bound.

    Examples
    --------
    >>> print(f"{delta_of(0.02, 1.0):.2g}")
    8.8e-08
    """
    if rho == 0.0:
        return 0.0
    low = (epsilon + rho) / (2.0 * rho)
    low, high = max(low, 1.0), max(low, 1.0) + 1.0 / math.sqrt(2.0 * rho) + 1.0
    for _ in range(STEPS):
        alpha = 0.5 * (low + high)
        slope = (2.0 * alpha - 1.0) * rho - epsilon + math.log1p(-1.0 / alpha)
        low, high = (alpha, high) if slope < 0.0 else (low, alpha)
    exponent = (high - 1.0) * (high * rho - epsilon) - math.log(high - 1.0)
    return min(1.0, math.exp(min(0.0, exponent + high * math.log1p(-1.0 / high))))


def rho_of(epsilon: float, delta: float) -> float:
    r"""The largest :math:`\rho` that keeps the promise :math:`(\epsilon,\delta)`.

    Examples
    --------
    >>> round(rho_of(1.0, 1e-6), 4), round(rho_of(3.0, 1e-6), 4)
    (0.0244, 0.1851)
    """
    low, high = 0.0, epsilon + 1.0  # rho = epsilon already has a delta of order 1
    while delta_of(high, epsilon) <= delta:
        low, high = high, 2.0 * high
    for _ in range(STEPS):
        rho = 0.5 * (low + high)
        low, high = (rho, high) if delta_of(rho, epsilon) <= delta else (low, rho)
    return low


def epsilon_of(rho: float, delta: float) -> float:
    r"""The smallest :math:`\epsilon` that :math:`\rho` keeps at this :math:`\delta`.

    Examples
    --------
    >>> round(epsilon_of(rho_of(1.0, 1e-6), 1e-6), 6)
    1.0
    """
    if delta_of(rho, 0.0) <= delta:
        return 0.0
    # The classical bound of Bun and Steinke is an epsilon that suffices.
    low, high = 0.0, rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))
    for _ in range(STEPS):
        epsilon = 0.5 * (low + high)
        low, high = (low, epsilon) if delta_of(rho, epsilon) <= delta else (epsilon, high)
    return high
