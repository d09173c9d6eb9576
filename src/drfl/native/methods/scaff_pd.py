r"""SCAFF-PD (Yu, Karimireddy, Ma, Jordan, 2023, arXiv 2307.13381): a primal-dual SCAFFOLD.

.. math:: \min_x\max_{\lambda\in Q}\ \sum_s\lambda_sF_s(x) - \psi(\lambda),\qquad
          \psi(\lambda) = \tfrac\nu2\|\lambda-\hat q\|_2^2

No code is public: this is a reconstruction from the paper. Each of its rounds is two exchanges, so
two rounds of a run. After the first, in which all clients tell loss and gradient at x,

.. math:: \lambda \leftarrow \arg\max_{\lambda'\in Q}\
          \langle\lambda', (1+\theta)F(x) - \theta F(x_{\text{before}})\rangle
          - \psi(\lambda') - \tfrac1{2\sigma}\|\lambda'-\lambda\|_2^2;

in the second, the clients whose weight is not 0 make E local steps without drift,

.. math:: v_s \leftarrow v_s - \eta\Big(g_s(v_s) - g_s(x) + \sum_s\lambda_sg_s(x)\Big),\qquad
          x \leftarrow x - \eta_g\sum_s\lambda_s(x - v_s).

Where :math:`F_s` is known to be :math:`\mu`-strongly convex, steps are accelerated: after each
round :math:`\eta` is multiplied and :math:`\sigma` divided by
:math:`(1+\mu E\eta\eta_g)^{-1/2}`, the next :math:`\theta`. Otherwise :math:`\theta=1`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from drfl import checks
from drfl.arrays import Array
from drfl.native.client import MODEL, Arrays, LocalSteps, Step, optional
from drfl.native.methods.afl import REPLIES as LOSS_AND_GRADIENT
from drfl.native.methods.afl import step as loss_and_gradient
from drfl.native.methods.fedavg import REPLIES as END
from drfl.native.methods.scaffold import corrected
from drfl.native.saddle import SaddleMethod, SaddleSession
from drfl.native.session import NativeSession, weighted_mean
from drfl.wire import Schema

TELL, WALK = 1, 2
REPLIES: dict[int, Schema] = {TELL: LOSS_AND_GRADIENT[1], WALK: END[1]}


# ---------------------------------------------------------------------- the server's half
class ScaffPDSession(SaddleSession["ScaffPD"]):
    """Alternates between the two exchanges."""

    def begin(self) -> None:
        super().begin()
        self.phase = TELL
        self.before = self.last.copy()
        self.gradients: dict[int, Array] = {}
        self.coupling = 0.0  # how strongly weights move the gradient, the largest seen
        self.rate = self.theta = 1.0

    @property
    def walk(self) -> LocalSteps:
        """The local steps: a whole round is one step of the primal-dual method, whatever E is."""
        steady = self.local(self.method.local_steps, shorter=self.method.local_steps)
        return replace(steady, step=steady.step * self.rate)

    def requests(self) -> tuple[int, dict[int, dict[str, NDArray[Any]]]]:
        asked = {"x": self.x, **self.walk.arrays()}
        if self.phase == TELL:
            return TELL, {s: dict(asked) for s in range(len(self.names))}
        mean = weighted_mean(self.gradients, self.lam)
        return WALK, {
            s: {**asked, "correction": mean - g}
            for s, g in self.gradients.items()
            if self.lam[s] > 0.0 or not self.lam[list(self.gradients)].any()
        }

    def update(self, replies: dict[int, Arrays]) -> None:
        if not replies:
            return
        if self.phase == TELL:
            self.gradients = {s: arrays["gradient"] for s, arrays in replies.items()}
            for s, arrays in replies.items():
                self.last[s] = arrays["loss"]
            spread = np.array(list(self.gradients.values()))
            self.coupling = max(
                self.coupling, float(np.linalg.norm(spread - spread.mean(axis=0), 2))
            )
            self.climb(self.last + self.theta * (self.last - self.before))
            self.before = self.last.copy()
            self.phase = WALK
        else:
            ends = {s: arrays["model"] for s, arrays in replies.items()}
            move = weighted_mean(ends, self.lam) - self.x
            self.x = self.x + self.method.server_step * move
            self.take_into_average()
            length = self.walk.steps * self.walk.step * self.method.server_step
            self.theta = (1.0 + self.method.strong_convexity * length) ** -0.5
            self.rate *= self.theta
            self.t += 1
            self.phase = TELL

    def climb(self, losses: Array) -> None:
        sigma = self.weight_step * self.steps.fading(self.t) / self.rate
        nu = self.method.concavity
        aim = (self.lam + sigma * (losses + nu * self.center)) / (1.0 + sigma * nu)
        self.lam = self.mix.project(aim)

    @property
    def weight_step(self) -> float:
        smoothness = self.steps.smoothness
        if self.method.weight_step is None and smoothness > 0.0 and self.coupling > 0.0:
            return smoothness / self.coupling**2
        return super().weight_step

    def value(self, losses: Array) -> float:
        weights, nu = self.worst_weights(losses), self.method.concavity
        return float(weights @ losses - 0.5 * nu * ((weights - self.center) ** 2).sum())

    def worst_weights(self, losses: Array) -> Array:
        r""":math:`\arg\max_{\lambda\in Q}\ \langle\lambda, F\rangle - \psi(\lambda)`."""
        nu = self.method.concavity
        if nu == 0.0:
            return self.mix.worst_weights(losses)
        return self.mix.project(self.center + losses / nu)

    @property
    def weights(self) -> Array:
        return self.worst_weights(self.losses)


@dataclass(frozen=True, kw_only=True)
class ScaffPD(SaddleMethod):
    r"""SCAFF-PD, for :math:`\min_x\max_{\lambda\in Q}\sum_s\lambda_sF_s(x)-\psi(\lambda)`.

    Q is the mixture, and the objective of its results is that maximum.

    By default the local step is 1/E of what `drfl.native.settings.Native` says, and, for a
    smooth loss, the step of the weights is the largest curvature of a client's loss over the
    squared norm of the matrix of the clients' gradients less their mean, the largest seen.

    Parameters
    ----------
    local_steps : int
        E.
    server_step : float
        :math:`\eta_g`.
    concavity : float
        :math:`\nu`: how much :math:`\psi` holds the weights at their centre; 0: no :math:`\psi`.
    strong_convexity : float
        :math:`\mu`; 0 if nothing is known, and then there is no acceleration.

    The others are those of `drfl.native.saddle.SaddleMethod`; ``averaged`` is False by default,
    because the last model is usually much better here.
    """

    local_steps: int = 5
    server_step: float = 1.0
    concavity: float = 0.0
    strong_convexity: float = 0.0
    averaged: bool = False
    name: ClassVar[str] = "scaff_pd"
    problem: ClassVar[str] = "drfa"
    client_steps: ClassVar[Mapping[int, Step]] = {TELL: loss_and_gradient, WALK: corrected}
    replies: ClassVar[Mapping[int, Schema]] = REPLIES
    asked: ClassVar[Schema] = optional({"correction": MODEL})
    session: ClassVar[type[NativeSession[Any]]] = ScaffPDSession

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.whole("local_steps", self.local_steps, least=1)
        checks.number("server_step", self.server_step, above=0.0)
        checks.number("concavity", self.concavity, least=0.0)
        checks.number("strong_convexity", self.strong_convexity, least=0.0)
