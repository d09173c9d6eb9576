r"""Where the optimum must be when no radius bounds it.

With radius 0 everywhere nothing prices the norm of w, and a tiny slope g left in the certificate
costs :math:`|g|^\top R` over the region :math:`|x-\hat x|\le R`. The region is proved by linear
programs, :math:`\max\pm x_j` subject to model :math:`\le` UB, where these are bounded; otherwise
the statement is local.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from drfl.arrays import Array

LARGEST = 60  # more coefficients would need too many linear programs
SAFETY = 2.0  # the linear programs are solved to a tolerance; the region is twice what they say
FARTHEST = (-1e6, 1e6)  # in units of typical features; beyond it there is no region to speak of


@dataclass(frozen=True)
class Region:
    r"""All x with :math:`|x-\hat x|\le R`; ``proved`` if every better x must be in it."""

    centre: Array
    radius: Array
    proved: bool = False

    @classmethod
    def around(cls, x: Array, unit: float) -> Region:
        """Ten times as far as the model is from 0, and ten units more."""
        reach = 10.0 * (float(np.abs(x).max(initial=0.0)) + 1.0 / unit)
        return cls(x, np.full(len(x), reach))

    def least(self, constant: float, g: Array) -> float:
        r"""The minimum over the region of :math:`\mathrm{constant}+g^\top x` in leading entries."""
        k = len(g)
        return constant + float(g @ self.centre[:k] - np.abs(g) @ self.radius[:k])


class LevelSet(NamedTuple):
    """All models within a level of the cut model: ``A z <= b, z >= lower``, x = scale * z[at]."""

    A: Any  # sparse; linprog takes such matrices, its stubs do not say so
    b: Array
    lower: Array
    at: NDArray[np.intp]
    scale: Array


def proved_region(level_set: LevelSet, centre: Array) -> Region | None:
    """The box around all models of a level set; None if there is no such box, or too much work."""
    if len(centre) > LARGEST:
        return None
    A, b, lower, at, scale = level_set
    bounds: list[tuple[float | None, float | None]]
    bounds = [(float(low) if low > -1e29 else None, None) for low in lower]
    extent = np.zeros(len(centre))
    for j in range(len(centre)):
        for sign in (1.0, -1.0):
            cost = np.zeros(A.shape[1])
            cost[at[j]] = -sign
            within = [*bounds]
            within[at[j]] = FARTHEST
            answer = linprog(cost, A_ub=A, b_ub=b, bounds=within, method="highs")
            if answer.x is None or abs(answer.x[at[j]]) >= 0.99 * FARTHEST[1]:
                return None
            reached = answer.x[at[j]] * scale[j]
            extent[j] = max(extent[j], abs(reached - centre[j]))
    return Region(centre, SAFETY * extent + 1e-9, proved=True)
