r"""The next point from noisy slopes: Newton's method with the expected curvature."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array
from drfl.norms import Norm
from drfl.solvers.private.surrogate import Surrogate

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
