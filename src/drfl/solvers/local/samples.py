"""Samples of the rows, each a few times as large as the one before."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from drfl.rows import Rows
from drfl.solvers.local.stack import Ints
from drfl.solvers.local.terms import Terms

FIRST = 1500  # rows of the first sample, at least
PER_COLUMN = 25  # and so many for each coefficient
FACTOR = 5  # samples grow by this
ENOUGH = 200  # a client with fewer rows is not sampled
SMOOTH_STRIDE, SMOOTH_ROWS = 7, 140  # of a smooth loss, if that leaves so many rows per coefficient


def strides(terms: Terms, n_rows: int) -> list[int]:
    """Every so many rows are looked at, then more, in the end all."""
    first = max(FIRST, PER_COLUMN * terms.d)
    steps, step = [1], FACTOR
    while n_rows > first * step:
        steps.append(step)
        step *= FACTOR
    if terms.loss.pieces or terms.flips:
        return steps[::-1]
    # Newton's method on a smooth loss needs one good guess, and no path of them.
    if len(steps) > 1 and n_rows >= SMOOTH_STRIDE * SMOOTH_ROWS * terms.d:
        return [SMOOTH_STRIDE, 1]
    return steps[1::-1]


def sample(terms: Terms, clients: Sequence[Rows], stride: int) -> list[Ints]:
    """The rows of every client that are looked at: evenly spread, and those that count."""
    mixture, samples = terms.mixture, []
    for s, rows in enumerate(clients):
        step = max(1, min(stride, rows.n_rows // ENOUGH))
        some = np.arange(step // 2, rows.n_rows, step)
        if rows.p is not None:
            some = some[rows.p[some] > 0.0]
            some = some if len(some) else np.flatnonzero(rows.p)
        if mixture.radius == 0.0 and mixture.weights[s] == 0.0:
            some = some[:0]
        samples.append(some)
    return samples


def typical_size(clients: Sequence[Rows]) -> float:
    """The typical size of a feature in a sample: the geometric mean over the columns."""
    parts = [rows.take(slice(None, None, 1 + rows.n_rows // FIRST)) for rows in clients]
    second = np.mean([np.einsum("ij,ij->j", part, part) / len(part) for part in parts], axis=0)
    second = second[second > 0.0]
    return math.exp(0.5 * float(np.log(second).mean())) if len(second) else 1.0
