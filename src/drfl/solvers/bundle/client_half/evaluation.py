r"""What a client computes at a point: its worst-case loss, and cuts that lie below it.

What a cut is a function of depends on the support; see `ServerProblem`.

- Whole space: with :math:`u(x,\lambda)=\sum_ip_i\max\{L(m_i),L(-m_i)-\kappa\lambda\}`,
  :math:`F(x)=\min_{\lambda\ge\|w\|_*}\rho\lambda+u(x,\lambda)`, and a cut is a tangent of u in
  :math:`(x,\lambda)`. Where :math:`L(-m)-L(m)=m`, as for the logistic loss, u is the sum of two
  convex functions, :math:`\sum_ip_iL(m_i)` and :math:`\sum_ip_i(m_i-\kappa\lambda)_+`, and each
  has cuts of its own: the first one stays smooth.
- Box, l1, slopes of size 1: a row on a piece of slope :math:`\alpha=\pm1` is worth
  :math:`\alpha(b+\langle m,w\rangle)+\alpha\langle\omega,x_i-m\rangle+\tau+c`, less
  :math:`\kappa\lambda` if it is flipped, and a cut is a sum of such rows, linear in
  :math:`(x,\omega,\tau,\lambda)`.
- Otherwise a cut is a tangent of F itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from drfl.arrays import Array
from drfl.solvers.certificate.server import is_lifted
from drfl.supports import Box
from drfl.worst_case.boxes.l1_box import L1BoxOracle
from drfl.worst_case.gains import GainOracle
from drfl.worst_case.oracle import Oracle
from drfl.worst_case.whole_space import Flips, WholeSpaceOracle, flip_gain

Visit = Callable[[Array, slice], Array]

GROUP_ROWS = 50  # a group of fewer rows would tell too much of each


@dataclass(frozen=True)
class Evaluation:
    """What a client computed at a point; this never leaves it.

    Attributes
    ----------
    value, multiplier : float
        F and lambda*.
    cuts : (G, c)
        One cut per group: constant, [slope in lambda], [lift], slope in x. Split flips: one more
        per group, of what the flips add.
    share : (G,)
        The masses of the groups.
    arguments : (N,)
        Margins or residuals, where the loss has its kinks.
    flipped : float
        How many rows are flipped, those flipped in part by their share.
    split : bool
        Whether what flips add has cuts of its own.
    intercept : float, or array of shape (K,)
        Of the client's own, where every client has one, or K.
    """

    value: float
    multiplier: float
    cuts: Array
    share: Array
    arguments: Array
    flipped: float = 0.0
    split: bool = False
    intercept: float | Array = 0.0

    @property
    def groups(self) -> int:
        """How many groups the rows are in."""
        return len(self.share)


class Evaluator(ABC):
    """Turns points into what a client sees there.

    ``shared`` says whether x ends with everybody's multiplier.
    """

    shared: ClassVar[bool] = False

    def __init__(self, oracle: Oracle) -> None:
        self.oracle, self.rows, self.loss = oracle, oracle.rows, oracle.loss

    @abstractmethod
    def evaluate(self, x: Array, groups: int) -> Evaluation:
        """Evaluate all rows at x = (w, b)."""

    def values(self, at: Evaluation) -> list[float]:
        """What is told of a point: F and, unless the norm of w gives it, the multiplier."""
        return [at.value, at.multiplier]

    def split(self, x: Array) -> tuple[Array, float]:
        """Coefficients and intercept."""
        n = self.rows.n_features
        return x[:n], float(x[n]) if len(x) > n else 0.0

    def arguments(self, w: Array, b: float) -> Array:
        """Margins or residuals (N,)."""
        return self.as_arguments(self.rows.scores(w, b))

    def as_arguments(self, z: Array, block: slice = slice(None)) -> Array:
        """Scores of a block of rows, in place, as arguments of the loss."""
        y = self.rows.y[block]
        if self.oracle.is_margin:
            z *= y
        else:
            z -= y
        return z

    def swept(self, w: Array, b: float, visit: Visit) -> tuple[Array, Array]:
        """Arguments (N,), and weighted sums (n + 1,) of the rows and of their weights, in one pass.

        ``visit(m, block)`` makes weights of the arguments of a block.
        """
        m = np.empty(self.rows.n_rows)

        def seen(block: slice, z: Array) -> Array:
            m[block] = self.as_arguments(z, block)
            return visit(z, block)

        g, gb = self.rows.sweep(w, b, seen)
        return m, np.append(g, gb)

    def weighted(self, slopes: Array, block: slice = slice(None)) -> Array:
        """Slopes in the arguments of a block, in place, as masses times slopes in the score."""
        if self.oracle.is_margin:
            slopes *= self.rows.y[block]
        slopes *= self.rows.mass(block)
        return slopes

    def shares(self, groups: int) -> tuple[Array, Array]:
        """The masses of the groups, and what to divide by: a weightless group says nothing."""
        masses = np.broadcast_to(self.rows.mass(), (self.rows.n_rows,))
        share = np.array([masses[k::groups].sum() for k in range(groups)])
        return share, np.where(share > 0.0, share, 1.0)

    def sums(self, values: Array, groups: int, block: slice = slice(0, None)) -> Array:
        """Sums of p_i values_i over those rows of the groups that are in a block."""
        weighted = self.rows.mass(block) * values
        firsts = ((k - block.start) % groups for k in range(groups))
        return np.array([weighted[first::groups].sum() for first in firsts])


class RowSums:
    """What the rows add up to, block by block: nothing here is as long as the rows."""

    def __init__(self, evaluator: Evaluator, groups: int) -> None:
        self.evaluator, self.groups = evaluator, groups
        self.mean, self.turned = 0.0, 0.0
        self.levels, self.flipped = np.zeros(groups), np.zeros(groups)

    def add(self, block: slice, losses: Array, slopes: Array, shares: Array | None) -> Array:
        """Add a block; the weights of its rows in a gradient."""
        evaluator = self.evaluator
        self.mean += evaluator.rows.mean(losses, block)
        self.levels += evaluator.sums(losses, self.groups, block)
        if shares is not None:
            self.flipped += evaluator.sums(shares, self.groups, block)
            self.turned += float(shares.sum())
        return evaluator.weighted(slopes, block)


class WholeSpaceEvaluator(Evaluator):
    """Cuts in x, and in lambda where labels move."""

    oracle: WholeSpaceOracle

    def values(self, at: Evaluation) -> list[float]:
        return super().values(at) if self.oracle.labels_move else [at.value]

    def evaluate(self, x: Array, groups: int) -> Evaluation:
        w, b = self.split(x)
        if self.oracle.labels_move or groups > 1:
            return self.at_arguments(x, self.arguments(w, b), groups)
        tally = RowSums(self, 1)
        m, sums = self.swept(w, b, lambda z, block: tally.add(block, *self.by_row(z)))
        return self._told(x, m, tally, sums[None], None)

    def at_arguments(self, x: Array, m: Array, groups: int = 1) -> Evaluation:
        """The same where the arguments of the loss at x are known: one pass less."""
        tally, flips = RowSums(self, groups), self.flips(m, self.split(x)[0])
        v = np.empty(len(m))
        for block in self.rows.blocks():
            v[block] = tally.add(block, *self.by_row(m[block], flips, block))
        g, gb = self.rows.group_sums(v, groups)
        return self._told(x, m, tally, np.column_stack([g, gb]), flips)

    def _told(
        self, x: Array, m: Array, tally: RowSums, g: Array, flips: Flips | None
    ) -> Evaluation:
        oracle, ball, groups = self.oracle, self.oracle.ball, tally.groups
        norm = ball.norm.dual(self.split(x)[0])
        lam = flips.multiplier if flips else oracle.fixed_multiplier(norm)[0]
        share, safe = self.shares(groups)
        g = g[:, : len(x)] / safe[:, None]
        level = tally.levels / safe - g @ x
        columns = [level, g]
        if flips is not None:
            slope = -ball.label_cost * tally.flipped / safe
            columns = [level - slope * lam, slope, g]
        value = tally.mean + ball.radius * lam
        return Evaluation(value, lam, np.column_stack(columns), share, m, tally.turned)

    def flips(self, m: Array, w: Array) -> Flips | None:
        """Who flips at these margins; None if no label moves."""
        oracle = self.oracle
        return oracle.flips(m, oracle.ball.norm.dual(w)) if oracle.labels_move else None

    def by_row(
        self, m: Array, flips: Flips | None = None, block: slice = slice(None)
    ) -> tuple[Array, Array, Array | None]:
        """Loss, slope in the argument and flipped share of the rows of a block."""
        loss, ball = self.loss, self.oracle.ball
        losses, slopes = loss.value_and_slope(m)
        if flips is None:
            return losses, slopes, None
        at, shares = flips.among(block), np.zeros(len(m))
        mf = m[at]
        shares[at] = share = flips.share_of(mf)
        slopes[at] -= share * (loss.slope(-mf) + slopes[at])
        price = ball.label_cost * flips.multiplier
        losses[at] += np.maximum(flip_gain(loss, mf) - price, 0.0)
        return losses, slopes, shares


class SplitEvaluator(Evaluator):
    r"""Cuts of the mean loss, and cuts of :math:`\sum_ip_i(m_i-\kappa\lambda)_+`: 2G in all."""

    oracle: WholeSpaceOracle

    def evaluate(self, x: Array, groups: int) -> Evaluation:
        oracle, ball, (w, b) = self.oracle, self.oracle.ball, self.split(x)
        losses, gains = RowSums(self, groups), RowSums(self, groups)
        m = self.arguments(w, b)
        flips = oracle.flips(m, ball.norm.dual(w))
        lam = flips.multiplier
        v, turned = np.empty(len(m)), np.empty(len(m))
        for block in self.rows.blocks():
            v[block] = losses.add(block, *self.loss.value_and_slope(m[block]), None)
            turned[block] = gains.add(block, *self._gains(m[block], flips, block))
        share, safe = self.shares(groups)
        slope = -ball.label_cost * gains.flipped / safe
        zero = np.zeros(groups)
        cuts = np.vstack(
            [
                self._cuts(losses.levels / safe, zero, v, x, lam),
                self._cuts(gains.levels / safe, slope, turned, x, lam),
            ]
        )
        value = losses.mean + gains.mean + ball.radius * lam
        return Evaluation(value, lam, cuts, share, m, gains.turned, split=True)

    def _gains(self, m: Array, flips: Flips, block: slice) -> tuple[Array, Array, Array]:
        """What flipping adds to the losses of a block, its slope in the argument, and who flips."""
        at, gain, shares = flips.among(block), np.zeros(len(m)), np.zeros(len(m))
        shares[at] = flips.share_of(m[at])
        gain[at] = np.maximum(m[at] - self.oracle.ball.label_cost * flips.multiplier, 0.0)
        return gain, shares.copy(), shares

    def _cuts(self, level: Array, slope: Array, v: Array, x: Array, lam: float) -> Array:
        """One cut per group (G, 2 + d), of its level at x, slope in lambda and rows' weights."""
        groups = len(level)
        g, gb = self.rows.group_sums(v, groups)
        g = np.column_stack([g, gb])[:, : len(x)] / self.shares(groups)[1][:, None]
        return np.column_stack([level - g @ x - slope * lam, slope, g])


class SharedEvaluator(Evaluator):
    """The multiplier is the last entry of x: cuts of the mean loss at that price."""

    shared = True
    oracle: WholeSpaceOracle

    def evaluate(self, x: Array, groups: int) -> Evaluation:
        loss, kappa, tally = self.loss, self.oracle.ball.label_cost, RowSums(self, 1)
        lam, (w, b) = float(x[-1]), self.split(x[:-1])

        def visit(m: Array, block: slice) -> Array:
            losses, slopes = loss.value_and_slope(m)
            if not self.oracle.labels_move:
                return tally.add(block, losses, slopes, None)
            excess = flip_gain(loss, m) - kappa * lam
            flipped = np.flatnonzero(excess > 0.0)
            losses[flipped] += excess[flipped]
            slopes[flipped] = -loss.slope(-m[flipped])
            return tally.add(block, losses, slopes, (excess > 0.0).astype(np.float64))

        m, sums = self.swept(w, b, visit)
        slope = -kappa * tally.flipped[0] if tally.turned else 0.0
        g = np.append(sums[: len(x) - 1], slope)
        cut = np.append(tally.mean - g @ x, g)[None]
        return Evaluation(tally.mean, lam, cut, np.ones(1), m, tally.turned)


class SharedSupportEvaluator(Evaluator):
    """The same on a support, block by block."""

    shared = True

    def evaluate(self, x: Array, groups: int) -> Evaluation:
        oracle, (w, b) = self.oracle, self.split(x[:-1])
        gains = GainOracle(oracle.rows, oracle.loss, oracle.ball)
        at = gains.at_price(w, b, float(x[-1]))
        radius = oracle.ball.radius
        g = np.append(at.gradient, at.intercept_gradient)[: len(x) - 1]
        g = np.append(g, at.slope - radius)
        value = at.value - radius * float(x[-1])
        cut = np.append(value - g @ x, g)[None]
        return Evaluation(value, float(x[-1]), cut, np.ones(1), self.arguments(w, b))


class BoxEvaluator(Evaluator):
    """Cuts in x, the clipped model and lambda."""

    oracle: L1BoxOracle

    def evaluate(self, x: Array, groups: int) -> Evaluation:
        oracle, rows, kappa = self.oracle, self.rows, self.oracle.ball.label_cost
        w, b = self.split(x)
        worst = oracle.evaluate(w, b)
        slopes, active, flipped, constants = self._pieces(w, b)
        share, safe = self.shares(groups)
        g, ga = rows.group_sums(self.weighted(slopes), groups)
        assert isinstance(oracle.ball.support, Box)
        low, high = oracle.ball.support.bounds(rows.n_features)
        middle, half = (low + high) / 2.0, (high - low) / 2.0
        omega = (g - ga[:, None] * middle) / safe[:, None]
        g, gb = ga[:, None] * middle / safe[:, None], ga / safe
        tau, lam = self.sums(active, groups) / safe, worst.multiplier
        slope = -kappa * self.sums(flipped, groups) / safe if flipped.any() else np.zeros(groups)
        if oracle.ball.radius == 0.0:  # lambda is infinite: nothing is clipped
            g, omega, tau = g + omega, np.zeros_like(omega), np.zeros(groups)
        level = self.sums(constants, groups) / safe
        columns = [level, slope, omega, tau, g, gb][: 6 if len(x) > len(w) else 5]
        clipped = np.clip(w, -lam, lam)
        reach = float(np.abs(w - clipped) @ half)
        m = self.arguments(clipped, b + float(middle @ (w - clipped)))
        m = m - reach if oracle.is_margin else m + np.sign(m) * reach
        cuts, turned = np.column_stack(columns), float(flipped.sum())
        return Evaluation(worst.value, lam, cuts, share, m, turned)

    def _pieces(self, w: Array, b: float) -> tuple[Array, Array, Array, Array]:
        """Slope, activity, flipped share and constant of each row, mixed over lambda."""
        rows, loss, margin = self.rows, self.loss, self.oracle.is_margin
        slopes, active, flipped, constants = np.zeros((4, rows.n_rows))
        parts = self.oracle.active(w, b)
        for part in parts:
            slopes += part.weight * (part.slope * rows.y if margin else part.slope)
            active += part.weight * np.abs(part.slope)
            flipped += part.weight * part.flipped
            constants += part.weight * part.constant
        if parts:
            return slopes, active, flipped, constants
        # The box plays no role: flips alone set the price, or there is no budget.
        whole = WholeSpaceEvaluator(WholeSpaceOracle(rows, loss, self.oracle.ball))
        m = whole.arguments(w, b)
        _, slopes, shares = whole.by_row(m, whole.flips(m, w))
        flipped = flipped if shares is None else shares
        active = (1.0 - flipped) * np.abs(loss.slope(m)) + flipped * np.abs(loss.slope(-m))
        constants = active * max(piece.constant for piece in loss.pieces if piece.slope != 0.0)
        if not margin:
            constants -= slopes * rows.y
        return slopes, active, flipped, constants


class PlainEvaluator(Evaluator):
    """Cuts of F itself, in x alone; the rows are in one group."""

    def evaluate(self, x: Array, groups: int) -> Evaluation:
        w, b = self.split(x)
        worst = self.oracle.evaluate(w, b)
        g = np.append(worst.gradient, worst.intercept_gradient)[: len(x)]
        cut = np.append(worst.value - g @ x, g)[None]
        return Evaluation(worst.value, worst.multiplier, cut, np.ones(1), self.arguments(w, b))


def make_evaluator(
    oracle: Oracle, *, shared: bool = False, lifted: bool = True, split: bool = True
) -> Evaluator:
    """The evaluator that fits an oracle, as the server wants it.

    ``shared``: x ends with everybody's multiplier. ``lifted``: cuts know the clipping of a box.
    ``split``: what flips add may have cuts of its own.
    """
    if shared:
        whole = isinstance(oracle, WholeSpaceOracle)
        return SharedEvaluator(oracle) if whole else SharedSupportEvaluator(oracle)
    if isinstance(oracle, WholeSpaceOracle):
        split = split and oracle.labels_move and oracle.loss.linear_gain
        return SplitEvaluator(oracle) if split else WholeSpaceEvaluator(oracle)
    if lifted and isinstance(oracle, L1BoxOracle) and is_lifted(oracle.loss, oracle.ball):
        return BoxEvaluator(oracle)
    return PlainEvaluator(oracle)
