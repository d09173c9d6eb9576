r"""SCAFF-PD (Yu, Karimireddy, Ma, Jordan, 2023, arXiv 2307.13381): a primal-dual SCAFFOLD.

No code is public: this is a reconstruction from the paper. Each of its rounds is two exchanges, so
two rounds of a run. After the first, in which all clients tell loss and gradient at x,

.. math:: \lambda \leftarrow P_Q\big(\lambda + \eta_\lambda[2F(x) - F(x_{\text{before}})]\big);

in the second, the clients whose weight is not 0 make E local steps without drift,

.. math:: v_s \leftarrow v_s - \eta\Big(g_s(v_s) - g_s(x) + \sum_s\lambda_sg_s(x)\Big),\qquad
          x \leftarrow x - \eta_g\sum_s\lambda_s(x - v_s).

The last x is returned, or their average. The paper's acceleration needs strong convexity, which a
mean loss lacks: extrapolation and steps stay the same in all rounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from drfl.client import Handler, Site
from drfl.native.afl import REPLIES as LOSS_AND_GRADIENT
from drfl.native.afl import step as loss_and_gradient
from drfl.native.base import NativeSession, weighted_mean
from drfl.native.fedavg import REPLIES as END
from drfl.native.local import MODEL, REQUEST, Arrays, ClientLoss, checked, optional, respond
from drfl.native.saddle import SaddleMethod, SaddleSession
from drfl.native.scaffold import corrected
from drfl.native.settings import require, require_whole
from drfl.wire import Message, Schema

TELL, WALK = 1, 2
REPLIES: dict[int, Schema] = {TELL: LOSS_AND_GRADIENT[1], WALK: END[1]}


# ---------------------------------------------------------------------- the client's half
def answer(site: Site, message: Message) -> Arrays:
    """Tell loss and gradient at x, or walk from there."""
    return respond(site, message, ClientLoss(site), {TELL: loss_and_gradient, WALK: corrected})


# ---------------------------------------------------------------------- the server's half
class ScaffPDSession(SaddleSession["ScaffPD"]):
    """Alternates between the two exchanges."""

    def begin(self) -> None:
        super().begin()
        self.phase = TELL
        self.before = self.last.copy()
        self.gradients: dict[int, NDArray[np.float64]] = {}
        self.coupling = 0.0  # how strongly weights move the gradient, the largest seen

    def requests(self) -> tuple[int, dict[int, dict[str, NDArray[Any]]]]:
        E = self.method.local_steps
        # A whole round is one step of the primal-dual method, whatever E is.
        asked = {"x": self.x, **self.local(E, shorter=E).arrays()}
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
            self.climb(2.0 * self.last - self.before)
            self.before = self.last.copy()
            self.phase = WALK
        else:
            ends = {s: arrays["model"] for s, arrays in replies.items()}
            move = weighted_mean(ends, self.lam) - self.x
            self.x = self.x + self.method.server_step * move
            self.take_into_average()
            self.t += 1
            self.phase = TELL

    @property
    def weight_step(self) -> float:
        steady = self.method.weight_step is None and self.smoothness > 0.0
        if steady and self.coupling > 0.0:
            return self.smoothness / self.coupling**2
        return super().weight_step


@dataclass(frozen=True, kw_only=True)
class ScaffPD(SaddleMethod):
    r"""SCAFF-PD, for :math:`\min_x\max_{\lambda\in Q}\sum_s\lambda_sF_s(x)`, Q being the mixture.

    By default the local step is 1/E of what `drfl.native.settings.Native` says, and, for a
    smooth loss, the step of the weights is the largest curvature of a client's loss over the
    squared norm of the matrix of the clients' gradients less their mean, the largest seen.

    Parameters
    ----------
    local_steps : int
        E.
    server_step : float
        :math:`\eta_g`.

    The others are those of `drfl.native.saddle.SaddleMethod`; ``averaged`` is False by default,
    because the last model is usually much better here.
    """

    local_steps: int = 5
    server_step: float = 1.0
    averaged: bool = False
    name: ClassVar[str] = "scaff_pd"
    handlers: ClassVar[Mapping[str, Handler]] = {
        "scaff_pd": checked(answer, {**REQUEST, **optional({"correction": MODEL})}, REPLIES)
    }
    replies: ClassVar[Mapping[int, Schema]] = REPLIES
    session: ClassVar[type[NativeSession[Any]]] = ScaffPDSession

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("local_steps", self.local_steps, 1)
        require("server_step", self.server_step, above=0.0)
