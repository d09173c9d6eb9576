r"""How long the steps are where the user does not say: from the loss and the clients' moments."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drfl.losses import Loss
from drfl.native.client import ClientFacts, LocalSteps
from drfl.native.settings import Native

# A network's steps where the user gives none.
NETWORK_STEP = 0.1


@dataclass(frozen=True)
class StepSizes:
    """The steps of a method on these clients.

    Attributes
    ----------
    method : Native
        What the user set.
    loss : Loss
        That of the problem.
    facts : ClientFacts
        What the clients told of their rows.
    network : bool
        Whether the loss is that of a network, of which nothing is known beforehand.
    """

    method: Native
    loss: Loss
    facts: ClientFacts
    network: bool = False

    @property
    def smoothness(self) -> float:
        """The largest curvature of a client's loss, or of a batch of its rows; 0 with kinks."""
        if self.network:
            return 1.0 / NETWORK_STEP
        size = self.facts.largest
        if self.method.batch_size:
            size = size + self.facts.traces / self.method.batch_size
        return curvature_bound(self.loss) * float(size.max())

    @property
    def steepness(self) -> float:
        """A bound of the clients' gradients."""
        return self.loss.lipschitz * math.sqrt(float(self.facts.traces.max()))

    @property
    def decay(self) -> float:
        """The power with which steps fade."""
        if self.method.decay is not None:
            return self.method.decay
        noise = self.method.noisy or bool(self.method.batch_size)
        return 0.0 if self.smoothness > 0.0 and not noise else 0.5

    def fading(self, t: int) -> float:
        """The factor of the steps after t of them."""
        return float((1.0 + t) ** -self.decay)

    def local(self, steps: int, t: int, extra: float = 0.0, shorter: float = 1.0) -> LocalSteps:
        """Local steps after t rounds of them; see `drfl.native.session.NativeSession.local`."""
        size, method = self.method.step_size, self.method
        if size is None and self.smoothness > 0.0:
            size = 1.0 / (shorter * self.smoothness + extra)
        elif size is None:
            size = 1.0 / (self.steepness * math.sqrt(steps) + extra) if self.steepness else 1.0
        return LocalSteps(steps, size * self.fading(t), method.batch_size or 0, method.seed)


def curvature_bound(loss: Loss) -> float:
    """A bound of the second derivative of a loss; 0 if it has kinks."""
    return 0.0 if loss.kinks else float(loss.curvature(np.linspace(-8.0, 8.0, 1601)).max())
