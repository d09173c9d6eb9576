r"""The worst-case loss of K scores at once, on the whole space, in closed form.

With :math:`\Lambda(W)=\max_{j<k}\|W_j-W_k\|_*`, gains
:math:`t_i=\max_{y'\ne y_i}(\ell(z_i,y')-\ell(z_i,y_i))/\kappa` and :math:`t_{(k)}` the first in
descending order at which the mass exceeds :math:`\rho/\kappa`:

.. math::
    \lambda^*=\max(\Lambda(W),t_{(k)}),\qquad
    F=\rho\lambda^*+\sum_i p_i\max_{y'}\{\ell(z_i,y')-\kappa\lambda^*[y'\ne y_i]\}.

All pairs of classes count, also where labels never move and a class has no rows here: it is the
limit of large :math:`\kappa`, and covers rows of classes that are yet to come. Exact is the value
wherever one of the dearest pair has rows, or labels move.
"""

from __future__ import annotations

import math

import numpy as np

from drfl.arrays import Array
from drfl.gauges import Pairs
from drfl.losses.joint import Codes, JointLoss, gain, turn
from drfl.rows import Rows
from drfl.supports import WholeSpace
from drfl.uncertainty import Ball
from drfl.worst_case.escape import TOLERANCE, Atoms
from drfl.worst_case.oracle import Distribution, Oracle, WorstCase
from drfl.worst_case.whole_space import Flips, best_flips


class JointOracle(Oracle):
    """F of one client with K classes; y are their numbers, 0 to K - 1."""

    loss: JointLoss  # type: ignore[assignment]

    def __init__(self, rows: Rows, loss: JointLoss, ball: Ball, classes: int) -> None:
        require_joint_ball(ball)
        self.rows, self.loss, self.ball, self.classes = rows, loss, ball, classes
        self.y = codes_of(rows.y, classes)
        assert Pairs.knows(ball.norm)
        self.gauge = Pairs(ball.norm, classes, rows.n_features)

    @property
    def labels_move(self) -> bool:
        """Whether labels can move: a finite label cost and a budget."""
        return math.isfinite(self.ball.label_cost) and self.ball.radius > 0.0

    @property
    def is_margin(self) -> bool:
        return True

    @property
    def class_masses(self) -> Array:
        """The masses of the classes (K,)."""
        masses = np.broadcast_to(np.asarray(self.rows.mass()), self.y.shape)
        found = np.bincount(self.y, weights=masses, minlength=self.classes)
        return np.asarray(found, dtype=np.float64)

    def flips(self, gains: Array, price: float) -> Flips:
        """Whose label moves, at such gains (N,)."""
        return best_flips(gains, lambda some: some, self.rows, self.ball, price)

    def evaluate(self, w: Array, b: float | Array) -> WorstCase:
        """F and a subgradient at W (K, n) and b (K,)."""
        W, b, rows = w, np.broadcast_to(b, (self.classes,)), self.rows
        price = self.gauge.value(W.ravel())
        z = rows.scores_many(W, b)
        mean = rows.mean(self.loss.value(z, self.y))
        v, lam, excess, slope = self.loss.slope(z, self.y), price, 0.0, self.ball.radius
        if self.labels_move:
            gains, target = gain(self.loss, z, self.y)
            flips = self.flips(gains, price)
            at = flips.rows
            change = turn(self.loss, z[:, at], self.y[at], target[at])
            v[:, at] += flips.share * change
            lam, excess = flips.multiplier, flips.excess
            slope = slope - self.ball.label_cost * flips.mass if lam == price else 0.0
        v *= rows.mass()
        g, gb = rows.combine_many(v)
        g = g[:, 0] + slope * self.gauge.subgradient(W.ravel()).reshape(W.shape)
        value = mean + self.ball.radius * lam + excess
        return WorstCase(value, g, gb[:, 0], lam, lambda: self.distribution(W, b))

    def distribution(self, w: Array, b: float | Array) -> Distribution:
        """The rows, some with another label, one of them moved with what is left of the budget.

        Only rows of the two dearest classes can go to infinity at the rate of the gauge. Where
        there are none the value is that of all pairs, and ``tolerance`` says what is missing.
        """
        W, b, rows = w, np.broadcast_to(b, (self.classes,)), self.rows
        every = np.arange(rows.n_rows)
        atoms = Atoms(every, rows.masses(every), rows.take(slice(None)), rows.y.copy())
        value, spare = self.evaluate(W, b).value, self.ball.radius
        price = self.gauge.value(W.ravel())
        if self.labels_move:
            z = rows.scores_many(W, b)
            gains, target = gain(self.loss, z, self.y)
            flips = self.flips(gains, price)
            labels = target[flips.rows].astype(np.float64)
            atoms = atoms.relabelled(flips.rows, flips.share, labels)
            at_price = flips.multiplier == price
            spare = self.ball.radius - self.ball.label_cost * flips.mass if at_price else 0.0
        atoms = atoms.present()
        if spare > 0.0 and price > 0.0:
            atoms = self._escaped(atoms, spare, W, b, value)
        return self._described(atoms, W, b, value)

    def _escaped(self, atoms: Atoms, spare: float, W: Array, b: Array, value: float) -> Atoms:
        """A part of one atom goes where its loss grows fastest, as far as is left."""
        losses = self._losses(atoms, W, b)
        best: tuple[float, float, int, Array] | None = None
        for y in np.unique(atoms.y).astype(np.intp):
            rates = np.array([self.ball.norm.dual(row - W[y]) for row in W])
            j, own = int(np.argmax(rates)), np.flatnonzero(atoms.y == y)
            # What an atom loses on its way to the line z_j - z_y under its loss.
            line = atoms.x[own] @ (W[j] - W[y]) + b[j] - b[y] + self.loss.end
            lost = losses[own] - line
            k = int(np.argmin(lost))
            if best is None or (rates[j], -lost[k]) > (best[0], -best[1]):
                best = float(rates[j]), float(lost[k]), int(own[k]), W[j] - W[y]
        assert best is not None
        _, lost, k, along = best
        mass = float(atoms.mass[k])
        if lost > 1e-12 * max(value, 1.0):
            mass = min(mass, TOLERANCE * value / lost)
        return atoms.split(k, mass, spare / mass * self.ball.norm.steepest(along), 0.0)

    def _losses(self, atoms: Atoms, W: Array, b: Array) -> Array:
        scores = np.asarray(W @ atoms.x.T + b[:, None])
        return self.loss.value(scores, atoms.y.astype(np.intp))

    def _described(self, atoms: Atoms, W: Array, b: Array, value: float) -> Distribution:
        rows, ball, atoms = self.rows, self.ball, atoms.present()
        moved = ball.norm(atoms.x - rows.take(atoms.source))
        moved[atoms.y != rows.y[atoms.source]] += ball.label_cost
        losses = self._losses(atoms, W, b)
        missing = max(value - float(atoms.mass @ losses), 0.0)
        attained = missing <= 1e-12 * max(value, 1.0)
        return atoms.distribution(moved, losses, 0.0 if attained else missing)


def require_joint_ball(ball: Ball) -> None:
    """Several classes at once are solved on the whole space."""
    if not isinstance(ball.support, WholeSpace):
        raise ValueError(
            "several classes at once are solved where rows can be anywhere: within a support the "
            "worst case of the cross-entropy has no closed form, and that of the hinge loss none "
            "here; leave out the support, or take one class against the rest"
        )
    if ball.order != 1.0:
        raise ValueError("losses of scores take balls of order 1; other orders are for networks")


def codes_of(y: Array, classes: int) -> Codes:
    """The numbers of the classes, if y holds such numbers."""
    codes = y.astype(np.intp)
    if not ((codes == y) & (codes >= 0) & (codes < classes)).all():
        raise ValueError(
            f"{classes} classes at once need the labels 0 to {classes - 1}: number the classes so"
        )
    return codes
