r"""Which rows the interior-point method has to see.

A row whose loss is on one line near the solution adds an affine function and nothing else. So
most rows are summed up once (two passes), and only those near a kink are variables. The choice
cannot make a bound wrong: a fixed row is a strategy of the adversary like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.solvers.local.certificate import Whole
from drfl.solvers.local.fixed import Fixed
from drfl.solvers.local.lines import line_table
from drfl.solvers.local.stack import Ints
from drfl.solvers.local.terms import Terms
from drfl.worst_case.whole_space import flip_gain

ACTIVE = -1


@dataclass(frozen=True)
class Selection:
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


def everything(terms: Terms, whole: Whole, samples: Sequence[Ints]) -> Selection:
    """All rows of the samples."""
    fixed = Fixed.nothing(len(samples), terms.d)
    line = np.full(whole.size, ACTIVE, dtype=np.int8)
    return Selection(list(samples), factors(whole, samples), fixed, line, complete=True)


def factors(whole: Whole, samples: Sequence[Ints]) -> Array:
    """What makes the masses of a sample sum to 1."""
    masses = [float(rows.masses(s).sum()) for rows, s in zip(whole.clients, samples, strict=True)]
    return np.array([1.0 / mass if mass > 0.0 else 0.0 for mass in masses])


def distances(
    terms: Terms, whole: Whole, samples: Sequence[Ints], z: Array, lam: Array
) -> tuple[list[Array], list[NDArray[np.intp]]]:
    """By how much each row's best line exceeds the second, and which line it is."""
    ahead, best = [], []
    for s, sample in enumerate(samples):
        table = line_table(terms, s)
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
    terms: Terms, whole: Whole, samples: Sequence[Ints], z: Array, lam: Array, share: float
) -> tuple[Selection, float]:
    """The given share of the rows, those nearest to a kink at z; and how near these are."""
    ahead, best = distances(terms, whole, samples, z, lam)
    width = _nearest(ahead, share)
    line = np.full(whole.size, ACTIVE, dtype=np.int8)
    active = []
    for s, sample in enumerate(samples):
        away = ahead[s] > width
        active.append(sample[~away])
        line[sample[away] + whole.starts[s]] = best[s][away]
    scale = factors(whole, samples)
    return Selection(active, scale, _sum_up(terms, whole, line, scale), line), width


def select_flips(
    terms: Terms, whole: Whole, samples: Sequence[Ints], z: Array, lam: Array, share: float
) -> tuple[Selection, float]:
    """All rows of a smooth loss; the given share of them, nearest to a flip, may flip or not.

    Of the others, those beyond the threshold are flipped for good.
    """
    gains = [flip_gain(terms.loss, z[whole.part(s)][sample]) for s, sample in enumerate(samples)]
    moves = np.isfinite(terms.kappa)
    beyond = [
        gain - terms.kappa[s] * lam[s] if moves[s] else np.full(len(gain), -np.inf)
        for s, gain in enumerate(gains)
    ]
    width = _nearest([np.abs(values) for values in beyond], share)
    line = np.full(whole.size, ACTIVE, dtype=np.int8)
    active, flipping, before = [], [], 0
    for s, sample in enumerate(samples):
        flipped = beyond[s] > width
        line[sample[flipped] + whole.starts[s]] = len(line_table(terms, s)) - 1
        # The logistic loss of a flipped row is still there: the flip only adds to it.
        seen = np.ones(len(sample), dtype=bool) if terms.loss.soft else ~flipped
        active.append(sample[seen])
        flipping.append(np.flatnonzero(np.abs(beyond[s][seen]) <= width) + before)
        before += len(active[-1])
    scale = factors(whole, samples)
    fixed = _sum_up(terms, whole, line, scale)
    return Selection(active, scale, fixed, line, np.concatenate(flipping)), width


def _nearest(values: Sequence[Array], share: float) -> float:
    """The value up to which this share of all values is."""
    flat = np.concatenate(values)
    k = min(int(share * len(flat)), len(flat) - 1)
    return float(np.partition(flat, k)[k])


def _sum_up(terms: Terms, whole: Whole, line: NDArray[np.int8], scale: Array) -> Fixed:
    """What the rows on lines add to the clients' losses."""
    S, d = len(scale), terms.d
    constant, g, pull = np.zeros(S), np.zeros((S, d)), np.zeros(S)
    for s, rows in enumerate(whole.clients):
        own = line[whole.part(s)]
        chosen = np.flatnonzero(own != ACTIVE)
        table = line_table(terms, s)[own[chosen]]
        mass = scale[s] * rows.masses(chosen)
        slope = mass * table[:, 0]
        constant[s], pull[s] = float(mass @ table[:, 1]), float(mass @ table[:, 2])
        v = np.zeros(rows.n_rows)
        v[chosen] = slope * rows.y[chosen] if terms.margin else slope
        sums = rows.combine(v)
        g[s] = np.append(sums[0] / terms.unit, sums[1])[:d]
        if not terms.margin:
            constant[s] -= float(slope @ rows.y[chosen])
    return Fixed(constant, g, pull)
