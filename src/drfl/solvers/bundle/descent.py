"""When a step is taken, and how far the next one may go."""

from __future__ import annotations

import math
from dataclasses import dataclass

from drfl.arrays import Array


@dataclass(frozen=True)
class Proposal:
    """A point on its way, what the model promised there, and the proximal term it paid."""

    x: Array
    model: float = math.nan
    prox: float = 0.0


@dataclass
class Descent:
    r"""The weights of the metric :math:`M=\sigma H+\mu D`, and the memory of the last steps.

    Attributes
    ----------
    smooth : bool
        Newton steps on a smooth loss: one point a round, mu shrinks with the promised decrease.
    decrease : float
        The relative decrease that the model promises.
    serious : bool
        Whether the centre moved in the last round.
    """

    smooth: bool
    mu: float = 1.0
    mu_first: float = 1.0
    sigma: float = 1.0
    nulls: int = 0
    decrease: float = math.inf
    serious: bool = True

    def start(self, gradient_size: float, objective: float) -> None:
        """The first mu: a small part of what a gradient step of unit relative decrease needs."""
        self.mu = self.mu_first = max(0.002 * gradient_size / max(objective, 1e-300), 1e-12)

    def judge(
        self, at_centre: float, f: float, proposal: Proposal, second_wins: bool | None
    ) -> bool:
        """Whether the point delivers a tenth of what was promised; adapts mu and sigma."""
        promised, delivered = at_centre - proposal.model, at_centre - f
        at_rounding = self.smooth and self.decrease < 1e-6 and -delivered <= 1e-9 * abs(at_centre)
        self.serious = delivered >= 0.1 * promised or at_rounding
        if self.serious:
            self._after_serious(delivered, promised, proposal.prox, second_wins)
        else:
            self._after_null(delivered, promised)
        return self.serious

    def _after_serious(
        self, delivered: float, promised: float, prox: float, second_wins: bool | None
    ) -> None:
        self.nulls = 0
        if delivered >= 0.5 * promised:
            self.mu *= 0.2
        if second_wins is not None:
            self.sigma = 0.4 * self.sigma if second_wins else min(1.0, 1.5 * self.sigma)
        elif self.decrease < 1e-3:
            # More than the quadratic model promised: the curvature is too large.
            excess = delivered / max(promised - prox, 1e-300)
            self.sigma *= 0.3 if excess >= 1.6 else 0.5 if excess >= 1.25 else 1.0

    def _after_null(self, delivered: float, promised: float) -> None:
        self.nulls += 1
        self.sigma = min(1.0, 1.2 * self.sigma)
        if -delivered > 2.0 * promised:
            self.mu *= 2.0
        if self.nulls % 4 == 0:
            self.mu *= 1.6

    def shrink(self) -> bool:
        """After a serious Newton step mu must not exceed what the promise is worth."""
        if not (self.smooth and self.serious) or self.decrease <= 0.0:
            return False
        if self.mu <= 0.2 * self.mu_first * self.decrease:
            return False
        self.mu = 0.1 * self.mu_first * self.decrease
        return True
