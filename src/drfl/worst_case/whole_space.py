r"""The worst-case loss on the whole space, in closed form.

Margin losses, with :math:`t_i=(L(-m_i)-L(m_i))/\kappa` and :math:`t_{(k)}` the first in descending
order with :math:`p_{(1)}+\dots+p_{(k)}>\rho/\kappa`:

.. math::
    \lambda^*=\max(\|w\|_*,t_{(k)}),\qquad
    F=\rho\lambda^*+\sum_i p_i\max\{L(m_i),\,L(-m_i)-\kappa\lambda^*\}.

Regression: :math:`F=\sum_i p_iL(r_i)+\rho\,\mathrm{Lip}(L)\max(\|w\|_*,1/\kappa)`.
Two passes over the data, which is the floor; a finite label cost adds one selection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.rows import Rows
from drfl.rows.operator import FEW
from drfl.uncertainty import Ball
from drfl.worst_case.escape import Atoms, spend
from drfl.worst_case.oracle import Distribution, Oracle, WorstCase

# Margins are looked at so many at a time.
CHUNK = 65_536
# Margins in the sample that tells where a weighted quantile is.
SAMPLE = 16_384


@dataclass(frozen=True)
class Flips:
    """Whose label the adversary flips: margins above ``cut``, and a share of those at it.

    The gain of a flip increases with the margin, so two numbers say it for all rows.
    """

    margins: Array = field(repr=False)
    cut: float
    share_at_cut: float
    multiplier: float
    mass: float
    """Flipped mass in all: at most radius / label_cost."""
    excess: float
    r""":math:`\sum_i p_i(L(-m_i)-L(m_i)-\kappa\lambda^*)_+`."""

    @property
    def rows(self) -> NDArray[np.intp]:
        """The rows that flip, wholly or in part."""
        return self.among(slice(None))

    @property
    def share(self) -> Array:
        """The share of the mass of each of these rows that flips."""
        return self.share_of(self.margins[self.rows])

    def among(self, chunk: slice) -> NDArray[np.intp]:
        """Where in a chunk the rows are that flip."""
        m = self.margins[chunk]
        return np.flatnonzero(m >= self.cut if self.share_at_cut > 0.0 else m > self.cut)

    def share_of(self, m: Array) -> Array:
        """The share that flips of rows with margins m, at the cut or above."""
        return np.where(m > self.cut, 1.0, self.share_at_cut)


class WholeSpaceOracle(Oracle):
    """F on the whole space; the support of the ball is not looked at."""

    @property
    def labels_move(self) -> bool:
        """Whether labels can flip: a margin loss, a finite label cost and a budget."""
        return self.is_margin and math.isfinite(self.ball.label_cost) and self.ball.radius > 0.0

    def evaluate(self, w: Array, b: float) -> WorstCase:
        norm = self.ball.norm.dual(w)
        margins = np.empty(self.rows.n_rows) if self.labels_move else None
        mean, g, gb = self._empirical(w, b, margins)
        if margins is None:
            lam, slope = self.fixed_multiplier(norm)
            value = mean + self.ball.radius * lam
        else:
            flips = self.flips(margins, norm)
            lam = flips.multiplier
            value = mean + self.ball.radius * lam + flips.excess
            # Once a row's gain sets the multiplier, F does not see ||w||_* any more.
            slope = self.ball.radius - self.ball.label_cost * flips.mass if lam == norm else 0.0
            dg, dgb = self._flip_gradient(flips)
            g, gb = g + dg, gb + dgb
        g = g + slope * self.ball.norm.steepest(w)
        return WorstCase(value, g, gb, lam, lambda: self.distribution(w, b))

    def _empirical(self, w: Array, b: float, margins: Array | None) -> tuple[float, Array, float]:
        """Mean loss and its gradient in one sweep; keeps the margins if asked."""
        rows, loss, y = self.rows, self.loss, self.rows.y
        total = 0.0

        def visit(block: slice, z: Array) -> Array:
            nonlocal total
            if self.is_margin:
                z *= y[block]
            else:
                z -= y[block]
            if margins is not None:
                margins[block] = z
            value, v = loss.value_and_slope(z)
            total += rows.mean(value, block)
            v *= rows.mass(block)
            if self.is_margin:
                v *= y[block]
            return v

        g, gb = rows.sweep(w, b, visit)
        return total, g, gb

    def fixed_multiplier(self, norm: float) -> tuple[float, float]:
        """lambda* where no label flips, and dF/d||w||_*."""
        lip = self.loss.lipschitz
        floor = 0.0 if self.is_margin else 1.0 / self.ball.label_cost
        return lip * max(norm, floor), (self.ball.radius * lip if norm >= floor else 0.0)

    def flips(self, m: Array, norm: float) -> Flips:
        """The optimal flips at margins m; the larger the margin, the larger the gain."""
        return best_flips(m, lambda some: flip_gain(self.loss, some), self.rows, self.ball, norm)

    def _flip_gradient(self, flips: Flips) -> tuple[Array, float]:
        """What flipping adds to the gradient; the margins become the weights of the rows."""
        rows, slope, v = self.rows, self.loss.slope, flips.margins
        for chunk in _chunks(len(v)):
            at = flips.among(chunk) + chunk.start
            m = v[at]
            v[chunk] = 0.0
            v[at] = -flips.share_of(m) * rows.masses(at) * rows.y[at] * (slope(-m) + slope(m))
        if FEW * np.count_nonzero(v) > rows.n_rows:
            return rows.combine(v)
        turned = np.flatnonzero(v)
        return rows.combine_some(turned, v[turned])

    def distribution(self, w: Array, b: float) -> Distribution:
        """The rows, some with the other label, one of them moved with what is left of the budget.

        Mass moves along the steepest direction, where the loss grows at the rate Lip ||w||_* for
        ever. Where no row is on the linear part of its loss the supremum is only approached: a
        small mass then moves very far.
        """
        rows, ball, norm = self.rows, self.ball, self.ball.norm.dual(w)
        every = np.arange(rows.n_rows)
        atoms = Atoms(every, rows.masses(every), rows.take(slice(None)), rows.y.copy())
        spare = ball.radius
        if self.labels_move:
            m = rows.y * rows.scores(w, b)
            flips = self.flips(m, norm)
            atoms = atoms.relabelled(flips.rows, flips.share, -atoms.y[flips.rows])
            spare = ball.radius - ball.label_cost * flips.mass if flips.multiplier == norm else 0.0
        return spend(atoms, spare, self, w, b)


def best_flips(
    m: Array, gain_of: Callable[[Array], Array], rows: Rows, ball: Ball, norm: float
) -> Flips:
    r"""The optimal flips of rows with gains that increase with m (N,).

    The rows with the largest gains flip until the mass :math:`\rho/\kappa` is used up, or
    until moving features, at the price ``norm``, pays more. Rows tied at the threshold
    share what is left in equal parts: the answer does not depend on the order of rows.
    """
    kappa = ball.label_cost
    budget = ball.radius / kappa
    threshold = _threshold(m, rows.p, budget)
    least = gain_of(np.array([threshold])).item() if threshold > 0.0 else 0.0
    features_pay = least <= kappa * norm
    price = kappa * norm if features_pay else least
    cut, above, at_cut, excess = threshold, 0.0, 0.0, 0.0
    for chunk in _chunks(len(m)):
        some = np.flatnonzero(m[chunk] >= threshold) + chunk.start
        ms, p = m[some], rows.masses(some)
        gain = gain_of(ms) - price
        whole = gain > 0.0 if features_pay else ms > threshold
        excess += float(p @ np.maximum(gain, 0.0))
        above += float(p[whole].sum())
        at_cut += float(p[~whole].sum())
        cut = max(cut, float(ms[~whole].max(initial=-math.inf)))
    share = 0.0 if features_pay else min(max((budget - above) / at_cut, 0.0), 1.0)
    lam = norm if features_pay else least / kappa
    return Flips(m, cut, share, lam, above + share * at_cut, excess)


def flip_gain(loss: Loss, m: Array) -> Array:
    """What flipping the label of a row with margin m adds to its loss."""
    return loss.value(-m) - loss.value(m)


def _threshold(m: Array, p: Array | None, budget: float) -> float:
    """The first of m in descending order at which the cumulated mass exceeds the budget."""
    if budget >= 1.0:
        return -math.inf
    if p is not None:
        return _weighted_threshold(m, p, budget)
    k = min(int(budget * len(m)) + 1, len(m))
    return float(np.partition(m, len(m) - k)[len(m) - k])  # in linear time


def _weighted_threshold(m: Array, p: Array, budget: float) -> float:
    """The same for rows of unequal mass: a sample tells where to look, few rows are sorted."""
    step = 1 + len(m) // SAMPLE
    order = np.argsort(-m[::step])
    sample, total = m[::step][order], np.cumsum(p[::step][order])
    guess = int(np.searchsorted(total, budget * total[-1]))
    width = 16 + len(sample) // 32
    while True:
        high = sample[guess - width] if guess >= width else math.inf
        low = sample[guess + width] if guess + width < len(sample) else -math.inf
        some = np.flatnonzero((m > low) & (m <= high))
        some = some[np.argsort(-m[some])]
        above = sum(float(p[chunk][m[chunk] > high].sum()) for chunk in _chunks(len(m)))
        k = int(np.searchsorted(above + np.cumsum(p[some]), budget, side="right"))
        if above <= budget and k < len(some):
            return float(m[some[k]])
        if len(some) == len(m):
            return -math.inf
        width *= 4


def _chunks(size: int) -> Iterator[slice]:
    for start in range(0, size, CHUNK):
        yield slice(start, min(start + CHUNK, size))
