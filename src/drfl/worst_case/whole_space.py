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
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drfl.losses import Array, Loss
from drfl.worst_case.escape import Atoms, spend
from drfl.worst_case.oracle import Distribution, Oracle, WorstCase


@dataclass(frozen=True)
class Flips:
    """Rows whose label the adversary flips, and the share of each row's mass that flips."""

    multiplier: float
    rows: NDArray[np.intp]
    share: Array
    mass: float
    """Flipped mass in all: at most radius / label_cost."""
    excess: float
    r""":math:`\sum_i p_i(L(-m_i)-L(m_i)-\kappa\lambda^*)` over the flipped rows."""


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
            dg, dgb = self.rows.combine_some(flips.rows, self.flip_weights(margins, flips))
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
        r"""The optimal flips at margins m.

        The gain :math:`L(-m)-L(m)` increases with m, so the rows with the largest margins flip
        until the mass :math:`\rho/\kappa` is used up. Rows tied at the threshold share what is
        left in equal parts: the answer does not depend on the order of rows.
        """
        kappa, rows = self.ball.label_cost, self.rows
        budget = self.ball.radius / kappa
        threshold = _threshold(m, rows.p, budget)
        above = np.flatnonzero(m > threshold)
        least = flip_gain(self.loss, np.array([threshold])).item() if threshold > 0.0 else 0.0
        if least <= kappa * norm:  # the price ||w||_* of moving features keeps labels in place
            above = above[flip_gain(self.loss, m[above]) > kappa * norm]
            p = rows.masses(above)
            excess = p @ (flip_gain(self.loss, m[above]) - kappa * norm)
            return Flips(norm, above, np.ones(len(above)), float(p.sum()), float(excess))
        tied = np.flatnonzero(m == threshold)
        p, p_tied = rows.masses(above), rows.masses(tied)
        excess = p @ (flip_gain(self.loss, m[above]) - least)
        share = np.ones(len(above) + len(tied))
        share[len(above) :] = np.clip((budget - p.sum()) / p_tied.sum(), 0.0, 1.0)
        return Flips(least / kappa, np.concatenate([above, tied]), share, budget, float(excess))

    def flip_weights(self, m: Array, flips: Flips) -> Array:
        """What flipping adds to the weights v of the flipped rows."""
        mf = m[flips.rows]
        turn = self.loss.slope(-mf) + self.loss.slope(mf)
        return -flips.share * self.rows.masses(flips.rows) * self.rows.y[flips.rows] * turn

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
            atoms = atoms.flipped(flips.rows, flips.share)
            spare = ball.radius - ball.label_cost * flips.mass if flips.multiplier == norm else 0.0
        return spend(atoms, spare, self, w, b)


def flip_gain(loss: Loss, m: Array) -> Array:
    """What flipping the label of a row with margin m adds to its loss."""
    return loss.value(-m) - loss.value(m)


def _threshold(m: Array, p: Array | None, budget: float) -> float:
    """The first of m in descending order at which the cumulated mass exceeds the budget."""
    if p is None:  # a selection in linear time
        k = int(budget * len(m)) + 1
        return float(np.partition(m, len(m) - k)[len(m) - k]) if k <= len(m) else -math.inf
    order = np.argsort(-m)
    k = int(np.searchsorted(np.cumsum(p[order]), budget, side="right"))
    return float(m[order[k]]) if k < len(m) else -math.inf
