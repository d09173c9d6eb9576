r"""FedProx (Li et al., 2020): FedAvg whose clients are held back.

.. math:: v_s \leftarrow x;\quad E\text{ times } v_s \leftarrow
          v_s - \eta\big(g_s(v_s) + \mu(v_s - x)\big);\qquad x \leftarrow \sum_s \hat q_s v_s
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from drfl import checks
from drfl.differentiable import ClientLoss
from drfl.native.client import NUMBER, Arrays, LocalSteps, Step, end, gradients, needed
from drfl.native.methods.fedavg import REPLIES, FedAvgSession
from drfl.native.session import NativeSession
from drfl.native.settings import LocalMethod
from drfl.wire import Message, Schema


# ---------------------------------------------------------------------- the client's half
def step(loss: ClientLoss, message: Message) -> Arrays:
    r"""The local steps on :math:`F_s(v)+\mu/2\|v-x\|^2`."""
    x, mu, gradient = needed(message, "x"), float(message.arrays["mu"]), gradients(loss, message)
    return {"model": end(x, LocalSteps.read(message), lambda v: gradient(v) + mu * (v - x))}


# ---------------------------------------------------------------------- the server's half
class FedProxSession(FedAvgSession["FedProx"]):
    """Averages like FedAvg."""

    @property
    def walk(self) -> LocalSteps:
        return self.local(self.method.local_steps, extra=self.method.mu)

    @property
    def constants(self) -> dict[str, NDArray[Any]]:
        return {"mu": np.array(float(self.method.mu))}


@dataclass(frozen=True, kw_only=True)
class FedProx(LocalMethod):
    r"""FedProx, for :math:`\min\sum_s\hat q_sF_s`, nearly: nearer than FedAvg.

    Parameters
    ----------
    mu : float
        How strongly clients are held at the server's model.

    The others are those of `drfl.native.settings.LocalMethod`.
    """

    mu: float = 1.0
    name: ClassVar[str] = "fedprox"
    client_steps: ClassVar[Mapping[int, Step]] = {1: step}
    replies: ClassVar[Mapping[int, Schema]] = REPLIES
    asked: ClassVar[Schema] = {"mu": NUMBER}
    session: ClassVar[type[NativeSession[Any]]] = FedProxSession

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("mu", self.mu, least=0.0)
