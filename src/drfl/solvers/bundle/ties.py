r"""Among models that are equally good, the one of smallest norm.

Where every radius is 0 the optimum is often not unique, and an arbitrary one can be much worse on
other data. So the session goes on with

.. math:: \min_w \|w\|_2\quad\text{s.t.}\quad f(w,b)\le\mathrm{level},

by cuts: z solves it over the model, so :math:`\|z\|` is a lower bound of the smallest norm. If a
point is not good enough, the one on the segment from the best model to it that must be (f is
convex) is evaluated as well. Where f is smooth, its cuts near the level are nearly flat; there the
Newton step of the Lagrangian, :math:`\tfrac12\|w\|^2+\tfrac\nu2\|x-x_k\|_H^2` over the cuts with
:math:`\nu` the multiplier of the level, goes first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array
from drfl.solvers.bundle.steps import Metric, Proposal
from drfl.solvers.certificate.cuts import Solution

CLOSE = 1.01  # the norm is within 1 % of the smallest


@dataclass
class Ties:
    """The best model so far that is good enough, and what is known of the smallest norm.

    Attributes
    ----------
    level : float
        Objectives up to here count as optimal.
    x, objective : Array, float
        The model of smallest norm with an objective within the level.
    n : int
        The intercept is not part of the norm.
    at, nu : Array, float
        Where the last Newton step led, and its multiplier.
    done : bool
        Whether the norm is within 1 % of the smallest.
    """

    level: float
    x: Array
    objective: float
    n: int
    at: Array
    nu: float = 0.0
    least: float = 0.0
    done: bool = False

    def norm(self, x: Array) -> float:
        """The Euclidean norm of the coefficients."""
        return float(np.linalg.norm(x[: self.n]))

    def offer(self, x: Array, objective: float) -> bool:
        """Take a point that is good enough and smaller; say whether it was taken."""
        taken = objective <= self.level and self.norm(x) < self.norm(self.x)
        if taken:
            self.x, self.objective = x, objective
        self.done = self.norm(self.x) <= CLOSE * self.least + 1e-12
        return taken

    def next_points(
        self, solution: Solution, refused: tuple[Array, float] | None
    ) -> list[Proposal]:
        """The smallest model that the cuts allow, and the way back from the one just refused."""
        self.least = max(self.least, self.norm(solution.x)) if solution.usable else self.least
        self.done = self.norm(self.x) <= CLOSE * self.least + 1e-12 or not solution.usable
        points = [Proposal(solution.x)]
        if refused is not None and refused[1] > self.level:
            z, value = refused
            share = (self.level - self.objective) / max(value - self.objective, 1e-300)
            points.append(Proposal(self.x + max(share, 0.0) * (z - self.x)))
        return points


def is_unique(metric: Metric, q: Array) -> bool:
    """Whether the curvature of a smooth loss is so full that there is one minimiser."""
    if not metric.known:
        return False
    scale = 1.0 / np.sqrt(metric.diagonal)
    H = metric.curvature(q) * np.outer(scale, scale)
    return bool(np.linalg.eigvalsh(H)[0] > 1e-4 * np.trace(H) / len(H))
