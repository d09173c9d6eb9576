"""Cuts for a pool, made by hand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.solvers.certificate.cuts import FamilyCuts


def family_cuts(
    clients: list[int],
    c: Array,
    g: Array,
    *,
    masses: Array | None = None,
    slope: Array | None = None,
    lift: Array | None = None,
    family: int | None = None,
    kept: NDArray[np.bool_] | None = None,
) -> FamilyCuts:
    """Tangents with constants (m, P, G) and slopes (m, P, G, d), of pieces of the same mass."""
    m, P, G = c.shape
    return FamilyCuts(
        np.array(clients),
        G if family is None else family,
        np.full((m, G), 1.0 / G) if masses is None else masses,
        c,
        g,
        np.zeros(c.shape) if slope is None else slope,
        np.zeros((*c.shape, 0)) if lift is None else lift,
        point=np.arange(P),
        group=np.arange(G),
        tangent=True,
        round=0,
        kept=kept,
    )
