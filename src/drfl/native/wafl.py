r"""WAFL (Nguyen et al., 2022), penalty form: FedAvg on rows that an adversary moves.

.. math:: \min_x\ \sum_s\hat q_s\,E_{\hat P_s}\varphi,\qquad
          \varphi(w;x,y) = \sup_{x'}\ L(w;x',y) - \tfrac\gamma2\|x'-x\|_2^2

For a linear model the supremum is known in closed form (`drfl.native.penalised`): there is no inner
loop, and the step options are those of the local steps. Labels stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from drfl import checks
from drfl.arrays import Array
from drfl.client import Handler, Site
from drfl.native.base import NativeSession
from drfl.native.client_loss import LinearLoss
from drfl.native.fedavg import REPLIES, FedAvgSession, step
from drfl.native.local import NUMBER, REQUEST, Arrays, Local, checked, respond
from drfl.native.penalised import penalised
from drfl.native.settings import LocalMethod
from drfl.wire import Message, Schema, WireError


# ---------------------------------------------------------------------- the client's half
class PenalisedLoss(LinearLoss):
    r"""The mean of :math:`\varphi` over a client's rows, and its gradient.

    .. math:: \nabla_w\,\frac1N\sum_i\varphi(z_i, \|w\|^2/\gamma)
              = \frac1N\sum_i v_i\nabla_wz_i + \frac{w}{\gamma N}\sum_iv_i^2
    """

    def __init__(self, site: Site, gamma: float) -> None:
        super().__init__(site)
        self.gamma = gamma

    def pointwise(self, z: Array, w: Array) -> tuple[Array, Array]:
        return penalised(self.loss, z, float(w @ w) / self.gamma)

    def shrinkage(self, w: Array, mean_square: float) -> Array | float:
        return np.asarray(mean_square / self.gamma * w)


def answer(site: Site, message: Message) -> Arrays:
    """Walk from x, every row where it hurts most."""
    gamma = float(message.arrays["gamma"])
    if not gamma > 0.0:
        raise WireError(f"gamma must be positive, got {gamma}")
    loss = PenalisedLoss(site, gamma) if site.network is None else site.network.penalised(gamma)
    return respond(site, message, loss, {1: step})


# ---------------------------------------------------------------------- the server's half
class WAFLSession(FedAvgSession["WAFL"]):
    """Averages like FedAvg."""

    @property
    def walk(self) -> Local:
        # Rows that move add curvature: the squared slope over gamma, and more as a grows.
        if self.problem.network is not None:
            return super().walk
        extra = 2.0 * self.problem.loss.lipschitz**2 / self.method.gamma
        return self.local(self.method.local_steps, extra=extra, shorter=2.0)

    @property
    def constants(self) -> dict[str, NDArray[Any]]:
        return {"gamma": np.array(float(self.method.gamma))}


@dataclass(frozen=True, kw_only=True)
class WAFL(LocalMethod):
    r"""WAFL in its penalty form: exactly with one local step, else nearly.

    The objective and the losses of its results are means of :math:`\varphi`. The problem has no
    radius: the price :math:`\gamma` stands for it.

    Parameters
    ----------
    gamma : float
        The price of moving a row.

    The others are those of `drfl.native.settings.LocalMethod`.
    """

    gamma: float = 10.0
    name: ClassVar[str] = "wafl"
    handlers: ClassVar[Mapping[str, Handler]] = {
        "wafl": checked(answer, {**REQUEST, "gamma": NUMBER}, REPLIES)
    }
    replies: ClassVar[Mapping[int, Schema]] = REPLIES
    session: ClassVar[type[NativeSession[Any]]] = WAFLSession

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("gamma", self.gamma, above=0.0)
