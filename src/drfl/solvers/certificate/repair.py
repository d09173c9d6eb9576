r"""Better multipliers for the proof: each repair is only another trial.

Like all multipliers, repaired ones are reduced to what they prove.

- At small radii a residual r of stationarity costs :math:`\|r\|/\rho` in the bound. Among the cuts
  that have a multiplier, the smallest relative change that makes the aggregate slope exactly what
  it should be is a weighted least-squares problem (`polish`).
- A bound for every b needs :math:`g_b=0` exactly. Near the optimum all the cuts in use may lean the
  same way by a hair, so that none of them can be lowered to cancel the others. An older cut of the
  same piece that leans the other way can: the share :math:`\varepsilon` of the piece's multipliers
  that has to be moved to it is as small as what is left (`counterweigh`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from drfl.arrays import Array
from drfl.solvers.certificate.cuts import Cuts, Pool, Solution, sums
from drfl.solvers.certificate.server import ServerProblem

LARGEST = 1500  # equations
SMALLEST = 1e-10  # multipliers below this are rounding themselves

MOST = 0.5  # a larger share would not be a small correction


def polish(server: ServerProblem, pool: Pool, cuts: Cuts, solution: Solution) -> Solution:
    """Multipliers near the given ones whose slope the norm's price covers, and whose b cancels."""
    a = np.where(solution.cuts > SMALLEST, solution.cuts, 0.0)
    active = np.flatnonzero(a)
    pieces, piece = np.unique(cuts.piece[active], return_inverse=True)
    owners, owner = np.unique(pool.piece_client[cuts.piece[active]], return_inverse=True)
    if not len(active) or server.dimension + len(pieces) + len(owners) > LARGEST:
        return solution
    # Slope in x; the sum of every piece; the slope in every client's multiplier.
    slopes = np.zeros((len(active), len(owners)))
    slopes[np.arange(len(active)), owner] = cuts.slope[active] / max(server.unit, 1e-300)
    scaled = cuts.g[active] * server.scale
    B = np.column_stack([scaled, np.eye(len(pieces))[piece], slopes])
    wanted = np.zeros(B.shape[1])
    wanted[: server.dimension] = _wanted(server, cuts, solution) * server.scale
    wanted[server.dimension :] = a[active] @ B[:, server.dimension :]
    change = wanted - a[active] @ B
    root = np.sqrt(a[active])
    try:
        t = np.linalg.lstsq((B * root[:, None]).T, change, rcond=1e-9)[0]
    except np.linalg.LinAlgError:
        return solution
    a[active] = np.maximum(a[active] + root * t, 0.0)
    return replace(solution, cuts=a)


def _wanted(server: ServerProblem, cuts: Cuts, solution: Solution) -> Array:
    """The slope with b cancelled, drawn into the ball that the radii pay for."""
    wanted = solution.cuts @ cuts.g
    wanted[server.n :] = 0.0
    if not server.priced:
        wanted[: server.n] = 0.0
        return wanted
    paid = max(float(solution.weights @ server.rho + solution.cuts @ cuts.slope), 0.0)
    need = server.gauge.polar(wanted[: server.n])
    if need > paid:
        # A little inside, so that what rounding is left does not stick out.
        wanted[: server.n] *= paid / need * (1.0 - 1e-12)
    return wanted


def counterweigh(server: ServerProblem, pool: Pool, cuts: Cuts, solution: Solution) -> Solution:
    """Multipliers whose intercept slope cancels, by the move that costs least at the solution."""
    a, lean = np.maximum(solution.cuts, 0.0), cuts.g[:, server.n]
    rest, P = float(a @ lean), len(pool.piece_share)
    total, slope = sums(cuts.piece, a, P), sums(cuts.piece, a * lean, P)
    gained = slope[cuts.piece] - total[cuts.piece] * lean
    share = rest / np.where(gained == 0.0, np.inf, gained)
    possible = (share > 0.0) & (share <= MOST)
    if not possible.any():
        return solution
    values = cuts.c + cuts.g @ solution.x + cuts.slope * server.gauge.value(solution.x)
    lost = sums(cuts.piece, a * values, P)[cuts.piece] - total[cuts.piece] * values
    k = int(np.argmin(np.where(possible, share * lost, np.inf)))
    a = a * np.where(cuts.piece == cuts.piece[k], 1.0 - share[k], 1.0)
    a[k] += share[k] * total[cuts.piece[k]]
    return replace(solution, cuts=a)
