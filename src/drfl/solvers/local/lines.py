"""Losses that are made of lines, for `Pieces`, and the logistic loss as entropy."""

from __future__ import annotations

import math

import numpy as np

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.solvers.local.entropy import Entropy
from drfl.solvers.local.pieces import Pieces
from drfl.solvers.local.program import Program
from drfl.solvers.local.stack import Ints, Stack

Kernel = Pieces | Entropy
LOGISTIC = ((0.0, 0.0), (-1.0, 0.0))  # the lines whose soft maximum `Entropy` is


def has_kernel(loss: Loss, *, flips: bool) -> bool:
    """Whether the loss states the lines that this method works with, and those of its flips."""
    if loss.soft:
        return loss.soft == LOGISTIC
    return bool(loss.pieces or loss.rounded) and (loss.flipped is not None or not flips)


def make_kernels(program: Program, stack: Stack, flipping: Ints | None) -> tuple[Kernel, ...]:
    """The rows' losses.

    Parameters
    ----------
    program, stack
        The problem and its rows.
    flipping : array, optional
        The rows that may flip, where that is not all of them.
    """
    smooth = not program.loss.pieces
    if not (smooth and program.flips):
        return (Entropy(),) if program.loss.soft else (_pieces(program, stack),)
    flips = np.arange(len(stack.mass)) if flipping is None else flipping
    if program.loss.soft:
        return (Entropy(), _pieces(program, stack, flips))
    others = np.setdiff1d(np.arange(len(stack.mass)), flips, assume_unique=True)
    return (_pieces(program, stack, flips), _pieces(program, stack, others, lines=2))


def curved(program: Program) -> int:
    """How many of the lines have the curvature of a smooth loss between them."""
    return len(program.loss.rounded)


def line_table(program: Program, s: int) -> Array:
    r"""The lines of a client's rows, (K, 3): slope in z, constant, slope in lambda.

    Flips are the last line: :math:`L(-z)-\kappa\lambda` may be replaced by the line it is on for
    z > 0, since no row with z < 0 gains from a flip. The logistic loss gains z by a flip, so that
    :math:`\max(0, z-\kappa\lambda)` is added to it. For a client whose labels do not move it is
    the line 0, which is below every loss.
    """
    loss = program.loss
    lines = LOGISTIC[:1] if loss.soft else loss.pieces or loss.rounded
    table = [(a, c, 0.0) for a, c in lines]
    if program.flips:
        kappa, flip = float(program.kappa[s]), loss.flipped or (1.0, 0.0)
        table.append((*flip, -kappa) if math.isfinite(kappa) else (0.0, 0.0, 0.0))
    return np.array(table)


def _pieces(
    program: Program, stack: Stack, at: Ints | None = None, lines: int | None = None
) -> Pieces:
    """The lines of these rows, or the first so many of them."""
    tables = [line_table(program, s)[:lines] for s in range(len(program.rho))]
    if len(tables) == 1 or not program.flips or lines is not None:
        a, c, e = (tables[0][:, k : k + 1].copy() for k in range(3))
    else:
        client = stack.client if at is None else stack.client[at]
        whole = np.array(tables)[client]
        a, c, e = (np.ascontiguousarray(whole[:, :, k].T) for k in range(3))
    return Pieces(a, c, e, curved(program), at)
