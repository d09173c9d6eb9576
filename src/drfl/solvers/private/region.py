r"""Around the last point: in which region curvature is asked for, and what its noise will cost.

A large region leaves room for the optimum, a small one leaves more curvature. Chosen from the
expected curvature, before anything is told of the point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array
from drfl.solvers.private.certificate import curvature_price, tolerated
from drfl.solvers.private.surrogate import Surrogate

REACHES = np.logspace(-1.5, 1.0, 16)
"""How far scores may move, root mean square over the rows."""
SPARE = 1.3
"""A region should tolerate slopes longer than expected."""


@dataclass(frozen=True)
class Ellipsoid:
    r"""All models x + v with :math:`v^TWv\le1`.

    Attributes
    ----------
    inverse : (d, d)
        The inverse of W.
    price : (d, d)
        D: what is subtracted from the noisy curvature.
    """

    inverse: Array
    price: Array

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
