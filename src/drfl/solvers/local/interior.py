"""Mehrotra's method for the whole problem: how far to go, and where the products should be.

The multipliers alpha of the rows' lines are the adversary; they give the lower bound.
"""

from __future__ import annotations

import math
from typing import Self

from drfl.solvers.local.newton import Newton

CORRECTIONS = 3  # after the first one, each a solution with the same factor
MANY = 1000  # rows from which on a factor is dear enough for them
LONG, LONGER = 0.9, 0.3  # a step that needs no correction; by how much one should lengthen a step
WORTH = 0.02  # what a correction must add to both steps together
NEAR = 0.999  # of the way to the boundary
LEAST = 0.02  # of the products is aimed at, with curvature


class Interior(Newton):
    """The iterate and its iteration.

    Attributes
    ----------
    full, full_q : arrays
        The variables and weights where a whole step would have led.
    products : float
        The sum of all products, which is the duality gap once all slopes balance.
    unmet : float
        The share of the first point's imbalance of slopes that is left.
    """

    def start(self) -> None:
        """Begin anew."""
        super().start()
        self._begin()

    def resume(self, other: Self, mu: float) -> None:
        """Go on from another problem's point, with other rows whose products are mu."""
        super().resume(other, mu)
        self._begin()

    def _begin(self) -> None:
        self.unmet, self.products = 1.0, self.gap()
        self.degree = sum(part.degree for part in self.all_parts)

    def step(self) -> float:
        """One iteration; the length of the step, 0 if none is possible."""
        mu = self.products / self.degree
        self.assemble()
        self.solve(0.0)
        primal, dual = self._reach()
        primal, dual = min(primal, 1.0), min(dual, 1.0)
        sigma = min((max(self.gap(primal, dual), 0.0) / self.products) ** 3, 1.0)
        if self.tied:  # where equations are not linear, products must not run ahead of them
            sigma = max(sigma, LEAST)
        for part in self.all_parts:
            part.correct(primal * dual)
        self.solve(sigma * mu)
        primal, dual = self._recentred(sigma * mu)
        if not (math.isfinite(primal) and math.isfinite(dual)):
            return 0.0
        self._update(primal, dual)
        self.products = self.gap()
        return min(primal, dual)

    def _recentred(self, target: float) -> tuple[float, float]:
        """Step lengths, after more corrections as long as these make them longer (Gondzio)."""
        primal, dual = self._reach()
        for _ in range(CORRECTIONS if len(self.z) >= MANY else 0):
            if min(primal, dual) >= LONG:
                break
            kept = [part.second for part in self.all_parts]
            longer = min(1.0, primal + LONGER), min(1.0, dual + LONGER)
            for part in self.parts:
                part.recentre(*longer, target)
            for part in self.weight_parts:
                part.recentre(*longer[::-1], target)
            self.solve(target)
            reached = self._reach()
            if sum(reached) < primal + dual + WORTH:
                for part, second in zip(self.all_parts, kept, strict=True):
                    part.second = second
                self.solve(target)
                break
            primal, dual = reached
        return NEAR * primal, NEAR * dual

    def _reach(self) -> tuple[float, float]:
        """Step lengths to the boundary, or a little more than 1."""
        primal, dual = math.inf, math.inf
        for part in self.parts:
            own = part.reach()
            primal, dual = min(primal, own[0]), min(dual, own[1])
        for part in self.weight_parts:
            other = part.reach()
            primal, dual = min(primal, other[1]), min(dual, other[0])
        if self.tied:
            primal = dual = min(primal, dual)
        return min(1.0 / NEAR, primal), min(1.0 / NEAR, dual)

    def _update(self, primal: float, dual: float) -> None:
        self.full, self.unmet = self.xi + self.dxi, (1.0 - dual) * self.unmet
        self.full_q = self.q if self.weights is None else self.q + self.weights.dq
        self.xi = self.xi + primal * self.dxi
        self.z = self.z + primal * self.dz
        for part in self.parts:
            part.update(primal, dual)
        if self.weights is not None:
            for cone in self.weights.parts:
                cone.update(dual, primal)
            self.weights.update(dual)
            self.q = self.weights.q
            self.P = self.stack.mass * self.stack.spread(self.q)
