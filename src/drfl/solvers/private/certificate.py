r"""What noisy numbers prove, with probability 99 %.

At the last point x the server knows the slope, the least curvature J over a region
:math:`v^TWv\le1` and the mean loss, all with Gaussian noise of known size, drawn after x and the
region were chosen. For every v in the region

.. math:: f(x+v)-f(x) \ge a^Tv+\tfrac12v^TJv, \qquad v^T\nabla f(x+v) \ge a^Tv+v^TJv,

where a is the true slope, that of :math:`R\|w\|_*` included. docs/theory.md has the proof.

The region is around the last point; it says where curvature is asked for and what its noise costs.

A large region leaves room for the optimum, a small one leaves more curvature. Chosen from the
expected curvature, before anything is told of the point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import brentq
from scipy.special import bdtr, chdtr, chndtr, ndtri

from drfl.arrays import Array
from drfl.solvers.private.surrogate import Surrogate

REACHES = np.logspace(-1.5, 1.0, 16)
"""How far scores may move, root mean square over the rows."""
SPARE = 1.3
"""A region should tolerate slopes longer than expected."""


@dataclass(frozen=True)
class Ellipsoid:
    r"""All models x + v with :math:`v^TWv\le1`."""

    inverse: Array  # (d, d), the inverse of W
    price: Array  # (d, d), D: what is subtracted from the noisy curvature

    @property
    def matrix(self) -> Array:
        """W."""
        found = np.linalg.inv(self.inverse)
        return np.asarray(0.5 * (found + found.T))


def choose_region(surrogate: Surrogate, x: Array, noise: float, slope: float) -> Ellipsoid:
    """The region in which the least excess is expected to be proved, for slopes so long.

    If none is expected to hold the optimum, the one that tolerates the longest slope.
    """
    H = surrogate.curvature(x)
    values, vectors = np.linalg.eigh(H)
    # Where there is little curvature the optimum is far: by slope / curvature.
    shape = (vectors / np.maximum(values, 1e-3 * values[-1]) ** 2) @ vectors.T
    shape /= float(np.sum(shape * surrogate.moments))
    price = curvature_price(H, noise)
    best, rank = Ellipsoid(shape * REACHES[0] ** 2, price), (-1, -math.inf)
    for reach in REACHES:
        region = Ellipsoid(shape * reach**2, price)
        M = surrogate.least(x, float(reach)) - price
        room, least = tolerated(M, region.matrix), float(np.linalg.eigvalsh(M)[0])
        holds = room >= SPARE * slope
        new = (1, least) if holds else (0, room)
        if new > rank:
            best, rank = region, new
    return best


RISK = 0.01
"""That something of a certificate does not hold; shared out as follows."""
RISK_VALUE, RISK_SLOPE, RISK_CURVATURE, RISK_DRAWS = 0.0029, 0.003, 0.004, 0.0001
DRAWS = 8000
SCALES = np.logspace(-2.0, 2.0, 33)
ROUNDING = 1e-4
"""What clients tell is rounded, to a millionth of their noise: the means of up to 40,000 clients to
less than this part of the noise."""


def length_bound(told: Array, sigma: float) -> float:
    r"""U with :math:`\|a\|_2\le U`, from a + noise, except with probability `RISK_SLOPE`.

    :math:`\|a+\xi\|^2/\sigma^2` is noncentral chi-squared; U is the longest a for which a value as
    small as the one seen has that probability.
    """
    d = len(told)
    seen = (float(np.linalg.norm(told)) / sigma + ROUNDING * math.sqrt(d)) ** 2
    if chdtr(d, seen) <= RISK_SLOPE:
        return 0.0
    most = (math.sqrt(seen) + math.sqrt(d) + 10.0) ** 2
    found = float(brentq(lambda nc: chndtr(seen, d, nc) - RISK_SLOPE, 0.0, most))
    return sigma * math.sqrt(found) * (1.0 + 1e-9)


def curvature_price(shape: Array, sigma: float) -> Array:
    r"""D with :math:`\Xi\preceq D`, except with probability `RISK_CURVATURE` + `RISK_DRAWS`.

    :math:`\Xi` is symmetric Gaussian noise, of deviation :math:`\sigma` on the diagonal and
    :math:`\sigma/\sqrt2` beside it, and D a multiple of the square root of ``shape``: directions in
    which little curvature is expected pay less. The multiple is a quantile of the largest
    eigenvalue, found by simulation: the order statistic is one that is below the true quantile only
    with probability `RISK_DRAWS`.
    """
    values, vectors = np.linalg.eigh(shape)
    fourth = np.maximum(values / values[-1], 1e-4) ** 0.25
    T = (vectors / fourth) @ vectors.T
    G = np.random.default_rng(0).normal(size=(DRAWS, len(shape), len(shape)))
    tops = np.linalg.eigvalsh(T @ (0.5 * (G + G.transpose(0, 2, 1))) @ T)[:, -1]
    # The k-th largest is below the quantile only if fewer than k draws are above it.
    below = [float(bdtr(j, DRAWS, RISK_CURVATURE)) for j in range(DRAWS // 100)]
    k = sum(risk <= RISK_DRAWS for risk in below)
    level = float(np.sort(tops)[-k]) * sigma
    rounding = ROUNDING * sigma * len(shape) * np.eye(len(shape))
    return np.asarray(level * (vectors * fourth**2) @ vectors.T + rounding)


def value_margin(sigma: float) -> float:
    """How far a noisy value is from the true one, except with probability `RISK_VALUE`."""
    return (float(-ndtri(0.5 * RISK_VALUE)) + ROUNDING) * sigma


def tolerated(M: Array, W: Array) -> float:
    r"""The largest slope for which the region's boundary is seen to lie uphill.

    :math:`v^TMv>U\|v\|` for all v with :math:`v^TWv=1` follows, for any c > 0, from
    :math:`M\succ\tfrac U2(I/c+cW)`, since :math:`\|v\|\le\tfrac12(\|v\|^2/c+c)`.
    """
    scales = SCALES / math.sqrt(float(np.trace(W)) / len(W))
    eye = np.eye(len(M))
    least = [eigh(M, 0.5 * (eye / c + c * W), eigvals_only=True)[0] for c in scales]
    return max(0.0, float(max(least)))


@dataclass(frozen=True)
class Proof:
    """What is proved of a model, with probability 99 %."""

    # The objective is at most so much above the least, everywhere or within ``radius``; inf if
    # nothing is proved
    excess: float
    radius: float = math.inf  # inf, or how far models may differ


def prove(told: Array, sigma: float, M: Array, W: Array, slack: float) -> Proof:
    r"""The excess that slopes and curvature allow.

    ``told`` (d,) is the noisy slope, that of the norm included, with noise ``sigma``; M (d, d) the
    noisy least curvature minus its price, at most the true one; W (d, d) the region; and ``slack``
    is :math:`R(\|w\|_*-s^Tw)` for the subgradient s that was used.
    """
    least = float(np.linalg.eigvalsh(M)[0])
    U = length_bound(told, sigma)
    if least <= 0.0:
        return Proof(math.inf)
    excess = slack + U**2 / (2.0 * least)
    if tolerated(M - slack * W, W) > U:
        return Proof(excess)
    return Proof(excess, 1.0 / math.sqrt(float(np.linalg.eigvalsh(W)[-1])))
