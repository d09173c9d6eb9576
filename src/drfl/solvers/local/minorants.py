"""From the interior point to minorants of the rows.

The multipliers are those of a whole step. The method itself takes a part of it, since no row may
leave the interior; as a strategy each row may be stopped by itself, and hardly any is. The whole
step balances all slopes, which a lower bound needs most.
"""

from __future__ import annotations

import numpy as np

from drfl.arrays import Array
from drfl.solvers.local.certificate import Minorants, Whole
from drfl.solvers.local.entropy import Entropy, entropy
from drfl.solvers.local.interior import Interior
from drfl.solvers.local.lines import line_table
from drfl.solvers.local.pieces import Pieces
from drfl.solvers.local.selection import ACTIVE, Selection
from drfl.solvers.local.terms import Terms


def row_minorants(core: Interior, q: Array) -> tuple[Array, Array, Array]:
    """Constant, slope and pull of the rows in the stack, for these weights."""
    stack = core.stack
    P = stack.mass * stack.spread(q)
    constant, slope, pull = (np.zeros(len(P)) for _ in range(3))
    for kernel in core.kernels:
        own = core.gather(kernel, P)
        if isinstance(kernel, Entropy):
            slope -= own * kernel.full
            constant += own * entropy(kernel.full)
        else:
            for total, values in zip((constant, slope, pull), _pieces(kernel, own), strict=True):
                total += core.scatter(kernel, values)
    return constant, slope, pull


def _pieces(kernel: Pieces, P: Array) -> tuple[Array, Array, Array]:
    """Multipliers that sum to the mass exactly, and the line they make."""
    alpha = kernel.alpha * (P / kernel.alpha.sum(axis=0))
    constant, slope = (kernel.c * alpha).sum(axis=0), (kernel.a * alpha).sum(axis=0)
    if kernel.curved:
        G = slice(0, kernel.curved)
        net, total = (kernel.a[G] * alpha[G]).sum(axis=0), alpha[G].sum(axis=0)
        constant = constant - 0.5 * net * net / np.maximum(total, np.finfo(np.float64).tiny)
    pull = (kernel.e * alpha).sum(axis=0) if kernel.flips else np.zeros(len(P))
    return constant, slope, pull


def fixed_minorants(terms: Terms, whole: Whole, selection: Selection, q: Array) -> Minorants:
    """The lines of the rows that the method did not see; 0 for the others."""
    constant, slope, pull = (np.zeros(whole.size) for _ in range(3))
    for s, rows in enumerate([] if selection.complete else whole.clients):
        part = whole.part(s)
        line = selection.line[part]
        chosen = np.flatnonzero(line != ACTIVE)
        table = line_table(terms, s)[line[chosen]]
        mass = q[s] * rows.masses(chosen)
        slope[part][chosen] = mass * table[:, 0]
        constant[part][chosen] = mass * table[:, 1]
        pull[part][chosen] = mass * table[:, 2]
    return Minorants(q, constant, slope, pull)
