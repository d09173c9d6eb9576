r"""SCAFFOLD (Karimireddy et al., 2020): control variates take the drift out of local steps.

.. math:: v \leftarrow x;\quad E\text{ times } v \leftarrow v - \eta\,(g_s(v) - c_s + c);\qquad
          c_s' = c_s - c + \frac{x - v}{E\eta}
.. math:: x \leftarrow x + \eta_g\,\overline{(v_s - x)},\qquad
          c \leftarrow c + \sum_{s\in A}\hat q_s\,(c_s' - c_s)

All of them start at 0, and c stays :math:`\sum_s\hat q_sc_s`. The server keeps every
:math:`c_s`, which it can compute itself: a client is sent :math:`c-c_s` and answers with v.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from drfl import checks
from drfl.differentiable import ClientLoss
from drfl.native.client import MODEL, Arrays, LocalSteps, Step, end, gradients, needed, optional
from drfl.native.methods.fedavg import REPLIES
from drfl.native.session import NativeSession, weighted_mean
from drfl.native.settings import LocalMethod
from drfl.wire import Message, Schema

# The longest round, in steps of one over the curvature. Along a direction in which a share p of the
# clients has that curvature and the others none, k such steps multiply the distance from the
# minimum by 1 - p(p + k(1 - p)), which is above -1 for every p if k < 6.8.
LONGEST = 5.0


# ---------------------------------------------------------------------- the client's half
def corrected(loss: ClientLoss, message: Message) -> Arrays:
    """The local steps: the correction c - c_s is the same in all of them."""
    x, correction = needed(message, "x"), needed(message, "correction")
    gradient = gradients(loss, message)
    return {"model": end(x, LocalSteps.read(message), lambda v: gradient(v) + correction)}


# ---------------------------------------------------------------------- the server's half
class ScaffoldSession(NativeSession["Scaffold"]):
    """Keeps the control variates."""

    def begin(self) -> None:
        self.controls = np.zeros((len(self.names), self.d))
        self.control = np.zeros(self.d)

    def requests(self) -> tuple[int, dict[int, dict[str, NDArray[Any]]]]:
        E = self.method.local_steps
        self.walk = self.local(E, shorter=max(1.0, E / LONGEST))
        common = {"x": self.x, **self.walk.arrays()}
        return 1, {
            s: {**common, "correction": self.control - self.controls[s]}
            for s in self.drawn(self.method.participation)
        }

    def update(self, replies: dict[int, Arrays]) -> None:
        self.t += 1
        if not replies:
            return
        ends = {s: arrays["model"] for s, arrays in replies.items()}
        length = self.walk.steps * self.walk.step
        change = {
            s: (self.x - v) / length - self.control for s, v in ends.items()
        }  # of each client's own
        self.x = self.x + self.method.server_step * (weighted_mean(ends, self.center) - self.x)
        for s, difference in change.items():
            self.controls[s] += difference
            self.control = self.control + self.center[s] * difference


@dataclass(frozen=True, kw_only=True)
class Scaffold(LocalMethod):
    r"""SCAFFOLD, for :math:`\min\sum_s\hat q_sF_s`, exactly.

    Beyond 5 local steps the default step is 5/E of what `drfl.native.settings.Native` says.

    Parameters
    ----------
    server_step : float
        :math:`\eta_g`.

    The others are those of `drfl.native.settings.LocalMethod`.
    """

    server_step: float = 1.0
    name: ClassVar[str] = "scaffold"
    client_steps: ClassVar[Mapping[int, Step]] = {1: corrected}
    replies: ClassVar[Mapping[int, Schema]] = REPLIES
    asked: ClassVar[Schema] = optional({"correction": MODEL})
    session: ClassVar[type[NativeSession[Any]]] = ScaffoldSession

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("server_step", self.server_step, above=0.0)
