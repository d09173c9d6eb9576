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

from drfl.losses import Array
from drfl.solvers.bundle.sight import Sight, View
from drfl.solvers.bundle.terms import is_lifted
from drfl.supports import Box
from drfl.worst_case.gains import GainOracle
from drfl.worst_case.l1_box import L1BoxOracle
from drfl.worst_case.oracle import Oracle
from drfl.worst_case.whole_space import WholeSpaceOracle, flip_gain


class WholeSpaceView(View):
    """Cuts in x, and in lambda where labels move."""

    oracle: WholeSpaceOracle

    def values(self, at: Sight) -> list[float]:
        return super().values(at) if self.oracle.labels_move else [at.value]

    def look(self, x: Array, groups: int) -> Sight:
        oracle, loss, ball = self.oracle, self.loss, self.oracle.ball
        w, b = self.split(x)
        m = oracle.arguments(self.rows.scores(w, b), self.rows.y)
        losses, slopes = loss.value_and_slope(m)
        norm, flipped = ball.norm.dual(w), None
        lam = oracle.fixed_multiplier(norm)[0]
        if oracle.labels_move:
            flips = oracle.flips(m, norm)
            lam, flipped = flips.multiplier, np.zeros(len(m))
            flipped[flips.rows] = flips.share
            mf = m[flips.rows]
            slopes[flips.rows] -= flips.share * (loss.slope(-mf) + slopes[flips.rows])
            losses[flips.rows] += np.maximum(flip_gain(loss, mf) - ball.label_cost * lam, 0.0)
        value = self.rows.mean(losses) + ball.radius * lam
        share = self.sums(np.ones(len(m)), groups)
        safe = np.where(share > 0.0, share, 1.0)  # a group of weightless rows says nothing
        g, gb = self.slope_sums(slopes, groups)
        g = np.column_stack([g, gb])[:, : len(x)] / safe[:, None]
        level = self.sums(losses, groups) / safe - g @ x
        columns = [level, g]
        if flipped is not None:
            slope = -ball.label_cost * self.sums(flipped, groups) / safe
            columns = [level - slope * lam, slope, g]
        return Sight(value, lam, np.column_stack(columns), share, m, slopes, flipped)


class SharedView(View):
    """The multiplier is the last entry of x: cuts of the mean loss at that price."""

    shared = True
    oracle: WholeSpaceOracle

    def look(self, x: Array, groups: int) -> Sight:
        oracle, loss, kappa = self.oracle, self.loss, self.oracle.ball.label_cost
        lam, (w, b) = float(x[-1]), self.split(x[:-1])
        m = oracle.arguments(self.rows.scores(w, b), self.rows.y)
        losses, slopes = loss.value_and_slope(m)
        flipped = np.zeros(len(m))
        if oracle.labels_move:
            excess = flip_gain(loss, m) - kappa * lam
            rows = np.flatnonzero(excess > 0.0)
            flipped[rows] = 1.0
            losses[rows] += excess[rows]
            slopes[rows] = -loss.slope(-m[rows])
        g, gb = self.slope_sums(slopes, 1)
        slope = -kappa * self.rows.mean(flipped) if flipped.any() else 0.0
        g = np.append(np.append(g, gb)[: len(x) - 1], slope)
        value = self.rows.mean(losses)
        cut = np.append(value - g @ x, g)[None]
        return Sight(value, lam, cut, np.ones(1), m, slopes, flipped)


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
        m = oracle.arguments(self.rows.scores(w, b), self.rows.y)
        cut = np.append(value - g @ x, g)[None]
        return Sight(value, float(x[-1]), cut, np.ones(1), m, self.loss.slope(m), None)


class BoxView(View):
    """Cuts in x, the clipped model and lambda."""

    oracle: L1BoxOracle

    def look(self, x: Array, groups: int) -> Sight:
        oracle, rows, kappa = self.oracle, self.rows, self.oracle.ball.label_cost
        w, b = self.split(x)
        worst = oracle.evaluate(w, b)
        slopes, active, flipped, constants = self._pieces(w, b)
        share = self.sums(np.ones(rows.n_rows), groups)
        safe = np.where(share > 0.0, share, 1.0)
        g, ga = self.slope_sums(slopes, groups)
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
        arguments = oracle.arguments(
            rows.scores(clipped, b + float(middle @ (w - clipped))), rows.y
        )
        arguments = (
            arguments - reach if oracle.is_margin else arguments + np.sign(arguments) * reach
        )
        return Sight(worst.value, lam, np.column_stack(columns), share, arguments, slopes, flipped)

    def _pieces(self, w: Array, b: float) -> tuple[Array, Array, Array, Array]:
        """Slope, activity, flipped share and constant of each row, mixed over lambda."""
        rows, loss = self.rows, self.loss
        slopes, active, flipped, constants = np.zeros((4, rows.n_rows))
        parts = self.oracle.active(w, b)
        for part in parts:
            slopes += part.weight * self.signed(part.slope)
            active += part.weight * np.abs(part.slope)
            flipped += part.weight * part.flipped
            constants += part.weight * part.constant
        if parts:
            return slopes, active, flipped, constants
        # The box plays no role: flips alone set the price, or there is no budget.
        whole = WholeSpaceView(WholeSpaceOracle(rows, loss, self.oracle.ball))
        sight = whole.look(np.append(w, b), 1)
        flipped = np.zeros(rows.n_rows) if sight.flipped is None else sight.flipped
        m = sight.arguments
        active = (1.0 - flipped) * np.abs(loss.slope(m)) + flipped * np.abs(loss.slope(-m))
        constants = active * max(piece.constant for piece in loss.pieces if piece.slope != 0.0)
        if not self.oracle.is_margin:
            constants -= sight.slopes * rows.y
        return sight.slopes, active, flipped, constants


class PlainView(View):
    """Cuts of F itself, in x alone; the rows are in one group."""

    def look(self, x: Array, groups: int) -> Sight:
        w, b = self.split(x)
        worst = self.oracle.evaluate(w, b)
        g = np.append(worst.gradient, worst.intercept_gradient)[: len(x)]
        cut = np.append(worst.value - g @ x, g)[None]
        m = self.oracle.arguments(self.rows.scores(w, b), self.rows.y)
        return Sight(worst.value, worst.multiplier, cut, np.ones(1), m, self.loss.slope(m), None)


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


def dual_cut(view: View, slopes: Array, dimension: int) -> Array:
    r"""The cut :math:`\sum_ip_i\big(v_iz_i(x)-L^*(v_i)\big)` of any slopes v: (c, g), (1 + d,).

    For regression :math:`z_i=\langle w,x_i\rangle+b-y_i`.
    """
    v = np.clip(slopes, *view.loss.slope_range)
    value = -view.loss.conjugate(v)
    if not view.oracle.is_margin:
        value = value - v * view.rows.y
    g, gb = view.rows.combine(view.masses * view.signed(v))
    size = dimension - view.shared
    cut = np.append(view.rows.mean(value), np.append(g, gb)[:size])
    return np.pad(cut, (0, dimension - size))  # flips can only add: slope 0 in a shared lambda
