r"""Moves inside a box: coordinate by coordinate, each up to its face.

With the room :math:`r_j` of a row toward the face in direction :math:`\operatorname{sgn}g_j`, the
maximisers d of :math:`\langle g,d\rangle-\lambda\|d\|` have :math:`|d_j|=r_j` where
:math:`|g_j|>\lambda` (l1), :math:`|d_j|=\min(r,r_j)` (linf), :math:`|d_j|=\min(|g_j|s,r_j)` (l2).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.norms import L1, L2, LInf
from drfl.supports import Box
from drfl.uncertainty import Ball
from drfl.worst_case.moves import Escape, Moves, PieceMoves, Step


class BoxGeometry(Moves):
    """Rooms and ways to infinity of a box."""

    def __init__(self, loss: Loss, ball: Ball, w: Array) -> None:
        super().__init__(loss, ball, w)
        assert isinstance(ball.support, Box)
        self.box = ball.support
        self.low, self.high = self.box.bounds(len(w))

    def rooms(self, x: Array, sigma: Array) -> Array:
        """How far each coordinate can go in the direction of sigma w; 0 where w is 0."""
        up = np.multiply.outer(sigma, self.w)
        room = np.where(up > 0.0, self.high - x, x - self.low)
        return np.where(up == 0.0, 0.0, np.maximum(room, 0.0))

    def target_room(self, y: Array, sigma: Array) -> Array:
        """How far targets can go against sigma: the residual falls as the target rises."""
        room = np.where(sigma > 0.0, y - self.box.y_low, self.box.y_high - y)
        return np.maximum(room, 0.0)

    def escape(self, sigma: float) -> Escape:
        up = sigma * self.w > 0.0
        unbounded = np.where(up, self.high == math.inf, self.low == -math.inf)
        free = np.where(unbounded, self.w, 0.0)
        escape = Escape(self.ball.norm.dual(free), sigma * self.ball.norm.steepest(free), 0.0)
        if self.targets_move:
            side = self.box.y_low if sigma > 0.0 else self.box.y_high
            rate = 1.0 / self.ball.label_cost
            if math.isinf(side) and rate > escape.rate:
                return Escape(rate, np.zeros_like(self.w), -sigma * rate)
        return escape


class BoxMoves(BoxGeometry, PieceMoves):
    """Piecewise-linear losses, any norm."""

    def best_step(self, x: Array, y: Array, sigma: Array, size: float, lam: float) -> Step:
        room = self.rooms(x, sigma)
        length = LENGTHS[type(self.ball.norm)](room, size * np.abs(self.w), lam)
        dy = np.zeros(len(y))
        if self.targets_move and size / self.ball.label_cost > lam:
            room_y = self.target_room(y, sigma)
            dy = -sigma * np.where(np.isfinite(room_y), room_y, 0.0)
        return length * np.sign(np.multiply.outer(sigma, self.w)), dy

    def first_price(self, floor: float, top: float) -> float:
        # With l2 the finite coordinates go to their faces only as the others go to infinity.
        return floor * (1.0 + 1e-10) if isinstance(self.ball.norm, L2) else floor


class GreedyMoves(BoxGeometry):
    r"""Any convex loss, the l1 norm: coordinates to their faces in the order of effect per cost.

    Along that path :math:`L(z+\sigma V)-\lambda C` is convex between faces, so its maximum is at
    one of them (or at the row).
    """

    def steps(self, x: Array, y: Array, z: Array, lam: float) -> Iterator[Step]:
        is_margin = self.loss.task == "classification"
        for v in self.loss.slope_range:
            if abs(v) * self.reach > lam:
                toward = np.full(len(y), np.sign(v))
                sigma = toward * y if is_margin else toward
                yield self._path(x, y, z, sigma, v, lam)

    def _path(self, x: Array, y: Array, z: Array, sigma: Array, v: float, lam: float) -> Step:
        m, n = x.shape
        room, effect, cost = self.rooms(x, sigma), np.abs(self.w), np.ones(n)
        if self.targets_move:
            room = np.column_stack([room, self.target_room(y, sigma)])
            effect, cost = np.append(effect, 1.0), np.append(cost, self.ball.label_cost)
        order = np.argsort(-effect / cost, kind="stable")
        order = order[abs(v) * effect[order] > lam * cost[order]]
        along = np.where(np.isfinite(room), room, 0.0)[:, order]  # inf: lam allows no gain there
        start = np.zeros((m, 1))
        change = np.hstack([start, np.cumsum(along * effect[order], axis=1)])
        price = np.hstack([start, np.cumsum(along * cost[order], axis=1)])
        worth = self.loss.value(z[:, None] + np.sign(v) * change) - lam * price
        faces = np.argmax(worth, axis=1)
        length = np.zeros((m, len(effect)))
        length[:, order] = np.where(np.arange(len(order)) < faces[:, None], along, 0.0)
        dy = -sigma * length[:, n] if self.targets_move else np.zeros(m)
        return length[:, :n] * np.sign(np.multiply.outer(sigma, self.w)), dy


def _l1_length(room: Array, g: Array, lam: float) -> Array:
    return np.where((g > lam) & np.isfinite(room), room, 0.0)


def _linf_length(room: Array, g: Array, lam: float) -> Array:
    """The common length r where the sum of g over the rooms beyond r falls to lam."""
    order = np.argsort(-room, axis=1)
    down = np.take_along_axis(room, order, axis=1)
    # Infinite rooms never outweigh lam (it is above the floor), whatever rounding says.
    weight = np.cumsum(g[order], axis=1)
    enough = (weight > lam) & np.isfinite(down)
    k = np.argmax(enough, axis=1)[:, None]
    r = np.where(np.take_along_axis(enough, k, axis=1), np.take_along_axis(down, k, axis=1), 0.0)
    return np.minimum(room, r)


def _l2_length(room: Array, g: Array, lam: float) -> Array:
    r"""The solution s of :math:`\|d(s)\|=\lambda s`, :math:`d_j(s)=\min(g_js,r_j)`.

    :math:`f(s)=\sum_j\min(g_j,r_j/s)^2` decreases; faces are reached in the order of
    :math:`r_j/g_j`. With k faces reached :math:`s^2=\sum_{\text{reached}}r_j^2 /
    (\lambda^2-\sum_{\text{others}}g_j^2)`.
    """
    finite = np.isfinite(room)
    ratio = np.divide(room, g, out=np.zeros_like(room), where=g > 0.0)
    order = np.argsort(ratio, axis=1)
    t = np.take_along_axis(ratio, order, axis=1)
    r2 = np.cumsum(np.take_along_axis(np.where(finite, room, 0.0), order, axis=1) ** 2, axis=1)
    others = np.zeros_like(room)
    others[:, :-1] = np.cumsum((g[order] ** 2)[:, :0:-1], axis=1)[:, ::-1]
    # A coordinate without room is at its face from the start, one with all the room never.
    at_faces = np.divide(r2, t * t, out=np.full_like(t, math.inf), where=t > 0.0)
    reached = np.count_nonzero((others + at_faces >= lam * lam) & np.isfinite(t), axis=1)
    last = np.maximum(reached - 1, 0)[:, None]
    r2, others = np.take_along_axis(r2, last, axis=1), np.take_along_axis(others, last, axis=1)
    left = lam * lam - others
    s2 = np.divide(r2, left, out=np.where(r2 > 0.0, math.inf, 0.0), where=left > 0.0)
    s = np.where(reached[:, None] > 0, np.sqrt(s2), 0.0)
    return np.minimum(np.multiply(s, g, out=np.zeros_like(room), where=g > 0.0), room)


LENGTHS = {L1: _l1_length, L2: _l2_length, LInf: _linf_length}
