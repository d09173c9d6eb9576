"""Symmetric matrices as they travel: the lower triangle, row by row, in float32."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.wire.message import WireError

INDEFINITE = 1e-4  # relative: what float32 may do to a positive semidefinite matrix


def pack_triangle(H: Array) -> NDArray[np.float32]:
    """The lower triangle in float32: accurate enough for Newton steps."""
    return H[np.tril_indices(len(H))].astype(np.float32)


def unpack_triangle(triangle: NDArray[np.floating], dimension: int) -> Array:
    """H from its triangle."""
    H = np.zeros((dimension, dimension))
    H[np.tril_indices(dimension)] = triangle
    return H + np.tril(H, -1).T


def require_semidefinite(H: Array) -> None:
    """Anything semidefinite is a valid metric; anything else would lead the steps uphill."""
    largest = float(np.diag(H).max(initial=0.0))
    try:
        np.linalg.cholesky(H + (INDEFINITE * largest + 1e-300) * np.eye(len(H)))
    except np.linalg.LinAlgError:
        raise WireError("its curvature is not positive semidefinite") from None
