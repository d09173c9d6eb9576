r"""Where the optimum must be when no radius bounds it.

With radius 0 everywhere nothing prices the norm of w, and a tiny slope g left in the certificate
costs :math:`|g|^\top R` over the region :math:`|x-\hat x|\le R`. The region is proved by linear
programs, :math:`\max\pm x_j` subject to model :math:`\le` UB, where these are bounded; otherwise
the statement is local.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

from drfl.arrays import Array
from drfl.solvers.bundle.cuts import Pool
from drfl.solvers.bundle.master import Master

LARGEST = 60  # more coefficients would need too many linear programs
SAFETY = 2.0  # the linear programs are solved to a tolerance; the region is twice what they say


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


def proved_region(master: Master, pool: Pool, upper: float, centre: Array) -> Region | None:
    """The box around all models that can be better than ``upper``; None if there is no such box."""
    if len(centre) > LARGEST:
        return None
    matrix, b, lower, x = master.level_set(pool, pool.cuts, upper * (1.0 + 1e-9))
    A: Any = matrix  # linprog takes sparse matrices, its stubs do not say so
    bounds = [(low if low > -1e29 else None, None) for low in lower]
    extent = np.zeros(len(centre))
    scale = master.terms.scale
    for j in range(len(centre)):
        for sign in (1.0, -1.0):
            cost = np.zeros(A.shape[1])
            cost[x[j]] = -sign
            answer = linprog(cost, A_ub=A, b_ub=b, bounds=bounds, method="highs")
            if answer.x is None:
                return None
            reached = answer.x[x[j]] * scale[j]
            extent[j] = max(extent[j], abs(reached - centre[j]))
    return Region(centre, SAFETY * extent + 1e-9, proved=True)
