r"""Taking the solver's rounding out of the multipliers.

At small radii a residual r of stationarity costs :math:`\|r\|/\rho` in the bound. Among the cuts
that have a multiplier, the smallest relative change that makes the aggregate slope exactly what it
should be is a weighted least-squares problem. The result is only another trial: like all
multipliers it is reduced to what it proves.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from drfl.arrays import Array
from drfl.solvers.bundle.cuts import Cuts, Pool
from drfl.solvers.bundle.master import Solution
from drfl.solvers.bundle.terms import Terms

LARGEST = 1500  # equations
SMALLEST = 1e-10  # multipliers below this are rounding themselves


def polish(pool: Pool, cuts: Cuts, solution: Solution, terms: Terms) -> Solution:
    """Multipliers near the given ones whose slope the norm's price covers, and whose b cancels."""
    a = np.where(solution.cuts > SMALLEST, solution.cuts, 0.0)
    active = np.flatnonzero(a)
    pieces, piece = np.unique(cuts.piece[active], return_inverse=True)
    owners, owner = np.unique(pool.piece_client[cuts.piece[active]], return_inverse=True)
    if not len(active) or terms.dimension + len(pieces) + len(owners) > LARGEST:
        return solution
    # Slope in x; the sum of every piece; the slope in every client's multiplier.
    slopes = np.zeros((len(active), len(owners)))
    slopes[np.arange(len(active)), owner] = cuts.slope[active] / max(terms.unit, 1e-300)
    scaled = cuts.g[active] * terms.scale
    B = np.column_stack([scaled, np.eye(len(pieces))[piece], slopes])
    wanted = np.zeros(B.shape[1])
    wanted[: terms.dimension] = _wanted(solution.cuts @ cuts.g, cuts, solution, terms) * terms.scale
    wanted[terms.dimension :] = a[active] @ B[:, terms.dimension :]
    change = wanted - a[active] @ B
    root = np.sqrt(a[active])
    try:
        t = np.linalg.lstsq((B * root[:, None]).T, change, rcond=1e-9)[0]
    except np.linalg.LinAlgError:
        return solution
    a[active] = np.maximum(a[active] + root * t, 0.0)
    return replace(solution, cuts=a)


def _wanted(total: Array, cuts: Cuts, solution: Solution, terms: Terms) -> Array:
    """The slope with b cancelled, drawn into the ball that the radii pay for."""
    wanted = total.copy()
    wanted[terms.n :] = 0.0
    if not terms.priced:
        wanted[: terms.n] = 0.0
        return wanted
    paid = float(solution.weights @ terms.rho + solution.cuts @ cuts.slope)
    need = float(terms.norm(wanted[: terms.n]))
    if need > paid:
        # A little inside, so that what rounding is left does not stick out.
        wanted[: terms.n] *= max(paid, 0.0) / need * (1.0 - 1e-12)
    return wanted
