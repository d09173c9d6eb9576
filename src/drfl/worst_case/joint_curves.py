r"""The worst case of several additive scores at once, in x: for reports and the adversary alone.

Training bounds it by that of the ramps (`drfl.worst_case.joint`). Here every row may go to the
knots that raise some :math:`z_j-z_{y'}`, in the order of `drfl.worst_case.curves`, with each label
:math:`y'` that it can have. For the loss of Crammer and Singer, a maximum of such differences, that
is all there is, and the value is exact. The cross-entropy can gain a little more where several
differences rise at once: the value is then what was found, and the bound is what is proved.
"""

from __future__ import annotations

import numpy as np

from drfl.arrays import Array
from drfl.curves import Curves
from drfl.losses.joint import JointLoss
from drfl.rows import Rows
from drfl.uncertainty import Ball
from drfl.worst_case.curves import CurveOracle, CurveSearch, Options, end_rates, row_moves, way_out
from drfl.worst_case.joint import JointOracle, codes_of, require_joint_ball
from drfl.worst_case.oracle import Distribution, WorstCase

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
