"""The losses as lines for `Pieces`, and the logistic loss as entropy."""

from __future__ import annotations

import math

import numpy as np

from drfl.arrays import Array
from drfl.solvers.local.entropy import Entropy
from drfl.solvers.local.pieces import Pieces
from drfl.solvers.local.stack import Ints, Stack
from drfl.solvers.local.terms import Terms

Kernel = Pieces | Entropy


def make_kernels(terms: Terms, stack: Stack, flipping: Ints | None) -> tuple[Kernel, ...]:
    """The rows' losses.

    Parameters
    ----------
    terms, stack
        The problem and its rows.
    flipping : array, optional
        The rows that may flip, where that is not all of them.
    """
    smooth = not terms.loss.pieces
    if not (smooth and terms.flips):
        return (Entropy(),) if terms.loss.name == "logistic" else (_pieces(terms, stack),)
    flips = np.arange(len(stack.mass)) if flipping is None else flipping
    if terms.loss.name == "logistic":
        return (Entropy(), _pieces(terms, stack, flips))
    others = np.setdiff1d(np.arange(len(stack.mass)), flips, assume_unique=True)
    return (_pieces(terms, stack, flips), _pieces(terms, stack, others, lines=2))


def curved(terms: Terms) -> int:
    """How many of the lines have the curvature of a smooth loss between them."""
    return 2 if terms.loss.name in ("huber", "smooth_hinge") else 0


def line_table(terms: Terms, s: int) -> Array:
    r"""The lines of a client's rows, (K, 3): slope in z, constant, slope in lambda.

    Flips are the last line: for the hinge losses :math:`L(-z)-\kappa\lambda` may be replaced by
    the line it is on for z > 0, since no row with z < 0 gains from a flip. The logistic loss
    gains z by a flip, so that :math:`\max(0, z-\kappa\lambda)` is added to it. For a client
    whose labels do not move it is the line 0, which is below every loss.
    """
    name, flip = terms.loss.name, (1.0, 1.0)
    if name == "logistic":
        lines, flip = [(0.0, 0.0)], (1.0, 0.0)
    elif name == "huber":
        lines = [(terms.loss.lipschitz, 0.0), (-terms.loss.lipschitz, 0.0)]
    elif name == "smooth_hinge":
        lines, flip = [(0.0, 0.0), (-1.0, 1.0)], (1.0, 0.5)
    else:
        lines = [(piece.slope, piece.constant) for piece in terms.loss.pieces]
    table = [(a, c, 0.0) for a, c in lines]
    if terms.flips:
        kappa = float(terms.kappa[s])
        table.append((*flip, -kappa) if math.isfinite(kappa) else (0.0, 0.0, 0.0))
    return np.array(table)


def _pieces(terms: Terms, stack: Stack, at: Ints | None = None, lines: int = 3) -> Pieces:
    """The first so many lines of these rows."""
    tables = [line_table(terms, s)[:lines] for s in range(len(terms.rho))]
    if len(tables) == 1 or not terms.flips or lines < 3:
        a, c, e = (tables[0][:, k : k + 1].copy() for k in range(3))
    else:
        client = stack.client if at is None else stack.client[at]
        whole = np.array(tables)[client]
        a, c, e = (np.ascontiguousarray(whole[:, :, k].T) for k in range(3))
    return Pieces(a, c, e, curved(terms), at)
