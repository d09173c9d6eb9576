r"""The judge of several classes at once, from the data alone.

.. math:: F_s = \min_{\lambda\ge\Lambda(W)} \rho\lambda
          + \sum_ip_i\max_{y'}\{\ell(z_i,y')-\kappa\lambda[y'\ne y_i]\},\qquad
          \Lambda(W)=\max_{j<k}\|W_j-W_k\|_*,

attained at the least multiplier or where a row changes its label.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import cvxpy as cp
import numpy as np

from kit.referee import DUAL, Array, Referee


def losses(name: str, z: Array) -> Array:
    """The loss of every label (N, K), of scores (N, K)."""
    K = z.shape[1]
    if name == "logistic":
        top = z.max(axis=1, keepdims=True)
        return top + np.log(np.exp(z - top).sum(axis=1, keepdims=True)) - z
    raised = [(z + 1.0 - np.eye(K)[y]).max(axis=1) - z[:, y] for y in range(K)]
    return np.stack(raised, axis=1)


class JointReferee(Referee):
    """Judges results of one problem with K classes, numbered in y; of curves the rows are ramps."""

    @property
    def classes(self) -> int:
        assert self.problem.classes is not None
        return self.problem.classes

    def length(self, W: Array) -> float:
        """The largest distance of two classes."""
        pairs = combinations(range(self.classes), 2)
        return max(float(self._dual(W[j] - W[k]).value) for j, k in pairs)

    def _dual(self, d: Any) -> Any:
        """The dual norm of a difference; of curves in linf, the steepest pieces added up."""
        curves, name = self.problem.curves, self.problem.norm.name
        if curves is None or name == "l1":
            return cp.norm(d, DUAL[name])
        return sum(cp.norm(d[curves.of(j)], "inf") for j in range(curves.n))

    def _by_label(self, s: int, W: Array, b: Any) -> tuple[Array, Array]:
        X, y, _ = self.data[s]
        every = losses(self.problem.loss.name, X @ W.T + np.broadcast_to(b, self.classes))
        own = every[np.arange(len(y)), y.astype(int)]
        others = np.where(np.eye(self.classes, dtype=bool)[y.astype(int)], -np.inf, every)
        return own, others.max(axis=1)

    def dual_function(self, s: int, w: Array, b: Any, lam: float) -> float:
        ball, p = self.problem.ball_of(self.names[s]), self.data[s][2]
        if lam < self.length(w) * (1.0 - 1e-9):
            return math.inf
        own, other = self._by_label(s, w, b)
        moved = other - ball.label_cost * lam if math.isfinite(ball.label_cost) else -np.inf
        return ball.radius * lam + float(p @ np.maximum(own, moved))

    def worst_case(self, s: int, w: Array, b: Any) -> float:
        ball, p = self.problem.ball_of(self.names[s]), self.data[s][2]
        own, other = self._by_label(s, w, b)
        if ball.radius == 0.0:
            return float(p @ own)
        places = [self.length(w)]
        if math.isfinite(ball.label_cost):
            gains = ((other - own) / ball.label_cost).tolist()
            places += [gain for gain in gains if gain > places[0]]
        return min(self.dual_function(s, w, b, lam) for lam in places)

    def optimum(self) -> float:
        K, n, name = self.classes, self.data[0][0].shape[1], self.problem.loss.name
        W, t = cp.Variable((K, n)), cp.Variable(nonneg=True)
        b = cp.Variable((1, K)) if self.problem.shared_intercept else np.zeros((1, K))
        rules = [self._dual(W[j] - W[k]) <= t for j, k in combinations(range(K), 2)]
        totals = []
        # In other units of x everything is the same; cvxpy needs those in which rows are near 1.
        unit = max(float(np.abs(X).max(initial=0.0)) for X, _, _ in self.data) or 1.0
        for s, (X, y, p) in enumerate(self.data):
            ball, N = self.problem.ball_of(self.names[s]), len(y)
            X, radius, cost = X / unit, ball.radius / unit, ball.label_cost / unit
            b = cp.Variable((1, K)) if self.problem.own_intercepts else b
            lam, alpha, z = cp.Variable(nonneg=True), cp.Variable(N), X @ W.T + np.ones((N, 1)) @ b
            rules.append(lam >= t)
            for label in range(K):
                raised = z + (0.0 if name == "logistic" else 1.0 - np.eye(K)[[label]].repeat(N, 0))
                top = (
                    cp.log_sum_exp(raised, axis=1) if name == "logistic" else cp.max(raised, axis=1)
                )
                value, own = top - z[:, label], np.flatnonzero(y == label)
                others = np.flatnonzero(y != label)
                if len(own):
                    rules.append(alpha[own] >= value[own])
                if len(others) and math.isfinite(ball.label_cost) and ball.radius > 0.0:
                    rules.append(alpha[others] >= value[others] - cost * lam)
            totals.append(radius * lam + p @ alpha)
        return self._least_mixture(totals, rules)

    def _at_zero(self) -> float:
        W = np.zeros((self.classes, self.data[0][0].shape[1]))
        return self.support(np.array([self.worst_case(s, W, 0.0) for s in range(len(self.names))]))
