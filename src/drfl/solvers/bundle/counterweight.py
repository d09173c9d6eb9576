r"""Cancelling what is left of the intercept's slope.

A bound for every b needs :math:`g_b=0` exactly. Near the optimum all the cuts in use may lean the
same way by a hair, so that none of them can be lowered to cancel the others. An older cut of the
same piece that leans the other way can: the share :math:`\varepsilon` of the piece's multipliers
that has to be moved to it is as small as what is left. The result is only another trial: like all
multipliers it is reduced to what it proves.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from drfl.arrays import Array
from drfl.solvers.bundle.cuts import Cuts, Pool
from drfl.solvers.bundle.master import Solution
from drfl.solvers.bundle.terms import Terms

MOST = 0.5  # a larger share would not be a small correction


def counterweigh(pool: Pool, cuts: Cuts, solution: Solution, terms: Terms) -> Solution:
    """Multipliers whose intercept slope cancels, by the move that costs least at the solution."""
    a, lean = np.maximum(solution.cuts, 0.0), cuts.g[:, terms.n]
    rest = float(a @ lean)
    total, slope = _by_piece(pool, cuts, a), _by_piece(pool, cuts, a * lean)
    gained = slope[cuts.piece] - total[cuts.piece] * lean
    share = rest / np.where(gained == 0.0, np.inf, gained)
    possible = (share > 0.0) & (share <= MOST)
    if not possible.any():
        return solution
    values = cuts.c + cuts.g @ solution.x + cuts.slope * terms.norm_of(solution.x)
    lost = _by_piece(pool, cuts, a * values)[cuts.piece] - total[cuts.piece] * values
    k = int(np.argmin(np.where(possible, share * lost, np.inf)))
    a = a * np.where(cuts.piece == cuts.piece[k], 1.0 - share[k], 1.0)
    a[k] += share[k] * total[cuts.piece[k]]
    return replace(solution, cuts=a)


def _by_piece(pool: Pool, cuts: Cuts, values: Array) -> Array:
    return np.bincount(cuts.piece, values, len(pool.piece_share)).astype(np.float64, copy=False)
