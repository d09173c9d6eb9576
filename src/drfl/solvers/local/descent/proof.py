r"""What a point on the way down proves, with the step that leads on from it.

The slopes :math:`v_i=L'(z_i)` of the losses are moved by :math:`L''(z_i)\delta_i` with the change
:math:`\delta_i` of the score by the next step, and by as much of 1 as makes them cancel b. Their
sum should have the norm :math:`\rho`, as that of the optimum has. For the l2 norm it gets it by a
move along the score itself, and what is left of the error counts in its square: the proved gap is
hardly larger than the true one. For the linf norm, and where that does not do, a sum that is too
long is shortened, all slopes by one factor.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np

from drfl.arrays import Array
from drfl.norms import L2
from drfl.problem import Problem
from drfl.rows import Rows
from drfl.solvers.certificate.proof import add_up, aggregate, pay_by_gauge
from drfl.solvers.local.descent.objective import ModelPoint, Objective
from drfl.solvers.local.lower_bound import RowMinorants
from drfl.solvers.local.program import LocalSearch


class ProvenDescent(LocalSearch):
    """A descent, with the bounds at its points."""

    def __init__(
        self, problem: Problem, names: Sequence[str], clients: Sequence[Rows], tol: float
    ) -> None:
        super().__init__(problem, names, clients, tol)
        self.problem, self.names = problem, names

    def iterations(self) -> Iterator[None]:
        try:
            yield from self.steps()
        except np.linalg.LinAlgError:  # rows of no use to this method
            return

    @abstractmethod
    def steps(self) -> Iterator[None]:
        """What `iterations` goes through; LinAlgError: another method takes over."""

    def _prove(self, f: Objective, at: ModelPoint, ahead: Array) -> None:
        """Both bounds at a point."""
        w, b = at.x[: f.n], float(at.x[f.n]) if f.d > f.n else 0.0
        mean = None if f.loss.width else at.value
        model = self.whole.evaluate(self.program, w, b, f.arguments(at.scores), mean)
        if model.objective < self.best.objective:
            self.best = model
        self.lower = max(self.lower, self._bound(f, at, ahead))

    def _bound(self, f: Objective, at: ModelPoint, ahead: Array) -> float:
        """What slopes near those a step ahead prove, that cancel b and are paid for."""
        bent = f.loss.curvature(f.arguments(at.scores), at.slopes)
        own = at.scores - float(at.x[-1]) if f.d > f.n else at.scores
        radial = type(self.problem.norm) is L2
        moved, *along, ones = _moved_gradients(f, bent, [ahead, own] if radial else [ahead])
        g, u = at.gradient + moved, along[0] if radial else np.zeros(f.d)
        by_b, lean = 0.0, 0.0
        if f.d > f.n and ones[-1] > 0.0:
            by_b, lean = float(u[-1] / ones[-1]), float(g[-1] / ones[-1])
            g, u = g - lean * ones, u - by_b * ones
        alpha = _onto_sphere(g[: f.n], u[: f.n], f.rho)
        moves = alpha * own
        moves += ahead
        moves -= lean + alpha * by_b
        if self.program.margin:
            moves *= f.rows.y
        moves *= bent
        slopes, g = at.slopes + moves, g + alpha * u
        low, high = f.loss.loss.slope_range
        server, q = self.program.server, self.program.mixture.weights
        if (f.d > f.n and not bent.any()) or slopes.min() < low or slopes.max() > high:
            return self._bound_of(slopes)
        # Losses are nonnegative, so that slopes are slopes if they are shortened.
        factor = min(1.0, f.rho / max(server.gauge.polar(g[: f.n]), 1e-300))
        constants = -f.loss.loss.conjugate(factor * slopes)
        if not self.program.margin:
            constants -= factor * slopes * f.rows.y
        return pay_by_gauge(server, add_up(server, q, f.mean(constants), factor * g))

    def _bound_of(self, slopes: Array) -> float:
        """What any slopes of the losses of all rows prove."""
        server, q = self.program.server, self.program.mixture.weights
        loss, mass = self.program.loss, self.whole.mass(q)
        slopes = np.clip(slopes, *loss.slope_range)
        constants, nothing = -loss.conjugate(slopes) * mass, np.zeros(self.whole.size)
        rows = RowMinorants(self.program, self.whole, constants, slopes * mass, nothing)
        return pay_by_gauge(server, aggregate(server, rows, q))


def _moved_gradients(f: Objective, bent: Array, moves: Sequence[Array]) -> Array:
    """How the gradient changes along moves of the scores, and along 1 (K + 1, d)."""
    factors = np.empty((len(moves) + 1, len(bent)))
    by_score = np.multiply(bent, f.mass, out=factors[-1])
    for move, out in zip(moves, factors, strict=False):
        np.multiply(by_score, move, out=out)
    return f.combined_many(factors)


def _onto_sphere(g: Array, h: Array, radius: float) -> float:
    """The least t with ``|g + t h| = radius``; where there is none, that of the least norm."""
    hh, gh, excess = float(h @ h), float(g @ h), float(g @ g) - radius * radius
    if hh == 0.0:
        return 0.0
    root = gh * gh - hh * excess
    if root <= 0.0 or gh == 0.0:
        return -gh / hh
    # The root of smaller size, without cancellation.
    return -excess / (gh + math.copysign(math.sqrt(root), gh))
