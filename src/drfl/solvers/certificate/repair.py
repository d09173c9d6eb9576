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

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from drfl.arrays import Array
from drfl.solvers.certificate.cuts import Cuts, Ints, Pool, Solution, sums
from drfl.solvers.certificate.server import ServerProblem

LARGEST = 1500  # coefficients: more equations would be too dear
FEW = 100  # sums that stay what they are: so many are equations, too; more are projected out
SINGULAR = 1e-9  # relative: what is smaller is rounding
SMALLEST = 1e-10  # multipliers below this are rounding themselves

TRIES, BEYOND = 3, 1.1  # of a slope that is paid for; how far beyond the price they aim
LEAST_FACTOR = 0.9  # of the slope: asking for less would not be a small correction
MOST = 0.5  # a larger share would not be a small correction


def polish(server: ServerProblem, pool: Pool, cuts: Cuts, solution: Solution) -> Solution:
    """Multipliers near the given ones whose slope the norm's price covers, and whose b cancels."""
    a = np.where(solution.cuts > SMALLEST, solution.cuts, 0.0)
    active = np.flatnonzero(a)
    pieces, piece = np.unique(cuts.piece[active], return_inverse=True)
    owners, owner = np.unique(pool.piece_client[cuts.piece[active]], return_inverse=True)
    if not len(active) or server.dimension > LARGEST:
        return solution
    B, root = cuts.g[active] * server.scale, np.sqrt(a[active])
    slopes = cuts.slope[active] / max(server.unit, 1e-300)
    # The sum of every piece, and the slope in every client's multiplier, stay what they are.
    if len(pieces) + len(owners) <= FEW:
        held = np.zeros((len(active), len(owners)))
        held[np.arange(len(active)), owner] = slopes
        B = np.column_stack([B, np.eye(len(pieces))[piece], held])
        ways = columns = B * root[:, None]
    else:
        columns = B * root[:, None]
        ways = _ways(columns, root, slopes, piece, owner)
    # What is left of columns that no move can change is rounding.
    before, left = float(np.linalg.norm(columns)), float(np.linalg.norm(ways))
    if not left > SINGULAR * before:
        return solution
    singular = SINGULAR * (before / left)
    wanted = np.zeros(B.shape[1])
    wanted[server.dimension :] = a[active] @ B[:, server.dimension :]
    slope = _wanted(server, cuts, solution)

    def trial(factor: float) -> tuple[Array, float]:
        """Multipliers for so much of the slope, and their need as a multiple of the price."""
        wanted[: server.dimension] = factor * slope * server.scale
        t = np.linalg.lstsq(ways.T, wanted - a[active] @ B, rcond=singular)[0]
        found = np.maximum(a[active] + root * t, 0.0)
        return found, _overdrawn(server, cuts, solution, found @ cuts.g[active])

    try:
        a[active] = drawn_in(trial)
    except np.linalg.LinAlgError:
        return solution
    return replace(solution, cuts=a)


def _ways(columns: Array, root: Array, slopes: Array, piece: Ints, owner: Ints) -> Array:
    r"""What columns (K, m) are along moves that leave the sums of pieces and clients as they are.

    Multipliers move by :math:`\mathrm{root}\cdot t`: t is orthogonal to root within every piece,
    and to slopes times root within every client.
    """
    tilt = slopes * root
    left = _without(tilt[:, None], piece, root)[:, 0]
    faint = sums(owner, left**2, len(left)) <= SINGULAR**2 * sums(owner, tilt**2, len(left))
    left[faint[owner]] = 0.0  # its pieces hold it already
    return _without(_without(columns, piece, root), owner, left)


def _without(columns: Array, group: Ints, v: Array) -> Array:
    """Columns (K, m) without their parts along v (K,), group by group."""
    size = int(group.max()) + 1
    along = np.stack([sums(group, v * column, size) for column in columns.T], axis=1)
    length = sums(group, v * v, size)
    along /= np.where(length > 0.0, length, np.inf)[:, None]
    return np.asarray(columns - v[:, None] * along[group])


def drawn_in(trial: Callable[[float], tuple[Array, float]]) -> Array:
    """Multipliers whose slope is paid for: where some of it does not follow, the rest makes up.

    Slopes that few rows have can hardly be moved. What is left over falls linearly with the
    factor of the slope that is asked for, at a rate that two trials tell.
    """
    factor, rate = 1.0, 1.0
    found, over = trial(factor)
    for _ in range(TRIES):
        farther = factor - BEYOND * rate * (over - 1.0)
        if over <= 1.0 or farther < LEAST_FACTOR:
            break
        other, left = trial(farther)
        if not left < over:
            break
        rate = (factor - farther) / (over - left)
        factor, found, over = farther, other, left
    return found


def _overdrawn(server: ServerProblem, cuts: Cuts, solution: Solution, slope: Array) -> float:
    """The need of a slope as a multiple of what the radii pay; 1 if they pay nothing."""
    paid = float(solution.weights @ server.rho + solution.cuts @ cuts.slope)
    return server.gauge.polar(slope[: server.n]) / paid if paid > 0.0 else 1.0


def _wanted(server: ServerProblem, cuts: Cuts, solution: Solution) -> Array:
    """The slope with b cancelled, drawn into the ball that the radii pay for."""
    wanted = solution.cuts @ cuts.g
    wanted[server.n :] = 0.0
    if not server.priced or solution.weights @ server.rho + solution.cuts @ cuts.slope <= 0.0:
        wanted[: server.n] = 0.0
        return wanted
    over = _overdrawn(server, cuts, solution, wanted)
    if over > 1.0:
        # A little inside, so that what rounding is left does not stick out.
        wanted[: server.n] *= (1.0 - 1e-12) / over
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
