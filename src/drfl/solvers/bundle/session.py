r"""The server's half of the bundle method: propose points, absorb replies, certify.

Each round every client evaluates one or two points. Their cuts sharpen the model; the better point
becomes the centre if it delivers a part of the decrease that the model promised; masters over the
tangent cuts give the next points, and their multipliers a certificate.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from drfl.arrays import Array
from drfl.solvers.bundle.messages import Reply
from drfl.solvers.bundle.planning import SHARP, TINY, Planning
from drfl.solvers.bundle.steps import Proposal
from drfl.solvers.bundle.stopping import verdict
from drfl.solvers.bundle.ties import Ties, is_unique
from drfl.solvers.certificate.cuts import Cuts
from drfl.wire import Message

INSIDE = 0.1  # how far inside the level, relatively, a Newton step aims


class BundleSession(Planning):
    """See the module. The attributes are the state of the run."""

    guarded: bool = False  # a client has a guard: its answers are few

    # ------------------------------------------------------------------ a round
    def absorb(self, replies: Mapping[str, Message], failures: Mapping[str, str]) -> None:
        """Take the replies in, move, certify, and decide what to ask next."""
        heard = self.roster.read(replies, self.asked, self.round, self.evaluated)
        for s in heard:
            self.mirror.note(s, self.asked[s])
        if self.centre < 0:
            self._introduce(heard)
        else:
            self._take_in(heard)
            if self.ties is not None:
                self._next_tie(self.ties)
            else:
                if not self.closing:
                    self._move()
                self._plan()
        self.round += 1
        self._let_go()
        if self.centre >= 0:
            self._single_out()
        self._status = verdict(self)

    # ------------------------------------------------------------------ replies
    def _introduce(self, heard: Mapping[int, Reply]) -> None:
        """Wait until everyone has answered the first request, then begin."""
        self.introductions.update(heard)
        if len(self.introductions) == len(self.roster.names):
            self._open()
            self._take_in(self.introductions)
            self._equip()
            self._plan()
        else:
            silent = [s for s in self.asked if s not in self.introductions]
            self.asked = {s: self.asked[s] for s in silent}

    def _take_in(self, heard: Mapping[int, Reply]) -> None:
        """Values, cuts and curvature of this round."""
        fresh: list[Cuts] = []
        for s, reply in heard.items():
            for k, identity in enumerate(reply.identities):
                point = self.evaluated.points[identity]
                point.values[s] = reply.values[k]
                given = reply.multipliers[k]
                norm = self.evaluated.terms.multiplier(s, point.x)
                point.multipliers[s] = norm if given is None else given
                cuts = reply.cuts(self.pool, s, k, identity, self.round)
                point.gradients[s] = self.pool.piece_share[cuts.piece] @ cuts.g
                fresh.append(cuts)
            if reply.dual is not None:
                fresh.append(reply.dual_cut(self.pool, s, self.round))
            if reply.curvature:
                self.metric.hessians[s] = reply.curvature[0]
                self.metric_point = self.identities[0]
        self.second_hessians = {s: r.curvature[1] for s, r in heard.items() if len(r.curvature) > 1}
        self.pool.add(fresh)
        main = self.evaluated.points[self.identities[0]]
        if not self.metric.known and main.complete:
            self.metric.observe(main.x, main.gradients)
        if self.ties is not None:
            return
        for identity in {*self.identities, self.centre}:
            point = self.evaluated.points[identity]
            if point.complete and self.evaluated.objective(identity) < self.upper:
                self.upper, self.best = self.evaluated.objective(identity), identity
                self.last_progress = self.round

    def _move(self) -> None:
        """The better of the points becomes the centre if it delivers what was promised."""
        at_centre = self.evaluated.objective(self.centre)
        chosen, proposal = self.identities[0], self.proposals[0]
        f, second_wins = self.evaluated.objective(chosen), None
        if len(self.identities) > 1:
            f2 = self.evaluated.objective(self.identities[1])
            second_wins = f2 < f
            if second_wins and f2 < at_centre - 0.1 * (at_centre - proposal.model):
                chosen, proposal, f = self.identities[1], self.proposals[1], f2
                if self.second_hessians:
                    self.metric_point = chosen
                for s, H in self.second_hessians.items():
                    self.metric.hessians[s] = H
        if self.descent.judge(at_centre, f, proposal, second_wins):
            self.centre = chosen
        # Estimates of silent clients may have been too low: never stay above a proved value.
        if self.upper < self.evaluated.objective(self.centre):
            self.centre = self.best

    # ------------------------------------------------------------------ radius 0 everywhere
    def _single_out(self) -> None:
        """At an optimum that no radius singles out: prove where it is, then seek the smallest."""
        if self.ties is not None or self.gap > self.tol or self.certificate.everywhere:
            return
        x = self._best.x
        region = self.master.region(self.pool, self.upper, x)
        if region is not None:
            self.region, self.lower = region, 0.0
            D = np.diag(self.metric.diagonal)
            self._solve(self.pool.cuts, x, TINY * D, self.upper, eps=SHARP, sharp=True)
        smooth = not self.problem.loss.kinks
        if self.gap > self.tol or self.guarded:
            return
        if not (smooth and is_unique(self.metric, self.q)):
            scale = max(abs(self.upper), 1e-3 * self.at_zero)
            level = max(self.lower + self.tol * scale, self.upper)
            self.ties = Ties(level, x, self.upper, self.n, x)
            self.last_progress = self.round
            self._ask_smaller(self.ties, None)

    def _next_tie(self, ties: Ties) -> None:
        for identity in self.identities:
            point = self.evaluated.points[identity]
            if point.complete and ties.offer(point.x, self.evaluated.objective(identity)):
                self.best, self.upper = identity, ties.objective
                self.last_progress = self.round
        first = self.evaluated.points[self.identities[0]]
        refused = first.x, self.evaluated.objective(self.identities[0])
        self._ask_smaller(ties, refused if first.complete else None)

    def _ask_smaller(self, ties: Ties, refused: tuple[Array, float] | None) -> None:
        cuts = self.pool.cuts.where(self.pool.cuts.tangent)
        solution, multiplier = self.master.smallest(self.pool, cuts, ties.level)
        points = ties.next_points(solution, refused)
        self.curious = self.settings.curvature == "auto" and not self.problem.loss.kinks
        if self.curious and self.metric.known:
            bend = (ties.nu or multiplier) * self.metric.curvature(self.q), ties.at
            # A little inside, so that the step does not end just beyond the level.
            aim = ties.level - INSIDE * (ties.level - self.lower)
            newton, ties.nu = self.master.smallest(self.pool, cuts, aim, bend)
            if newton.usable:
                points.insert(0, Proposal(newton.x))
                ties.at = newton.x
        self._forget_points()
        self.dual = {}
        self._ask(points)
