r"""The double loop that the paper argues against: first-order steps, one loop inside the other.

.. math:: \min_x\ \max_{q\in Q}\ \sum_sq_s\min_{\lambda_s}\ \rho_s\lambda_s
          +\sum_ip_i\max\{L(m_i),\,L(-m_i)-\kappa\lambda_s\},\qquad\lambda_s\ge\|w\|_*

is taken literally (Section 4 of the paper, after Nouiehed et al., 2019): for every step of the
model there are several projected ascent steps of the weights, each of which is an exchange with
all clients, and for every one of these a client makes several subgradient steps of its multiplier.
That the innermost problem has a closed form is not used; the objective that is reported is exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from drfl import checks
from drfl.arrays import Array
from drfl.client import Handler, Site
from drfl.differentiable import ClientLoss
from drfl.native.client import (
    MODEL,
    NUMBER,
    REQUEST,
    Arrays,
    LinearLoss,
    LocalSteps,
    checked,
    needed,
    respond,
)
from drfl.native.saddle import SaddleMethod, SaddleSession
from drfl.native.session import NativeSession, weighted_mean
from drfl.problem import Problem
from drfl.supports import WholeSpace
from drfl.wire import Message, Schema

REPLIES: dict[int, Schema] = {1: {"loss": NUMBER, "gradient": MODEL, "price": NUMBER}}
PRICE: Schema = {"price": replace(NUMBER, optional=True)}


# ---------------------------------------------------------------------- the client's half
class RobustLoss(LinearLoss):
    """The worst-case loss of a client, and what steps of its multiplier make of it."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.oracle, self.ball = site.oracle, site.oracle.ball

    def value(self, x: Array) -> float:
        return self.oracle.evaluate(*self.split(x)).value

    def priced(self, x: Array, lam: float, steps: int) -> tuple[float, Array, float]:
        """Loss, gradient in x and multiplier after some subgradient steps of the multiplier."""
        (w, b), rho, kappa = self.split(x), self.ball.radius, self.ball.label_cost
        least = self.ball.norm.dual(w)
        m = self.rows.y * self.rows.scores(w, b)
        low, high = self.loss.value(m), self.loss.value(-m)
        moves = rho > 0.0 and math.isfinite(kappa)
        lam = max(lam, least) if moves else least
        for j in range(steps if moves else 0):
            share = self.rows.mean((high - kappa * lam > low).astype(np.float64))
            lam = max(least, lam - (rho - kappa * share) / (kappa * math.sqrt(j + 1.0)))
        flipped = high - kappa * lam > low if moves else np.zeros(len(m), dtype=bool)
        value = self.rows.mean(np.where(flipped, high - kappa * lam if moves else high, low))

        def visit(block: slice, z: Array) -> Array:
            y, turned = self.rows.y[block], flipped[block]
            sign = np.where(turned, -1.0, 1.0)
            slopes = self.loss.slope(sign * y * z) * sign
            return np.asarray(self.rows.mass(block) * slopes * y)

        g, total = self.rows.sweep(w, b, visit)
        if lam <= least:  # the multiplier grows with the norm
            kept = kappa * self.rows.mean(flipped.astype(np.float64)) if moves else 0.0
            g = g + max(rho - kept, 0.0) * self.ball.norm.steepest(w)
        return rho * lam + value, self._joined(g, total), lam


def answer(site: Site, message: Message) -> Arrays:
    """Tell loss and gradient at a multiplier that was improved a little."""
    return respond(site, message, RobustLoss(site), {1: step})


def step(loss: ClientLoss, message: Message) -> Arrays:
    """The innermost loop."""
    assert isinstance(loss, RobustLoss)
    x, lam = needed(message, "x"), float(needed(message, "price"))
    value, gradient, lam = loss.priced(x, lam, LocalSteps.read(message).steps)
    return {"loss": np.array(value), "gradient": gradient, "price": np.array(lam)}


# ---------------------------------------------------------------------- the server's half
class DoubleLoopSession(SaddleSession["DoubleLoop"]):
    """Counts the ascent steps; after the last of them the model moves."""

    def begin(self) -> None:
        super().begin()
        self.inner, self.prices = 0, np.zeros(len(self.names))

    def requests(self) -> tuple[int, dict[int, dict[str, NDArray[Any]]]]:
        self.walk = replace(self.local(1), steps=self.method.multiplier_steps)
        asked = {"x": self.x, **self.walk.arrays()}
        own = {s: {**asked, "price": np.array(self.prices[s])} for s in range(len(self.names))}
        return 1, own

    def update(self, replies: dict[int, Arrays]) -> None:
        for s, arrays in replies.items():
            self.last[s], self.prices[s] = arrays["loss"], arrays["price"]
        if not replies:
            return
        self.climb(self.last)
        self.inner += 1
        if self.inner < self.method.weight_steps:
            return
        self.take_into_average()
        slopes = {s: arrays["gradient"] for s, arrays in replies.items()}
        self.x = self.x - self.walk.step * weighted_mean(slopes, self.lam)
        self.inner, self.t = 0, self.t + 1


@dataclass(frozen=True, kw_only=True)
class DoubleLoop(SaddleMethod):
    """The double loop, for classification on the whole space.

    Parameters
    ----------
    weight_steps : int
        Ascent steps of the weights for every step of the model; each is a round.
    multiplier_steps : int
        Steps of a client's multiplier in every round.

    The others are those of `drfl.native.saddle.SaddleMethod`.
    """

    weight_steps: int = 5
    multiplier_steps: int = 10
    name: ClassVar[str] = "double_loop"
    handlers: ClassVar[Mapping[str, Handler]] = {
        "double_loop": checked(answer, {**REQUEST, **PRICE}, REPLIES)
    }
    replies: ClassVar[Mapping[int, Schema]] = REPLIES
    session: ClassVar[type[NativeSession[Any]]] = DoubleLoopSession

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.whole("weight_steps", self.weight_steps, least=1)
        checks.whole("multiplier_steps", self.multiplier_steps, least=1)

    def refuse(self, problem: Problem, names: Sequence[str]) -> None:
        whole = problem.support_kind is WholeSpace and not problem.shared_ball
        if problem.loss.task != "classification" or not whole:
            raise ValueError(
                "double_loop knows classification with a ball per client on the whole space only"
            )
