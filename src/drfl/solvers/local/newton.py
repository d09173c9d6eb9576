r"""Newton's linear system, with everything of the length of the rows eliminated.

.. math::
    \begin{pmatrix}H & J^\top\\ J & -B\end{pmatrix}\binom{d\xi}{dq}=\dots,\qquad
    H = A^\top\mathrm{diag}(h)A + \dots

It costs a weighted Gram matrix of the rows once, then a few products with them per solution.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from drfl.arrays import Array
from drfl.solvers.local.cones import diagonal
from drfl.solvers.local.iterate import Iterate, added
from drfl.solvers.local.pieces import Pieces
from drfl.solvers.local.weights import Weights

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
