"""What the interior-point method has to know of the problem, in its own units."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.mixture import Mixture
from drfl.norms import Norm
from drfl.problem import Problem


@dataclass(frozen=True)
class Terms:
    r"""The variables are :math:`\xi=(w, b, t, \lambda_1, \dots)` in units of ``unit``.

    Client s pays :math:`\rho_s\lambda_s` with :math:`\lambda_s\ge\max(\|w\|_*,\mathrm{floor}_s)`.
    Clients for which that is all that is asked of :math:`\lambda_s` share the variable t.

    Attributes
    ----------
    n, d : int
        Coefficients, and with the intercept.
    rho : (S,)
        What a client pays for its multiplier; in regression the Lipschitz constant is in it.
    kappa : (S,)
        What a flip costs; infinite where labels do not move.
    floor : (S,)
        1 / kappa in regression.
    index : (S,)
        Which variable is the client's multiplier.
    """

    loss: Loss
    norm: Norm
    mixture: Mixture
    n: int
    d: int
    rho: Array
    kappa: Array
    floor: Array
    index: NDArray[np.intp]
    unit: float

    @property
    def t(self) -> int:
        """The number of the variable t."""
        return self.d

    @cached_property
    def size(self) -> int:
        """How many variables there are."""
        return max(self.d, int(self.index.max())) + 1

    @property
    def margin(self) -> bool:
        """Whether the loss is of a margin."""
        return self.loss.task == "classification"

    @cached_property
    def moving(self) -> list[int]:
        """The clients whose labels can move."""
        return np.flatnonzero(np.isfinite(self.kappa)).tolist()

    @property
    def flips(self) -> bool:
        """Whether any label can move."""
        return bool(self.moving)

    @cached_property
    def places(self) -> Array:
        """Sums of the clients' values where their multipliers are: (size, S)."""
        places = np.zeros((self.size, len(self.rho)))
        places[self.index, np.arange(len(self.rho))] = 1.0
        return places

    @property
    def certain(self) -> bool:
        """Whether the weights are known."""
        return len(self.rho) == 1 or self.mixture.radius == 0.0

    @cached_property
    def price(self) -> float:
        r""":math:`f\ge\mathrm{price}\,\|w\|_*` everywhere."""
        return self.mixture.support(self.rho)

    @cached_property
    def least(self) -> float:
        """f is at least this everywhere, because of the floors."""
        paid = self.rho > 0.0  # elsewhere the floor may be infinite
        return self.mixture.support(self.rho * np.where(paid, self.floor, 0.0))

    @property
    def links(self) -> tuple[Array, Array]:
        """What ties the multipliers: Z xi >= z, their own variables above t and the floors."""
        rows: list[tuple[int, int, float]] = []
        for s in range(len(self.rho)):
            own, floor = int(self.index[s]), float(self.floor[s])
            if own != self.t:
                rows.append((own, self.t, 0.0))
            if floor > 0.0 and self.rho[s] > 0.0:
                rows.append((own, -1, floor))
        rows = sorted(set(rows))
        Z, z = np.zeros((len(rows), self.size)), np.zeros(len(rows))
        for k, (up, down, least) in enumerate(rows):
            Z[k, up], z[k] = 1.0, least
            if down >= 0:
                Z[k, down] = -1.0
        return Z, z


def make_terms(problem: Problem, names: Sequence[str], n: int, sizes: Array, unit: float) -> Terms:
    """The terms of a problem whose features are about ``unit``."""
    balls = [problem.ball_of(name) for name in names]
    loss = problem.loss
    rho = np.array([ball.radius for ball in balls]) * loss.lipschitz
    cost = np.array([ball.label_cost for ball in balls])
    mixture = problem.mixture.resolve(sizes)
    if mixture.radius == 0.0:  # who has no weight pays nothing
        rho[mixture.weights == 0.0] = 0.0
    cost[rho == 0.0] = math.inf
    d = n + problem.fit_intercept
    if loss.task == "classification":
        kappa, floor = cost, np.zeros_like(cost)
        own = np.isfinite(cost)
    else:
        kappa, floor = np.full_like(cost, math.inf), 1.0 / cost
        own = (rho > 0.0) & (np.ptp(floor[rho > 0.0]) > 0.0 if (rho > 0.0).any() else False)
    index = np.full(len(balls), d, dtype=np.intp)
    if len(balls) > 1:  # a single one can be t itself
        index[own] = d + 1 + np.arange(np.count_nonzero(own))
    return Terms(
        loss=loss,
        norm=problem.norm,
        mixture=mixture,
        n=n,
        d=d,
        rho=rho / unit,
        kappa=kappa / unit,
        floor=floor * unit,
        index=index,
        unit=unit,
    )
