r"""The uncertain weights of the clients as variables of the interior-point method.

:math:`q=q_0+Ec` with :math:`Cc\le d`, :math:`e^\top c=` const and for p = 2 the ball
:math:`\|c-\hat q\|_2\le\theta`. They maximise :math:`q^\top F`: in Newton's system their block is
negative definite and small.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.lapack import dgetrf, dgetrs

from drfl.arrays import Array
from drfl.solvers.local.cones import Orthant, SecondOrder
from drfl.uncertainty import Mixture


class Weights:
    """q and the multipliers of its constraints, with a resolved mixture that leaves q open.

    Attributes
    ----------
    c, dc, dq : arrays
        The variables, their step, and the step of the weights.
    """

    def __init__(self, mixture: Mixture) -> None:
        self.mixture = mixture
        center, theta = mixture.weights, mixture.radius
        S = len(center)
        one = np.eye(S)
        self.start_at, self.E, self.e = np.zeros(S), one, np.ones(S)
        self.ball: SecondOrder | None = None
        if mixture.is_simplex:
            self.c, C, d = np.full(S, 1.0 / S), -one, np.zeros(S)
        elif mixture.p == math.inf:
            low, high = np.maximum(center - theta, 0.0), np.minimum(center + theta, 1.0)
            self.c = low + (high - low) * (1.0 - low.sum()) / (high - low).sum()
            C, d = np.vstack([-one, one]), np.append(-low, high)
        elif mixture.p == 1:
            giving = np.flatnonzero(center > 0.0)
            moved = min(theta / 4.0, 0.5)
            self.c = np.append(np.full(S, moved / S), moved * center[giving])
            self.start_at, self.E = center, np.hstack([one, -one[:, giving]])
            self.e = np.append(np.ones(S), -np.ones(len(giving)))
            k, g = len(self.c), len(giving)
            cap = np.hstack([np.zeros((g, S)), np.eye(g)])
            total = np.append(np.zeros(S), np.ones(g))
            C = np.vstack([-np.eye(k), cap, total])
            d = np.concatenate([np.zeros(k), center[giving], [0.5 * theta]])
        else:
            step = 1.0 / S - center
            length = float(np.linalg.norm(step))
            self.c = center + min(0.5, theta / (2.0 * length) if length > 0.0 else 0.5) * step
            C, d = -one, np.zeros(S)
        self.C, self.d, self.total = C, d, float(self.e @ self.c)
        self.dc, self.dq = np.zeros_like(self.c), np.zeros(S)

    @property
    def q(self) -> Array:
        """The weights."""
        return np.asarray(self.start_at + self.E @ self.c)

    def start(self, size: float) -> None:
        """Multipliers for losses of this size."""
        s = self.d - self.C @ self.c
        self.cone = Orthant(s, np.full(len(s), size))
        if not self.mixture.is_simplex and self.mixture.p == 2:
            zeta = self._ball_map()
            y = np.zeros_like(zeta)
            y[0] = size
            self.ball = SecondOrder(zeta, y)

    def _ball_map(self) -> Array:
        return np.append(self.mixture.radius, self.c - self.mixture.weights)

    @property
    def parts(self) -> tuple[Orthant | SecondOrder, ...]:
        """The cones; their slacks move with the multipliers of the rows."""
        return (self.cone,) if self.ball is None else (self.cone, self.ball)

    def prepare(self) -> None:
        """Take the scaling of the present point."""
        for part in self.parts:
            part.prepare()
            part.second = np.zeros(len(part.s))
        self.block = (self.C.T * self.cone.M) @ self.C
        if self.ball is not None:
            self.block += self.ball.matrix[1:, 1:]

    def aim(self, target: float) -> Array:
        """Set the goal of the step; the constant part of the equation of c."""
        self.cone.aim(self.d - self.C @ self.c, target)
        rest = -self.C.T @ (self.cone.y + self.cone.k)
        if self.ball is not None:
            self.ball.aim(self._ball_map(), target)
            rest += (self.ball.y + self.ball.k)[1:]
        return np.asarray(rest)

    def couple(self, inner: Array) -> None:
        """Complete the block: ``inner`` is how the losses answer to q."""
        k = len(self.c)
        K = np.zeros((k + 1, k + 1))
        K[:k, :k] = self.block + self.E.T @ inner @ self.E
        K[:k, k] = K[k, :k] = self.e
        self.factor, self.pivots, failed = dgetrf(K)
        if failed:
            raise np.linalg.LinAlgError("the system of the weights is singular")

    def solve(self, rhs: Array) -> None:
        """The step, from the right-hand side of the equation of c."""
        both = np.empty(len(rhs) + 1)
        both[:-1], both[-1] = rhs, self.total - self.e @ self.c
        self.dc = dgetrs(self.factor, self.pivots, both)[0][:-1]
        self.dq = self.E @ self.dc

    def move(self) -> None:
        """The steps of the cones that go with dc."""
        self.cone.move(-self.C @ self.dc)
        if self.ball is not None:
            self.ball.move(np.append(0.0, self.dc))

    def update(self, dual: float) -> None:
        """Go so far."""
        self.c = self.c + dual * self.dc
