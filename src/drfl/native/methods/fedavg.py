r"""FedAvg (McMahan et al., 2017): clients walk, the server averages where they end.

.. math:: v_s \leftarrow x;\quad E\text{ times } v_s \leftarrow v_s - \eta g_s(v_s);\qquad
          x \leftarrow \sum_s \hat q_s v_s

With E = 1 it is the gradient method for :math:`\min\sum_s\hat q_sF_s`. With E > 1 and clients that
differ, it stays away from that minimum, the further the larger :math:`E\eta` is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from numpy.typing import NDArray

from drfl.differentiable import ClientLoss
from drfl.native.client import MODEL, Arrays, LocalSteps, Step, end, gradients, needed
from drfl.native.session import NativeSession, weighted_mean
from drfl.native.settings import LocalMethod
from drfl.wire import Message, Schema

REPLIES: dict[int, Schema] = {1: {"model": MODEL}}  # where the walk ended


# ---------------------------------------------------------------------- the client's half
def step(loss: ClientLoss, message: Message) -> Arrays:
    """The local steps."""
    return {"model": end(needed(message, "x"), LocalSteps.read(message), gradients(loss, message))}


# ---------------------------------------------------------------------- the server's half
M = TypeVar("M", bound=LocalMethod)


class FedAvgSession(NativeSession[M]):
    """Averages the ends of the clients that took part."""

    def requests(self) -> tuple[int, dict[int, dict[str, NDArray[Any]]]]:
        asked = {"x": self.x, **self.walk.arrays()}
        return 1, {s: dict(asked) for s in self.drawn(self.method.participation)}

    @property
    def walk(self) -> LocalSteps:
        """The local steps of this round."""
        return self.local(self.method.local_steps)

    def update(self, replies: dict[int, Arrays]) -> None:
        if replies:
            ends = {s: arrays["model"] for s, arrays in replies.items()}
            self.x = weighted_mean(ends, self.center)
        self.t += 1


@dataclass(frozen=True, kw_only=True)
class FedAvg(LocalMethod):
    r"""FedAvg, for :math:`\min\sum_s\hat q_sF_s`: exactly with one local step, else nearly.

    Parameters are those of `drfl.native.settings.LocalMethod`.
    """

    name: ClassVar[str] = "fedavg"
    client_steps: ClassVar[Mapping[int, Step]] = {1: step}
    replies: ClassVar[Mapping[int, Schema]] = REPLIES
    session: ClassVar[type[NativeSession[Any]]] = FedAvgSession
