r"""The exact worst case of an additive model, in x: for reports and the adversary alone.

Training bounds the worst case by that of the ramps; it is exact where the steepest piece of a curve
is an end piece. Exactly, for a row with score z that the adversary pushes in the direction
:math:`\sigma`, column by column the gain of moving to a knot is known, and

.. math:: a_i(\lambda)=\max_k\ L(z_i+\sigma V_k)-\lambda C_k

over few pairs (C, V) of a cost and what it gains at most. In l1 columns are moved one after the
other: V and C are sums of the segments of the concave majorants of all columns' gains, in the order
of their rates. In linf all move at once: C is the distance of some knot, V what all columns gain
within it. Then :math:`F=\min_{\lambda\ge E}\rho\lambda+\sum_ip_ia_i(\lambda)`, E being what the
steepest end pieces gain for ever.

Of several scores at once every row may go to the knots that raise some :math:`z_j-z_{y'}`, with
each label :math:`y'` that it can have. For the loss of Crammer and Singer, a maximum of such
differences, that is all there is, and the value is exact. The cross-entropy can gain a little more
where several differences rise at once: the value is then what was found, and the bound, that of the
ramps (`drfl.worst_case.joint`), is what is proved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.curves import Curves
from drfl.losses import Loss
from drfl.losses.joint import JointLoss
from drfl.rows import Rows
from drfl.uncertainty import Ball
from drfl.worst_case.escape import TOLERANCE, Atoms
from drfl.worst_case.joint import JointOracle, codes_of, require_joint_ball
from drfl.worst_case.oracle import Distribution, Oracle, WorstCase

HALVINGS = 100  # of the interval in which the price is
FAR = 1e3  # from where on, in units of the knots, all curves count as their end pieces


@dataclass(frozen=True)
class RowMoves:
    """What one row can gain in one direction: costs, gains and points (K, n), the first being 0."""

    cost: Array
    gain: Array
    x: Array


@dataclass(frozen=True)
class Options:
    """All that rows can do, row after row: losses, costs, points and labels; and where each begins.

    The first of a row is to stay.
    """

    loss: Array
    cost: Array
    x: Array
    y: Array
    row: NDArray[np.intp]
    starts: NDArray[np.intp]

    @classmethod
    def of(cls, *parts: list[Array]) -> Options:
        """Losses, costs, points, labels and row numbers, in parts, row after row."""
        loss, cost, x, y, each = (np.concatenate(part) for part in parts)
        row = each.astype(np.intp)
        starts = np.flatnonzero(np.concatenate([[True], row[1:] != row[:-1]]))
        return cls(loss, cost, x, y, row, starts)

    def best(self, price: float) -> NDArray[np.intp]:
        """What every row does at a price: the first of its best options."""
        worth = self.loss - price * self.cost
        top = np.maximum.reduceat(worth, self.starts)
        at = np.flatnonzero(worth == top[self.row])
        return at[np.unique(self.row[at], return_index=True)[1]]


class CurveOracle(Oracle):
    """F of a client with an additive model; ``rows`` are its columns, the model their slopes."""

    def __init__(self, rows: Rows, loss: Loss, ball: Ball, curves: Curves) -> None:
        super().__init__(rows, loss, ball)
        self.curves = curves

    def evaluate(self, w: Array, b: float) -> WorstCase:
        worst = CurveSearch(self, w, b)
        d = worst.distribution()
        z = self.curves.expand(d.x) @ w + b
        v = d.mass * self.loss.slope(self.arguments(z, d.y))
        v = v * d.y if self.is_margin else v
        g = v @ self.curves.expand(d.x)
        return WorstCase(worst.value, g, float(v.sum()), worst.price, lambda: d)

    def distribution(self, w: Array, b: float) -> Distribution:
        return CurveSearch(self, w, b).distribution()


class CurveSearch:
    """The best price, and what the rows do at it."""

    def __init__(self, oracle: CurveOracle, w: Array, b: float | Array) -> None:
        self.oracle, self.w, self.b = oracle, w, b
        self.rows, self.loss, self.ball = oracle.rows, oracle.loss, oracle.ball
        self.X = self.rows.take(slice(None))
        self.mass = self.rows.masses(np.arange(self.rows.n_rows))
        self.options = self._options()
        self.least = self._least()
        self.low, self.high = self._bracket()
        self.price = self.high
        self.value = min(self._at(price)[0] for price in (self.low, self.high))

    def _options(self) -> Options:
        curves, rows, kappa = self.oracle.curves, self.rows, self.ball.label_cost
        z = curves.expand(self.X) @ self.w + self.b
        turns = self.oracle.is_margin and math.isfinite(kappa) and self.ball.radius > 0.0
        loss, cost, x, y, row = [], [], [], [], []
        for i in range(rows.n_rows):
            own = float(rows.y[i])
            for label in (own, -own) if turns else (own,):
                for sigma in (-label,) if self.oracle.is_margin else (1.0, -1.0):
                    moves = row_moves(curves, self.w, self.X[i], sigma, self.ball.norm.name)
                    argument = self.oracle.arguments(z[i] + sigma * moves.gain, np.full(1, label))
                    loss.append(self.loss.value(argument))
                    cost.append(moves.cost + (kappa if label != own else 0.0))
                    x.append(moves.x)
                    y.append(np.full(len(moves.cost), label))
                    row.append(np.full(len(moves.cost), i))
        return Options.of(loss, cost, x, y, row)

    def _least(self) -> float:
        """E: what the end pieces gain for ever, at the steepest slope of the loss."""
        low, high = self.loss.slope_range
        if self.oracle.is_margin:
            labels = set(np.unique(self.rows.y).tolist())
            if math.isfinite(self.ball.label_cost):
                labels = {-1.0, 1.0}
            steep = max(self._endless(-y) for y in labels) * self.loss.lipschitz
        else:
            steep = max(high * self._endless(1.0), -low * self._endless(-1.0))
            steep = max(steep, self.loss.lipschitz / self.ball.label_cost)
        return float(steep)

    def _endless(self, sigma: float) -> float:
        """The rate at which the score can be pushed for ever in a direction."""
        rates = end_rates(self.oracle.curves, self.w, sigma)
        return float(rates.max(initial=0.0) if self.ball.norm.name == "l1" else rates.sum())

    # ---------------------------------------------------------------- the price
    def _at(self, price: float) -> tuple[float, float, NDArray[np.intp]]:
        """phi, its slope and what every row does."""
        options, chosen = self.options, self.options.best(price)
        worth = options.loss[chosen] - price * options.cost[chosen]
        spent = float(self.mass @ options.cost[chosen])
        radius = self.ball.radius
        return float(self.mass @ worth) + radius * price, radius - spent, chosen

    def _bracket(self) -> tuple[float, float]:
        """Prices around the best one, as near to each other as numbers are."""
        if self.ball.radius == 0.0 or self._at(self.least)[1] >= 0.0:
            return self.least, self.least
        low, high = self.least, max(2.0 * self.least, 1.0)
        while self._at(high)[1] < 0.0:
            low, high = high, 2.0 * high
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            if middle in (low, high):
                break
            low, high = (middle, high) if self._at(middle)[1] < 0.0 else (low, middle)
        return low, high

    # ---------------------------------------------------------------- the distribution
    def distribution(self) -> Distribution:
        """The rows where they are moved to; those of two prices in shares that use the budget."""
        if self.ball.radius == 0.0:
            return self._described(self._atoms(self.options.starts, 1.0), 0.0)
        (_, over, dear), (_, left, cheap) = self._at(self.low), self._at(self.high)
        share = left / (left - over) if over < 0.0 else 0.0
        atoms = self._atoms(cheap, 1.0 - share)
        if share > 0.0:
            atoms = atoms.joined(self._atoms(dear, share))
        spare = left if share == 0.0 and self.high == self.least else 0.0
        return self._spend(atoms, spare)

    def _atoms(self, chosen: NDArray[np.intp], share: float) -> Atoms:
        options = self.options
        every = np.arange(self.rows.n_rows)
        return Atoms(every, share * self.mass, options.x[chosen], options.y[chosen])

    def _spend(self, atoms: Atoms, spare: float) -> Distribution:
        """What is left of the budget goes out along the end pieces, with a small mass far out."""
        atoms, rate = atoms.present(), self.least
        if spare <= 0.0 or rate <= 0.0:
            return self._described(atoms, 0.0)
        # What an atom misses of the rate on its way out: the best one, perhaps with another label.
        missed, k, label, step = min(
            (
                (self._missed(atoms, k, label, step), k, label, step)
                for k in range(len(atoms.mass))
                for label, step in self._ways_out(float(atoms.y[k]))
            ),
            key=lambda way: way[0],
        )
        tolerance = TOLERANCE * max(self.value, 1e-300)
        mass = min(float(atoms.mass[k]), tolerance / missed if missed > 0.0 else math.inf)
        kappa, dy = self.ball.label_cost, label - float(atoms.y[k])
        if self._targets_go:
            atoms = atoms.split(k, mass, step, math.copysign(spare / (mass * kappa), dy))
        else:
            distance = max(spare / mass - (kappa if dy else 0.0), 0.0)
            atoms = atoms.split(k, mass, distance * step, dy)
        return self._described(atoms, tolerance)

    @property
    def _targets_go(self) -> bool:
        """Whether it is the target of a regression that gains most for ever."""
        if self.oracle.is_margin:
            return False
        return self.loss.lipschitz / self.ball.label_cost >= self.least

    def _ways_out(self, y: float) -> list[tuple[float, Array]]:
        """Labels or the target, and directions, in which an atom can go to infinity."""
        if self._targets_go:
            return [(y + side * FAR, np.zeros(self.X.shape[1])) for side in (-1.0, 1.0)]
        if not self.oracle.is_margin:
            return [(y, self._way_out(sigma)) for sigma in (1.0, -1.0)]
        labels = (y, -y) if math.isfinite(self.ball.label_cost) else (y,)
        return [(label, self._way_out(-label)) for label in labels]

    def _missed(self, atoms: Atoms, k: int, label: float, step: Array) -> float:
        """By how much an atom's loss stays behind the rate, far out."""
        knots = np.concatenate([[0.0], *self.oracle.curves.knots])
        far = FAR * (1.0 + float(np.abs(knots).max()))
        own = float(atoms.y[k])
        if not self.oracle.is_margin and label != own:  # the target moves, and nothing else
            rise = self._loss(atoms.x[k], label) - self._loss(atoms.x[k], own)
            return self.loss.lipschitz * abs(label - own) - rise
        price = self.ball.label_cost * self.least if label != own else 0.0
        rise = self._loss(atoms.x[k] + far * step, label) - self._loss(atoms.x[k], own)
        return self.least * far + price - rise

    def _way_out(self, sigma: float) -> Array:
        """The direction of unit length in which the score grows fastest for ever."""
        return way_out(self.oracle.curves, self.w, sigma, self.ball.norm.name)

    def _loss(self, x: Array, y: float) -> float:
        return float(self._losses(x[None], np.full(1, y))[0])

    def _losses(self, X: Array, y: Array) -> Array:
        """The losses of rows (m, n) with such labels or targets."""
        z = self.oracle.curves.expand(X) @ self.w + self.b
        return self.loss.value(self.oracle.arguments(z, y))

    def _described(self, atoms: Atoms, tolerance: float) -> Distribution:
        ball, atoms = self.ball, atoms.present()
        step = atoms.x - self.X[atoms.source]
        moved = np.abs(step).sum(axis=1) if ball.norm.name == "l1" else np.abs(step).max(axis=1)
        turned = atoms.y != self.rows.y[atoms.source]
        labels = ball.label_cost * turned if turned.any() else np.zeros(len(moved))
        if not self.oracle.is_margin and turned.any():
            labels = ball.label_cost * np.abs(atoms.y - self.rows.y[atoms.source])
        return atoms.distribution(moved + labels, self._losses(atoms.x, atoms.y), tolerance)


def end_rates(curves: Curves, w: Array, sigma: float) -> Array:
    """How fast every column can push the score for ever in a direction (n,)."""
    pieces = [w[curves.of(j)] for j in range(curves.n)]
    return np.array([max(sigma * s[-1], -sigma * s[0], 0.0) for s in pieces])


def way_out(curves: Curves, w: Array, sigma: float, norm: str) -> Array:
    """The direction of unit length in which a score grows fastest for ever (n,)."""
    rates, step = end_rates(curves, w, sigma), np.zeros(curves.n)
    for j in [int(np.argmax(rates))] if norm == "l1" else range(curves.n):
        right = sigma * w[curves.of(j)][-1] == rates[j]
        step[j] = np.sign(rates[j]) * (1.0 if right else -1.0)
    return step


def row_moves(curves: Curves, w: Array, x: Array, sigma: float, norm: str) -> RowMoves:
    """What a row can gain for which cost, pushed in a direction, without the end pieces."""
    if norm != "l1":
        return _all_at_once(curves, w, x, sigma)
    return _one_by_one(x, [_gains(curves, w, j, float(x[j]), sigma) for j in range(curves.n)])


def _gains(curves: Curves, w: Array, j: int, x: float, sigma: float) -> Array:
    """Distance, gain and place of the knots that gain something, nearest first (K, 3)."""
    t = np.array(curves.knots[j])
    f = curves.value(j, w, np.append(t, x))
    gain = sigma * (f[:-1] - f[-1])
    order = np.argsort(np.abs(t - x), kind="stable")
    order = order[gain[order] > 0.0]
    return np.column_stack([np.abs(t - x)[order], gain[order], t[order]])


def _one_by_one(x: Array, knots: list[Array]) -> RowMoves:
    """Segments of the columns' concave majorants, the best rate first."""
    segments = []
    for j, points in enumerate(knots):
        hull = [(0.0, 0.0, float(x[j]))]
        for cost, gain, place in points.tolist():
            if gain <= hull[-1][1]:
                continue
            while len(hull) > 1 and _rate(hull[-2], hull[-1]) <= _rate(hull[-1], (cost, gain)):
                hull.pop()
            hull.append((cost, gain, place))
        for before, after in pairwise(hull):
            rate = _rate(before, after)
            segments.append((rate, after[0] - before[0], after[1] - before[1], j, after[2]))
    segments.sort(key=lambda segment: -segment[0])
    cost, gain, places = [0.0], [0.0], [x]
    for _, more, gained, j, place in segments:
        moved = places[-1].copy()
        moved[j] = place
        cost, gain, places = [*cost, cost[-1] + more], [*gain, gain[-1] + gained], [*places, moved]
    return RowMoves(np.array(cost), np.array(gain), np.array(places))


def _rate(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    length = other[0] - one[0]
    return (other[1] - one[1]) / length if length > 0.0 else math.inf


def _all_at_once(curves: Curves, w: Array, x: Array, sigma: float) -> RowMoves:
    """Within every distance at which a knot is, the best that each column can reach."""
    knots = [np.array(column) for column in curves.knots]
    reach = np.concatenate([[0.0], *(np.abs(t - x[j]) for j, t in enumerate(knots))])
    reach = np.unique(reach)
    gain, places = np.zeros(len(reach)), np.tile(x, (len(reach), 1))
    for j, t in enumerate(knots):
        for k, r in enumerate(reach.tolist()):
            near = t[np.abs(t - x[j]) <= r]
            to = np.concatenate([[x[j], x[j] - r, x[j] + r], near])
            f = sigma * curves.value(j, w, to)
            best = int(np.argmax(f))
            gain[k] += float(f[best] - f[0])
            places[k, j] = to[best]
    return RowMoves(reach, gain, places)


# ---------------------------------------------------------------------- several scores at once
ROUNDING = 1e-9  # a bound that is above the value by less is the value


class JointCurveOracle(CurveOracle):
    """What an adversary in x is found to do; ``rows`` are columns, W (K, n') their slopes."""

    loss: JointLoss  # type: ignore[assignment]

    def __init__(
        self, rows: Rows, loss: JointLoss, ball: Ball, curves: Curves, classes: int
    ) -> None:
        require_joint_ball(ball)
        self.rows, self.loss, self.ball = rows, loss, ball
        self.curves, self.classes, self.y = curves, classes, codes_of(rows.y, classes)

    @property
    def is_margin(self) -> bool:
        return True

    def evaluate(self, w: Array, b: float | Array) -> WorstCase:
        """What was found at W (K, n') and b (K,), and what is proved."""
        worst = JointSearch(self, w, b)
        d = worst.distribution()
        ramps = self.curves.expand(d.x)
        z = w @ ramps.T + np.broadcast_to(b, (self.classes,))[:, None]
        v = d.mass * self.loss.slope(z, d.y.astype(np.intp))
        bound = JointOracle(self.rows.ramped(self.curves), self.loss, self.ball, self.classes)
        most = bound.evaluate(w, b).value
        most = most if most > worst.value * (1.0 + ROUNDING) else worst.value
        return WorstCase(worst.value, v @ ramps, v.sum(axis=1), worst.price, lambda: d, most)

    def distribution(self, w: Array, b: float | Array) -> Distribution:
        return JointSearch(self, w, b).distribution()


class JointSearch(CurveSearch):
    """The best price, and what rows of K classes do at it."""

    oracle: JointCurveOracle
    loss: JointLoss  # type: ignore[assignment]

    def _labels(self, own: int) -> list[int]:
        """Which labels a row can have, its own first."""
        moves = np.isfinite(self.ball.label_cost) and self.ball.radius > 0.0
        others = range(self.oracle.classes) if moves else ()
        return [own, *(label for label in others if label != own)]

    def _options(self) -> Options:
        loss, cost, x, y, row = [], [], [], [], []
        for i, own in enumerate(self.oracle.y.tolist()):
            for label in self._labels(own):
                extra = self.ball.label_cost if label != own else 0.0
                for difference in self._differences(label):
                    moves = row_moves(self.oracle.curves, difference, self.X[i], 1.0, "l1")
                    labels = np.full(len(moves.cost), float(label))
                    loss.append(self._losses(moves.x, labels))
                    cost.append(moves.cost + extra)
                    x.append(moves.x)
                    y.append(labels)
                    row.append(np.full(len(moves.cost), i))
        return Options.of(loss, cost, x, y, row)

    def _differences(self, label: int) -> list[Array]:
        """The slopes of all scores over that of a label."""
        return [own - self.w[label] for j, own in enumerate(self.w) if j != label]

    def _least(self) -> float:
        labels = {label for own in np.unique(self.oracle.y) for label in self._labels(int(own))}
        return max(self._rate(d) for label in labels for d in self._differences(label))

    def _rate(self, difference: Array) -> float:
        return float(end_rates(self.oracle.curves, difference, 1.0).max(initial=0.0))

    def _ways_out(self, y: float) -> list[tuple[float, Array]]:
        found = []
        for label in self._labels(int(y)):
            steepest = max(self._differences(label), key=self._rate)
            found.append((float(label), way_out(self.oracle.curves, steepest, 1.0, "l1")))
        return found

    def _losses(self, X: Array, y: Array) -> Array:
        b = np.broadcast_to(self.b, (self.oracle.classes,))
        z = self.w @ self.oracle.curves.expand(X).T + b[:, None]
        return self.loss.value(z, y.astype(np.intp))
