r"""One client's worst-case loss as a minimum over a few extra variables, described by cuts.

.. math:: F(x)=\min_y\{\,p:\ A_0y\le b_0,\ y\ge l,\ \text{all cuts}\,\},\qquad
          y=(x,\,p,\,\text{extra variables}),\quad x=(w,b).

The multiplier :math:`\lambda` is such an extra variable, as in the paper's client step, so a cut
needs one pass over the rows and no search for :math:`\lambda`; what is known exactly (the dual
norm, the clipping of w in a box) is written down and need not be learned from cuts. A frame never
says more than F: every cut is valid for ever.

Where all clients share one multiplier it is the last entry of x instead, the radius is the
server's affair, and F is the mean loss at that price: infinite below the least price.

There are three: for the whole space, for a box with the l1 norm, and, by the gains of single rows,
for any support.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array
from drfl.gauges import DualNorm
from drfl.norms import EpigraphRows
from drfl.supports import Box
from drfl.worst_case.boxes.clipping import compete, make_lines
from drfl.worst_case.escape import Floor, find_floor
from drfl.worst_case.gains import GainOracle, make_moves
from drfl.worst_case.moves import Moves
from drfl.worst_case.oracle import Oracle
from drfl.worst_case.whole_space import WholeSpaceOracle, flip_gain

UNBOUNDED = -1e30  # of the QP solver


@dataclass(frozen=True)
class Touch:
    r"""What one pass over the rows tells at y: a value and cuts ``rows @ y <= right``.

    ``value`` is at least F(x), and exactly what the new cuts allow for p at y.
    """

    value: float
    rows: Array  # (k, m)
    right: Array  # (k,)


class Frame(ABC):
    """The variables and exact rows of a client; ``d`` is the length of x, and p is entry d.

    Attributes
    ----------
    shared : bool
        Whether x ends with everybody's multiplier.
    lam : int
        The entry of the multiplier: the last one of x, or the first one after p.
    A, b : arrays of shape (r, m) and (r,)
        The exact rows.
    lower : array of shape (m,)
        Lower bounds of the variables.
    busy : int
        The variables from this one on are 0 more often than not, with lower bound 0.
    """

    def __init__(self, oracle: Oracle, dimension: int, extra: int, *, shared: bool = False) -> None:
        self.oracle, self.rows, self.shared = oracle, oracle.rows, shared
        self.n, self.d = oracle.rows.n_features, dimension
        self.lam = dimension - 1 if shared else dimension + 1
        self.size = dimension + 1 + extra
        self.A, self.b = np.zeros((0, self.size)), np.zeros(0)
        self.busy = self.size
        self.lower = np.full(self.size, UNBOUNDED)
        self.lower[self.d] = 0.0  # losses are nonnegative

    @abstractmethod
    def start(self, x: Array) -> Array:
        """Some y for this x, the exact rows satisfied; p is left 0.

        Only a shared multiplier below the least price is changed, to that price.
        """

    def feasible(self, y: Array) -> Array:
        """The same y with a shared multiplier raised to the least price, if it is below."""
        return y

    @abstractmethod
    def touch(self, y: Array) -> Touch:
        """Evaluate at y."""

    @abstractmethod
    def summary(self, rows: Array, right: Array, weights: Array, *, lifted: bool) -> Array | None:
        r"""A valid cut of F made of valid rows, in the form in which the bundle method sends cuts.

        Constant, [slope in lambda], [slopes in a clipped model, if ``lifted``], slope in x (with
        a shared lambda, if there is one); None
        if there is no such form. With the multipliers of a client step for weights it touches the
        epigraph at the projection.
        """

    def norm_curvature(self, x: Array) -> Array | None:
        """The second derivative of the dual norm where cuts have to learn it; else None."""
        return None

    def loss_curvature(self, x: Array) -> Array | None:
        """The second derivative of the mean loss if it is smooth; a guide, never trusted."""
        loss = self.oracle.loss
        if loss.kinks:
            return None
        w, b = self.split(x)
        z = self.oracle.arguments(self.rows.scores(w, b), self.rows.y)
        k = self.d - self.shared
        H = self.rows.gram(loss.curvature(z) * self.rows.mass())[:k, :k]
        return np.pad(H, (0, self.d - k))

    def combine(self, rows: Array, right: Array, weights: Array) -> tuple[Array, float]:
        """The weighted sum of rows, scaled so that the coefficient of p is -1."""
        row = weights @ rows
        return -row / row[self.d], -float(weights @ right) / row[self.d]

    def split(self, x: Array) -> tuple[Array, float]:
        """Coefficients and intercept."""
        return x[: self.n], float(x[self.n]) if self.d - self.shared > self.n else 0.0


class WholeSpaceFrame(Frame):
    r"""The whole space: :math:`p\ge\rho\lambda+u(x,\lambda)` with :math:`\lambda\ge\|w\|_*`.

    :math:`u=\sum_ip_i\max\{L(m_i),L(-m_i)-\kappa\lambda\}`; where labels do not move it is the
    mean loss and :math:`\rho` contains the Lipschitz constant. Extra variables: :math:`\lambda`
    (none if the radius is 0 or it is shared), and those of the gauge's rows. A shared
    :math:`\lambda` has no price here: :math:`\rho=0`.
    """

    oracle: WholeSpaceOracle

    def __init__(self, oracle: WholeSpaceOracle, dimension: int, *, shared: bool = False) -> None:
        ball, self.gauge = oracle.ball, DualNorm(oracle.ball.norm, oracle.rows.n_features)
        self.priced = shared or ball.radius > 0.0
        own, exact = self.priced and not shared, self.gauge.rows() if self.priced else None
        self.extra = 0 if exact is None else exact.n_extra
        self.learned = self.priced and exact is None  # the gauge, by tangents
        super().__init__(oracle, dimension, own + self.extra, shared=shared)
        self.rho = ball.radius * oracle.loss.lipschitz * own
        self.floor = 0.0 if oracle.is_margin else 1.0 / ball.label_cost
        if self.priced:
            self._write(exact)

    def _write(self, exact: EpigraphRows | None) -> None:
        """The row of p >= rho lambda, and those of the gauge if it has any."""
        self.lower[self.lam] = self.floor
        A = np.zeros((1 + (0 if exact is None else exact.n_rows), self.size))
        A[0, [self.d, self.lam]] = -1.0, self.rho
        if exact is not None:
            A[1 + exact.w.row, exact.w.column] = exact.w.value
            A[1 + exact.e.row, self.size - self.extra + exact.e.column] = exact.e.value
            A[1 + exact.t.row, self.lam] = exact.t.value
        self.A, self.b = A, np.zeros(len(A))

    def start(self, x: Array) -> Array:
        lam = [self._least_price(x)] if self.priced and not self.shared else []
        more = self.gauge.extra(x) if self.extra else x[:0]
        return self.feasible(np.concatenate([x, [0.0], lam, more]))

    def feasible(self, y: Array) -> Array:
        if not self.shared or y[self.lam] >= self._least_price(y):
            return y
        y = y.copy()
        y[self.lam] = self._least_price(y)
        return y

    def _least_price(self, x: Array) -> float:
        return max(self.gauge.value(x), self.floor)

    def touch(self, y: Array) -> Touch:
        x, k = y[: self.d], self.d - self.shared
        # The QP keeps its constraints up to rounding, and a gauge without rows up to cuts.
        least = self._least_price(x)
        lam = max(least, float(y[self.lam])) if self.priced else least
        u, slope, g = self._mean(x, lam)
        row = np.zeros((1, self.size))
        row[0, :k], row[0, self.d] = g, -1.0
        right = np.array([float(g @ x[:k]) + slope * lam - u])
        value = u + self.rho * lam
        if self.priced:
            row[0, self.lam] = slope + self.rho
            if self.learned and x[: self.n].any():
                return Touch(value, np.vstack([row, self._tangent(x)]), np.append(right, 0.0))
        return Touch(value, row, right)

    def _mean(self, x: Array, lam: float) -> tuple[float, float, Array]:
        """u and its slopes in lambda and x, in one sweep."""
        oracle, rows, loss = self.oracle, self.rows, self.oracle.loss
        kappa, flipping = oracle.ball.label_cost, oracle.labels_move
        u = slope = 0.0

        def visit(block: slice, z: Array) -> Array:
            nonlocal u, slope
            y = rows.y[block]
            z = np.multiply(z, y, out=z) if oracle.is_margin else np.subtract(z, y, out=z)
            value, v = loss.value_and_slope(z)
            # The gain of a flip grows with the margin: most of the time the largest tells all.
            if flipping and flip_gain(loss, z.max(keepdims=True))[0] > kappa * lam:
                gain = flip_gain(loss, z) - kappa * lam
                flips = gain > 0.0
                value += np.maximum(gain, 0.0)
                v = np.where(flips, -loss.slope(-z), v)
                slope -= kappa * rows.mean(flips.astype(np.float64), block)
            u += rows.mean(value, block)
            v *= rows.mass(block)
            return np.multiply(v, y, out=v) if oracle.is_margin else v

        g, gb = rows.sweep(*self.split(x), visit)
        return u, slope, np.append(g, gb)[: self.d - self.shared]

    def summary(self, rows: Array, right: Array, weights: Array, *, lifted: bool) -> Array | None:
        weights = np.where(rows[:, self.d] < 0.0, weights, 0.0)  # the norm is everybody's own
        row, bound = self.combine(rows, right, weights)
        own = self.oracle.labels_move and not self.shared
        slope = [row[self.lam] - self.rho] if own else []
        if lifted:  # a client with radius 0 among others in a box: nothing is clipped
            slope = [0.0] * (self.n + 2)
        return np.concatenate([[-bound], slope, row[: self.d]])

    def _tangent(self, x: Array) -> Array:
        row = np.zeros(self.size)
        row[: self.n], row[self.lam] = self.gauge.subgradient(x), -1.0
        return row

    def norm_curvature(self, x: Array) -> Array | None:
        H = self.gauge.curvature(x) if self.learned else None
        return None if H is None else np.pad(H, (0, self.d - self.n))


class BoxFrame(Frame):
    r"""A bounded box, l1, slopes 0 or :math:`\pm1`: one clipped w serves all rows.

    With midpoint m and half sides h, :math:`\omega=w-s^++s^-`, :math:`|\omega_j|\le\lambda` and
    :math:`\tau=h^\top(s^++s^-)`, a row on a piece of slope :math:`\alpha=\pm1` is worth
    :math:`\alpha(b+\langle m,w\rangle)+\alpha\langle\omega,x_i-m\rangle+\tau+c`, less
    :math:`\kappa\lambda` if its label is flipped (Propositions SVM1 and SVM2 with 2n multipliers
    instead of 4nN). Extra variables: :math:`\lambda, s^+\ge0, s^-\ge0`.
    """

    def __init__(self, oracle: Oracle, dimension: int) -> None:
        n, ball = oracle.rows.n_features, oracle.ball
        super().__init__(oracle, dimension, 1 + 2 * n)
        assert isinstance(ball.support, Box)
        low, high = ball.support.bounds(n)
        self.middle, self.half = (low + high) / 2.0, (high - low) / 2.0
        self.lines = make_lines(oracle.loss, ball.label_cost)[1]
        self.moving = np.array([line.level >= 0 for line in self.lines])
        self.flipped = np.array([line.flipped for line in self.lines])
        self.flipping = bool(self.flipped.any())
        self.signs = np.array([line.sign for line in self.lines])
        self.constants = np.array([line.constant for line in self.lines])
        self.floor = 0.0 if oracle.is_margin else 1.0 / ball.label_cost
        self.up, self.down = self.lam + 1, self.lam + 1 + n
        self.lower[self.lam], self.lower[self.up :] = self.floor, 0.0
        self.busy = self.up
        clip = np.zeros((n, self.size))
        clip[:, :n] = clip[:, self.down :] = np.eye(n)
        clip[:, self.up : self.down] = -np.eye(n)
        price = np.zeros(self.size)
        price[self.lam] = 1.0
        trivial = np.zeros((1, self.size))
        trivial[0, [self.d, self.lam]] = -1.0, ball.radius
        self.A = np.vstack([trivial, clip - price, -clip - price])
        self.b = np.zeros(len(self.A))

    def start(self, x: Array) -> Array:
        lam = max(self.oracle.ball.norm.dual(x[: self.n]), self.floor)
        return np.concatenate([x, [0.0, lam], np.zeros(2 * self.n)])

    def touch(self, y: Array) -> Touch:
        x, n, ball = y[: self.d], self.n, self.oracle.ball
        w, b = self.split(x)
        lam = max(float(y[self.lam]), self.floor)
        omega = np.minimum(np.maximum(w, -lam), lam)
        s = w - omega
        tau = float(self.half @ np.abs(s))
        fee = ball.label_cost * lam if self.flipping else 0.0
        mean, won, g, total = self._sweep(omega, b + float(self.middle @ s), tau, fee)
        row = np.zeros((1, self.size))
        row[0, :n], row[0, n : self.d], row[0, self.d] = g, total, -1.0
        slope = -ball.label_cost * float(won @ self.flipped) if self.flipping else 0.0
        row[0, self.lam] = ball.radius + slope
        # g holds x_i; clipped away it becomes the midpoint, and the half side is paid instead.
        away, reach = total * self.middle - g, float(won @ self.moving) * self.half
        row[0, self.up : self.down], row[0, self.down :] = away + reach, reach - away
        value = mean + ball.radius * lam
        at = np.concatenate([x, [value, lam], np.maximum(s, 0.0), np.maximum(-s, 0.0)])
        return Touch(value, row, row @ at)

    def _sweep(
        self, omega: Array, offset: float, tau: float, fee: float
    ) -> tuple[float, Array, Array, float]:
        """The mean, the mass that each line won, and the weighted sums of rows and signs."""
        rows, is_margin = self.rows, self.oracle.is_margin
        constants = self.constants + tau * self.moving - fee * self.flipped
        mean, won = 0.0, np.zeros(len(self.lines))

        def visit(block: slice, z: Array) -> Array:
            nonlocal mean, won
            y, mass = rows.y[block], rows.mass(block)
            z = np.multiply(z, y, out=z) if is_margin else np.subtract(z, y, out=z)
            best, winner = compete(self.lines, z[None], constants)
            mean += rows.mean(best, block)
            each = mass if isinstance(mass, np.ndarray) else None
            won += np.bincount(winner, each, len(self.lines)) * (mass if each is None else 1.0)
            v: Array = self.signs[winner] * mass
            return np.multiply(v, y, out=v) if is_margin else v

        g, total = rows.sweep(omega, offset, visit)
        return mean, won, g, total

    def summary(self, rows: Array, right: Array, weights: Array, *, lifted: bool) -> Array | None:
        if not lifted:
            return None
        weights = np.where(rows[:, self.d] < 0.0, weights, 0.0)
        row, bound = self.combine(rows, right, weights)
        up, down = row[self.up : self.down], row[self.down :]
        away, reach = 0.5 * (up - down), 0.5 * (up + down)
        wide = self.half > 0.0
        tau = float((reach[wide] / self.half[wide]).max(initial=0.0))
        slope = row[self.lam] - self.oracle.ball.radius
        x = np.concatenate([row[: self.n] + away, row[self.n : self.d]])
        return np.concatenate([[-bound, slope], -away, [tau], x])


class GainFrame(Frame):
    r""":math:`p\ge\varphi(x,\lambda)=\rho\lambda+\sum_ip_ia_i(x,\lambda)`, which is jointly convex.

    A tangent at one price is one pass over the rows and valid everywhere, since every place that
    it moves a row to is a point of the support. Where the support is unbounded the price has a
    floor :math:`\lambda_0(w)`, which is convex and cut as well. Extra
    variable: :math:`\lambda\ge0`, unless it is shared; then :math:`\rho=0` here.
    """

    oracle: GainOracle

    def __init__(self, oracle: GainOracle, dimension: int, *, shared: bool = False) -> None:
        super().__init__(oracle, dimension, int(not shared), shared=shared)
        self.lower[self.lam] = 0.0
        self.radius = 0.0 if shared else oracle.ball.radius
        self.A, self.b = np.zeros((1, self.size)), np.zeros(1)  # losses are nonnegative
        self.A[0, [self.d, self.lam]] = -1.0, self.radius

    def start(self, x: Array) -> Array:
        if self.shared:
            return self.feasible(np.append(x, 0.0))
        return np.append(x, [0.0, self.oracle.loss.lipschitz * self._moves(x).reach])

    def feasible(self, y: Array) -> Array:
        if not self.shared:
            return y
        moves = self._moves(y)
        floor = find_floor(self.oracle, moves)
        y = y.copy()
        y[self.lam] = max(y[self.lam], self._first(moves, floor))
        return y

    def touch(self, y: Array) -> Touch:
        x, k, oracle = y[: self.d], self.d - self.shared, self.oracle
        moves = self._moves(x)
        floor = find_floor(oracle, moves)
        first = self._first(moves, floor)
        at = oracle.tangent(moves, self.split(x)[1], max(float(y[self.lam]), first))
        unpaid = oracle.ball.radius - self.radius  # a shared price is paid by the server
        slope, value = at.slope - unpaid, at.value - unpaid * at.lam
        g = np.append(at.gradient, at.intercept_gradient)[:k]
        rows = np.zeros((2 if floor.lam > 0.0 else 1, self.size))
        rows[0, :k], rows[0, self.d], rows[0, self.lam] = g, -1.0, slope
        right = np.array([float(g @ x[:k]) + slope * at.lam - value, 0.0])
        if floor.lam > 0.0:
            rows[1, : self.n], rows[1, self.lam] = floor.gradient, -1.0
            right[1] = float(floor.gradient @ x[: self.n]) - floor.lam
        # Just above the floor, where the rows have places to go to, stands for the floor itself.
        above = at.lam - floor.lam if at.lam == first and not self.shared else 0.0
        return Touch(value - max(slope, 0.0) * above, rows, right[: len(rows)])

    def _moves(self, x: Array) -> Moves:
        return make_moves(self.oracle.loss, self.oracle.ball, x[: self.n])

    def _first(self, moves: Moves, floor: Floor) -> float:
        return moves.first_price(floor.lam, self.oracle.loss.lipschitz * moves.reach)

    def summary(self, rows: Array, right: Array, weights: Array, *, lifted: bool) -> Array | None:
        row, bound = self.combine(rows, right, weights)
        if self.shared:
            return np.append(-bound, row[: self.d])
        # lambda is at least 0: its coefficient has to be, too. Rounding apart it is.
        missing = max(-row[self.lam], 0.0)
        share = self.radius / (self.radius + missing)  # the rest is p >= radius * lambda
        cut: Array = share * np.append(-bound, row[: self.d])
        return cut
