"""What to ask next: masters, their bounds, and the wishes for the round."""

from __future__ import annotations

import numpy as np

from drfl.arrays import Array
from drfl.solvers.bundle.conversation import Conversation
from drfl.solvers.bundle.messages import dual_requests
from drfl.solvers.bundle.steps import Proposal
from drfl.solvers.certificate.cuts import Cuts, Solution
from drfl.solvers.certificate.region import Region

# Curvature is asked for in these rounds: often at first, then ever more rarely.
SCHEDULE = frozenset((0, 1, 2, 3, 4, 6, 8, 11, 15, 20, 26, 33, 41, 50, 60, 71, 83, 96))
DROP_AFTER, MANY_CUTS, DROP_SOON = 8, 4000, 2  # rounds without a multiplier; fewer for big pools
REGROUP_AT = 1e-2  # predicted relative decrease at which the rows are split into groups
BOUND_AT = 1e-2  # predicted relative decrease at which a master is solved for its bound alone,
BOUND_EVERY = 3  # in every so many rounds; in every round once it may prove the tolerance
SECOND = 0.05  # the second point's metric, as a multiple of the first's
ACTIVE = 10.0  # a multiplier above so many times the accuracy of its master keeps a cut
NEWTON_ROUNDS = 8  # a smooth loss that takes longer is treated as nonsmooth
ROUGH, FINE, SHARP = 1e-6, 1e-9, 1e-11  # accuracy of masters: bolder point, next point, bound
TINY = 1e-10  # the proximal term of a master that is solved for its bound


class Planning(Conversation):
    """Solves masters: next points, multipliers, a lower bound."""

    @property
    def bounded_everywhere(self) -> bool:
        """Whether the lower bound holds for every w and b, not in a region only."""
        return self.certificate.everywhere or (self.region is not None and self.region.proved)

    # ------------------------------------------------------------------ what to ask next
    def _plan(self) -> None:
        """Solve the masters: next points, multipliers, a lower bound."""
        x, at_centre = self.evaluated.points[self.centre].x, self.evaluated.objective(self.centre)
        if not self.bounded_everywhere:
            # A bound that holds in a region only is not mixed with those of other regions.
            self.region, self.lower = Region.around(x, self.terms.unit), 0.0
        H = self.metric.curvature(self.q)
        tangent = self.pool.cuts.where(self.pool.cuts.tangent)
        descent = self.descent
        while True:
            M = self.metric.matrix(H, descent.sigma, descent.mu)
            near = self._solve(tangent, x, M, at_centre)
            descent.decrease = (at_centre - near.model) / max(abs(self.upper), 1e-300)
            if not descent.shrink():
                break
        self.q = self.terms.mixture.pull(near.weights)
        proposals = [_proposal(near, x, M)]
        if self._bound_is_due():
            D = np.diag(self.metric.diagonal)
            self._solve(self.pool.cuts, x, TINY * D, at_centre, eps=SHARP, sharp=True)
        if self.settings.second_point and not descent.smooth:
            far = self._solve(tangent, x, SECOND * M, at_centre, eps=ROUGH)
            proposals.append(_proposal(far, x, SECOND * M))
        self.dual = {}
        if self.settings.dual_cuts and not self.problem.loss.kinks:
            self.dual = dual_requests(self.pool, tangent, near, descent.sigma)
        self.previous = self.identities[0]
        age = DROP_AFTER if len(self.pool.cuts) <= MANY_CUTS else DROP_SOON
        self.pool.keep(self.pool.cuts.used > self.round - age)
        self._forget_points()
        self._set_wishes()
        warm = self._warm_start(proposals[0]) if self.previous == 0 else None
        if self._only_silence_left():
            self._ask_again()
        else:
            self._ask(warm or proposals, second_curvature=bool(warm) and self.curious)

    def _bound_is_due(self) -> bool:
        """Whether a master should be solved for its bound; the gap cannot be below the decrease."""
        decrease = self.descent.decrease
        return decrease <= 2.0 * self.tol or (decrease < BOUND_AT and self.round % BOUND_EVERY == 0)

    def _solve(
        self,
        cuts: Cuts,
        x: Array,
        M: Array,
        reference: float,
        *,
        eps: float = FINE,
        sharp: bool = False,
    ) -> Solution:
        """A master, whose multipliers also give a bound and keep cuts alive."""
        solution = self.master.solve(self.pool, cuts, x, M, eps=eps, reference=reference)
        if solution.usable:
            self.pool.touch(cuts.serial[solution.cuts > ACTIVE * eps], self.round)
            self._certify(cuts, solution, sharp)
        return solution

    def _certify(self, cuts: Cuts, solution: Solution, sharp: bool) -> None:
        """Raise the lower bound."""
        bound = self.certificate.bound(self.pool, cuts, solution, self.region, polished=sharp)
        if bound > self.lower:
            self.lower, self.last_progress = bound, self.round

    def _warm_start(self, newton: Proposal) -> list[Proposal] | None:
        """The mean of the clients' own optima, if these are alike, beside the Newton point."""
        local = {s: r.local for s, r in self.introductions.items() if r.local is not None}
        if not local or not self.metric.known:
            return None
        weights = self.q[list(local)]
        if not weights.any():
            return None
        mean = self.metric.common(np.array(list(local.values())), weights / weights.sum())
        return None if mean is None else [Proposal(mean, newton.model, newton.prox), newton]

    def _set_wishes(self) -> None:
        """Curvature and groups of the next round."""
        ahead, descent = self.round + 1, self.descent
        if descent.smooth and ((self.pool.cuts.slope < 0.0).any() or ahead >= NEWTON_ROUNDS):
            descent.smooth = False
        if not descent.smooth and descent.decrease <= REGROUP_AT:
            self.groups = self.most_groups
        # Where the model promises less than the tolerance, only the bound is still open.
        promising = descent.decrease > min(self.tol, 1e-6)
        self.curious = self.settings.curvature == "auto" and ahead in SCHEDULE and promising


def _proposal(solution: Solution, centre: Array, M: Array) -> Proposal:
    step = solution.x - centre
    return Proposal(solution.x, solution.model, 0.5 * float(step @ M @ step))
