r"""Who judges all solvers: objective, losses, weights, multipliers and bound, from the data alone.

Nothing of the package is used but the description of the problem. Losses and norms are written
down here once more; the worst case of a client at a model is the least value of a piecewise-linear
function of one number,

.. math:: F_s = \min_{\lambda\ge\mathrm{Lip}\|w\|_*} \rho\lambda
          + \sum_ip_i\max\{L(m_i),\,L(-m_i)-\kappa\lambda\},

attained at the least multiplier or where a row changes sides; and the optimum is that of a convex
program for cvxpy, in which the mixture is replaced by its dual,

.. math:: \max_{q\in Q}q^\top z = \min_{\mu,\,y\ge z-\mu}\ \mu+\hat q^\top y+\theta\|y\|_* .

On a support, losses that are made of lines have a program for every row, flip and line: moves cost
:math:`\lambda\|d\|` and end in :math:`\{Cx\le e\}`, so the dual of what they gain is

.. math:: \min_{\nu\ge0}\ \nu^\top(e-Cx_i)\quad\text{s.t.}\quad\|av-C^\top\nu\|_*\le\lambda .
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

import drfl
from drfl.supports import WholeSpace

Array = NDArray[np.float64]

EXACT = 1e-7  # what is computed twice agrees to so much, relatively
PROGRAM = 1e-5  # the accuracy of cvxpy's optimum
TIGHT = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10)  # asked for first


@dataclass(frozen=True)
class Known:
    """A loss: its values, its expression in cvxpy, its Lipschitz constant."""

    value: Callable[[Array], Array]
    expression: Callable[[Any], Any]
    lipschitz: float = 1.0
    lines: tuple[tuple[float, float], ...] = ()


def known(loss: Any) -> Known:
    """The loss of a problem, by name and parameter."""
    e = getattr(loss, "epsilon", 0.0)
    tau = getattr(loss, "quantile", 0.5)
    return {
        "hinge": Known(
            lambda z: np.maximum(1 - z, 0),
            lambda z: cp.pos(1 - z),
            lines=((0.0, 0.0), (-1.0, 1.0)),
        ),
        "smooth_hinge": Known(
            lambda z: np.where(z <= 0, 0.5 - z, 0.5 * np.maximum(1 - z, 0) ** 2),
            lambda z: cp.huber(cp.pos(1 - z), 1.0) / 2,
        ),
        "logistic": Known(lambda z: np.logaddexp(0, -z), lambda z: cp.logistic(-z)),
        "huber": Known(
            lambda z: np.where(np.abs(z) <= e, z * z / 2, e * np.abs(z) - e * e / 2),
            lambda z: cp.huber(z, e) / 2,
            e,
        ),
        "epsilon_insensitive": Known(
            lambda z: np.maximum(np.abs(z) - e, 0),
            lambda z: cp.pos(cp.abs(z) - e),
            lines=((0.0, 0.0), (1.0, -e), (-1.0, -e)),
        ),
        "pinball": Known(
            lambda z: np.maximum(-tau * z, (1 - tau) * z),
            lambda z: cp.maximum(-tau * z, (1 - tau) * z),
            max(tau, 1 - tau),
            lines=((-tau, 0.0), (1.0 - tau, 0.0)),
        ),
    }[loss.name]


DUAL = {"l1": math.inf, "l2": 2, "linf": 1}


def duals(norm: Any, W: Any) -> Any:
    """The dual norm of every row of an expression (m, n)."""
    if norm.name == "largest_in_units":  # of docs/adding-a-norm.md
        return cp.abs(W) @ norm.units
    return cp.norm(W, DUAL[norm.name], axis=1)


def dual(norm: Any, w: Array) -> float:
    """The dual norm of a model."""
    return float(duals(norm, cp.Constant(w[None])).value[0])


@dataclass(frozen=True)
class Referee:
    """Judges results of one problem; data are (X, y, weights of rows that sum to 1) by client."""

    problem: drfl.Problem
    names: tuple[str, ...]
    data: tuple[tuple[Array, Array, Array], ...]

    @classmethod
    def of(cls, problem: drfl.Problem, data: dict[str, tuple[Array, Array]]) -> Referee:
        """Rows of equal weight."""
        even = ((X, y, np.full(len(y), 1.0 / len(y))) for X, y in data.values())
        return cls(problem, tuple(data), tuple(even))

    @property
    def margin(self) -> bool:
        return self.problem.loss.task == "classification"

    @property
    def center(self) -> Array:
        center = self.problem.mixture.center
        if center == "uniform":
            return np.full(len(self.names), 1.0 / len(self.names))
        if center == "proportional":
            sizes = np.array([len(y) for _, y, _ in self.data], dtype=float)
            return sizes / sizes.sum()
        return np.asarray(center, dtype=float)

    # ------------------------------------------------------------------ at a model
    def dual_function(self, s: int, w: Array, b: float, lam: float) -> float:
        """What client s can lose at most if transport costs lam; inf if it may go on for ever."""
        (X, y, p), ball = self.data[s], self.problem.ball_of(self.names[s])
        if self.bounded:
            total, rules = self._moved(s, cp.Constant(w), cp.Constant(b), cp.Constant(lam))
            return _least(total, rules)
        loss, length = known(self.problem.loss), dual(ball.norm, w)
        z = X @ w + b
        least = loss.lipschitz * (length if self.margin else max(length, 1.0 / ball.label_cost))
        if lam < least * (1.0 - 1e-9):
            return math.inf
        if not self.margin:
            return ball.radius * lam + float(p @ loss.value(z - y))
        here, there = loss.value(y * z), loss.value(-y * z)
        flipped = there - ball.label_cost * lam if math.isfinite(ball.label_cost) else -np.inf
        return ball.radius * lam + float(p @ np.maximum(here, flipped))

    def worst_case(self, s: int, w: Array, b: float) -> float:
        """F_s: the least of the dual function over the places where it may have its least."""
        (X, y, p), ball = self.data[s], self.problem.ball_of(self.names[s])
        loss, length = known(self.problem.loss), dual(ball.norm, w)
        z = X @ w + b
        if ball.radius == 0.0:
            return float(p @ loss.value(y * z if self.margin else z - y))
        if self.bounded:
            lam = cp.Variable(nonneg=True)
            return _least(*self._moved(s, cp.Constant(w), cp.Constant(b), lam))
        least = loss.lipschitz * (length if self.margin else max(length, 1.0 / ball.label_cost))
        places = [least]
        if self.margin and math.isfinite(ball.label_cost):
            gains = (loss.value(-y * z) - loss.value(y * z)) / ball.label_cost
            places += [gain for gain in gains.tolist() if gain > least]
        return min(self.dual_function(s, w, b, lam) for lam in places)

    def support(self, losses: Array) -> float:
        """The worst mixture of the clients' losses."""
        mixture, q = self.problem.mixture, cp.Variable(len(losses), nonneg=True)
        if mixture.radius == 0.0:
            return float(self.center @ losses)
        near = [cp.sum(q) == 1]
        if math.isfinite(mixture.radius):
            p = "inf" if math.isinf(mixture.p) else mixture.p
            near.append(cp.norm(q - self.center, p) <= mixture.radius)
        scale = max(float(np.abs(losses).max()), 1e-300)
        program = cp.Problem(cp.Maximize(q @ (losses / scale)), near)
        return float(scale * program.solve(solver=cp.CLARABEL))

    # ------------------------------------------------------------------ on a support
    @property
    def bounded(self) -> bool:
        return self.problem.support_kind is not WholeSpace

    def _moved(self, s: int, w: Any, b: Any, lam: Any) -> tuple[Any, list[Any]]:
        """What client s loses at the price lam, rows in their support; targets do not move."""
        (X, y, p), ball = self.data[s], self.problem.ball_of(self.names[s])
        assert self.margin or math.isinf(ball.label_cost)
        C, e = _inequalities(ball.support, X.shape[1])
        rules, alpha, n = [], cp.Variable(len(y)), X.shape[1]
        sides = [(y if self.margin else np.ones(len(y)), 0.0)]
        if self.margin and math.isfinite(ball.label_cost):
            sides.append((-y, ball.label_cost))
        for sign, price in sides:
            z = cp.multiply(sign, X @ w + b) - (0.0 if self.margin else y)
            for slope, constant in known(self.problem.loss).lines:
                nu = cp.Variable((len(y), len(e)), nonneg=True)
                pull = (slope * sign)[:, None] @ cp.reshape(w, (1, n), order="C") - nu @ C
                room = cp.sum(cp.multiply(nu, e - X @ C.T), axis=1)
                rules += [
                    duals(ball.norm, pull) <= lam,
                    alpha >= slope * z + constant + room - price * lam,
                ]
        return ball.radius * lam + p @ alpha, rules

    # ------------------------------------------------------------------ the optimum
    def optimum(self) -> float:
        """The least objective of all models."""
        n = self.data[0][0].shape[1]
        w, one = cp.Variable(n), cp.Variable()
        every = {
            "shared": [one] * len(self.names),
            "per_client": [cp.Variable() for _ in self.names],
            "none": [cp.Constant(0.0)] * len(self.names),
        }[self.problem.intercept]
        loss, totals = known(self.problem.loss), []
        length = duals(self.problem.norm, cp.reshape(w, (1, n), order="C"))[0]
        rules = []
        for s, (X, target, p) in enumerate(self.data):
            b = every[s]
            ball, z = self.problem.ball_of(self.names[s]), X @ w + b
            lam = cp.Variable(nonneg=True)
            if self.bounded and ball.radius > 0.0:
                total, moves = self._moved(s, w, b, lam)
                totals.append(total)
                rules += moves
                continue
            rules.append(lam >= loss.lipschitz * length)
            if not self.margin:
                value = p @ loss.expression(z - target)
                rules.append(lam >= loss.lipschitz / ball.label_cost)
            else:
                m = cp.multiply(target, z)
                rows = loss.expression(m)
                if math.isfinite(ball.label_cost) and ball.radius > 0.0:
                    rows = cp.maximum(rows, loss.expression(-m) - ball.label_cost * lam)
                value = p @ rows
            totals.append(ball.radius * lam + value)
        return self._least_mixture(totals, rules)

    def _least_mixture(self, totals: list[Any], rules: list[Any]) -> float:
        """The least of the worst mixture of the clients' totals."""
        mu, y = cp.Variable(), cp.Variable(len(self.names))
        rules = [*rules, *(y[s] >= total - mu for s, total in enumerate(totals))]
        theta, p = self.problem.mixture.radius, self.problem.mixture.p
        total = mu + self.center @ y
        if math.isfinite(theta):
            dual = {1: "inf", 2: 2, math.inf: 1}[p]
            total = total + theta * cp.norm(y, dual)
            if theta == 0.0:
                rules.append(mu == 0)  # without uncertainty it cancels
        else:
            total = mu
            rules.append(y <= 0)
        return _least(total, rules)

    # ------------------------------------------------------------------ the judgement
    def judge(self, result: drfl.Result, tol: float, optimum: float | None = None) -> list[str]:
        """What is wrong with a result; nothing if it is right."""
        best = self.optimum() if optimum is None else optimum
        w, own = np.asarray(result.coef), self.problem.intercept == "per_client"
        b = [result.intercepts[n] if own else np.asarray(result.intercept) for n in self.names]
        F = np.array([self.worst_case(s, w, b[s]) for s in range(len(self.names))])
        value, zero = self.support(F), self._at_zero()
        scale = max(abs(best), 1e-3 * zero)
        room = self._exact * max(abs(value), zero)
        q = np.array([result.weights[name] for name in self.names])
        told = np.array([result.client_losses[name] for name in self.names])
        wrong = {
            f"the run failed: {result.status.message}": result.status.kind == "failed",
            f"the objective is {value}, not {result.objective}": abs(value - result.objective)
            > room + self._exact * abs(value),
            f"the losses are {F}, not {told}": bool((np.abs(F - told) > room).any()),
            f"the weights {q} are not in Q": not self._in_mixture(q),
            f"the weights {q} are not the worst": value - float(q @ F) > room + 1e-6 * abs(value),
            f"the lower bound {result.lower_bound} is above the optimum {best}": (
                result.lower_bound > best + PROGRAM * scale
            ),
            f"the objective {result.objective} is below the optimum {best}": (
                result.objective < best - PROGRAM * scale
            ),
            f"the objective {result.objective} is certified, but the optimum is {best}": (
                result.status.kind == "certified"
                and result.objective > best + (tol + PROGRAM) * scale
            ),
            f"certified at a gap of {result.gap}": (
                result.status.kind == "certified" and not result.gap <= tol
            ),
            "the bounds have crossed": result.lower_bound > result.objective + room,
            "the gap is not that of the bounds": not self._gap_is_right(result, zero),
        }
        for s, name in enumerate(self.names):
            if self.problem.ball_of(name).radius > 0.0:
                lam = result.client_multipliers[name]
                there = self.dual_function(s, w, b[s], lam)
                off = not there <= F[s] + max(1e-6, self._exact) * max(abs(F[s]), zero)
                wrong[f"the multiplier {lam} of {name} gives {there}, not {F[s]}"] = off
        return [sentence for sentence, holds in wrong.items() if holds]

    @property
    def _exact(self) -> float:
        return PROGRAM if self.bounded else EXACT  # on supports both are programs

    def _at_zero(self) -> float:
        w = np.zeros(self.data[0][0].shape[1])
        return self.support(np.array([self.worst_case(s, w, 0.0) for s in range(len(self.names))]))

    def _in_mixture(self, q: Array) -> bool:
        mixture = self.problem.mixture
        far = float(np.linalg.norm(q - self.center, mixture.p))
        simplex = abs(q.sum() - 1.0) <= 1e-9 and (q >= -1e-12).all()
        return bool(simplex and far <= mixture.radius * (1.0 + 1e-9) + 1e-9)

    def _gap_is_right(self, result: drfl.Result, zero: float) -> bool:
        scale = max(abs(result.objective), 1e-3 * zero)
        gap = max(result.objective - result.lower_bound, 0.0) / scale if scale > 0.0 else 0.0
        return abs(gap - result.gap) <= 1e-6 * (1.0 + gap)


def _least(total: Any, rules: list[Any]) -> float:
    """The least value; infinite where nothing satisfies the rules."""
    program = cp.Problem(cp.Minimize(total), rules)
    with warnings.catch_warnings():  # what is inaccurate for cvxpy is accurate enough here
        warnings.simplefilter("ignore", UserWarning)
        # With its own tolerance a value can be off by more than PROGRAM, and is called optimal.
        program.solve(solver=cp.CLARABEL, **TIGHT)
        if program.status != cp.OPTIMAL:
            program.solve(solver=cp.CLARABEL)
    if program.status in ("infeasible", "infeasible_inaccurate"):
        return math.inf
    assert program.status in ("optimal", "optimal_inaccurate"), program.status
    return float(program.value)


def _inequalities(support: Any, n: int) -> tuple[Array, Array]:
    """A bounded support as C x <= e."""
    if hasattr(support, "C"):
        return support.C, support.d
    low, high = np.broadcast_to(support.low, n), np.broadcast_to(support.high, n)
    C, e = np.vstack([np.eye(n), -np.eye(n)]), np.concatenate([high, -low])
    return C[np.isfinite(e)], e[np.isfinite(e)]
