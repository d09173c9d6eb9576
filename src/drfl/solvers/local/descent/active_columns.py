r"""Descent for the linf norm, which is an l1 penalty: Newton's steps of the columns at work.

.. math:: f(w,b)=\sum_ip_iL(z_i)+\rho\|w\|_1.

At the optimum a column with :math:`w_j=0` has a slope :math:`|g_j|\le\rho`, and every other one
:math:`g_j=-\rho\,\mathrm{sign}\,w_j`. At work are the columns that are not 0, and of the others
those whose slope is beyond :math:`\rho` by a share of the largest such excess: all at once would
get into each other's way. With signs known f is smooth. A step is Newton's, by conjugate gradients,
or by the matrix if the columns are few and dense; a coordinate whose sign would change stops at 0,
and the step is halved until f is lower (two-metric projection, Bertsekas 1982; orthant-wise steps,
Andrew and Gao 2007).

The proof is that of `proof`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.solvers.base import gap_scale
from drfl.solvers.local.descent.objective import ARMIJO, ModelPoint, Objective, Softened
from drfl.solvers.local.descent.proof import ProvenDescent
from drfl.solvers.local.descent.second_derivative import Solve, of_matrix, of_products

SHARE, CLOSE = 0.3, 0.5  # of the largest excess; where that is no more than this of rho, all work
MATRIX = 300  # up to so many columns of dense rows a matrix is quicker than its products
PROMISING = 0.03  # a step that would gain so many tolerances is worth a proof
LONGEST, TRIES = 150, 20  # steps, after which another method takes over; halvings of one
SHORT = 0.1  # a shorter step was too bold: then parabolas above the losses are taken


@dataclass(frozen=True)
class ColumnsAtWork:
    """The coordinates that may change, their signs, and the slope of f that they then have."""

    columns: NDArray[np.intp]  # (k,), the intercept too
    # signs, slope: (k,); the intercept has the sign 0
    signs: Array
    slope: Array


class ActiveColumns(ProvenDescent):
    """Steps of the columns at work."""

    def steps(self) -> Iterator[None]:
        f = Objective(self.program, self.whole, Softened(self.problem.loss))
        at, careful = f.centred(0.0, self.at_zero), True
        for _ in range(LONGEST):
            work = at_work(f, at)
            step = np.zeros(f.d)
            if len(work.columns):  # there are none where w = 0 is best and there is no intercept
                step[work.columns] = -self._inverse(f, at, work, careful)(work.slope)
            ahead = f.scores(step)
            gain = -float(work.slope @ step[work.columns])
            self.promise = gain / gap_scale(at.value + f.rho * f.norm(at.x), self.at_zero)
            if self.promise <= PROMISING * self.tol:
                self._prove(f, at, ahead)
                if self.gap <= self.tol:
                    return
            found = along(f, at, step, ahead, work)
            if found is None and careful:
                return
            if found is not None:
                at = found[0]
            careful = found is None or found[1] < SHORT
            yield

    def _inverse(self, f: Objective, at: ModelPoint, work: ColumnsAtWork, careful: bool) -> Solve:
        """The inverse of the second derivative of the coordinates at work."""
        J = work.columns
        if len(J) <= MATRIX and not self.whole.thin:
            return of_matrix(f.hessian_of(at, J[f.n > J], careful), np.zeros(0), 0.0)
        every = f.products(at, careful)

        def times(v: Array) -> Array:
            whole = np.zeros(f.d)
            whole[J] = v
            return every(whole)[J]

        return of_products(times, f.sizes(at, careful)[J])


def at_work(f: Objective, at: ModelPoint) -> ColumnsAtWork:
    """Which coordinates change now."""
    w, g = at.x[: f.n], at.gradient[: f.n]
    used = w != 0.0
    signs = np.where(used, np.sign(w), -np.sign(g))
    excess = np.where(used, np.abs(g + f.rho * signs), np.abs(g) - f.rho)
    most = float(excess.max(initial=0.0))
    least = SHARE * most if most > CLOSE * f.rho else 0.0
    J = np.flatnonzero(used | (excess > least))
    intercept = np.arange(f.n, f.d)
    slope = np.append(g[J] + f.rho * signs[J], at.gradient[f.n :])
    return ColumnsAtWork(
        np.append(J, intercept), np.append(signs[J], np.zeros(len(intercept))), slope
    )


def along(
    f: Objective, at: ModelPoint, step: Array, ahead: Array, work: ColumnsAtWork
) -> tuple[ModelPoint, float] | None:
    """A lower point on the way of a step, no sign of which changes, and how far; None: none is."""
    J, before, t = work.columns, at.value + f.rho * f.norm(at.x), 1.0
    for _ in range(TRIES):
        there = at.x[J] + t * step[J]
        beyond = there * work.signs < 0.0
        x = at.x.copy()
        x[J] = np.where(beyond, 0.0, there)
        scores = f.scores(x) if beyond.any() else at.scores + t * ahead
        with np.errstate(over="ignore", invalid="ignore"):  # too far
            mean = f.mean(f.loss.loss.value(f.arguments(scores)))
        if mean + f.rho * f.norm(x) <= before + ARMIJO * float(work.slope @ (x - at.x)[J]):
            return (f.at(x, scores), t) if (x != at.x).any() else None
        t *= 0.5
    return None
