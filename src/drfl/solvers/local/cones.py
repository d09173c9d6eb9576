r"""The two cones of the interior-point method, each with its pair of interior points.

A constraint :math:`\zeta(\xi)\in K` has a slack s, which comes to equal :math:`\zeta`, and a
multiplier y. Newton's method wants :math:`s\circ y=\mu e` besides; both cones reduce that to
:math:`dy = k - M\,d\zeta` with a positive definite M.
"""

from __future__ import annotations

import math

import numpy as np

from drfl.arrays import Array

# Products between these multiples of their target count as centred.
LOW, HIGH = 0.1, 10.0


class Orthant:
    """Componentwise inequalities."""

    def __init__(self, s: Array, y: Array) -> None:
        self.s, self.y = s, y
        self.ds, self.dy, self.second = np.zeros_like(s), np.zeros_like(y), np.zeros_like(s)

    @property
    def degree(self) -> int:
        """How many products make up the gap."""
        return len(self.s)

    def gap(self, primal: float = 0.0, dual: float = 0.0) -> float:
        """The sum of products after steps of these lengths."""
        if primal == 0.0 and dual == 0.0:
            return float(self.s @ self.y)
        return float((self.s + primal * self.ds) @ (self.y + dual * self.dy))

    def prepare(self) -> None:
        """Take the scaling of the present point."""
        self.M = self.y / self.s

    def correct(self, weight: float) -> None:
        """Take this part of what the last step would add to the products out of the next."""
        self.second = weight * self.ds * self.dy

    def recentre(self, primal: float, dual: float, target: float) -> None:
        """Lift products that steps of these lengths would leave too small, and lower large ones."""
        self.second = self.second - off_centre(
            (self.s + primal * self.ds) * (self.y + dual * self.dy), target
        )

    def aim(self, zeta: Array, target: float) -> None:
        """What dy is at rest, and with it the goal of the next step."""
        self.miss = self.s - zeta
        self.centre = target - self.s * self.y - self.second
        self.k = self.centre / self.s + self.M * self.miss

    def move(self, dzeta: Array) -> None:
        """The step of slack and multiplier that goes with a step of zeta."""
        self.ds = dzeta - self.miss
        self.dy = self.k - self.M * dzeta

    def reach(self) -> tuple[float, float]:
        """How far slack and multiplier can go."""
        return reach(self.s, self.ds), reach(self.y, self.dy)

    def update(self, primal: float, dual: float) -> None:
        """Go so far."""
        self.s = self.s + primal * self.ds
        self.y = self.y + dual * self.dy


class SecondOrder:
    r"""The cone :math:`s_0\ge\|s_1\|_2`, with the scaling of Nesterov and Todd.

    With :math:`W=\eta(\dots)` symmetric, :math:`Wy=W^{-1}s=:\lambda` and
    :math:`M=W^{-2}=\eta^{-2}(2vv^\top-J)`, :math:`J=\mathrm{diag}(1,-1,\dots)`.
    """

    def __init__(self, s: Array, y: Array) -> None:
        self.s, self.y = s, y
        self.ds, self.dy, self.second = np.zeros_like(s), np.zeros_like(y), np.zeros_like(s)

    degree = 1

    def gap(self, primal: float = 0.0, dual: float = 0.0) -> float:
        """The inner product after steps of these lengths."""
        return float((self.s + primal * self.ds) @ (self.y + dual * self.dy))

    def prepare(self) -> None:
        """Take the scaling of the present point."""
        size_s, size_y = _size(self.s), _size(self.y)
        s, y = self.s / size_s, self.y / size_y
        c = math.sqrt((1.0 + float(s @ y)) / 2.0)
        self.w = (s + _mirrored(y)) / (2.0 * c)
        self.eta = math.sqrt(size_s / size_y)
        self.v = _mirrored(self.w)
        self.lam = self._scaled(self.y, self.w) * self.eta

    def multiply(self, d: Array) -> Array:
        """M d."""
        return (2.0 * float(self.v @ d) * self.v - _mirrored(d)) / self.eta**2

    @property
    def matrix(self) -> Array:
        """M."""
        M = 2.0 * np.outer(self.v, self.v)
        diagonal(M)[:] += 1.0
        M[0, 0] -= 2.0
        return M / self.eta**2

    def correct(self, weight: float) -> None:
        """Take this part of what the last step would add to the products out of the next."""
        ds, dy = self._scaled(self.ds, self.v), self._scaled(self.dy, self.w)
        self.second = weight * _product(ds, dy)

    def recentre(self, primal: float, dual: float, target: float) -> None:
        """Leave the products as they are: there is only one."""

    def aim(self, zeta: Array, target: float) -> None:
        """What dy is at rest, and with it the goal of the next step."""
        centre = -_product(self.lam, self.lam) - self.second
        centre[0] += target
        self.miss = self.s - zeta
        goal = _divide(self.lam, centre)
        self.k = self._scaled(goal, self.v) / self.eta + self.multiply(self.miss)

    def move(self, dzeta: Array) -> None:
        """The step of slack and multiplier that goes with a step of zeta."""
        self.ds = dzeta - self.miss
        self.dy = self.k - self.multiply(dzeta)

    def reach(self) -> tuple[float, float]:
        """How far slack and multiplier can go."""
        return _cone_reach(self.s, self.ds), _cone_reach(self.y, self.dy)

    def update(self, primal: float, dual: float) -> None:
        """Go so far."""
        self.s = self.s + primal * self.ds
        self.y = self.y + dual * self.dy

    @staticmethod
    def _scaled(d: Array, w: Array) -> Array:
        """W d for the unit scaling with axis w; with the mirrored axis its inverse."""
        inner = float(w[1:] @ d[1:])
        head = w[0] * d[0] + inner
        tail = d[1:] + (d[0] + inner / (1.0 + w[0])) * w[1:]
        return np.append(head, tail)


def diagonal(H: Array) -> Array:
    """The diagonal of a square matrix in any order, to be written to."""
    view: Array = np.einsum("ii->i", H)
    return view


def reach(x: Array, dx: Array) -> float:
    """The largest step with x + step dx >= 0; infinite if nothing falls."""
    falls = float((dx / x).min(initial=0.0))
    return -1.0 / falls if falls < 0.0 else math.inf


def off_centre(products: Array, target: float) -> Array:
    """By how much products are outside of a decade around the target; large ones count less."""
    return np.maximum(np.clip(products, LOW * target, HIGH * target) - products, -HIGH * target)


def _cone_reach(x: Array, dx: Array) -> float:
    """The largest step that stays in the cone: a root of a quadratic."""
    scale = _size(x)
    x, dx = x / scale, dx / scale
    inner = x[0] * dx[0] - float(x[1:] @ dx[1:])
    factor = (inner + dx[0]) / (x[0] + 1.0)
    tail = dx[1:] - factor * x[1:]
    falls = float(np.linalg.norm(tail)) - inner
    return 1.0 / falls if falls > 0.0 else math.inf


def _size(x: Array) -> float:
    head, tail = float(x[0]), float(np.linalg.norm(x[1:]))
    return math.sqrt(max((head - tail) * (head + tail), 1e-300))


def _mirrored(x: Array) -> Array:
    return np.append(x[0], -x[1:])


def _product(x: Array, y: Array) -> Array:
    return np.append(x @ y, x[0] * y[1:] + y[0] * x[1:])


def _divide(x: Array, r: Array) -> Array:
    """The u with x o u = r."""
    inner = float(x[1:] @ r[1:])
    det = _size(x) ** 2
    head = (x[0] * r[0] - inner) / det
    return np.append(head, (r[1:] - head * x[1:]) / x[0])
