r"""The worst-case loss on a support, block by block, for every pair that has no closed form.

For a block of rows and a price lambda the best place of each row gives its share of

.. math::
    \varphi(\lambda)=\rho\lambda+\sum_ip_i\max_{\text{places}}\big(L-\lambda d\big)

with a tangent: the slope of the loss times the place, and minus the distance. One pass over the
rows per price; the search needs ten to thirty.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.norms import L1, L2
from drfl.supports import Box, Polyhedron, Support
from drfl.uncertainty import Ball
from drfl.worst_case.boxes.box_moves import BoxMoves, GreedyMoves
from drfl.worst_case.escape import Atoms, Floor, describe, find_floor, let_escape
from drfl.worst_case.moves import Moves
from drfl.worst_case.oracle import Distribution, Oracle, WorstCase
from drfl.worst_case.polyhedron_moves import ConeMoves, VertexMoves
from drfl.worst_case.price_search import Bracket, Tangent, as_worst_case, cut, minimise
from drfl.worst_case.whole_space import WholeSpaceOracle


class Places(NamedTuple):
    """Where the rows of a block are best taken at a price, and what that costs."""

    x: Array
    y: Array
    z: Array
    """The argument of the loss there."""
    cost: Array


class GainOracle(Oracle):
    """F on boxes and polyhedra by the gains of single rows."""

    def evaluate(self, w: Array, b: float) -> WorstCase:
        whole = settled_by_labels(self, w, b)
        if whole is not None:
            return whole
        moves = make_moves(self.loss, self.ball, w)
        floor = find_floor(self, moves)
        best = cut(self._search(moves, floor, b), floor.lam, floor.gradient)
        return as_worst_case(best, lambda: self.distribution(w, b))

    def at_price(self, w: Array, b: float, lam: float) -> Tangent:
        r"""A tangent of :math:`\varphi` at a given price, in lambda and in (w, b)."""
        return self.tangent(make_moves(self.loss, self.ball, w), b, lam)

    def distribution(self, w: Array, b: float, near: tuple[float, ...] = ()) -> Distribution:
        """Every row at its best places at two prices, with the weights of the two.

        ``near`` are prices close to the best one, if they are known.
        """
        whole = settled_by_labels(self, w, b)
        if whole is not None:
            return whole.distribution()
        moves = make_moves(self.loss, self.ball, w)
        floor = find_floor(self, moves)
        bracket = self._search(moves, floor, b, near)
        atoms = self._atoms(moves, bracket, b)
        spare = bracket[0][1].slope if len(bracket) == 1 else 0.0
        if floor.lam * spare <= 1e-14 * self.ball.radius * floor.lam:
            return describe(atoms, self, w, b)
        value = cut(bracket, floor.lam, floor.gradient).value
        return let_escape(atoms, spare, floor, self, w, b, value)

    def _search(
        self, moves: Moves, floor: Floor, b: float, near: tuple[float, ...] = ()
    ) -> Bracket:
        top = self.loss.lipschitz * moves.reach
        low = moves.first_price(floor.lam, top)
        return minimise(
            lambda lam: self.tangent(moves, b, lam), low, top, near=near, accuracy=moves.accuracy
        )

    def tangent(self, moves: Moves, b: float, lam: float) -> Tangent:
        """One pass over the rows at one price."""
        mean, cost, gb, g = 0.0, 0.0, 0.0, np.zeros(self.rows.n_features)
        for block, x in self.rows.dense_blocks():
            place = self._places(moves, x, self.rows.y[block], b, lam)
            value, v = self.loss.value_and_slope(place.z)
            mean += self.rows.mean(value, block)
            cost += self.rows.mean(place.cost, block)
            v *= self.rows.mass(block)
            if self.is_margin:
                v *= place.y
            g += v @ place.x
            gb += float(v.sum())
        radius = self.ball.radius
        return Tangent(lam, mean + lam * (radius - cost), radius - cost, g, gb)

    def _places(self, moves: Moves, x: Array, y: Array, b: float, lam: float) -> Places:
        """The best place of every row: itself, or one of the steps, with its label or the other."""
        w, kappa, norm = moves.w, self.ball.label_cost, self.ball.norm
        z = self.arguments(x @ w + b, y)
        best = Places(x.copy(), y.copy(), z, np.zeros(len(y)))
        worth = self.loss.value(z)

        def offer(place: Places) -> None:
            nonlocal worth
            new = self.loss.value(place.z) - lam * place.cost
            better = new > worth
            worth = np.where(better, new, worth)
            for old, fresh in zip(best, place, strict=True):
                old[better] = fresh[better]

        for flip in (False, True) if self.is_margin and math.isfinite(kappa) else (False,):
            label = -y if flip else y
            z = self.arguments(x @ w + b, label)
            fee = kappa if flip else 0.0
            if flip:
                offer(Places(x, label, z, np.full(len(y), fee)))
            for dx, dy in moves.steps(x, label, z, lam):
                cost = norm(dx) + fee
                if moves.targets_move:
                    cost += kappa * np.abs(dy)
                offer(
                    Places(x + dx, label + dy, self.arguments((x + dx) @ w + b, label + dy), cost)
                )
        return best

    def _atoms(self, moves: Moves, bracket: Bracket, b: float) -> Atoms:
        """The rows at their best places; a row that stays at one place is one atom."""
        found: list[tuple[Array, ...]] = []
        for block, x in self.rows.dense_blocks():
            rows = np.arange(block.start, block.stop)
            mass, y = self.rows.masses(rows), self.rows.y[block]
            places = [self._places(moves, x, y, b, tangent.lam) for _, tangent in bracket]
            first, last = places[0], places[-1]
            same = (first.x == last.x).all(axis=1) & (first.y == last.y)
            share = np.where(same, 1.0, bracket[0][0])
            found.append((rows, mass * share, first.x, first.y))
            found.append((rows, mass * (1.0 - share), last.x, last.y))
        source, mass, x, y = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Atoms(source, mass, x, y)


def settled_by_labels(oracle: Oracle, w: Array, b: float) -> WorstCase | None:
    """F from the whole space where it is the same: without a budget, or if flips set the price.

    From the price Lip ||w||_* on no row moves in any support, so if flipped labels alone keep the
    price above it, the support plays no role.
    """
    ball = oracle.ball
    flips = oracle.is_margin and math.isfinite(ball.label_cost)
    if ball.radius > 0.0 and not flips:
        return None
    whole = WholeSpaceOracle(oracle.rows, oracle.loss, ball).evaluate(w, b)
    above = whole.multiplier > oracle.loss.lipschitz * ball.norm.dual(w)
    return whole if ball.radius == 0.0 or above else None


def make_moves(loss: Loss, ball: Ball, w: Array) -> Moves:
    """The moves of a pair that the table of pairs admits."""
    return moves_class(loss, ball)(loss, ball, w)


def moves_class(loss: Loss, ball: Ball) -> type[Moves]:
    """The class of moves in a support, or a sentence that says which pairs there are."""
    kind = type(ball.support)
    if kind not in MOVES:
        raise ValueError(f"nobody knows the moves in a {ball.support.name}: add it to MOVES")
    return MOVES[kind](loss, ball)


def _in_box(loss: Loss, ball: Ball) -> type[Moves]:
    if loss.pieces:
        _require_stated(ball, ball.norm.states("box_lengths"), "box_lengths")
        return BoxMoves
    if isinstance(ball.norm, L1):
        return GreedyMoves
    raise ValueError(
        f"{loss.name} on a box is solved with the l1 norm only, not {ball.norm.name}: use "
        "norm='l1', the whole space, or a piecewise-linear loss (hinge, epsilon_insensitive, "
        "pinball)"
    )


def _in_polyhedron(loss: Loss, ball: Ball) -> type[Moves]:
    if loss.pieces:
        cone = isinstance(ball.norm, L2)
        _require_stated(ball, cone or ball.norm.states("length_program"), "length_program")
        return ConeMoves if cone else VertexMoves
    raise ValueError(
        f"{loss.name} on a polyhedron is not solved: polyhedra take hinge, epsilon_insensitive and "
        f"pinball; {loss.name} takes the whole space or, with norm='l1', a box"
    )


def _require_stated(ball: Ball, stated: bool, what: str) -> None:
    """What is not known of a norm is not taken from another one."""
    if not stated:
        raise ValueError(
            f"the norm {ball.norm.name!r} does not state how far rows move on a "
            f"{ball.support.name}: give it the method {what} (docs/adding-a-norm.md), or take "
            "the whole space"
        )


MOVES: dict[type[Support], Callable[[Loss, Ball], type[Moves]]] = {
    Box: _in_box,
    Polyhedron: _in_polyhedron,
}
"""Who says which moves a loss has in a kind of support; pairs without any are a ValueError."""
