"""The lower bound of the ADMMs, by the bundle method's own master and certificate.

The cuts of the evaluated points and of the client steps go into a master without a proximal term
to speak of, and its multipliers are turned into a bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from drfl.arrays import Array
from drfl.ball import Ball
from drfl.losses import Loss
from drfl.solvers.base import Status
from drfl.solvers.bundle.master import Master
from drfl.solvers.certificate.anchors import AnchorBox, Anchors, make_anchors
from drfl.solvers.certificate.cuts import Pool
from drfl.solvers.certificate.proof import Certificate
from drfl.solvers.certificate.region import Region
from drfl.solvers.certificate.server import ServerProblem

TINY = 1e-10  # the proximal term of the master
ACTIVE = 1e-9  # a multiplier above this keeps a cut
DROP_AFTER = 20  # evaluations without a multiplier


class LowerBound:
    """The best bound proved so far.

    Attributes
    ----------
    value : float
        The bound; losses are nonnegative, so that 0 is one.
    region : Region or None
        Where it holds, if no radius bounds the model.
    """

    def __init__(self, terms: ServerProblem, anchors: Anchors | None) -> None:
        self.terms, self.master = terms, Master(terms)
        self.certificate = Certificate(terms, anchors)
        self.value, self.region = 0.0, None if self.certificate.everywhere else _nowhere(terms)

    @classmethod
    def of(
        cls, loss: Loss, balls: Sequence[Ball], terms: ServerProblem, facts: Sequence[Array | None]
    ) -> LowerBound:
        """With what the clients told about a support, if they did."""
        box = AnchorBox.of(balls[0], loss, terms.n)
        same = all(ball.support == balls[0].support for ball in balls)
        if box is None or not same or all(ball.radius == 0.0 for ball in balls):
            return cls(terms, None)
        told = np.array(facts, dtype=np.float64)
        return cls(terms, make_anchors(loss, balls, box, terms.mixture, told))

    @property
    def everywhere(self) -> bool:
        """Whether it holds for every w and b."""
        return self.region is None or self.region.proved

    def local(self, gap: float) -> Status:
        """What is proved if it does not hold everywhere."""
        return Status.local(gap, float(self.region.radius.max()) if self.region else math.inf)

    def improve(self, pool: Pool, best: Array, upper: float, now: int) -> None:
        """Solve the master for its bound; ``now`` counts the evaluations."""
        if not self.everywhere:
            # A bound that holds in a region only is not mixed with those of other regions.
            self.region, self.value = Region.around(best, self.terms.unit), 0.0
        self._solve(pool, best, upper, now)

    def settle(self, pool: Pool, best: Array, upper: float, now: int) -> None:
        """Where no radius bounds the model, prove a region in which it must be."""
        if self.everywhere:
            return
        region = self.master.region(pool, upper, best)
        if region is not None:
            self.region, self.value = region, 0.0
            self._solve(pool, best, upper, now)

    def _solve(self, pool: Pool, best: Array, upper: float, now: int) -> None:
        cuts, M = pool.cuts, TINY * np.diag(1.0 / self.terms.scale**2)
        solution = self.master.solve(pool, cuts, best, M, eps=1e-11, reference=upper)
        if solution.usable:
            pool.touch(cuts.serial[solution.cuts > ACTIVE], now)
            bound = self.certificate.bound(pool, cuts, solution, self.region, polished=True)
            self.value = max(self.value, bound)

    def forget(self, pool: Pool, now: int) -> None:
        """Drop the cuts that have had no multiplier for long."""
        pool.keep(pool.cuts.used > now - DROP_AFTER)


def _nowhere(terms: ServerProblem) -> Region:
    return Region(np.zeros(terms.dimension), np.zeros(terms.dimension))
