"""What the server knows of the problem: everything but the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from drfl.losses import Array
from drfl.mixture import Mixture
from drfl.norms import Norm
from drfl.problem import Problem
from drfl.supports import WholeSpace

Kind = Literal["norm", "flips", "box", "plain"]


@dataclass(frozen=True)
class Terms:
    r"""The parts of the master problem that are exact and never learned from cuts.

    ``kind`` says what a cut of client s is a function of:

    - "norm": x alone; :math:`F_s=\rho_s t+\dots` with one :math:`t\ge\|w\|_*` for all;
    - "flips": x and the client's own :math:`\lambda_s\ge\|w\|_*` (labels may flip);
    - "box": x, :math:`\lambda_s` and the clipped model :math:`\omega_s=\mathrm{clip}(w,\pm\lambda_s)`
      with :math:`\tau_s=\sum_jh_j|w_j-\omega_{sj}|`;
    - "plain": x alone, the cut being of :math:`F_s` itself.

    Attributes
    ----------
    n, dimension : int
        Features, and features plus intercept.
    rho : (S,)
        The price of :math:`\lambda_s` (the radius times the Lipschitz constant for "norm").
    floor : (S,)
        A lower bound of :math:`\lambda_s` besides the norm (regression: 1/kappa).
    mixture : Mixture
        With the centre in numbers.
    half : (n,)
        Half the sides of the box, for "box".
    unit : float
        The typical size of a feature: the QP is built in units of unit * w.
    """

    n: int
    dimension: int
    kind: Kind
    rho: Array
    floor: Array
    norm: Norm
    mixture: Mixture
    half: Array
    unit: float = 1.0

    @property
    def n_clients(self) -> int:
        """S."""
        return len(self.rho)

    @property
    def has_intercept(self) -> bool:
        """Whether x ends with an intercept."""
        return self.dimension > self.n

    @property
    def certain(self) -> bool:
        """Whether the weights are known: radius 0, or one client."""
        return self.mixture.radius == 0.0 or self.n_clients == 1

    @property
    def priced(self) -> bool:
        """Whether any client has a positive radius, so that the norm of w costs something."""
        return bool((self.rho > 0.0).any()) and self.kind != "plain"

    @property
    def lambdas(self) -> bool:
        """Whether every client has a multiplier of its own in the master."""
        return self.priced and self.kind in ("flips", "box")

    @property
    def lifted(self) -> int:
        """How many numbers of a cut belong to the clipped model."""
        return self.n + 1 if self.kind == "box" else 0

    @property
    def scale(self) -> Array:
        """x = z * scale turns the QP's units into the user's."""
        scale = np.ones(self.dimension)
        scale[: self.n] = 1.0 / self.unit
        return scale

    def norm_of(self, x: Array) -> float:
        """The dual norm of the coefficients in x."""
        return self.norm.dual(x[: self.n])

    def in_units(self, unit: float) -> Terms:
        """The same terms with another typical size of a feature."""
        return replace(self, unit=unit if math.isfinite(unit) and unit > 1e-150 else 1.0)


def make_terms(problem: Problem, names: Sequence[str], dimension: int, sizes: Array) -> Terms:
    """What follows from the problem once the clients' sizes are known."""
    balls = [problem.ball_of(name) for name in names]
    loss = problem.loss
    rho = np.array([ball.radius for ball in balls])
    cost = np.array([ball.label_cost for ball in balls])
    floor, kind = np.zeros(len(balls)), _kind(problem)
    if kind == "norm":
        rho = rho * loss.lipschitz
        if loss.task == "regression":
            floor = 1.0 / cost
            if np.ptp(floor) > 0.0:  # clients with their own floor need their own multiplier
                kind = "flips"
        elif (np.isfinite(cost) & (rho > 0.0)).any():
            kind = "flips"
    return Terms(
        n=dimension - problem.fit_intercept,
        dimension=dimension,
        kind=kind,
        rho=rho,
        floor=floor,
        norm=problem.norm,
        mixture=problem.mixture.resolve(sizes),
        half=np.zeros(dimension - problem.fit_intercept),
    )


def _kind(problem: Problem) -> Kind:
    return "norm" if problem.support_kind is WholeSpace else "plain"
