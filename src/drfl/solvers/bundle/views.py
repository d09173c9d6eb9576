r"""How a client sees a point: row by row, ready to be summed into cuts.

What a cut is a function of depends on the support; see `Terms`.

- Whole space: with :math:`u(x,\lambda)=\sum_ip_i\max\{L(m_i),L(-m_i)-\kappa\lambda\}`,
  :math:`F(x)=\min_{\lambda\ge\|w\|_*}\rho\lambda+u(x,\lambda)`, and a cut is a tangent of u in
  :math:`(x,\lambda)`.
- Box, l1, slopes of size 1: a row on a piece of slope :math:`\alpha=\pm1` is worth
  :math:`\alpha(b+\langle m,w\rangle)+\alpha\langle\omega,x_i-m\rangle+\tau+c`, less
  :math:`\kappa\lambda` if it is flipped, and a cut is a sum of such rows, linear in
  :math:`(x,\omega,\tau,\lambda)`.
- Otherwise a cut is a tangent of F itself.
"""

from __future__ import annotations

import numpy as np

from drfl.arrays import Array
from drfl.solvers.bundle.sight import Sight, View
from drfl.solvers.bundle.terms import is_lifted
from drfl.supports import Box
from drfl.worst_case.gains import GainOracle
from drfl.worst_case.l1_box import L1BoxOracle
from drfl.worst_case.oracle import Oracle
from drfl.worst_case.whole_space import Flips, WholeSpaceOracle, flip_gain


class Tally:
    """What the rows add up to, block by block: nothing here is as long as the rows."""

    def __init__(self, view: View, groups: int) -> None:
        self.view, self.groups = view, groups
        self.mean, self.turned = 0.0, 0.0
        self.levels, self.flipped = np.zeros(groups), np.zeros(groups)

    def add(self, block: slice, losses: Array, slopes: Array, shares: Array | None) -> Array:
        """Add a block; the weights of its rows in a gradient."""
        view = self.view
        self.mean += view.rows.mean(losses, block)
        self.levels += view.sums(losses, self.groups, block)
        if shares is not None:
            self.flipped += view.sums(shares, self.groups, block)
            self.turned += float(shares.sum())
        return view.weighted(slopes, block)


class WholeSpaceView(View):
    """Cuts in x, and in lambda where labels move."""

    oracle: WholeSpaceOracle

    def values(self, at: Sight) -> list[float]:
        return super().values(at) if self.oracle.labels_move else [at.value]

    def look(self, x: Array, groups: int) -> Sight:
        oracle, ball, (w, b) = self.oracle, self.oracle.ball, self.split(x)
        tally, flips = Tally(self, groups), None
        if oracle.labels_move or groups > 1:
            m = self.arguments(w, b)
            flips = self.flips(m, w)
            v = np.empty(len(m))
            for block in self.rows.blocks():
                v[block] = tally.add(block, *self.by_row(m[block], flips, block))
            g, gb = self.rows.group_sums(v, groups)
            g = np.column_stack([g, gb])
        else:
            m, sums = self.swept(w, b, lambda z, block: tally.add(block, *self.by_row(z)))
            g = sums[None]
        lam = flips.multiplier if flips else oracle.fixed_multiplier(ball.norm.dual(w))[0]
        share, safe = self.shares(groups)
        g = g[:, : len(x)] / safe[:, None]
        level = tally.levels / safe - g @ x
        columns = [level, g]
        if flips is not None:
            slope = -ball.label_cost * tally.flipped / safe
            columns = [level - slope * lam, slope, g]
        value = tally.mean + ball.radius * lam
        return Sight(value, lam, np.column_stack(columns), share, m, tally.turned)

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


class SharedView(View):
    """The multiplier is the last entry of x: cuts of the mean loss at that price."""

    shared = True
    oracle: WholeSpaceOracle

    def look(self, x: Array, groups: int) -> Sight:
        loss, kappa, tally = self.loss, self.oracle.ball.label_cost, Tally(self, 1)
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
        return Sight(tally.mean, lam, cut, np.ones(1), m, tally.turned)


class SharedSupportView(View):
    """The same on a support, block by block."""

    shared = True

    def look(self, x: Array, groups: int) -> Sight:
        oracle, (w, b) = self.oracle, self.split(x[:-1])
        gains = GainOracle(oracle.rows, oracle.loss, oracle.ball)
        at = gains.at_price(w, b, float(x[-1]))
        radius = oracle.ball.radius
        g = np.append(at.gradient, at.intercept_gradient)[: len(x) - 1]
        g = np.append(g, at.slope - radius)
        value = at.value - radius * float(x[-1])
        cut = np.append(value - g @ x, g)[None]
        return Sight(value, float(x[-1]), cut, np.ones(1), self.arguments(w, b))


class BoxView(View):
    """Cuts in x, the clipped model and lambda."""

    oracle: L1BoxOracle

    def look(self, x: Array, groups: int) -> Sight:
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
        return Sight(worst.value, lam, cuts, share, m, turned)

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
        whole = WholeSpaceView(WholeSpaceOracle(rows, loss, self.oracle.ball))
        m = whole.arguments(w, b)
        _, slopes, shares = whole.by_row(m, whole.flips(m, w))
        flipped = flipped if shares is None else shares
        active = (1.0 - flipped) * np.abs(loss.slope(m)) + flipped * np.abs(loss.slope(-m))
        constants = active * max(piece.constant for piece in loss.pieces if piece.slope != 0.0)
        if not margin:
            constants -= slopes * rows.y
        return slopes, active, flipped, constants


class PlainView(View):
    """Cuts of F itself, in x alone; the rows are in one group."""

    def look(self, x: Array, groups: int) -> Sight:
        w, b = self.split(x)
        worst = self.oracle.evaluate(w, b)
        g = np.append(worst.gradient, worst.intercept_gradient)[: len(x)]
        cut = np.append(worst.value - g @ x, g)[None]
        return Sight(worst.value, worst.multiplier, cut, np.ones(1), self.arguments(w, b))


def make_view(oracle: Oracle, *, shared: bool = False, lifted: bool = True) -> View:
    """The view that fits an oracle, as the server wants it.

    ``shared``: x ends with everybody's multiplier. ``lifted``: cuts know the clipping of a box.
    """
    if shared:
        whole = isinstance(oracle, WholeSpaceOracle)
        return SharedView(oracle) if whole else SharedSupportView(oracle)
    if isinstance(oracle, WholeSpaceOracle):
        return WholeSpaceView(oracle)
    if lifted and isinstance(oracle, L1BoxOracle) and is_lifted(oracle.loss, oracle.ball):
        return BoxView(oracle)
    return PlainView(oracle)
