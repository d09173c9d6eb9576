r"""Mehrotra's method for the whole problem: how far to go, and where the products should be.

The multipliers alpha of the rows' lines are the adversary; they give the lower bound.
In Newton's linear system everything of the length of the rows is eliminated:

.. math::
    \begin{pmatrix}H & J^\top\\ J & -B\end{pmatrix}\binom{d\xi}{dq}=\dots,\qquad
    H = A^\top\mathrm{diag}(h)A + \dots

It costs a weighted Gram matrix of the rows once, then a few products with them per solution.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from drfl.arrays import Array
from drfl.solvers.local.cones import diagonal
from drfl.solvers.local.iterate import Iterate, added
from drfl.solvers.local.mixture_variables import Weights
from drfl.solvers.local.pieces import Pieces

REGULAR = 1e-14  # what is added to the diagonal, relatively: columns may depend on each other


class NewtonSystem:
    """The system at a point, factored once; `solve` gives every part of the point its step.

    Attributes
    ----------
    values : (S,)
        F_s as the method sees it there.
    dxi, dz : arrays
        The step of the variables and of the margins; rows, cones and weights know theirs.
    """

    def __init__(self, point: Iterate) -> None:
        """The Hessian in xi, and how the losses answer to the weights."""
        self.point, self.dxi, self.dz = point, np.zeros(0), np.zeros(0)
        program, stack, d = point.program, point.stack, point.program.d
        lam = point.lam(point.xi)
        for kernel in point.kernels:
            z, P = point.gather(kernel, point.z), point.gather(kernel, point.P)
            kernel.prepare()
            kernel.measure(z, point.gather(kernel, lam), P)
        h = added(point.scatter(kernel, kernel.hzz) for kernel in point.kernels)
        point.cone.measure(point.xi)
        point.links.second = np.zeros(len(point.links.s))
        self.values, self.slopes = point.losses(), np.zeros(program.size)
        point.cone.gradient(self.slopes)
        H = np.zeros((program.size, program.size))
        H[:d, :d] = stack.gram(np.maximum(h, 0.0))
        for kernel in point.kernels:
            if isinstance(kernel, Pieces) and kernel.flips:
                self._add_flips(H, kernel)
        point.cone.add_hessian(H)
        point.links.prepare()
        H += (point.Z.T * point.links.M) @ point.Z
        self.scale = 1.0 / np.sqrt(np.maximum(diagonal(H), 1e-300))
        H *= self.scale[:, None] * self.scale
        diagonal(H)[:] += REGULAR
        self.factor = _factor(H)
        if point.weights is not None:
            self._couple(point.weights)

    def _add_flips(self, H: Array, kernel: Pieces) -> None:
        point, d, index = self.point, self.point.program.d, self.point.program.index
        cross = point.stack.client_products(point.scatter(kernel, kernel.hzl))
        own = point.stack.sums(point.scatter(kernel, kernel.hll))
        for s in point.program.moving:
            k = index[s]
            H[:d, k] += cross[s]
            H[k, :d] += cross[s]
            H[k, k] += own[s]

    def _couple(self, weights: Weights) -> None:
        """J and B: how the clients' losses move with xi and with the weights."""
        point = self.point
        program, stack, mass = point.program, point.stack, point.stack.mass
        S, own = stack.n_clients, program.rho + point.fixed.pull
        jz = added(point.scatter(kernel, kernel.jz) for kernel in point.kernels)
        per_mass = added(point.scatter(kernel, kernel.per_mass) for kernel in point.kernels)
        for kernel in point.kernels:
            if isinstance(kernel, Pieces) and kernel.flips:
                own = own + stack.sums(mass * point.scatter(kernel, kernel.jl))
        J = np.zeros((S, program.size))
        J[:, : program.d] = stack.client_products(mass * jz) + point.fixed.g
        J[np.arange(S), program.index] += own
        weights.prepare()
        self.J, self.HJ = J, self._back(J.T)
        inner = J @ self.HJ
        diagonal(inner)[:] += stack.sums(mass * mass * per_mass)
        weights.couple(inner)

    def _back(self, rhs: Array) -> Array:
        """H^-1 rhs."""
        scale = self.scale if rhs.ndim == 1 else self.scale[:, None]
        return np.asarray(scale * dpotrs(self.factor, scale * rhs, lower=1)[0])

    def solve(self, target: float) -> None:
        """All steps towards products that equal the target."""
        point = self.point
        program, stack, fixed, d = point.program, point.stack, point.fixed, point.program.d
        rhs, own = -self.slopes, point.q * (program.rho + fixed.pull)
        for kernel in point.kernels:
            kernel.aim(target)
            if isinstance(kernel, Pieces) and kernel.flips:
                own = own + stack.sums(point.scatter(kernel, kernel.pull + kernel.gl))
        pull = added(point.scatter(kernel, kernel.slope + kernel.gz) for kernel in point.kernels)
        rhs[:d] -= stack.products(pull) + point.q @ fixed.g
        rhs -= program.places @ own
        point.cone.aim(point.xi, target, rhs)
        point.links.aim(point.Z @ point.xi - point.least, target)
        rhs += point.Z.T @ (point.links.y + point.links.k)
        dxi = self._back(rhs)
        if point.weights is not None:
            dxi = self._with_weights(point.weights, dxi, target)
        self._move(dxi)

    def _with_weights(self, weights: Weights, dxi: Array, target: float) -> Array:
        point, rest, values = self.point, weights.aim(target), self.values
        for kernel in point.kernels:
            if isinstance(kernel, Pieces):
                worth = point.scatter(kernel, kernel.gu)
                values = values + point.stack.sums(point.stack.mass * worth)
        weights.solve(rest + weights.E.T @ (values + self.J @ dxi))
        weights.move()
        return dxi - np.asarray(self.HJ @ weights.dq)

    def _move(self, dxi: Array) -> None:
        """Steps of the rows and the cones."""
        point = self.point
        self.dxi, self.dz = dxi, np.asarray(point.stack.A @ dxi[: point.program.d])
        dP: Array | float = 0.0
        if point.weights is not None:
            dP = point.stack.mass * point.stack.spread(point.weights.dq)
        dlam = point.lam(dxi)
        for kernel in point.kernels:
            dz = point.gather(kernel, self.dz)
            kernel.move(dz, point.gather(kernel, dlam), point.gather(kernel, dP))
        point.cone.move(dxi)
        point.links.move(point.Z @ dxi)


def _factor(H: Array) -> Array:
    """A Cholesky factor; of a matrix that is not quite positive, with more on the diagonal."""
    more = 0.0
    for _ in range(12):
        factor, failed = dpotrf(H + more * np.eye(len(H)) if more else H, lower=1)
        if not failed:
            return np.asarray(factor)
        more = max(100.0 * more, 1e-13)
    raise np.linalg.LinAlgError("the system of the interior-point method is singular")


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
