r"""AFL (Mohri, Sivek, Suresh, 2019): gradient descent in the model, ascent in the weights.

.. math:: x \leftarrow x - \eta\sum_s\lambda_sg_s(x),\qquad
          \lambda \leftarrow P_Q(\lambda + \eta_\lambda F(x)),\qquad
          \text{return the average of the } x

for :math:`\min_x\max_{\lambda\in Q}\sum_s\lambda_sF_s(x)`; both steps use the same x.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from drfl.differentiable import ClientLoss
from drfl.native.client import MODEL, NUMBER, Arrays, LocalSteps, Step, gradients, needed
from drfl.native.saddle import SaddleMethod, SaddleSession
from drfl.native.session import NativeSession, weighted_mean
from drfl.wire import Message, Schema

REPLIES: dict[int, Schema] = {1: {"loss": NUMBER, "gradient": MODEL}}


# ---------------------------------------------------------------------- the client's half
def step(loss: ClientLoss, message: Message) -> Arrays:
    """Loss and gradient at x; with batches the gradient is that of one."""
    x = needed(message, "x")
    value, gradient = loss.value_and_gradient(x)
    if LocalSteps.read(message).batch:
        gradient = gradients(loss, message)(x)
    return {"loss": np.array(value), "gradient": gradient}


# ---------------------------------------------------------------------- the server's half
class AFLSession(SaddleSession["AFL"]):
    """Moves the model and the weights of all clients at once."""

    def requests(self) -> tuple[int, dict[int, dict[str, NDArray[Any]]]]:
        self.walk = self.local(1)
        asked = {"x": self.x, **self.walk.arrays()}
        return 1, {s: dict(asked) for s in range(len(self.names))}

    def update(self, replies: dict[int, Arrays]) -> None:
        if not replies:
            return
        self.take_into_average()
        descent = weighted_mean({s: arrays["gradient"] for s, arrays in replies.items()}, self.lam)
        for s, arrays in replies.items():
            self.last[s] = arrays["loss"]  # who does not answer has the loss it told last
        self.climb(self.last)
        self.x = self.x - self.walk.step * descent
        self.t += 1


@dataclass(frozen=True, kw_only=True)
class AFL(SaddleMethod):
    r"""AFL, for :math:`\min_x\max_{\lambda\in Q}\sum_s\lambda_sF_s(x)`, Q being the mixture.

    Parameters are those of `drfl.native.saddle.SaddleMethod`.
    """

    name: ClassVar[str] = "afl"
    problem: ClassVar[str] = "afl"
    client_steps: ClassVar[Mapping[int, Step]] = {1: step}
    replies: ClassVar[Mapping[int, Schema]] = REPLIES
    session: ClassVar[type[NativeSession[Any]]] = AFLSession
