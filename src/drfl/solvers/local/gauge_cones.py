r"""The constraint :math:`\|w\|_*\le t` for the three ground norms.

Each is a pair of a cone and a linear map of (w, t); all have the same methods. Where a step is
asked for, gradients are those of the Lagrangian :math:`-\langle y,\zeta(w,t)\rangle`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import numpy as np

from drfl.arrays import Array
from drfl.gauges import DualNorm, Gauge
from drfl.norms import L1, L2, LInf, Norm
from drfl.solvers.local.cones import Orthant, SecondOrder, diagonal
from drfl.solvers.local.pieces import Pieces


class GaugeCone(ABC):
    """The constraint, with its interior point; the first n variables are w, number ``t`` is t."""

    def __init__(self, n: int, t: int) -> None:
        self.n, self.t = n, t

    @abstractmethod
    def start(self, x: Array, price: float) -> None:
        """An interior point at which t is worth about ``price``."""

    @abstractmethod
    def gradient(self, out: Array) -> None:
        """Add the gradient."""

    @abstractmethod
    def add_hessian(self, H: Array) -> None:
        """Take the scaling of the present point and add the curvature."""

    def measure(self, x: Array) -> None:
        """Forget the corrections of the last step."""
        for part in self.parts:
            part.second = np.zeros(part.s.shape)

    def loosen(self, x: Array, by: float) -> None:
        """Move t, and the slacks with it, away from the bound."""
        x[self.t] += by
        self._widen(by)

    @abstractmethod
    def _widen(self, by: float) -> None:
        """Let the slacks follow t."""

    @abstractmethod
    def aim(self, x: Array, target: float, rhs: Array) -> None:
        """Set the goal of the step and add its part of the right-hand side."""

    @abstractmethod
    def move(self, dx: Array) -> None:
        """The step that goes with dx."""

    @property
    @abstractmethod
    def parts(self) -> tuple[Orthant | SecondOrder | Pieces, ...]:
        """The cones, which know gaps and step lengths."""


C = TypeVar("C", Orthant, SecondOrder)


class OneCone(GaugeCone, Generic[C]):
    """The image of (w, t) under a linear map lies in one cone."""

    cone: C

    @abstractmethod
    def _map(self, x: Array) -> Array:
        """The linear map."""

    @abstractmethod
    def _adjoint(self, y: Array, out: Array) -> None:
        """Add its transpose."""

    def gradient(self, out: Array) -> None:
        self._adjoint(-self.cone.y, out)

    def aim(self, x: Array, target: float, rhs: Array) -> None:
        self.cone.aim(self._map(x), target)
        self._adjoint(self.cone.k, rhs)

    def move(self, dx: Array) -> None:
        self.cone.move(self._map(dx))

    @property
    def parts(self) -> tuple[C, ...]:
        return (self.cone,)


class LargestEntry(OneCone[Orthant]):
    r"""Ground norm l1: :math:`t-w\ge0,\ t+w\ge0`."""

    def start(self, x: Array, price: float) -> None:
        zeta = np.maximum(self._map(x), 1e-3 * x[self.t])
        self.cone = Orthant(zeta, np.full(2 * self.n, price / (2 * self.n)))

    def _map(self, x: Array) -> Array:
        w, t = x[: self.n], x[self.t]
        return np.concatenate([t - w, t + w])

    def _adjoint(self, y: Array, out: Array) -> None:
        out[: self.n] -= y[: self.n] - y[self.n :]
        out[self.t] += y.sum()

    def add_hessian(self, H: Array) -> None:
        n, t = self.n, self.t
        self.cone.prepare()
        up, down = self.cone.M[:n], self.cone.M[n:]
        diagonal(H)[:n] += up + down
        H[t, :n] += down - up
        H[:n, t] += down - up
        H[t, t] += self.cone.M.sum()

    def _widen(self, by: float) -> None:
        cone = self.cone
        cone.s = cone.s + by
        cone.y = np.maximum(cone.y, 0.1 * float((cone.s * cone.y).mean()) / cone.s)


class EuclideanNorm(OneCone[SecondOrder]):
    """Ground norm l2: (t, w) in the second-order cone."""

    def start(self, x: Array, price: float) -> None:
        s = self._map(x)
        s[0] = max(s[0], 1.001 * float(np.linalg.norm(s[1:])))
        y = np.zeros_like(s)
        y[0] = price
        self.cone = SecondOrder(s, y)

    def _map(self, x: Array) -> Array:
        return np.append(x[self.t], x[: self.n])

    def _adjoint(self, y: Array, out: Array) -> None:
        out[: self.n] += y[1:]
        out[self.t] += y[0]

    def add_hessian(self, H: Array) -> None:
        self.cone.prepare()
        index = np.append(self.t, np.arange(self.n))
        H[np.ix_(index, index)] += self.cone.matrix

    def _widen(self, by: float) -> None:
        s, price = self.cone.s.copy(), float(self.cone.y[0])
        s[0] += by
        # The multiplier of the same price that is centred with this slack.
        self.cone = SecondOrder(s, np.append(price, -price * s[1:] / s[0]))


class SumOfEntries(GaugeCone):
    r"""Ground norm linf: :math:`\sum_j|w_j|\le t`.

    The absolute values are `Pieces` with the lines :math:`\pm w_j`; their common mass is the
    multiplier :math:`\tau` of the sum.
    """

    def start(self, x: Array, price: float) -> None:
        one = np.array([[1.0], [-1.0]])
        self.pieces = Pieces(one, np.zeros((2, 1)), np.zeros((2, 1)))
        w, t = x[: self.n], x[self.t]
        room = t / (2.0 * self.n)
        self.pieces.start(w, 0.0, np.full(self.n, price), room)
        slack = max(t - float(self.pieces.u.sum()), 1e-3 * t)
        self.total = Orthant(np.array([slack]), np.array([price]))

    @property
    def _slack(self) -> float:
        return float(self.total.s[0])

    def gradient(self, out: Array) -> None:
        out[: self.n] += self.pieces.slope  # measured before
        out[self.t] -= self.total.y[0]

    def add_hessian(self, H: Array) -> None:
        n, t, tau = self.n, self.t, float(self.total.y[0])
        self.pieces.prepare()
        diagonal(H)[:n] += self.pieces.hzz
        # tau moves along: d tau = (J dx + const) / B with J = (jz, -1).
        self.B = float(self.pieces.per_mass.sum()) + self._slack / tau
        J = np.append(self.pieces.jz, -1.0)
        index = np.append(np.arange(n), t)
        H[np.ix_(index, index)] += np.outer(J / self.B, J)

    def aim(self, x: Array, target: float, rhs: Array) -> None:
        pieces, total, tau = self.pieces, self.total, float(self.total.y[0])
        pieces.aim(target)
        self.centre = (target - float(total.second[0])) / tau - self._slack
        miss = float(pieces.u.sum()) - float(x[self.t]) + self._slack
        # sum du - dt + ds = -miss and ds = centre - slack/tau dtau.
        self.goal = float(np.sum(pieces.gu)) + self.centre + miss
        rhs[: self.n] -= pieces.gz + pieces.jz * (self.goal / self.B)
        rhs[self.t] += self.goal / self.B

    def move(self, dx: Array) -> None:
        dw, tau = dx[: self.n], float(self.total.y[0])
        dtau = (float(self.pieces.jz @ dw) - float(dx[self.t]) + self.goal) / self.B
        self.pieces.move(dw, 0.0, dtau)
        self.total.dy = np.array([dtau])
        self.total.ds = np.array([self.centre - self._slack / tau * dtau])

    @property
    def parts(self) -> tuple[Orthant | Pieces, ...]:
        return (self.pieces, self.total)

    def measure(self, x: Array) -> None:
        super().measure(x)
        self.pieces.measure(x[: self.n], 0.0, np.full(self.n, float(self.total.y[0])))

    def _widen(self, by: float) -> None:
        pieces, each = self.pieces, by / (2.0 * self.n)
        pieces.s, pieces.u = pieces.s + each, pieces.u + each
        self.total.s = self.total.s + 0.5 * by


CONES: dict[type[Norm], type[GaugeCone]] = {
    L1: LargestEntry,
    L2: EuclideanNorm,
    LInf: SumOfEntries,
}


def has_cone(norm: Norm) -> bool:
    """Whether this method knows the dual norm as a cone."""
    return type(norm) in CONES


def make_cone(gauge: Gauge, t: int) -> GaugeCone:
    """The cone of a gauge; ``t`` is the number of the variable that bounds it."""
    assert isinstance(gauge, DualNorm)
    return CONES[type(gauge.norm)](gauge.n, t)
