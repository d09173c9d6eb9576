r"""The paper's scheme where the loss need not be convex: consensus ADMM, multipliers first.

.. math:: \psi_s \leftarrow \psi_s + c(w_s-w),\qquad
          w \leftarrow \frac1S\sum_s\Bigl(w_s+\frac{\psi_s}c\Bigr),\qquad
          w_s \approx \arg\min_v S q_s F_s(v) + \langle\psi_s, v-w\rangle + \tfrac c2\|v-w\|^2

The minimum is approached by E gradient steps from the common model w: from the client's own last
model rounds are lost. The weights q climb towards the worst ones in Q, by the losses that the
clients tell. A fixed point has
:math:`\sum_sq_s\nabla F_s(w)=0`; that the scheme gets there is not proved for a loss that is not
convex (Section 5 of the paper claims it), and is an empirical matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from drfl import checks
from drfl.differentiable import ClientLoss
from drfl.native.client import (
    MODEL,
    NUMBER,
    Arrays,
    LocalSteps,
    Step,
    end,
    gradients,
    needed,
    optional,
)
from drfl.native.saddle import SaddleMethod, SaddleSession
from drfl.native.session import NativeSession
from drfl.native.settings import LocalMethod
from drfl.wire import Message, Schema

REPLIES: dict[int, Schema] = {1: {"model": MODEL, "loss": NUMBER}}
# The penalty by default, in units of the largest curvature, or of one over the step: loose is
# divided by the local steps, and lets clients go as far as these lead; firm is for linear models
# with uncertain weights, which swing otherwise. In units of the bound of the gradients where there
# are kinks and steps fade.
FIRM, LOOSE, KINKED = 0.5, 0.1, 4.0


# ---------------------------------------------------------------------- the client's half
def step(loss: ClientLoss, message: Message) -> Arrays:
    """The local steps, and the loss at the common model."""
    common, dual = needed(message, "x"), needed(message, "dual")
    c, weight = float(needed(message, "penalty")), float(needed(message, "weight"))
    gradient = gradients(loss, message)
    model = end(
        common, LocalSteps.read(message), lambda v: weight * gradient(v) + dual + c * (v - common)
    )
    return {"model": model, "loss": np.array(loss.value(common))}


# ---------------------------------------------------------------------- the server's half
class DualADMMSession(SaddleSession["DualADMM"]):
    """Keeps every client's model and multiplier, and the weights."""

    def begin(self) -> None:
        super().begin()
        self.own = np.tile(self.x, (len(self.names), 1))
        self.dual = np.zeros((len(self.names), self.d))
        size, curvature = self.method.step_size, self.steps.smoothness
        if size or curvature:
            firm = self.mix.radius > 0.0 and self.problem.network is None
            share = FIRM if firm else LOOSE / self.method.local_steps
            usual = share * (1.0 / size if size else curvature)
        else:
            usual = KINKED * self.steps.steepness or 1.0
        self.penalty = usual if self.method.penalty is None else float(self.method.penalty)

    def requests(self) -> tuple[int, dict[int, dict[str, NDArray[Any]]]]:
        local = self.local(self.method.local_steps, extra=self.penalty)
        common = {"x": self.x, "penalty": np.array(self.penalty), **local.arrays()}
        weight = len(self.names) * self.lam
        return 1, {
            s: {**common, "dual": self.dual[s], "weight": np.array(weight[s])}
            for s in self.drawn(self.method.participation)
        }

    def update(self, replies: dict[int, Arrays]) -> None:
        self.t += 1
        if not replies:
            return
        for s, arrays in replies.items():
            self.last[s] = arrays["loss"]
            self.own[s] = arrays["model"]
            self.dual[s] += self.penalty * (self.own[s] - self.x)
        self.x = np.asarray((self.own + self.dual / self.penalty).mean(axis=0))
        self.take_into_average()
        if self.mix.radius > 0.0:
            self.climb(self.last)


@dataclass(frozen=True, kw_only=True)
class DualADMM(SaddleMethod, LocalMethod):
    r"""Consensus ADMM, multipliers first, for :math:`\min_x\max_{q\in Q}\sum_sq_sF_s(x)`.

    Parameters
    ----------
    penalty : float, optional
        c; by default 0.1 / E (a half for linear models with uncertain weights) of the largest
        curvature of a client's loss, or of one over the step where that is given; four times the
        bound of the gradients for a loss with kinks.
    averaged : bool
        Whether the average of all models is returned rather than the last one, as by default. With
        uncertain weights and a regression loss with kinks the last one swings: take the average.

    The others are those of `drfl.native.saddle.SaddleMethod` and
    `drfl.native.settings.LocalMethod`.
    """

    penalty: float | None = None
    averaged: bool = False
    name: ClassVar[str] = "dual_admm"
    client_steps: ClassVar[Mapping[int, Step]] = {1: step}
    replies: ClassVar[Mapping[int, Schema]] = REPLIES
    asked: ClassVar[Schema] = optional({"dual": MODEL, "penalty": NUMBER, "weight": NUMBER})
    session: ClassVar[type[NativeSession[Any]]] = DualADMMSession

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.optional(checks.number, "penalty", self.penalty, above=0.0)
