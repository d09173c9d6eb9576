"""Piecewise-linear losses on a box with the l1 norm: the closed form of the clipped w."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.worst_case.boxes.box_moves import BoxMoves
from drfl.worst_case.boxes.clipping import Clipping
from drfl.worst_case.boxes.l1_search import BestPrice, WinnersAt, best_price
from drfl.worst_case.escape import Floor, find_floor
from drfl.worst_case.gains import GainOracle
from drfl.worst_case.oracle import Distribution, Oracle, WorstCase
from drfl.worst_case.price_search import as_worst_case, cut
from drfl.worst_case.whole_space import WholeSpaceOracle


@dataclass(frozen=True)
class Active:
    r"""The pieces that win the rows in a part of the optimal mixture.

    With midpoint m and half width h of the box, a row adds

    .. math::
        \alpha_i(\langle m,w\rangle+b)+\tfrac{\alpha_i}{A}\langle\omega,x_i-m\rangle
        +1[\alpha_i\ne0]\,\tau+\text{constant}_i-\kappa\lambda\,1[\text{flipped}]

    to the mean, A being the size of its slope: what a cut in
    :math:`(w,b,\omega,\tau,\lambda)` needs. A bounded target adds its own terms.

    Attributes
    ----------
    weight : float
        Of this part; they sum to 1.
    multiplier : float
        Its lambda.
    slope : array of shape (N,)
        :math:`\alpha_i`, in the score; 0 where a constant piece wins.
    constant : array of shape (N,)
        Of the piece, with :math:`-\alpha_iy_i` in regression.
    flipped : array of shape (N,)
        Whether the row has the other label.
    """

    weight: float
    multiplier: float
    slope: Array
    constant: Array
    flipped: NDArray[np.bool_]


class L1BoxOracle(Oracle):
    """F on a box with the l1 norm, for piecewise-linear losses."""

    def evaluate(self, w: Array, b: float) -> WorstCase:
        floor = self._floor(w)
        solution = self._solve(self._problem(w, b, floor))
        if solution is None:
            return self._whole.evaluate(w, b)
        best = cut(solution.bracket, floor.lam, floor.gradient)
        return as_worst_case(best, lambda: self.distribution(w, b))

    def active(self, w: Array, b: float) -> tuple[Active, ...]:
        """The winning pieces in the parts of the optimal mixture.

        Empty where the box plays no role: without a budget, or if flipped labels set the price.
        """
        problem = self._problem(w, b, self._floor(w))
        solution = self._solve(problem)
        return tuple(self._active(problem, part) for part in (solution.parts if solution else ()))

    def distribution(self, w: Array, b: float) -> Distribution:
        solution = self._solve(self._problem(w, b, self._floor(w)))
        if solution is None:
            return self._whole.distribution(w, b)
        # At a breakpoint the two tangents belong to places just below and at the price.
        prices = [part.lam for part in solution.parts]
        near = (float(np.nextafter(prices[0], 0.0)), *prices)
        return GainOracle(self.rows, self.loss, self.ball).distribution(w, b, near)

    @property
    def _whole(self) -> WholeSpaceOracle:
        return WholeSpaceOracle(self.rows, self.loss, self.ball)

    def _floor(self, w: Array) -> Floor:
        return find_floor(self, BoxMoves(self.loss, self.ball, w))

    def _problem(self, w: Array, b: float, floor: Floor) -> Clipping:
        return Clipping(self.loss, self.ball, w, b, floor.lam)

    def _solve(self, problem: Clipping) -> BestPrice | None:
        radius = self.ball.radius
        return best_price(self.rows, problem, radius) if radius > 0.0 else None

    def _active(self, problem: Clipping, part: WinnersAt) -> Active:
        sizes = np.append(problem.sizes, 0.0)  # level -1 is a constant
        slopes = np.array([line.sign * sizes[line.level] for line in problem.lines])
        slope = slopes[part.winner]
        constant = np.array([line.constant for line in problem.lines])[part.winner]
        if self.is_margin:
            slope *= self.rows.y
        else:
            constant -= slope * self.rows.y
        flipped = np.array([line.flipped for line in problem.lines])[part.winner]
        return Active(part.weight, part.lam, slope, constant, flipped)
