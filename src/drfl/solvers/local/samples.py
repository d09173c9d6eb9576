r"""Which rows the interior-point method sees: samples that grow, and rows near a kink.

A row whose loss is on one line near the solution adds an affine function and nothing else. So
most rows are summed up once (two passes), and only those near a kink are variables. The choice
cannot make a bound wrong: a fixed row is a strategy of the adversary like any other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.rows import Rows
from drfl.solvers.local.pieces import line_table
from drfl.solvers.local.program import AllRows, Program
from drfl.solvers.local.stack import Ints
from drfl.worst_case.whole_space import flip_gain

FIRST = 1500  # rows of the first sample, at least
PER_COLUMN = 25  # and so many for each coefficient
FACTOR = 5  # samples grow by this
ENOUGH = 200  # a client with fewer rows is not sampled
SMOOTH_STRIDE, SMOOTH_ROWS = 7, 140  # of a smooth loss, if that leaves so many rows per coefficient

ACTIVE = -1  # not on a line for good


@dataclass(frozen=True)
class Fixed:
    r"""Rows that are known to stay on a line: :math:`F_s` gains an affine function of (x, lambda).

    Attributes
    ----------
    constant, pull : (S,)
        The value at 0, and the slope in the client's multiplier.
    g : (S, d)
        The slope in x.
    """

    constant: Array
    g: Array
    pull: Array

    @classmethod
    def nothing(cls, S: int, d: int) -> Fixed:
        """No row is fixed."""
        return cls(np.zeros(S), np.zeros((S, d)), np.zeros(S))


@dataclass(frozen=True)
class Sample:
    """Rows of a sample, some fixed.

    Attributes
    ----------
    active : list of arrays, one per client
        The rows that the method sees.
    factors : (S,)
        What the masses of a client's sample are multiplied with, so that they sum to 1.
    fixed : Fixed
        What the other rows of the sample add up to.
    line : (N,)
        On which line a row is fixed; `ACTIVE` if it is not.
    flipping : array, optional
        Which of the active rows have a line for their flip; None: all that could.
    complete : bool
        Whether every row is seen with all its lines.
    """

    active: list[Ints]
    factors: Array
    fixed: Fixed
    line: NDArray[np.int8]
    flipping: Ints | None = None
    complete: bool = False


def everything(program: Program, whole: AllRows, samples: Sequence[Ints]) -> Sample:
    """All rows of the samples."""
    fixed = Fixed.nothing(len(samples), program.d)
    line = np.full(whole.size, ACTIVE, dtype=np.int8)
    return Sample(list(samples), factors(whole, samples), fixed, line, complete=True)


def factors(whole: AllRows, samples: Sequence[Ints]) -> Array:
    """What makes the masses of a sample sum to 1."""
    masses = [float(rows.masses(s).sum()) for rows, s in zip(whole.clients, samples, strict=True)]
    return np.array([1.0 / mass if mass > 0.0 else 0.0 for mass in masses])


def distances(
    program: Program, whole: AllRows, samples: Sequence[Ints], z: Array, lam: Array
) -> tuple[list[Array], list[NDArray[np.intp]]]:
    """By how much each row's best line exceeds the second, and which line it is."""
    ahead, best = [], []
    for s, sample in enumerate(samples):
        table = line_table(program, s)
        values = table[:, :1] * z[whole.part(s)][sample]
        values += table[:, 1:2] + table[:, 2:] * lam[s]
        top = values.argmax(axis=0)
        at = np.arange(len(sample))
        highest = values[top, at]
        values[top, at] = -np.inf
        ahead.append(highest - values.max(axis=0))
        best.append(top)
    return ahead, best


def select(
    program: Program, whole: AllRows, samples: Sequence[Ints], z: Array, lam: Array, share: float
) -> tuple[Sample, float]:
    """The given share of the rows, those nearest to a kink at z; and how near these are."""
    ahead, best = distances(program, whole, samples, z, lam)
    width = _nearest(ahead, share)
    line = np.full(whole.size, ACTIVE, dtype=np.int8)
    active = []
    for s, sample in enumerate(samples):
        away = ahead[s] > width
        active.append(sample[~away])
        line[sample[away] + whole.starts[s]] = best[s][away]
    scale = factors(whole, samples)
    return Sample(active, scale, _sum_up(program, whole, line, scale), line), width


def select_flips(
    program: Program, whole: AllRows, samples: Sequence[Ints], z: Array, lam: Array, share: float
) -> tuple[Sample, float]:
    """All rows of a smooth loss; the given share of them, nearest to a flip, may flip or not.

    Of the others, those beyond the threshold are flipped for good.
    """
    gains = [flip_gain(program.loss, z[whole.part(s)][sample]) for s, sample in enumerate(samples)]
    moves = np.isfinite(program.kappa)
    beyond = [
        gain - program.kappa[s] * lam[s] if moves[s] else np.full(len(gain), -np.inf)
        for s, gain in enumerate(gains)
    ]
    width = _nearest([np.abs(values) for values in beyond], share)
    line = np.full(whole.size, ACTIVE, dtype=np.int8)
    active, flipping, before = [], [], 0
    for s, sample in enumerate(samples):
        flipped = beyond[s] > width
        line[sample[flipped] + whole.starts[s]] = len(line_table(program, s)) - 1
        # The logistic loss of a flipped row is still there: the flip only adds to it.
        seen = np.ones(len(sample), dtype=bool) if program.loss.soft else ~flipped
        active.append(sample[seen])
        flipping.append(np.flatnonzero(np.abs(beyond[s][seen]) <= width) + before)
        before += len(active[-1])
    scale = factors(whole, samples)
    fixed = _sum_up(program, whole, line, scale)
    return Sample(active, scale, fixed, line, np.concatenate(flipping)), width


def _nearest(values: Sequence[Array], share: float) -> float:
    """The value up to which this share of all values is."""
    flat = np.concatenate(values)
    k = min(int(share * len(flat)), len(flat) - 1)
    return float(np.partition(flat, k)[k])


def _sum_up(program: Program, whole: AllRows, line: NDArray[np.int8], scale: Array) -> Fixed:
    """What the rows on lines add to the clients' losses."""
    S, d = len(scale), program.d
    constant, g, pull = np.zeros(S), np.zeros((S, d)), np.zeros(S)
    for s, rows in enumerate(whole.clients):
        own = line[whole.part(s)]
        chosen = np.flatnonzero(own != ACTIVE)
        table = line_table(program, s)[own[chosen]]
        mass = scale[s] * rows.masses(chosen)
        slope = mass * table[:, 0]
        constant[s], pull[s] = float(mass @ table[:, 1]), float(mass @ table[:, 2])
        v = np.zeros(rows.n_rows)
        v[chosen] = slope * rows.y[chosen] if program.margin else slope
        sums = rows.combine(v)
        g[s] = np.append(sums[0] / program.unit, sums[1])[:d]
        if not program.margin:
            constant[s] -= float(slope @ rows.y[chosen])
    return Fixed(constant, g, pull)


# ---------------------------------------------------------------------------- samples
def strides(program: Program, n_rows: int) -> list[int]:
    """Every so many rows are looked at, then more, in the end all."""
    first = max(FIRST, PER_COLUMN * program.d)
    steps, step = [1], FACTOR
    while n_rows > first * step:
        steps.append(step)
        step *= FACTOR
    if program.loss.pieces or program.flips:
        return steps[::-1]
    # Newton's method on a smooth loss needs one good guess, and no path of them.
    if len(steps) > 1 and n_rows >= SMOOTH_STRIDE * SMOOTH_ROWS * program.d:
        return [SMOOTH_STRIDE, 1]
    return steps[1::-1]


def spread_rows(program: Program, clients: Sequence[Rows], stride: int) -> list[Ints]:
    """The rows of every client that are looked at: evenly spread, and those that count."""
    mixture, samples = program.mixture, []
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
