r"""The exact worst case of an additive model, in x: for reports and the adversary alone.

Training bounds the worst case by that of the ramps; it is exact where the steepest piece of a curve
is an end piece. Exactly, for a row with score z that the adversary pushes in the direction
:math:`\sigma`, the cost C and the gain V of a few moves are known (`drfl.worst_case.curve_moves`),
and

.. math:: a_i(\lambda)=\max_k\ L(z_i+\sigma V_k)-\lambda C_k,\qquad
    F=\min_{\lambda\ge E}\rho\lambda+\sum_ip_ia_i(\lambda),

E being what the steepest end pieces gain for ever. That is a knapsack: every row goes along the
concave majorant of its points :math:`(C_k,L_k)`, the segments of all rows in the order of their
rates, until the budget is spent; what is left of it gains E. The price :math:`\lambda` is the rate
of the last segment.

Rows are looked at block by block. Only segments that the budget reaches are held; where a row is
moved to is made again in the end, for the option it takes.

Of several scores at once every row may go to the knots that raise some :math:`z_j-z_{y'}`, with
each label :math:`y'` that it can have. For the loss of Crammer and Singer, a maximum of such
differences, that is all there is, and the value is exact. The cross-entropy can gain a little more
where several differences rise at once: the value is then what was found, and the bound, that of the
ramps (`drfl.worst_case.joint`), is what is proved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np

from drfl.arrays import Array
from drfl.curves import Curves
from drfl.losses import Loss
from drfl.losses.joint import CrammerSinger, JointLoss
from drfl.norms import L1
from drfl.rows import Rows
from drfl.rows.operator import block_rows
from drfl.uncertainty import Ball
from drfl.worst_case.curve_moves import (
    AllAtOnce,
    Heights,
    OneByOne,
    Places,
    majorants,
    rates,
)
from drfl.worst_case.escape import TOLERANCE, Atoms
from drfl.worst_case.joint import JointOracle, codes_of, require_joint_ball
from drfl.worst_case.oracle import Distribution, Oracle, WorstCase

FAR = 1e3  # from where on, in units of the knots, all curves count as their end pieces
ROUNDING = 1e-9  # a bound that is above the value by less is the value


class Push(NamedTuple):
    """How rows may be pushed: their labels then, directions (m, K) of the scores, and how fast
    the loss grows along them at most."""

    label: Array
    direction: Array
    steepness: float


@dataclass(frozen=True)
class Segments:
    """Segments of the majorants of rows: their rates, the mass times what each costs and gains,
    the row, and to which move of which way it leads."""

    rate: Array
    cost: Array
    gain: Array
    row: Places
    way: Places
    move: Places

    def __getitem__(self, some: Places | slice) -> Segments:
        return Segments(*(getattr(self, part.name)[some] for part in fields(self)))

    @classmethod
    def best(cls, parts: Sequence[Segments], budget: float) -> Segments:
        """Those of the best rates that a budget pays, best first; the last perhaps in part."""
        columns = ([getattr(part, one.name) for part in parts] for one in fields(cls))
        found = cls(*map(np.concatenate, columns))
        order = np.argsort(-found.rate, kind="stable")
        reached = np.searchsorted(np.cumsum(found.cost[order]), budget)
        return found[order[: int(reached) + 1]]

    def price(self, budget: float) -> float:
        """The rate of the last, if the budget ends there; 0: it pays more than these."""
        return float(self.rate[-1]) if self.cost.sum() > budget else 0.0


class CurveOracle(Oracle):
    """F of a client with an additive model; ``rows`` are its columns, the model their slopes."""

    def __init__(self, rows: Rows, loss: Loss, ball: Ball, curves: Curves) -> None:
        super().__init__(rows, loss, ball)
        self.curves, self.scores = curves, 1

    def evaluate(self, w: Array, b: float | Array) -> WorstCase:
        worst = CurveSearch(self, w, b)
        d = worst.distribution()
        ramps = Rows(d.x, d.y).ramped(self.curves)
        v = d.mass * self.slopes(ramps.scores_many(worst.W, worst.b), d.y)
        g, gb = (part[:, 0] for part in ramps.combine_many(v))
        if w.ndim == 1:
            return WorstCase(worst.value, g[0], float(gb[0]), worst.price, lambda: d)
        return WorstCase(worst.value, g, gb, worst.price, lambda: d)

    def distribution(self, w: Array, b: float | Array) -> Distribution:
        return CurveSearch(self, w, b).distribution()

    @property
    def labels_move(self) -> bool:
        """Whether another label can be had for a finite cost."""
        return self.is_margin and math.isfinite(self.ball.label_cost)

    def ways(self, y: Array) -> Iterator[Push]:
        """How rows with such labels or targets may be pushed, with their own labels first."""
        if self.is_margin:
            for label in (y, -y) if self.labels_move else (y,):
                yield Push(label, -label[:, None], self.loss.lipschitz)
        else:
            up, (low, high) = np.ones((len(y), 1)), self.loss.slope_range
            sides = Push(y, up, high), Push(y, -up, -low)
            yield from (way for way in sides if way.steepness > 0.0)

    def worth(self, way: Push, price: float) -> float:
        """The rate at which a column has to raise the score, to be moved at such a price."""
        return price / way.steepness

    def losses(self, z: Array, y: Array) -> Array:
        """The losses (m,) of rows with scores (K, m)."""
        return self.loss.value(self.arguments(z[0], y))

    def slopes(self, z: Array, y: Array) -> Array:
        """Subgradients of the losses in the scores (K, m)."""
        slope = self.loss.slope(self.arguments(z[0], y))
        return (slope * y if self.is_margin else slope)[None]

    def label_costs(self, y: Array, label: Array) -> Array:
        """What rows pay for other labels or targets."""
        moved = (y != label) * (1.0 if self.is_margin else np.abs(label - y))
        return np.asarray(np.where(moved > 0.0, self.ball.label_cost, 0.0) * moved)


class JointCurveOracle(CurveOracle):
    """What an adversary in x is found to do; ``rows`` are columns, W (K, n') their slopes."""

    loss: JointLoss  # type: ignore[assignment]

    def __init__(
        self, rows: Rows, loss: JointLoss, ball: Ball, curves: Curves, classes: int
    ) -> None:
        require_joint_ball(ball)
        self.rows, self.loss, self.ball = rows, loss, ball
        self.curves, self.scores = curves, classes
        codes_of(rows.y, classes)

    def evaluate(self, w: Array, b: float | Array) -> WorstCase:
        """What was found at W (K, n') and b (K,), and what is proved where that is not exact."""
        found = super().evaluate(w, b)
        if isinstance(self.loss, CrammerSinger):
            return found
        ramps = JointOracle(self.rows.ramped(self.curves), self.loss, self.ball, self.scores)
        most = ramps.evaluate(w, b).value
        most = most if most > found.value * (1.0 + ROUNDING) else found.value
        return replace(found, bound=most)

    @property
    def is_margin(self) -> bool:
        return True

    def ways(self, y: Array) -> Iterator[Push]:
        """Every label that rows can have, and toward every other class."""
        K, unit = self.scores, np.eye(self.scores)
        for turn in range(K if self.labels_move else 1):
            label = (y.astype(np.intp) + turn) % K
            for ahead in range(1, K):
                toward = unit[(label + ahead) % K] - unit[label]
                yield Push(label.astype(np.float64), toward, 1.0)

    def worth(self, way: Push, price: float) -> float:
        return 0.0  # other scores may rise, too

    def losses(self, z: Array, y: Array) -> Array:
        return self.loss.value(z, y.astype(np.intp))

    def slopes(self, z: Array, y: Array) -> Array:
        return self.loss.slope(z, y.astype(np.intp))


class CurveSearch:
    """The best price, and what the rows do at it."""

    def __init__(self, oracle: CurveOracle, w: Array, b: float | Array) -> None:
        self.oracle, self.rows, self.ball = oracle, oracle.rows, oracle.ball
        self.W, self.b = np.atleast_2d(w), np.broadcast_to(b, (oracle.scores,))
        self.heights = Heights(oracle.curves, self.W)
        self.mass = self.rows.masses(np.arange(self.rows.n_rows))
        self.least = self._least()
        self.stay, self.segments = self._spend()
        # The budget ends within the last segment, or is not used up by all that gain more than E.
        cost, gain = self.segments.cost, self.segments.gain
        self.ends = self.segments.price(self.ball.radius) > 0.0
        whole = slice(len(cost) - self.ends)
        self.left = max(float(self.ball.radius - cost[whole].sum()), 0.0)
        self.price = float(self.segments.rate[-1]) if self.ends else self.least
        self.value = self.stay + float(gain[whole].sum()) + self.left * self.price

    # ---------------------------------------------------------------- the least price
    def _least(self) -> float:
        """E: the best rate at which a label or target with mass lets the loss rise for ever."""
        present = np.unique(self.rows.y[self.mass > 0.0])
        least = max(float(self._ends(way)[1].max()) for way in self.oracle.ways(present))
        return least if self.oracle.is_margin else max(least, self._target_rate)

    def _ends(self, way: Push) -> tuple[Array, Array, Places]:
        """The slopes (u, n') of what is pushed, at which rates (u,) the loss rises along the end
        pieces for ever, and which of these are those of each row (m,)."""
        directions, each = np.unique(way.direction, axis=0, return_inverse=True)
        slopes = directions @ self.W
        rate = end_rates(self.oracle.curves, slopes)
        rate = rate.max(axis=1) if self._one_by_one else rate.sum(axis=1)
        return slopes, way.steepness * rate, each.reshape(-1)

    @property
    def _target_rate(self) -> float:
        """The rate at which the targets of a regression raise the loss for ever."""
        return self.oracle.loss.lipschitz / self.ball.label_cost

    @property
    def _one_by_one(self) -> bool:
        return isinstance(self.ball.norm, L1)

    # ---------------------------------------------------------------- the knapsack
    def _spend(self) -> tuple[float, Segments]:
        """The mean loss of rows that stay, and the segments that the budget reaches."""
        radius, stay, held = self.ball.radius, 0.0, list[Segments]()
        price = self.least if radius > 0.0 else math.inf
        for block in self._blocks():
            loss, segments = self._segments(block, price)
            stay += float(self.mass[block] @ loss)
            held.append(segments)
            # Not block by block: what is held would be sorted again for a few new ones.
            if sum(len(part.rate) for part in held[1:]) >= len(held[0].rate):
                held = [Segments.best(held, radius)]
                price = max(price, held[0].price(radius))
        return stay, Segments.best(held, radius)

    def _blocks(self) -> Iterator[slice]:
        n_ways = sum(1 for _ in self.oracle.ways(self.rows.y[:1]))
        size = block_rows(self.oracle.curves.n_slopes * (n_ways + self.oracle.scores), 64)
        for start in range(0, self.rows.n_rows, size):
            yield slice(start, min(start + size, self.rows.n_rows))

    def _segments(self, block: slice, price: float) -> tuple[Array, Segments]:
        """The losses of rows that stay, and the segments at rates above a price."""
        X, y, mass = self.rows.take(block), self.rows.y[block], self.mass[block]
        reach = self._reach(X)
        z = reach.here.sum(axis=2) + self.b[:, None]
        loss, cost, sizes = [], [], []
        for way in self.oracle.ways(y):
            moves = reach.moves(way.direction, self.oracle.worth(way, self.least))
            size = moves.cost.shape[1]
            scores = (z[:, :, None] + moves.change).reshape(len(z), -1)
            loss.append(self.oracle.losses(scores, np.repeat(way.label, size)).reshape(-1, size))
            cost.append(moves.cost + self.oracle.label_costs(y, way.label)[:, None])
            sizes.append(size)
        losses, costs = np.hstack(loss), np.hstack(cost)
        at = majorants(costs, losses - losses[:, :1], price)
        costs, gains = (np.take_along_axis(part, at, axis=1) for part in (costs, losses))
        rate = rates(costs, gains)
        row, step = np.nonzero((rate > 0.0) & (mass[:, None] > 0.0))
        spent, gained = (mass[row] * np.diff(part)[row, step] for part in (costs, gains))
        option, first = at[row, step + 1], np.cumsum([0, *sizes])
        number = np.searchsorted(first, option, side="right") - 1
        where = row + block.start, number, option - first[number]
        return losses[:, 0], Segments(rate[row, step], spent, gained, *where)

    def _reach(self, X: Array) -> OneByOne | AllAtOnce:
        return (OneByOne if self._one_by_one else AllAtOnce)(self.heights, X)

    # ---------------------------------------------------------------- the distribution
    def distribution(self) -> Distribution:
        """The rows where they are moved to: one of them in part, if the budget ends with it."""
        n, segments = self.rows.n_rows, self.segments
        whole = segments[: len(segments.rate) - self.ends]
        way, move = np.zeros((2, n), dtype=np.intp)
        way[whole.row], move[whole.row] = whole.way, whole.move  # the last of a row
        source, mass = np.arange(n), self.mass
        if self.ends:
            last = segments[-1:]
            share = self.left / last.cost
            parts = (source, last.row), (way, last.way), (move, last.move)
            source, way, move = map(np.concatenate, parts)
            mass = np.append(mass, share * mass[last.row])
            mass[last.row] *= 1.0 - share
        atoms = Atoms(source, mass, self.rows.take(source), self.rows.y[source])
        size = next(self._blocks()).stop
        moved = np.flatnonzero((way > 0) | (move > 0))
        for start in range(0, len(moved), size):
            self._move(atoms, moved[start : start + size], way, move)
        return self._described(*self._let_go(atoms.present()))

    def _move(self, atoms: Atoms, some: Places, way: Places, move: Places) -> None:
        """Take some atoms where the moves of their ways lead, in place."""
        for number, one in enumerate(self.oracle.ways(atoms.y[some])):
            mine = way[some] == number
            if mine.any():
                at = some[mine]
                moves = self._reach(atoms.x[at]).moves(
                    one.direction[mine], self.oracle.worth(one, self.least)
                )
                atoms.x[at], atoms.y[at] = moves.points(move[at]), one.label[mine]

    def _let_go(self, atoms: Atoms) -> tuple[Atoms, float]:
        """What is left of the budget goes out along the end pieces, with a small mass far out.

        Returns the atoms, and what their loss may miss.
        """
        if self.ends or self.left == 0.0 or self.least == 0.0:
            return atoms, 0.0
        missed, k, step, label = min(self._ways_out(atoms), key=lambda way: way[0])
        tolerance = TOLERANCE * max(self.value, 1e-300)
        mass = min(float(atoms.mass[k]), tolerance / missed if missed > 0.0 else math.inf)
        own, kappa = float(atoms.y[k]), self.ball.label_cost
        if not step.any():  # the target of a regression
            dy = math.copysign(self.left / (mass * kappa), label - own)
            return atoms.split(k, mass, step, dy), tolerance
        if label != own:
            mass = min(mass, 0.5 * self.left / kappa)
        distance = self.left / mass - (kappa if label != own else 0.0)
        return atoms.split(k, mass, distance * step, label - own), tolerance

    def _ways_out(self, atoms: Atoms) -> Iterator[tuple[float, int, Array, float]]:
        """For every exit the atom that loses least on it: by how much it stays behind the least
        price, itself, and where it goes: a direction of length 1, and a label or target."""
        far = FAR * (
            1.0 + max((abs(t) for knots in self.oracle.curves.knots for t in knots), default=0.0)
        )
        for some, step, label in self._exits(atoms.y):
            x, y = atoms.x[some], atoms.y[some]
            cost = far * step.any(axis=1) + self.oracle.label_costs(y, label)
            rise = self._losses(x + far * step, label) - self._losses(x, y)
            missed = self.least * cost - rise
            k = int(np.argmin(missed))
            yield float(missed[k]), int(some[k]), step[k], float(label[k])

    def _exits(self, y: Array) -> Iterator[tuple[Places, Array, Array]]:
        """Which atoms can go to infinity at the least price, in which directions (m, n), and with
        which labels or targets."""
        if not self.oracle.is_margin and self._target_rate >= self.least:
            still = np.zeros((len(y), self.oracle.curves.n))
            yield from ((np.arange(len(y)), still, y + side * FAR) for side in (-1.0, 1.0))
            return
        for way in self.oracle.ways(y):
            slopes, rate, each = self._ends(way)
            some = np.flatnonzero(rate[each] >= self.least)
            if len(some):
                out = way_out(self.oracle.curves, slopes, self.ball.norm.name)
                yield some, out[each[some]], way.label[some]

    def _losses(self, X: Array, y: Array) -> Array:
        """The losses of rows (m, n) with such labels or targets."""
        z = Rows(X, y).ramped(self.oracle.curves).scores_many(self.W, self.b)
        return self.oracle.losses(z, y)

    def _described(self, atoms: Atoms, tolerance: float) -> Distribution:
        step = np.abs(atoms.x - self.rows.take(atoms.source))
        moved = step.sum(axis=1) if self._one_by_one else step.max(axis=1)
        moved += self.oracle.label_costs(self.rows.y[atoms.source], atoms.y)
        return atoms.distribution(moved, self._losses(atoms.x, atoms.y), tolerance)


def end_rates(curves: Curves, slopes: Array) -> Array:
    """How fast every column can raise sums of curves with slopes (..., n') for ever (..., n)."""
    last = np.cumsum(curves.sizes) - 1
    first = last + 1 - curves.sizes
    return np.maximum(np.maximum(slopes[..., last], -slopes[..., first]), 0.0)


def way_out(curves: Curves, slopes: Array, norm: str) -> Array:
    """The directions of unit length in which such sums grow fastest for ever (m, n)."""
    rate, last = end_rates(curves, slopes), np.cumsum(curves.sizes) - 1
    step = np.where(slopes[:, last] == rate, 1.0, -1.0) * np.sign(rate)
    if norm == "l1":
        step *= np.arange(curves.n) == rate.argmax(axis=1)[:, None]
    return step
