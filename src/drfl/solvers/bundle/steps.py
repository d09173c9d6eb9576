r"""Steps: the metric of the proximal term, when a step is taken, how far the next one may go.

:math:`M=\sigma\sum_sq_sH_s+\mu D`, with :math:`H_s` the last curvature of client s. Where no client
sends any, a quasi-Newton (BFGS) matrix is made of gradients that cross anyway.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from drfl.arrays import Array
from drfl.solvers.certificate.curved import Reach
from drfl.solvers.certificate.cuts import Ints
from drfl.solvers.certificate.server import ServerProblem

STIFFEST = 256.0  # multiple of the curvature after Newton steps that were too long


@dataclass(frozen=True)
class Proposal:
    """A point on its way, what the model promised there, and the proximal term it paid."""

    x: Array
    model: float = math.nan
    prox: float = 0.0


@dataclass
class Descent:
    r"""The weights of the metric :math:`M=\sigma H+\mu D`, and the memory of the last steps.

    Attributes
    ----------
    smooth : bool
        Steps on a smooth loss: one point a round, mu shrinks with the promised decrease.
    exact : bool
        Whether the clients' curvature is all there is: no support adds its own.
    decrease : float
        The relative decrease that the model promises.
    serious : bool
        Whether the centre moved in the last round.
    """

    smooth: bool
    exact: bool = True
    mu: float = 1.0
    mu_first: float = 1.0
    sigma: float = 1.0
    nulls: int = 0
    decrease: float = math.inf
    serious: bool = True

    @property
    def newton(self) -> bool:
        """Whether steps are Newton's."""
        return self.smooth and self.exact

    def start(self, gradient_size: float, objective: float) -> None:
        """The first mu: a small part of what a gradient step of unit relative decrease needs."""
        self.mu = self.mu_first = max(0.002 * gradient_size / max(objective, 1e-300), 1e-12)

    def judge(
        self, at_centre: float, f: float, proposal: Proposal, second_wins: bool | None
    ) -> bool:
        """Whether the point delivers a tenth of what was promised; adapts mu and sigma."""
        promised, delivered = at_centre - proposal.model, at_centre - f
        at_rounding = self.smooth and self.decrease < 1e-6 and -delivered <= 1e-9 * abs(at_centre)
        self.serious = delivered >= 0.1 * promised or at_rounding
        if self.serious:
            self._after_serious(delivered, promised, proposal.prox, second_wins)
        else:
            self._after_null(delivered, promised)
        return self.serious

    def _after_serious(
        self, delivered: float, promised: float, prox: float, second_wins: bool | None
    ) -> None:
        self.nulls = 0
        if delivered >= 0.5 * promised:
            self.mu *= 0.2
        if second_wins is not None:
            self.sigma = 0.4 * self.sigma if second_wins else min(1.0, 1.5 * self.sigma)
        elif self.sigma > 1.0:  # the last steps were too long
            self.sigma = max(1.0, self.sigma / (16.0 if delivered >= 0.5 * promised else 4.0))
        elif self.decrease < 1e-3:
            # More than the quadratic model promised: the curvature is too large.
            excess = delivered / max(promised - prox, 1e-300)
            self.sigma *= 0.3 if excess >= 1.6 else 0.5 if excess >= 1.25 else 1.0

    def _after_null(self, delivered: float, promised: float) -> None:
        self.nulls += 1
        if self.newton:
            self.sigma = min(4.0 * self.sigma, STIFFEST)
            return
        self.sigma = min(1.0, 1.2 * self.sigma)
        if -delivered > 2.0 * promised:
            self.mu *= 2.0
        if self.nulls % 4 == 0:
            self.mu *= 1.6

    def shrink(self) -> bool:
        """After a serious Newton step mu must not exceed what the promise is worth."""
        if not (self.smooth and self.serious) or self.decrease <= 0.0:
            return False
        if self.mu <= 0.2 * self.mu_first * self.decrease:
            return False
        self.mu = 0.1 * self.mu_first * self.decrease
        return True


MEMORY = 60  # pairs
LEAST = 1e-9  # mu, as a share of the mean curvature
ALIKE = 0.2  # how much local optima may differ for their mean to be worth a visit


class Metric:
    """Curvature by client, or pairs of steps and gradient changes."""

    def __init__(self, server: ServerProblem) -> None:
        self.server = server
        self.hessians: list[Array | None] = [None] * server.n_clients
        self.reaches: dict[int, Reach] = {}  # by client, of the last point where it was told
        self.second: dict[int, Array] = {}  # at this round's second point, in case it is chosen
        self.pairs: list[tuple[Array, Array]] = []
        self.before: tuple[list[Array | None], int] = [], -1  # curvature and its point, until now
        self._last: tuple[Array, Array] | None = None  # x (d,), gradients (S, d)
        self.diagonal = np.ones(server.dimension)

    def set_unit(self, unit: float) -> None:
        """The typical size of a feature scales the coefficients' part of D."""
        self.diagonal[: self.server.n] = unit**2
        if self.server.is_shared:
            self.diagonal[-1] = unit**2

    @property
    def known(self) -> bool:
        """Whether some client has sent curvature."""
        return any(H is not None for H in self.hessians)

    def learn(self, clients: Ints, curvature: Array) -> None:
        """Take what clients (m,) sent of the main point, and perhaps of another (m, h, d, d)."""
        for s, H in zip(clients.tolist(), curvature, strict=True):
            self.hessians[s] = H[0]
            if len(H) > 1:
                self.second[s] = H[1]

    def observe(self, x: Array, gradients: Array) -> None:
        """Remember how the clients' gradients (S, d) at the new point differ from the last ones."""
        if self._last is not None:
            self.pairs.append((x - self._last[0], gradients - self._last[1]))
            self.pairs = self.pairs[-MEMORY:]
        self._last = x, gradients

    def curvature(self, q: Array) -> Array:
        """The clients' curvature mixed by q, over those who sent any."""
        d = self.server.dimension
        if self.known:
            have = [
                (weight, H) for weight, H in zip(q, self.hessians, strict=True) if H is not None
            ]
            among = max(sum(weight for weight, _ in have), 1e-12)
            total, part = np.zeros((d, d)), np.empty((d, d))
            for weight, H in have:  # thousands of small ones
                total += np.multiply(weight / among, H, out=part)
            return total
        return self._bfgs(q)

    def common(self, optima: Array, weights: Array) -> Array | None:
        """The weighted mean of points (S, d), unless they differ too much to have one in common."""
        mean = weights @ optima
        H = self.curvature(self.server.mixture.weights)
        spread = np.einsum("si,ij,sj->s", optima - mean, H, optima - mean)
        alike = float(weights @ spread) <= ALIKE * max(float(mean @ H @ mean), 1e-300)
        return mean if alike else None

    def _bfgs(self, q: Array) -> Array:
        d = self.server.dimension
        pairs = [(step, q @ change) for step, change in self.pairs]
        pairs = [(s, y) for s, y in pairs if s @ y > 1e-12 * np.sqrt((s @ s) * (y @ y))]
        if not pairs:
            return np.zeros((d, d))
        s, y = pairs[-1]
        B = np.diag(self.diagonal) * float(s @ y / (s @ (self.diagonal * s)))
        for s, y in pairs:
            Bs = B @ s
            B += np.outer(y, y) / (s @ y) - np.outer(Bs, Bs) / (s @ Bs)
        return 0.5 * (B + B.T)

    def matrix(self, H: Array, sigma: float, mu: float) -> Array:
        """M, with mu kept above rounding."""
        least = LEAST * self._mean(H)
        return sigma * H + max(mu, least, 1e-12) * np.diag(self.diagonal)

    def lifted(self, H: Array, ridge: float) -> Array:
        """H + ridge D, in units of the mean curvature."""
        return H + ridge * self._mean(H) * np.diag(self.diagonal)

    def solve(self, H: Array, right: Array, ridge: float, refinements: int) -> Array:
        """The step e with He = right, nearly; 0 if the curvature cannot be inverted."""
        e = np.zeros_like(right)
        try:
            factor = cho_factor(self.lifted(H, ridge))
        except LinAlgError:
            return e
        for _ in range(1 + refinements):
            e += cho_solve(factor, right - H @ e)
        return e

    def _mean(self, H: Array) -> float:
        return float(np.trace(H / self.diagonal[:, None])) / len(H)
