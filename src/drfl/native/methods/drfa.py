r"""DRFA (Deng, Kamani, Mahdavi, 2020): FedAvg on clients drawn by their weights.

Each of its rounds is two exchanges, so two rounds of a run:

1. m clients are drawn from :math:`\lambda` with replacement, and one t' uniformly from
   :math:`\{1,\dots,E\}`. They make E local steps; x becomes the mean of the ends, x' the mean of
   the t'-th models.
2. m clients are drawn uniformly without replacement; :math:`v_s=\tfrac SmF_s(x')` for them, 0 for
   the others, and :math:`\lambda\leftarrow P_Q(\lambda+E\eta_\lambda v)`.

The average of the x is returned. A client that was drawn twice counts twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from drfl.differentiable import ClientLoss
from drfl.native.client import MODEL, NUMBER, Arrays, LocalSteps, Step, gradients, needed, walk
from drfl.native.saddle import SaddleMethod, SaddleSession
from drfl.native.session import NativeSession, weighted_mean
from drfl.native.settings import LocalMethod
from drfl.wire import Field, Message, Schema, WireError

WALK, LOSS = 1, 2
REPLIES: dict[int, Schema] = {WALK: {"model": MODEL, "midway": MODEL}, LOSS: {"loss": NUMBER}}


# ---------------------------------------------------------------------- the client's half
def take_walk(loss: ClientLoss, message: Message) -> Arrays:
    """The last and the t'-th model of the local steps."""
    local, stop = LocalSteps.read(message), int(needed(message, "stop"))
    if not 1 <= stop <= local.steps:
        raise WireError(f"the stop must be one of the {local.steps} steps, got {stop}")
    models = list(walk(needed(message, "x"), local, gradients(loss, message)))
    return {"model": models[-1], "midway": models[stop - 1]}


def tell_loss(loss: ClientLoss, message: Message) -> Arrays:
    """The loss at x, which is the server's x' here."""
    return {"loss": np.array(loss.value(needed(message, "x")))}


# ---------------------------------------------------------------------- the server's half
class DRFASession(SaddleSession["DRFA"]):
    """Alternates between the two exchanges."""

    def begin(self) -> None:
        super().begin()
        self.phase, self.midway = WALK, self.x
        self.drawn_from_lam = np.zeros(len(self.names), dtype=np.intp)

    @property
    def sampled(self) -> int:
        """The number m of draws."""
        return max(1, round(self.method.participation * len(self.names)))

    def requests(self) -> tuple[int, dict[int, dict[str, NDArray[Any]]]]:
        if self.phase == LOSS:
            self.asked = self.drawn(self.method.participation)
            return LOSS, {s: {"x": self.midway} for s in self.asked}
        rng = self.rng
        draws = rng.choice(len(self.names), self.sampled, p=self.lam / self.lam.sum())
        self.drawn_from_lam = np.bincount(draws, minlength=len(self.names))
        stop = np.array(rng.integers(1, self.method.local_steps, endpoint=True), dtype=np.int64)
        asked = {"x": self.x, "stop": stop, **self.local(self.method.local_steps).arrays()}
        return WALK, {int(s): dict(asked) for s in np.flatnonzero(self.drawn_from_lam)}

    def update(self, replies: dict[int, Arrays]) -> None:
        if self.phase == WALK and replies:
            self.take_into_average()
            counts = self.drawn_from_lam.astype(np.float64)
            self.x = weighted_mean({s: a["model"] for s, a in replies.items()}, counts)
            self.midway = weighted_mean({s: a["midway"] for s, a in replies.items()}, counts)
            self.phase = LOSS
        elif self.phase == LOSS:
            losses = np.zeros(len(self.names))
            for s, arrays in replies.items():  # unbiased whoever of the drawn ones answers
                losses[s] = len(self.names) / len(replies) * float(arrays["loss"])
            self.climb(self.method.local_steps * losses)
            self.t += 1
            self.phase = WALK

    @property
    def weight_step(self) -> float:
        if self.method.weight_step is not None:
            return self.method.weight_step
        return super().weight_step / self.method.local_steps


@dataclass(frozen=True, kw_only=True)
class DRFA(SaddleMethod, LocalMethod):
    r"""DRFA, for :math:`\min_x\max_{\lambda\in Q}\sum_s\lambda_sF_s(x)`, Q being the mixture.

    A mixture of infinite radius makes it the authors' method. By default all steps fade.

    Parameters are those of `drfl.native.saddle.SaddleMethod` (the default of ``weight_step`` is
    divided by E) and `drfl.native.settings.LocalMethod`; ``participation`` is m over the number of
    clients.
    """

    noisy: ClassVar[bool] = True  # the draws are, even where the gradients are not
    name: ClassVar[str] = "drfa"
    problem: ClassVar[str] = "drfa"
    client_steps: ClassVar[Mapping[int, Step]] = {WALK: take_walk, LOSS: tell_loss}
    replies: ClassVar[Mapping[int, Schema]] = REPLIES
    asked: ClassVar[Schema] = {"stop": Field("int64", optional=True)}
    session: ClassVar[type[NativeSession[Any]]] = DRFASession
