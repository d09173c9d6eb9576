r"""Descent for the l2 norm: a few steps of Newton's method, or of gradients with their curvature.

.. math:: f(w,b)=\sum_ip_iL(z_i)+\rho\|w\|_2

is smooth away from w = 0 if L is, and corners of L are made soft, ever less so. With many rows a
sample of them gives the start, and a second derivative for the first steps on all.

The proof takes the slopes :math:`v_i=L'(z_i)`, moved by :math:`L''(z_i)\delta_i` with the change
:math:`\delta_i` of the score by the next step, and by as much of the score itself and of 1 as makes
them cancel b and have a sum of the norm :math:`\rho`, as the slopes of the optimum have. What is
left of the error counts in its square: the proved gap is hardly larger than the true one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.norms import L2
from drfl.problem import Problem
from drfl.rows import Rows
from drfl.solvers.base import gap_scale
from drfl.solvers.certificate.proof import add_up, aggregate, pay_by_gauge
from drfl.solvers.local.descent.active_rows import MOST_ROWS, ActiveRows, has_one_corner
from drfl.solvers.local.descent.objective import ModelPoint, Objective, Softened
from drfl.solvers.local.descent.second_derivative import Solve, StepPairs, of_diagonal, of_matrix
from drfl.solvers.local.lower_bound import RowMinorants
from drfl.solvers.local.program import AllRows, LocalSearch

SMALL = 40  # up to so many coefficients every step is one of Newton's method
SAMPLE, MOST = 1_000, 16  # rows of a sample: at least so many, and one in so many
PER_COLUMN, PER_CORNERED = 40, 10  # and rows per coefficient; of losses with corners
MANY = 5  # one row in so many, without which there is no sample
MATRIX = 300  # up to so many coefficients the second derivative of a sample is of use
SURE = 0.1  # of the error of a sample: to this it is solved
PROMISING = 1.0  # a step that would gain so many tolerances is worth a proof
SLOW = 6  # steps of gradients in which a tenth should be left; otherwise it is Newton's turn
SHORT = 0.5  # a shorter step was too bold: then parabolas above the losses are taken
NEAR = 0.01  # a price of the norm that changes by less is that of where a step leads
LONGEST = 100  # steps, after which rounding must be in the way
SHARP = 0.1  # of the first width: gradients do not see sharper corners
WIDTH, NARROWER = 0.3, 0.2  # of soft corners, in units of the margins; and by which factor
CENTRING, FAR = 60, 50.0  # steps to the best intercept without any column, and the farthest
ROWS = 4  # with corners: rows for each coefficient, at least
SETTLED, DONE = 0.5, 0.2  # of what softness costs: a smaller gain ends a width; of tol: enough


def suits(problem: Problem, names: Sequence[str]) -> bool:
    """Whether this method is for a problem: one multiplier, which is the l2 norm."""
    balls, loss = [problem.ball_of(name) for name in names], problem.loss
    smooth = not loss.kinks and type(loss).curvature is not Loss.curvature
    return (
        type(problem.norm) is L2
        and (smooth or bool(loss.pieces))
        and (len(names) == 1 or problem.mixture.radius == 0.0)
        and any(ball.radius > 0.0 for ball in balls)
        and all(math.isinf(ball.label_cost) or ball.radius == 0.0 for ball in balls)
        and not (problem.shared_ball or problem.own_intercepts)
        and problem.curves is None
        and problem.classes is None
    )


class DescentSearch(LocalSearch):
    """Steps on samples, then on all rows."""

    def __init__(
        self, problem: Problem, names: Sequence[str], clients: Sequence[Rows], tol: float
    ) -> None:
        super().__init__(problem, names, clients, tol)
        self.problem, self.names = problem, names
        self.pairs = StepPairs()
        self.base: Solve | None = None
        self.sizes: Array | None = None
        self.careful, self.width = True, 0.0
        self.newton = self.program.d <= SMALL

    def iterations(self) -> Iterator[None]:
        try:
            yield from self._iterations()
        except np.linalg.LinAlgError:  # rows of no use to this method
            return

    def _iterations(self) -> Iterator[None]:
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
        self.newton = f.loss.width > 0.0 or f.norm(at.x) == 0.0
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
            if soft > DONE * max(self.tol, enough) * worth and gain <= SETTLED * soft:
                f.loss = Softened(f.loss.loss, NARROWER * f.loss.width)
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
        b = float(x[-1]) if f.d > f.n else 0.0
        high = FAR * float(np.abs(f.rows.y).max())
        low = -high
        for _ in range(CENTRING if f.d > f.n else 0):
            z = f.arguments(np.full(len(f.rows.y), b))
            _, slopes = f.loss.value_and_slope(z)
            lean = float(f.weighted(slopes).sum())
            bent = float((f.loss.steepness(z, slopes) * f.mass).sum())
            if lean * lean <= 1e-9 * bent * self.at_zero:
                break
            low, high = (low, b) if lean > 0.0 else (b, high)
            b = b - lean / bent if bent > 0.0 else high
            b = b if low < b < high else 0.5 * (low + high)
        there = np.append(np.zeros(f.n), b)[: f.d]
        return f.at(there, np.full(len(f.rows.y), b))

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
        if self.newton:
            H, w = f.hessian(at, self.careful), at.x[: f.n]
            return lambda price: of_matrix(H, w, price)
        sizes = f.sizes(at) if self.sizes is None else self.sizes
        self.sizes = sizes
        return lambda price: of_diagonal(sizes, f.n, price)

    def _observe(self, f: Objective, before: ModelPoint, after: ModelPoint) -> None:
        if not self.newton and f.norm(before.x) > 0.0:
            self.pairs.observe(after.x - before.x, f.slope(after) - f.slope(before))

    # ------------------------------------------------------------------ the proof
    def _prove(self, f: Objective, at: ModelPoint, ahead: Array) -> None:
        """Both bounds at a point."""
        w, b = at.x[: f.n], float(at.x[f.n]) if f.d > f.n else 0.0
        mean = None if f.loss.width else at.value
        model = self.whole.evaluate(self.program, w, b, f.arguments(at.scores), mean)
        if model.objective < self.best.objective:
            self.best = model
        self.lower = max(self.lower, self._bound(f, at, ahead))

    def _bound(self, f: Objective, at: ModelPoint, ahead: Array) -> float:
        """What slopes near those a step ahead prove, that cancel b and have a sum of norm rho."""
        bent = f.loss.curvature(f.arguments(at.scores), at.slopes)
        own = at.scores - float(at.x[-1]) if f.d > f.n else at.scores
        moved, u, ones = _moved_gradients(f, bent, ahead, own)
        g, by_b, lean = at.gradient + moved, 0.0, 0.0
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
        slopes = at.slopes + moves
        low, high = f.loss.loss.slope_range
        server, q = self.program.server, self.program.mixture.weights
        if (f.d > f.n and not bent.any()) or slopes.min() < low or slopes.max() > high:
            return self._bound_of(slopes)
        constants = -f.loss.loss.conjugate(slopes)
        if not self.program.margin:
            constants -= slopes * f.rows.y
        return pay_by_gauge(server, add_up(server, q, f.mean(constants), g + alpha * u))

    def _bound_of(self, slopes: Array) -> float:
        """What any slopes of the losses of all rows prove."""
        server, q = self.program.server, self.program.mixture.weights
        loss, mass = self.program.loss, self.whole.mass(q)
        slopes = np.clip(slopes, *loss.slope_range)
        constants, nothing = -loss.conjugate(slopes) * mass, np.zeros(self.whole.size)
        rows = RowMinorants(self.program, self.whole, constants, slopes * mass, nothing)
        return pay_by_gauge(server, aggregate(server, rows, q))


def _moved_gradients(f: Objective, bent: Array, ahead: Array, own: Array) -> Array:
    """How the gradient changes along ``ahead``, ``own`` and 1, moves of the scores (3, d)."""
    factors = np.empty((3, len(own)))
    by_score = np.multiply(bent, f.mass, out=factors[2])
    np.multiply(by_score, ahead, out=factors[0])
    np.multiply(by_score, own, out=factors[1])
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
