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
from drfl.solvers.local.pieces import Pieces
from drfl.solvers.local.point import Point, added
from drfl.solvers.local.weights import Weights

REGULAR = 1e-14  # what is added to the diagonal, relatively: columns may depend on each other


class Newton(Point):
    """A point that can compute its steps.

    Attributes
    ----------
    values : (S,)
        F_s as the method saw it when the system was made.
    dxi, dz : arrays
        The step of the variables and of the margins; rows and cones know theirs.
    """

    def assemble(self) -> None:
        """The Hessian in xi, and how the losses answer to the weights."""
        terms, stack, d = self.terms, self.stack, self.terms.d
        lam = self.lam(self.xi)
        for kernel in self.kernels:
            z, P = self.gather(kernel, self.z), self.gather(kernel, self.P)
            kernel.prepare()
            kernel.measure(z, self.gather(kernel, lam), P)
        h = added(self.scatter(kernel, kernel.hzz) for kernel in self.kernels)
        self.bound.measure(self.xi)
        self.links.second = np.zeros(len(self.links.s))
        self.values, self.slopes = self.losses(), np.zeros(terms.size)
        self.bound.gradient(self.slopes)
        H = np.zeros((terms.size, terms.size))
        H[:d, :d] = stack.gram(np.maximum(h, 0.0))
        for kernel in self.kernels:
            if isinstance(kernel, Pieces) and kernel.flips:
                self._add_flips(H, kernel)
        self.bound.add_hessian(H)
        self.links.prepare()
        H += (self.Z.T * self.links.M) @ self.Z
        self.scale = 1.0 / np.sqrt(np.maximum(diagonal(H), 1e-300))
        H *= self.scale[:, None] * self.scale
        diagonal(H)[:] += REGULAR
        self.factor = _factor(H)
        if self.weights is not None:
            self._couple(self.weights)

    def _add_flips(self, H: Array, kernel: Pieces) -> None:
        d, index = self.terms.d, self.terms.index
        cross = self.stack.client_products(self.scatter(kernel, kernel.hzl))
        own = self.stack.sums(self.scatter(kernel, kernel.hll))
        for s in self.terms.moving:
            k = index[s]
            H[:d, k] += cross[s]
            H[k, :d] += cross[s]
            H[k, k] += own[s]

    def _couple(self, weights: Weights) -> None:
        """J and B: how the clients' losses move with xi and with the weights."""
        terms, stack, mass = self.terms, self.stack, self.stack.mass
        S, own = stack.n_clients, terms.rho + self.fixed.pull
        jz = added(self.scatter(kernel, kernel.jz) for kernel in self.kernels)
        per_mass = added(self.scatter(kernel, kernel.per_mass) for kernel in self.kernels)
        for kernel in self.kernels:
            if isinstance(kernel, Pieces) and kernel.flips:
                own = own + stack.sums(mass * self.scatter(kernel, kernel.jl))
        J = np.zeros((S, terms.size))
        J[:, : terms.d] = stack.client_products(mass * jz) + self.fixed.g
        J[np.arange(S), terms.index] += own
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
        terms, stack, fixed, d = self.terms, self.stack, self.fixed, self.terms.d
        rhs, own = -self.slopes, self.q * (terms.rho + fixed.pull)
        for kernel in self.kernels:
            kernel.aim(target)
            if isinstance(kernel, Pieces) and kernel.flips:
                own = own + stack.sums(self.scatter(kernel, kernel.pull + kernel.gl))
        pull = added(self.scatter(kernel, kernel.slope + kernel.gz) for kernel in self.kernels)
        rhs[:d] -= stack.products(pull) + self.q @ fixed.g
        rhs -= terms.places @ own
        self.bound.aim(self.xi, target, rhs)
        self.links.aim(self.Z @ self.xi - self.least, target)
        rhs += self.Z.T @ (self.links.y + self.links.k)
        dxi = self._back(rhs)
        if self.weights is not None:
            dxi = self._with_weights(self.weights, dxi, target)
        self._move(dxi)

    def _with_weights(self, weights: Weights, dxi: Array, target: float) -> Array:
        rest, values = weights.aim(target), self.values
        for kernel in self.kernels:
            if isinstance(kernel, Pieces):
                worth = self.scatter(kernel, kernel.gu)
                values = values + self.stack.sums(self.stack.mass * worth)
        weights.solve(rest + weights.E.T @ (values + self.J @ dxi))
        weights.move()
        return dxi - np.asarray(self.HJ @ weights.dq)

    def _move(self, dxi: Array) -> None:
        """Steps of the rows and the cones."""
        self.dxi, self.dz = dxi, np.asarray(self.stack.A @ dxi[: self.terms.d])
        dP: Array | float = 0.0
        if self.weights is not None:
            dP = self.stack.mass * self.stack.spread(self.weights.dq)
        dlam = self.lam(dxi)
        for kernel in self.kernels:
            dz = self.gather(kernel, self.dz)
            kernel.move(dz, self.gather(kernel, dlam), self.gather(kernel, dP))
        self.bound.move(dxi)
        self.links.move(self.Z @ dxi)


def _factor(H: Array) -> Array:
    """A Cholesky factor; of a matrix that is not quite positive, with more on the diagonal."""
    more = 0.0
    for _ in range(12):
        factor, failed = dpotrf(H + more * np.eye(len(H)) if more else H, lower=1)
        if not failed:
            return np.asarray(factor)
        more = max(100.0 * more, 1e-13)
    raise np.linalg.LinAlgError("the system of the interior-point method is singular")
