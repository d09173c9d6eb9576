r"""The problem as the server sees it: everything but the data.

.. math:: \min_x\ h\big(F_1(x),\dots,F_S(x)\big),\qquad
          F_s(x)=\min_{\lambda_s\ge\max(\mathrm{gauge}(x),\mathrm{floor}_s)}
          \rho_s\lambda_s+u_s(x,\lambda_s),\qquad u_s\ge0.

What clients tell are minorants of their :math:`u_s`. The master problem, the interior-point method
and the proof of every lower bound are about this one description.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from drfl.arrays import Array
from drfl.gauges import Gauge
from drfl.losses import Loss
from drfl.norms import L1
from drfl.problem import Problem
from drfl.supports import Box, WholeSpace
from drfl.uncertainty import Ball, Mixture

Kind = Literal["norm", "flips", "box", "plain"]


@dataclass(frozen=True)
class ServerProblem:
    r"""What is known exactly and never learned from cuts.

    ``kind`` says what a cut of client s is a function of:

    - "norm": x alone; :math:`F_s=\rho_s t+\dots` with one t, at least the gauge, for all;
    - "flips": x and the client's own :math:`\lambda_s`, at least the gauge (labels may flip);
    - "box": x, :math:`\lambda_s` and the clipped model :math:`\omega_s`, w clipped at
      :math:`\pm\lambda_s`, with :math:`\tau_s=\sum_jh_j|w_j-\omega_{sj}|`;
    - "plain": x alone, the cut being of :math:`F_s` itself.

    Attributes
    ----------
    n, dimension : int
        Coefficients, and coefficients plus intercepts.
    rho : (S,)
        The price of :math:`\lambda_s` (the radius times the Lipschitz constant for "norm").
    floor : (S,)
        A lower bound of :math:`\lambda_s` besides the gauge (regression: 1/kappa).
    gauge : Gauge
        What every :math:`\lambda_s` is at least, on the whole space: :math:`\|w\|_*`.
    mixture : Mixture
        With the centre in numbers.
    half : (S, n)
        Half the sides of the clients' boxes, for "box".
    unit : float
        The typical size of a feature: the QP is built in units of unit * w.
    shared_rho : float
        The price of a multiplier that all clients share, the last entry of x; 0: there is none.
    """

    n: int
    dimension: int
    kind: Kind
    rho: Array
    floor: Array
    gauge: Gauge
    mixture: Mixture
    half: Array
    unit: float = 1.0
    shared_rho: float = 0.0

    @property
    def n_clients(self) -> int:
        """S."""
        return len(self.rho)

    @property
    def intercepts(self) -> int:
        """How many intercepts follow the coefficients: none, one, or one per class."""
        return self.dimension - self.is_shared - self.n

    @property
    def has_intercept(self) -> bool:
        """Whether there is one intercept, which slopes of either sign can balance."""
        return self.intercepts == 1

    @property
    def is_shared(self) -> bool:
        """Whether x ends with a multiplier that all clients share."""
        return self.shared_rho > 0.0

    @cached_property
    def price(self) -> float:
        """What the gauge costs at least: f is not below price times the gauge."""
        return self.mixture.support(self.rho) + self.shared_rho

    @cached_property
    def least(self) -> float:
        """What f is at least because of the floors."""
        floors = self.mixture.support(self.rho * self.floor)
        return floors + self.shared_rho * float(self.floor.min())

    @cached_property
    def certain(self) -> bool:
        """Whether the weights are known: radius 0, or one client."""
        return self.mixture.radius == 0.0 or self.n_clients == 1

    @cached_property
    def priced(self) -> bool:
        """Whether any client has a positive radius, so that the gauge costs something."""
        return self.kind != "plain" and (self.is_shared or bool((self.rho > 0.0).any()))

    @property
    def on_whole_space(self) -> bool:
        """Whether rows may go anywhere, so that F is the mean loss plus what the gauge costs."""
        return self.kind in ("norm", "flips") and not self.is_shared

    @property
    def lambdas(self) -> bool:
        """Whether every client has a multiplier of its own in the master."""
        return self.priced and self.kind in ("flips", "box") and not self.is_shared

    @property
    def scale(self) -> Array:
        """x = z * scale turns the QP's units into the user's."""
        scale = np.ones(self.dimension)
        scale[: self.n] = 1.0 / self.unit
        if self.is_shared:
            scale[-1] = 1.0 / self.unit
        return scale

    def multiplier(self, s: int, x: Array) -> float:
        """lambda* of a client whose labels do not move, in units of t."""
        return max(self.gauge.value(x), float(self.floor[s]))

    def shared_cost(self, x: Array) -> float:
        """What the shared multiplier costs at x, raised to where it is feasible."""
        if not self.is_shared:
            return 0.0
        least = self.multiplier(0, x) if self.kind == "norm" else 0.0
        return self.shared_rho * max(float(x[-1]), least)

    def in_units(self, unit: float) -> ServerProblem:
        """The same problem with another typical size of a feature."""
        return replace(self, unit=unit if math.isfinite(unit) and unit > 1e-150 else 1.0)


def server_problem(
    problem: Problem, names: Sequence[str], dimension: int, sizes: Array
) -> ServerProblem:
    """What follows from the problem once the clients' sizes are known."""
    balls = [problem.ball_of(name) for name in names]
    loss = problem.loss
    rho = np.array([ball.radius for ball in balls])
    cost = np.array([ball.label_cost for ball in balls])
    floor, kind = np.zeros(len(balls)), _kind(problem, balls)
    if kind == "norm":
        rho = rho * loss.lipschitz
        if loss.task == "regression":
            floor = 1.0 / cost
            if np.ptp(floor) > 0.0:  # clients with their own floor need their own multiplier
                kind = "flips"
        elif (np.isfinite(cost) & (rho > 0.0)).any():
            kind = "flips"
    n, shared_rho = dimension - problem.intercepts - problem.shared_ball, 0.0
    if problem.shared_ball:
        shared_rho, rho = float(rho.max()), np.zeros_like(rho)
        kind = "norm" if kind == "flips" else kind
    half = np.zeros((len(balls), n))
    if kind == "box":
        for s, ball in enumerate(balls):
            assert isinstance(ball.support, Box)
            low, high = ball.support.bounds(n)
            half[s] = (high - low) / 2.0
        if loss.task == "regression":
            floor = 1.0 / cost
    return ServerProblem(
        n=n,
        dimension=dimension,
        kind=kind,
        rho=rho,
        floor=floor,
        gauge=problem.gauge(n),
        mixture=problem.mixture.resolve(sizes),
        half=half,
        shared_rho=shared_rho,
    )


def lifted(problem: Problem, names: Sequence[str], n_features: int) -> int:
    """How many numbers of a cut belong to the clipped model."""
    balls = [problem.ball_of(name) for name in names]
    return n_features + 1 if _kind(problem, balls) == "box" else 0


def _kind(problem: Problem, balls: Sequence[Ball]) -> Kind:
    if problem.support_kind is WholeSpace:
        return "norm"
    if problem.shared_ball:
        return "plain"
    return "box" if all(is_lifted(problem.loss, ball) for ball in balls) else "plain"


def is_lifted(loss: Loss, ball: Ball) -> bool:
    """Whether cuts know the clipping: a bounded box, l1, slopes 0 or +-1, fixed targets."""
    box = ball.support
    if not isinstance(box, Box) or not isinstance(ball.norm, L1):
        return False
    sides = np.array([*np.atleast_1d(box.low), *np.atleast_1d(box.high)])
    slopes = {abs(piece.slope) for piece in loss.pieces}
    fixed = math.isinf(ball.label_cost) or math.isinf(box.y_high - box.y_low)
    return bool(np.isfinite(sides).all()) and slopes == {0.0, 1.0} and fixed
