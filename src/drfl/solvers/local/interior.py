"""Mehrotra's method for the whole problem: how far to go, and where the products should be.

The multipliers alpha of the rows' lines are the adversary; they give the lower bound.
"""

from __future__ import annotations

import math

from drfl.arrays import Array
from drfl.solvers.local.iterate import Iterate
from drfl.solvers.local.newton import NewtonSystem

CORRECTIONS = 3  # after the first one, each a solution with the same factor
MANY = 1000  # rows from which on a factor is dear enough for them
LONG, LONGER = 0.9, 0.3  # a step that needs no correction; by how much one should lengthen a step
WORTH = 0.02  # what a correction must add to both steps together
NEAR = 0.999  # of the way to the boundary
LEAST = 0.02  # of the products is aimed at, with curvature


class Interior:
    """An iteration from a point that has been started or resumed.

    Attributes
    ----------
    iterate : Iterate
        Where it is.
    values : (S,)
        F_s as the method saw it before the last step.
    full, full_q : arrays
        The variables and weights where a whole step would have led.
    products : float
        The sum of all products, which is the duality gap once all slopes balance.
    unmet : float
        The share of the first point's imbalance of slopes that is left.
    """

    values: Array
    full: Array
    full_q: Array

    def __init__(self, iterate: Iterate) -> None:
        self.iterate, self.unmet, self.products = iterate, 1.0, iterate.gap()
        self.degree = sum(part.degree for part in iterate.all_parts)

    def step(self) -> float:
        """One iteration; the length of the step, 0 if none is possible."""
        at, mu = self.iterate, self.products / self.degree
        system = NewtonSystem(at)
        self.values = system.values
        system.solve(0.0)
        primal, dual = _reach(at)
        primal, dual = min(primal, 1.0), min(dual, 1.0)
        sigma = min((max(at.gap(primal, dual), 0.0) / self.products) ** 3, 1.0)
        if at.tied:  # where equations are not linear, products must not run ahead of them
            sigma = max(sigma, LEAST)
        for part in at.all_parts:
            part.correct(primal * dual)
        system.solve(sigma * mu)
        primal, dual = _recentred(system, sigma * mu)
        if not (math.isfinite(primal) and math.isfinite(dual)):
            return 0.0
        self.full, self.unmet = at.xi + system.dxi, (1.0 - dual) * self.unmet
        self.full_q = at.q if at.weights is None else at.q + at.weights.dq
        at.advance(system.dxi, system.dz, primal, dual)
        self.products = at.gap()
        return min(primal, dual)


def _recentred(system: NewtonSystem, target: float) -> tuple[float, float]:
    """Step lengths, after more corrections as long as these make them longer (Gondzio)."""
    at = system.point
    primal, dual = _reach(at)
    for _ in range(CORRECTIONS if len(at.z) >= MANY else 0):
        if min(primal, dual) >= LONG:
            break
        kept = [part.second for part in at.all_parts]
        longer = min(1.0, primal + LONGER), min(1.0, dual + LONGER)
        for part in at.parts:
            part.recentre(*longer, target)
        for part in at.weight_parts:
            part.recentre(*longer[::-1], target)
        system.solve(target)
        reached = _reach(at)
        if sum(reached) < primal + dual + WORTH:
            for part, second in zip(at.all_parts, kept, strict=True):
                part.second = second
            system.solve(target)
            break
        primal, dual = reached
    return NEAR * primal, NEAR * dual


def _reach(at: Iterate) -> tuple[float, float]:
    """Step lengths to the boundary, or a little more than 1."""
    primal, dual = math.inf, math.inf
    for part in at.parts:
        own = part.reach()
        primal, dual = min(primal, own[0]), min(dual, own[1])
    for part in at.weight_parts:
        other = part.reach()
        primal, dual = min(primal, other[1]), min(dual, other[0])
    if at.tied:
        primal = dual = min(primal, dual)
    return min(1.0 / NEAR, primal), min(1.0 / NEAR, dual)
