r"""Descent for the l2 norm: a few steps of Newton's method, or of gradients with their curvature.

.. math:: f(w,b)=\sum_ip_iL(z_i)+\rho\|w\|_2

is smooth away from w = 0 if L is, and corners of L are made soft, ever less so. With many rows a
sample of them gives the start, and a second derivative for the first steps on all.

The proof is that of `proof`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from drfl.arrays import Array
from drfl.problem import Problem
from drfl.rows import Rows
from drfl.solvers.base import gap_scale
from drfl.solvers.local.descent.active_rows import MOST_ROWS, ActiveRows, has_one_corner
from drfl.solvers.local.descent.objective import ModelPoint, Objective, Softened
from drfl.solvers.local.descent.proof import ProvenDescent
from drfl.solvers.local.descent.second_derivative import (
    Solve,
    StepPairs,
    of_diagonal,
    of_matrix,
    of_products,
    with_norm,
)
from drfl.solvers.local.program import AllRows

SMALL = 40  # up to so many coefficients every step is one of Newton's method
SAMPLE, MOST = 1_000, 16  # rows of a sample: at least so many, and one in so many
PER_COLUMN, PER_CORNERED = 40, 10  # and rows per coefficient; of losses with corners
MANY = 5  # one row in so many, without which there is no sample
MATRIX = 300  # up to so many coefficients the second derivative of a sample is of use
MANY_COLUMNS = 2000  # of dense rows: beyond, conjugate gradients are quicker than a matrix
SURE = 0.1  # of the error of a sample: to this it is solved
PROMISING = 1.0  # a step that would gain so many tolerances is worth a proof
SLOW = 6  # steps of gradients in which a tenth should be left; otherwise it is Newton's turn
SHORT = 0.5  # a shorter step was too bold: then parabolas above the losses are taken
NEAR = 0.01  # a price of the norm that changes by less is that of where a step leads
LONGEST = 100  # steps, after which rounding must be in the way
SHARP = 0.1  # of the first width: gradients do not see sharper corners
WIDTH, NARROWER = 0.3, 0.2  # of soft corners, in units of the margins; and by which factor
ROWS = 4  # with corners: rows for each coefficient, at least
SETTLED, DONE = 0.5, 0.2  # of what softness costs: a smaller gain ends a width; of tol: enough


class DescentSearch(ProvenDescent):
    """Steps on samples, then on all rows."""

    def __init__(
        self, problem: Problem, names: Sequence[str], clients: Sequence[Rows], tol: float
    ) -> None:
        super().__init__(problem, names, clients, tol)
        self.pairs = StepPairs()
        self.base: Solve | None = None
        self.sizes: Array | None = None
        self.careful, self.width = True, 0.0
        # Where a matrix of columns times columns would take longer than its products
        self.by_products = self.program.d > (MATRIX if self.whole.thin else MANY_COLUMNS)
        self.newton = self.program.d <= SMALL or self.by_products

    def steps(self) -> Iterator[None]:
        x, loss = np.zeros(self.program.d), self._first_loss()
        self.width = loss.width
        if loss.width and self.whole.size < ROWS * self.program.d:
            yield from self._active_rows()  # soft corners of so few rows bend steps too much
            return
        stride = self._stride()
        if stride > 1:
            rows = AllRows(self.problem, self.names, [r.every(stride) for r in self.clients])
            sample = Objective(self.program, rows, loss)
            enough = SURE * self.program.d * stride / self.whole.size
            for found in self._steps(sample, np.zeros(self.program.d), max(enough, self.tol)):
                x = found
                yield
            if sample.d <= MATRIX and not loss.width and x[: sample.n].any():
                self.newton = False
                self._learn(sample, sample.at(x, sample.scores(x)))
        whole = Objective(self.program, self.whole, loss)
        for _ in self._steps(whole, x, 0.0):
            yield

    def _active_rows(self) -> Iterator[None]:
        """Steps from one set of rows in corners to the next."""
        if self.whole.size > MOST_ROWS or not has_one_corner(self.problem.loss):
            return
        for w, b, z, v in ActiveRows(self.program, self.whole).models():
            model = self.whole.evaluate(self.program, w, b, z)
            if model.objective < self.best.objective:
                self.best = model
            self.lower = max(self.lower, self._bound_of(v))
            self.promise = self.gap
            yield

    def _first_loss(self) -> Softened:
        loss = self.problem.loss
        if not loss.pieces:
            return Softened(loss)
        if loss.task == "classification":
            return Softened(loss, WIDTH)
        y = self.whole.y
        return Softened(loss, WIDTH * (float(np.abs(y - np.median(y)).mean()) or 1.0))

    def _stride(self) -> int:
        """Every so many rows make a sample; 1: there is none."""
        each = PER_CORNERED if self.problem.loss.pieces else PER_COLUMN
        stride = self.whole.size // max(SAMPLE, each * self.program.d)
        return min(stride, MOST) if stride >= MANY else 1

    def _learn(self, f: Objective, at: ModelPoint) -> None:
        """A second derivative for the next steps; soft corners change theirs with every step."""
        self.newton = f.loss.width > 0.0 or f.norm(at.x) == 0.0 or self.by_products
        if not self.newton:
            price = f.rho / f.norm(at.x)
            self.pairs = StepPairs()
            self.base = of_matrix(f.hessian(at, self.careful), at.x[: f.n], price)

    # ------------------------------------------------------------------ steps
    def _steps(self, f: Objective, x: Array, enough: float) -> Iterator[Array]:
        """Steps on these rows until one gains less than ``enough``, or the proof is there."""
        at = self._start(f, x)
        gains: list[float] = []
        for _ in range(LONGEST):
            step = self._step(f, at)
            ahead = f.scores(step)
            gain, soft = -float(f.slope(at) @ step), self._softness(f, at)
            worth = at.value + f.rho * f.norm(at.x)
            self.promise = (gain + soft) / gap_scale(worth, self.at_zero)
            gains.append(gain)
            if enough and max(gain, soft) <= enough * worth:
                return
            if not enough and self.promise <= PROMISING * self.tol:
                self._prove(f, at, ahead)
                if self.gap <= self.tol:
                    return
            done = DONE * max(self.tol, enough) * worth
            if soft > done and gain <= SETTLED * soft:
                # What softness costs goes like the square of the width: no narrower than needed.
                width = max(NARROWER, math.sqrt(done / soft)) * f.loss.width
                f.loss = Softened(f.loss.loss, width)
                at, gains = self._start(f, at.x, at.scores), []
                self.pairs, self.sizes = StepPairs(), None
                self.newton |= f.loss.width <= SHARP * self.width
                continue
            if len(gains) > SLOW and gains[-1] > 0.1 * gains[-1 - SLOW] and not self.newton:
                gains = []
                self._learn(f, at)
                continue
            found = f.along(at, step, ahead)
            if found is not None:
                self._observe(f, at, found[0])
                at, self.careful = found[0], found[1] < SHORT
                yield at.x
            elif self.newton and self.careful:
                self._prove(f, at, ahead)
                return
            else:
                self.newton = self.careful = True

    def _softness(self, f: Objective, at: ModelPoint) -> float:
        """By how much soft corners raise the mean loss."""
        if f.loss.width == 0.0:
            return 0.0
        return max(at.value - f.mean(f.loss.loss.value(f.arguments(at.scores))), 0.0)

    def _start(self, f: Objective, x: Array, scores: Array | None = None) -> ModelPoint:
        """The point x; with w = 0 the best model of that kind, for which no row is read twice."""
        if x[: f.n].any():
            return f.at(x, f.scores(x) if scores is None else scores)
        return f.centred(float(x[-1]) if f.d > f.n else 0.0, self.at_zero)

    def _step(self, f: Objective, at: ModelPoint) -> Array:
        """The step from here; none if w = 0 is the best there is."""
        norm, r = f.norm(at.x), f.slope(at)
        if norm == 0.0 and float(np.linalg.norm(r[: f.n])) <= f.rho:
            return np.zeros(f.d)
        if norm > 0.0 and self.base is not None and not self.newton:
            return -self.pairs.solve(r, self.base)
        inverse = self._inverse(f, at)
        if norm > 0.0:
            base = inverse(f.rho / norm)
            return -base(r) if self.newton else -self.pairs.solve(r, base)
        # From w = 0 the price of the norm is that of where the step leads.
        price, best = 0.0, -r
        best[f.n :] = 0.0
        for _ in range(4):
            step = -inverse(price)(r)
            size = float(np.linalg.norm(step[: f.n]))
            if float(r @ step) + f.rho * size < 0.0:
                best = step
            last, price = price, f.rho / max(size, 1e-300)
            if abs(price - last) <= NEAR * price:
                break
        return best

    def _inverse(self, f: Objective, at: ModelPoint) -> Callable[[float], Solve]:
        """The inverse of the second derivative for a price of the norm."""
        w = at.x[: f.n]
        if self.newton and self.by_products and w.any():
            times, sizes = f.products(at, self.careful), f.sizes(at, self.careful)
            careful = self.careful
            return lambda price: of_products(*with_norm(times, sizes, w, price, careful=careful))
        if self.newton and not self.by_products:
            H = f.hessian(at, self.careful)
            return lambda price: of_matrix(H, w, price)
        sizes = f.sizes(at) if self.sizes is None else self.sizes
        self.sizes = sizes
        return lambda price: of_diagonal(sizes, f.n, price)

    def _observe(self, f: Objective, before: ModelPoint, after: ModelPoint) -> None:
        if not self.newton and f.norm(before.x) > 0.0:
            self.pairs.observe(after.x - before.x, f.slope(after) - f.slope(before))
