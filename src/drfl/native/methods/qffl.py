r"""q-FFL by q-FedAvg (Li, Sanjabi, Beirami, Smith, 2020): large losses count more.

.. math:: \min_x\ \sum_s \hat q_s\frac{F_s(x)^{q+1}}{q+1}

With :math:`L=1/\eta` and v the end of E local steps from x:

.. math:: d_s = L(x-v),\quad \Delta_s = F_s(x)^q d_s,\quad
          h_s = qF_s(x)^{q-1}\|d_s\|^2 + LF_s(x)^q,\quad
          x \leftarrow x - \frac{\sum_s\hat q_s\Delta_s}{\sum_s\hat q_sh_s}

A loss below 1e-10 counts as 1e-10. As in FedAvg, E > 1 has a bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from drfl import checks
from drfl.arrays import Array
from drfl.differentiable import ClientLoss
from drfl.native.client import MODEL, NUMBER, Arrays, Step, needed
from drfl.native.methods.fedavg import FedAvgSession
from drfl.native.methods.fedavg import step as walk_from_x
from drfl.native.session import NativeSession
from drfl.native.settings import LocalMethod
from drfl.wire import Message, Schema

REPLIES: dict[int, Schema] = {1: {"model": MODEL, "loss": NUMBER}}
SMALLEST = 1e-10


# ---------------------------------------------------------------------- the client's half
def step(loss: ClientLoss, message: Message) -> Arrays:
    """The local steps, and the loss where they start."""
    return {**walk_from_x(loss, message), "loss": np.array(loss.value(needed(message, "x")))}


# ---------------------------------------------------------------------- the server's half
class QFFLSession(FedAvgSession["QFFL"]):
    """Adds up the clients' moves, scaled by powers of their losses."""

    def update(self, replies: dict[int, Arrays]) -> None:
        inverse = 1.0 / self.walk.step
        self.t += 1
        q, numerator, denominator = self.method.q, np.zeros(self.d), 0.0
        for s, arrays in replies.items():
            loss = max(float(arrays["loss"]), SMALLEST)
            d = inverse * (self.x - arrays["model"])
            weight = self.center[s] * loss**q
            numerator += weight * d
            denominator += weight * (q * float(d @ d) / loss + inverse)
        if denominator > 0.0:
            self.x = self.x - numerator / denominator

    def value(self, losses: Array) -> float:
        power = self.method.q + 1.0
        return float(self.center @ losses**power) / power

    @property
    def weights(self) -> Array:
        return self.center


@dataclass(frozen=True, kw_only=True)
class QFFL(LocalMethod):
    r"""q-FFL, for :math:`\min\sum_s\hat q_sF_s^{q+1}/(q+1)`: exactly with one local step.

    The objective of its results is that sum.

    Parameters
    ----------
    q : float
        How much more large losses count; 0 is FedAvg.

    The others are those of `drfl.native.settings.LocalMethod`.
    """

    q: float = 1.0
    name: ClassVar[str] = "qffl"
    client_steps: ClassVar[Mapping[int, Step]] = {1: step}
    replies: ClassVar[Mapping[int, Schema]] = REPLIES
    session: ClassVar[type[NativeSession[Any]]] = QFFLSession

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("q", self.q, least=0.0)
