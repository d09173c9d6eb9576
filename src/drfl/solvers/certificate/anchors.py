r"""Minorants of f that hold for every w and b when the data are bounded.

In a box (m its midpoint, h half its sides, :math:`N(w)=\sum_jh_j|w_j|`) the adversary can afford to
move a share :math:`p_s=\min(1,\rho_s/D_s)` of every row to its worst corner, D_s being the mean
distance to the farthest corner. Hence, with :math:`P=\sum_s\hat q_sp_s`-like constants,

.. math::
    \text{A1:}\quad f\ge e + u^\top w + \beta b + \omega N(w)\quad(\beta>0,\ \beta<0),\qquad
    \text{A0:}\quad f\ge w_0\,(c_0+N(w)).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from drfl.arrays import Array
from drfl.ball import Ball
from drfl.losses import Loss
from drfl.mixture import Mixture
from drfl.norms import Norm
from drfl.problem import Problem
from drfl.supports import Box, Polyhedron
from drfl.worst_case.oracle import Oracle


@dataclass(frozen=True)
class Anchor:
    r"""One :math:`f\ge e+u^\top w+\beta b+\omega N(w)`."""

    e: float
    u: Array
    beta: float
    omega: float


@dataclass(frozen=True)
class Anchors:
    r"""A0, and A1 for either sign of the intercept's slope.

    Attributes
    ----------
    sides : tuple of Anchor
        A1 with beta < 0 and with beta > 0.
    w0, w0c0, u0 : float, float, (n,)
        A0: :math:`f\ge w_0(N(w)+u_0^\top w+c_0)`; u0 is 0 in bounded columns.
    half : (n,)
        h; 0 in columns that no finite box bounds.
    price : float
        :math:`h(\rho)`: :math:`f\ge\mathrm{price}\,\|w_I\|_*` over the unbounded columns I.
    unbounded : (n,) bool
        The columns I.
    norm : Norm
        The ground norm.
    """

    sides: tuple[Anchor, ...]
    w0: float
    w0c0: float
    u0: Array
    half: Array
    price: float
    unbounded: NDArray[np.bool_]
    norm: Norm

    def bound(self, constant: float, g: Array, gb: float) -> float:
        """The best value of ``constant + g'w + gb b`` mixed with the anchors, free of w and b."""
        r, side = 0.0, Anchor(0.0, np.zeros_like(g), 0.0, 0.0)
        if gb != 0.0:
            fitting = [s for s in self.sides if s.beta * gb < 0.0]
            if not fitting:
                return 0.0
            side = fitting[0]
            r = abs(gb / side.beta)
        slope = g + r * side.u
        finite = ~self.unbounded
        over = max(0.0, _box_dual(slope[finite], self.half[finite]) - r * side.omega)
        open_columns = (slope + over * self.u0)[self.unbounded]
        escape = float(self.norm(open_columns)) if len(open_columns) else 0.0
        cost = _cost(over, self.w0) + _cost(escape, self.price)
        if not np.isfinite(cost):
            return 0.0
        k = 1.0 / (1.0 + r + cost)
        spare = k * over / self.w0 if over > 0.0 else 0.0
        return max(0.0, k * (constant + r * side.e) + spare * self.w0c0)


def _box_dual(v: Array, half: Array) -> float:
    """max |v_j| / h_j, with 0/0 = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(v == 0.0, 0.0, np.abs(v) / half)
    return float(ratio.max(initial=0.0))


def _cost(amount: float, price: float) -> float:
    if amount <= 0.0:
        return 0.0
    return amount / price if price > 0.0 else np.inf


@dataclass(frozen=True)
class AnchorBox:
    """A box inside the support, to whose corners rows can be moved.

    Attributes
    ----------
    middle, half : (n,)
        Of the box; 0 in unbounded columns, where rows stay.
    unbounded : (n,)
        Columns that the support does not bound.
    target : float or None
        Where targets have to go as well (polyhedra in regression); None: they stay.
    """

    middle: Array
    half: Array
    unbounded: NDArray[np.bool_]
    target: float | None = None

    @classmethod
    def of(cls, ball: Ball, loss: Loss, n: int) -> AnchorBox | None:
        """The box of a support; None if there is none that serves."""
        if isinstance(ball.support, Box):
            low, high = ball.support.bounds(n)
            bounded = np.isfinite(low) & np.isfinite(high)
            if (np.isfinite(low) ^ np.isfinite(high)).any():
                return None  # rows may have to head for the finite side: nothing prices w there
            low, high = np.where(bounded, low, 0.0), np.where(bounded, high, 0.0)
            return cls((low + high) / 2.0, (high - low) / 2.0, ~bounded)
        if isinstance(ball.support, Polyhedron):
            return cls._inscribed(ball, loss, n)
        return None

    @classmethod
    def _inscribed(cls, ball: Ball, loss: Loss, n: int) -> AnchorBox | None:
        """A large box in a polyhedron, by a linear program: Cm + |C|h <= d, all h >= t, max t."""
        assert isinstance(ball.support, Polyhedron)
        moves = loss.task == "regression"
        if moves and math.isinf(ball.label_cost):
            return None
        C, d = np.asarray(ball.support.C), np.asarray(ball.support.d)
        k = C.shape[1]
        size = np.where(np.arange(k) < n, 1.0, 0.0)  # the target's side is a point
        A = np.hstack([C, np.abs(C) @ size[:, None], np.abs(C) * size])
        cost = np.concatenate([np.zeros(k), [-1.0], -1e-3 * size])
        bounds = [(None, None)] * k + [(0.0, 1e6)] + [(0.0, 1e6)] * k
        answer = linprog(cost, A_ub=A, b_ub=d, bounds=bounds, method="highs")
        if answer.x is None:
            return None
        middle, least, more = answer.x[:k], answer.x[k], answer.x[k + 1 :]
        # The linear program is solved to a tolerance: stay a little inside.
        half = (1.0 - 1e-6) * (least + more[:n])
        target = float(middle[n]) if moves else None
        return cls(middle[:n], half, np.zeros(n, np.bool_), target)

    def facts(self, oracle: Oracle) -> Array:
        r"""What a client tells once, (3, n + 1).

        Share and mean row of the two classes (regression: all rows, nothing), then the mean
        distance to the farthest corner and the mean target.
        """
        rows, n = oracle.rows, oracle.rows.n_features
        out, distance = np.zeros((3, n + 1)), 0.0
        finite = ~self.unbounded
        for block, x in rows.dense_blocks():
            y, p = rows.y[block], np.broadcast_to(rows.mass(block), (len(x),))
            far = oracle.ball.norm(np.abs(x - self.middle)[:, finite] + self.half[finite])
            if self.target is not None:
                far = far + oracle.ball.label_cost * np.abs(y - self.target)
            distance += float(p @ far)
            classes = (y < 0.0, y > 0.0) if oracle.is_margin else (np.ones(len(y), bool),)
            for k, chosen in enumerate(classes):
                out[k, 0] += p[chosen].sum()
                out[k, 1:] += p[chosen] @ x[chosen]
            out[2, 1] += float(p @ y)
        out[:2, 1:] /= np.where(out[:2, :1] > 0.0, out[:2, :1], 1.0)
        out[2, 0] = distance
        return out


def anchor_boxes(problem: Problem, names: Sequence[str], n: int) -> list[AnchorBox | None]:
    """The box of every client, found once for every ball that they share."""
    balls = [problem.ball_of(name) for name in names]
    found = {id(ball): AnchorBox.of(ball, problem.loss, n) for ball in balls}
    return [found[id(ball)] for ball in balls]


def make_anchors(
    loss: Loss, balls: Sequence[Ball], box: AnchorBox, mixture: Mixture, facts: Array
) -> Anchors:
    """Anchors from what every client told; the balls share their support."""
    rho = np.array([ball.radius for ball in balls])
    cost = np.array([ball.label_cost for ball in balls])
    center, distance, targets = mixture.weights, facts[:, 2, 0], facts[:, 2, 1]
    safe = np.where(distance > 0.0, distance, 1.0)
    p = np.where(rho > 0.0, np.where(distance > 0.0, np.minimum(1.0, rho / safe), 1.0), 0.0)
    means = facts[:, :2, 1:]
    moved = np.where(box.unbounded, means, (1.0 - p[:, None, None]) * means)
    moved += np.where(box.unbounded, 0.0, p[:, None, None] * box.middle)
    if box.target is not None:
        targets = (1.0 - p) * targets + p * box.target
    mass = center[:, None] * facts[:, :2, 0]  # (S, classes)
    a, P = mass.sum(axis=0), (mass * p[:, None]).sum(axis=0)
    u = np.einsum("sk,skn->kn", mass, moved)
    sides, u0 = [], np.zeros(len(box.middle))
    for v in loss.slope_range:
        c0 = -float(loss.conjugate(np.array([v]))[0])  # a line under the loss: L(z) >= v z + c0
        if v != 0.0 and loss.task == "classification":
            for k, y in enumerate((-1.0, 1.0)):
                sides.append(Anchor(c0 * a[k], v * y * u[k], v * y * a[k], abs(v) * P[k]))
        elif v != 0.0:
            sides.append(Anchor(c0 - v * float(center @ targets), v * u[0], v, abs(v) * P[0]))
    if loss.task == "classification":
        c0 = -float(loss.conjugate(np.array([-1.0]))[0])
        both = 2.0 * P[0] * P[1] / (P[0] + P[1]) if P.sum() > 0.0 else 0.0
        flip = float(center @ np.where(rho > 0.0, np.minimum(1.0, rho / (distance + cost)), 0.0))
        w0 = max(both, flip)
        if w0 > flip:  # what the classes' means leave where rows stay does not cancel with b
            apart = np.einsum("sk,s,skn->kn", mass, p, means) / P[:, None]
            u0 = np.where(box.unbounded, 0.5 * (apart[0] - apart[1]), 0.0)
        w0c0 = w0 * c0
    else:  # the two signs cancel b, and with it everything but N(w)
        down, up = sides
        t = up.beta / (up.beta - down.beta)
        w0, w0c0 = t * down.omega + (1.0 - t) * up.omega, t * down.e + (1.0 - t) * up.e
    price = mixture.support(rho * loss.lipschitz)
    usable = tuple(side for side in sides if side.beta != 0.0)
    return Anchors(usable, w0, w0c0, u0, box.half, price, box.unbounded, balls[0].norm)
