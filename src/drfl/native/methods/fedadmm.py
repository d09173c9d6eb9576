r"""FedADMM (Gong, Li, Freris, 2022): clients have multipliers, the server adds up changes.

.. math:: v \approx \arg\min F_s(v) + \langle\alpha_s, v-\theta\rangle + \tfrac r2\|v-\theta\|^2,
          \qquad \alpha_s' = \alpha_s + r(v-\theta)
.. math:: \Delta_s = (v - w_s) + (\alpha_s' - \alpha_s)/r,\qquad
          \theta \leftarrow \theta + \eta\,\overline{\Delta_s}

The minimum is approached by E gradient steps from the client's last model :math:`w_s`. The server
keeps :math:`w_s` and :math:`\alpha_s`, which it can compute itself, and sends them.
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
from drfl.native.methods.fedavg import REPLIES
from drfl.native.session import NativeSession, weighted_mean
from drfl.native.settings import LocalMethod
from drfl.wire import Message, Schema

# The penalty by default, in units of the largest curvature: what needed few rounds untuned.
PENALTY = 0.1


# ---------------------------------------------------------------------- the client's half
def step(loss: ClientLoss, message: Message) -> Arrays:
    """The local steps on the augmented loss."""
    theta, own, dual = (needed(message, name) for name in ("x", "own", "dual"))
    r, gradient = float(needed(message, "penalty")), gradients(loss, message)
    local = LocalSteps.read(message)
    return {"model": end(own, local, lambda v: gradient(v) + dual + r * (v - theta))}


# ---------------------------------------------------------------------- the server's half
class FedADMMSession(NativeSession["FedADMM"]):
    """Keeps every client's model and multiplier."""

    def begin(self) -> None:
        self.own = np.tile(self.x, (len(self.names), 1))
        self.dual = np.zeros((len(self.names), self.d))
        scale = self.steps.smoothness or self.steps.steepness
        usual = PENALTY * scale if scale > 0.0 else 1.0
        self.penalty = usual if self.method.penalty is None else float(self.method.penalty)

    def requests(self) -> tuple[int, dict[int, dict[str, NDArray[Any]]]]:
        local = self.local(self.method.local_steps, extra=self.penalty)
        common = {"x": self.x, "penalty": np.array(self.penalty), **local.arrays()}
        return 1, {
            s: {**common, "own": self.own[s], "dual": self.dual[s]}
            for s in self.drawn(self.method.participation)
        }

    def update(self, replies: dict[int, Arrays]) -> None:
        self.t += 1
        if not replies:
            return
        changes, theta = {}, self.x
        for s, arrays in replies.items():
            moved = arrays["model"] - theta
            changes[s] = arrays["model"] - self.own[s] + moved
            self.own[s] = arrays["model"]
            self.dual[s] += self.penalty * moved
        eta = self.method.server_step
        if eta is None:  # the share that took part keeps theta the mean of w_s + alpha_s / r
            eta = float(self.center[list(changes)].sum())
        self.x = theta + eta * weighted_mean(changes, self.center)


@dataclass(frozen=True, kw_only=True)
class FedADMM(LocalMethod):
    r"""FedADMM, for :math:`\min\sum_s\hat q_sF_s`, exactly.

    Parameters
    ----------
    penalty : float, optional
        r; by default a tenth of the largest curvature of a client's loss, or of the bound of its
        gradients where it has kinks.
    server_step : float, optional
        :math:`\eta`; by default the share of the weights whose clients took part.

    The others are those of `drfl.native.settings.LocalMethod`.
    """

    penalty: float | None = None
    server_step: float | None = None
    name: ClassVar[str] = "fedadmm"
    client_steps: ClassVar[Mapping[int, Step]] = {1: step}
    replies: ClassVar[Mapping[int, Schema]] = REPLIES
    asked: ClassVar[Schema] = optional({"own": MODEL, "dual": MODEL, "penalty": NUMBER})
    session: ClassVar[type[NativeSession[Any]]] = FedADMMSession

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.optional(checks.number, "penalty", self.penalty, above=0.0)
        checks.optional(checks.number, "server_step", self.server_step, above=0.0)
