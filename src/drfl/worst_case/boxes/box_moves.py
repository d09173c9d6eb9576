r"""Moves inside a box: coordinate by coordinate, each up to its face.

How far the maximisers d of :math:`\langle g,d\rangle-\lambda\|d\|` go, each coordinate having the
room :math:`r_j` toward its face in direction :math:`\operatorname{sgn}g_j`, is stated by the norm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from drfl.arrays import Array
from drfl.losses import Loss
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
    """Piecewise-linear losses, norms that state how far rows go in a box."""

    def best_step(self, x: Array, y: Array, sigma: Array, size: float, lam: float) -> Step:
        room = self.rooms(x, sigma)
        length = self.ball.norm.box_lengths(room, size * np.abs(self.w), lam)
        dy = np.zeros(len(y))
        if self.targets_move and size / self.ball.label_cost > lam:
            room_y = self.target_room(y, sigma)
            dy = -sigma * np.where(np.isfinite(room_y), room_y, 0.0)
        return length * np.sign(np.multiply.outer(sigma, self.w)), dy

    def first_price(self, floor: float, top: float) -> float:
        # Unless the norm is made of lines, as l2 is not, the finite coordinates go to their faces
        # only as the others go to infinity.
        return floor if self.ball.norm.states("length_program") else floor * (1.0 + 1e-10)


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
