r"""The paper's box as printed, also where rows lie outside of it.

Propositions SVM1 and SVM2 have a pair of multipliers for every row and feature. They can be
eliminated: with :math:`w^\pm_j=(\pm w_j-\lambda)_+` the constraint of a row with label y is
:math:`1-yb+\sum_j a_j\le\alpha` with

.. math::
    a_j = -yw_jx_j+(1+yx_j)\,w^+_j+(1-yx_j)\,w^-_j\ \ (|x_j|\le1),\qquad
    a_j = -|x_j|\lambda+|\lambda-\mathrm{sgn}(x_j)\,yw_j|\ \ (|x_j|>1),

and the same for -y with :math:`-\kappa\lambda` added. Outside of the box the constraint becomes
weaker as lambda grows: it mutes the row, though the ball around it is empty. In a correct model
such rows are an error. Without a radius the same program is ERM, AFL or DRFA, and the vertex that
the simplex method ends at is taken, whatever its norm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog

from drfl.arrays import Array
from drfl.estimators.client_table import ClientTable
from experiments.methods import COST, RADIUS, THETA, Params, center
from experiments.protocol import Protocol
from experiments.scoring import Models


def solve_printed(
    method: str, points: Sequence[Params], table: ClientTable, protocol: Protocol
) -> Models:
    """The models of all grid points by linear programming; features are meant to be in [-1, 1]."""
    q = center(protocol, table)
    if method == "wafl":
        table, q = table.pooled(q), np.ones(1)
    program = Printed(table, q, protocol)
    theta = {"erm": 0.0, "wafl": 0.0, "drfa": math.inf}.get(method, math.nan)
    found = [
        program.solve(point.get(RADIUS, 0.0), point.get(COST, math.inf), point.get(THETA, theta))
        for point in points
    ]
    return Models(np.array([x[:-1] for x in found]), np.array([x[-1] for x in found]))


class Printed:
    """The program of some rows.

    Its variables are w, b; lam, w+ and w- of every client; the slacks alpha of the rows; the
    clients' losses z; and what the worst mixture of these needs.

    Parameters
    ----------
    table : ClientTable
        The rows.
    q : array of shape (S,)
        The centre of the mixture.
    protocol : Protocol
        Whether there is an intercept, and the norm of the mixture: 1 or infinity.
    """

    def __init__(self, table: ClientTable, q: Array, protocol: Protocol) -> None:
        self.q, self.p, self.intercept = q, protocol.p, protocol.intercept
        self.X, self.y, self.member = table.X, table.y, table.member
        self.mass = table.weight / table.totals[table.member]
        (self.N, self.n), self.S = table.X.shape, len(q)
        sizes = {"w": self.n, "b": 1, "lam": self.S, "plus": self.S * self.n}
        sizes |= {"minus": self.S * self.n, "alpha": self.N, "z": self.S}
        sizes |= {"gamma": 1, "beta": self.S if self.p == math.inf else 1, "v": self.S}
        ends = np.cumsum(list(sizes.values()))
        self.size = int(ends[-1])
        self.at = {name: slice(int(end) - sizes[name], int(end))
                   for name, end in zip(sizes, ends, strict=True)}  # fmt: skip

    def solve(self, radius: float | Sequence[float], cost: float, theta: float) -> Array:
        """W and b (n + 1,) of an optimal vertex."""
        rho = np.broadcast_to(np.asarray(radius, dtype=np.float64), self.S)
        robust = bool(rho.any())
        A = [self._rows(self.y, robust, 0.0), self._losses(rho)]
        if robust:
            A.append(self._clipping())
        if robust and math.isfinite(cost):
            A.append(self._rows(-self.y, robust, cost))
        mixing, c = self._mixture(theta)
        A.append(mixing)
        ones = [np.full(len(a), -1.0 if len(a) == self.N else 0.0) for a in A]
        low, high = np.zeros(self.size), np.full(self.size, np.inf)
        for name in ("w", "b", "gamma"):
            low[self.at[name]] = -np.inf
        if not self.intercept:
            low[self.at["b"]] = high[self.at["b"]] = 0.0
        bounds = list(zip(low.tolist(), high.tolist(), strict=True))
        answer = linprog(c, np.vstack(A), np.concatenate(ones), bounds=bounds, method="highs-ds")
        if answer.x is None:
            raise RuntimeError(f"the printed program was not solved: {answer.message}")
        return np.asarray(answer.x[: self.n + 1], dtype=np.float64)

    def _rows(self, y: Array, robust: bool, cost: float) -> Array:
        """Coefficients of - y b + sum_j a_j - cost lam - alpha <= -1, a row for every row."""
        A, every, yx = np.zeros((self.N, self.size)), np.arange(self.N), y[:, None] * self.X
        outside = np.abs(self.X) > 1.0 if robust else np.zeros(self.X.shape, dtype=bool)
        along = yx > 0.0
        A[:, self.at["w"]] = np.where(outside, np.where(along, -1.0, 1.0), -yx)
        A[:, self.at["b"]] = -y[:, None]
        A[every, self.at["alpha"].start + every] = -1.0
        if robust:
            muted = np.where(outside, 1.0 - np.abs(self.X), 0.0).sum(axis=1)
            A[every, self.at["lam"].start + self.member] = muted - cost
            places = self.member[:, None] * self.n + np.arange(self.n)
            for name, sign in {"plus": 1.0, "minus": -1.0}.items():
                beyond = np.where(along == (sign > 0.0), 2.0, 0.0)
                values = np.where(outside, beyond, 1.0 + sign * yx)
                A[every[:, None], self.at[name].start + places] = values
        return A

    def _clipping(self) -> Array:
        """+-w - lam - w+- <= 0."""
        A = np.zeros((2, self.S, self.n, self.size))
        for s in range(self.S):
            for k, name in enumerate(("plus", "minus")):
                A[k, s, :, self.at["w"]] = (1.0 - 2.0 * k) * np.eye(self.n)
                A[k, s, :, self.at["lam"].start + s] = -1.0
                start = self.at[name].start + s * self.n
                A[k, s, :, start : start + self.n] = -np.eye(self.n)
        return A.reshape(-1, self.size)

    def _losses(self, rho: Array) -> Array:
        """rho lam + mean alpha - z <= 0."""
        A = np.zeros((self.S, self.size))
        A[:, self.at["lam"]] = np.diag(rho)
        A[self.member, self.at["alpha"].start + np.arange(self.N)] = self.mass
        A[:, self.at["z"]] = -np.eye(self.S)
        return A

    def _mixture(self, theta: float) -> tuple[Array, Array]:
        """Constraints and costs of the worst mixture of z."""
        eye, at = np.eye(self.S), self.at
        c, A = np.zeros(self.size), np.zeros((3, self.S, self.size))
        A[0][:, at["z"]], A[0][:, at["v"]] = eye, -eye  # z <= v
        if math.isinf(theta):  # v <= gamma
            c[at["gamma"]] = 1.0
            A[1][:, at["v"]], A[1][:, at["gamma"]] = eye, -1.0
            return A[:2].reshape(-1, self.size), c
        if self.p == 1.0:  # gamma <= v <= gamma + beta
            c[at["beta"]], c[at["v"]] = theta / 2.0, self.q
            A[1][:, at["v"]], A[1][:, at["gamma"]] = -eye, 1.0
            A[2][:, at["v"]], A[2][:, at["gamma"]], A[2][:, at["beta"]] = eye, -1.0, -1.0
            return A.reshape(-1, self.size), c
        low, high = np.maximum(0.0, self.q - theta), np.minimum(1.0, self.q + theta)
        c[at["gamma"]], c[at["beta"]], c[at["v"]] = 1.0 - low.sum(), high - low, low
        A[1][:, at["v"]], A[1][:, at["gamma"]], A[1][:, at["beta"]] = eye, -1.0, -eye
        return A[:2].reshape(-1, self.size), c
