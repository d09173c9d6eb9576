r"""The server's half of the bundle method: propose points, absorb replies, certify.

Each round every client evaluates one or two points. Their cuts sharpen the model; the better point
becomes the centre if it delivers a part of the decrease that the model promised; masters over the
tangent cuts give the next points, and their multipliers a certificate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.losses import Array
from drfl.problem import Problem
from drfl.solvers.base import Session, Status, StatusKind, relative_gap
from drfl.solvers.bundle.certificate import lower_bound
from drfl.solvers.bundle.cuts import Cuts, Pool
from drfl.solvers.bundle.evaluated import Evaluated, Point
from drfl.solvers.bundle.exchange import POINTS, Reply, dual_request, read_reply, request
from drfl.solvers.bundle.master import Master, Solution
from drfl.solvers.bundle.metric import Metric
from drfl.solvers.bundle.settings import Settings
from drfl.solvers.bundle.terms import Terms, make_terms
from drfl.wire import Message

# Curvature is asked for in these rounds: often at first, then ever more rarely.
SCHEDULE = frozenset((0, 1, 2, 3, 4, 6, 8, 11, 15, 20, 26, 33, 41, 50, 60, 71, 83, 96))
DROP_AFTER = 8  # rounds without a multiplier
ALIKE = 0.2  # how much local optima may differ for their mean to be worth a visit
REGROUP_AT = 1e-2  # predicted relative decrease at which the rows are split into groups
BOUND_AT = 1e-2  # predicted relative decrease at which a master is solved for its bound alone
SECOND = 0.05  # the second point's metric, as a multiple of the first's
ACTIVE = 1e-9  # a multiplier above this keeps a cut


@dataclass(frozen=True)
class Proposal:
    """A point on its way, what the model promised there, and the proximal term it paid."""

    x: Array
    model: float
    prox: float


class BundleSession(Session):
    """See the module. Attributes are the state; every method changes it in one way."""

    def __init__(
        self,
        settings: Settings,
        problem: Problem,
        names: Sequence[str],
        n_features: int,
        *,
        tol: float,
        max_rounds: int,
    ) -> None:
        self.settings, self.problem, self.names = settings, problem, tuple(names)
        self.tol, self.max_rounds = tol, max_rounds
        self.n, self.dimension, self.lifted = n_features, n_features + problem.fit_intercept, 0
        self.smooth = not problem.loss.kinks
        self.round = 0
        self.upper, self.lower, self.at_zero = math.inf, 0.0, math.nan
        self.proposals = [Proposal(np.zeros(self.dimension), math.nan, 0.0)]
        self.wanted = [settings.curvature == "auto"]
        self.groups, self.regrouped, self.warm = 1, False, settings.warm_start and len(names) > 1
        self.centre = self.best = self.previous = self.metric_point = -1
        self.sigma, self.nulls, self.decrease = 1.0, 0, math.inf
        self.dual: list[dict[str, NDArray[Any]]] = []
        self._status: Status | None = None

    # ------------------------------------------------------------------ a round
    def propose(self) -> dict[str, Message]:
        """One request for every client."""
        points = np.array([p.x for p in self.proposals])
        marks = self.previous, self.centre, self.metric_point
        shares = self.regrouped and self.groups > 1
        local = self.round == 0 and self.warm
        out = {}
        for s, name in enumerate(self.names):
            dual = self.dual[s] if self.dual else {}
            out[name] = request(
                self.round, points, (self.groups, shares, local, *self.wanted), marks, dual
            )
        return out

    def absorb(self, replies: Mapping[str, Message], failures: Mapping[str, str]) -> None:
        """Take the replies in, move, certify, and decide what to ask next."""
        heard = self._read(replies)
        if self.round == 0:
            self._begin(heard)
        self._take_in(heard)
        if self.round == 0:
            self._first_centre(heard)
        else:
            self._move()
        self._plan(heard)
        self.round += 1
        self._judge()

    def _read(self, replies: Mapping[str, Message]) -> dict[int, Reply]:
        """The replies that can be used, by client number."""
        sizes = {"P": len(self.proposals), "d": self.dimension}
        return {
            s: read_reply(replies[name], self.round, sizes, self.lifted)
            for s, name in enumerate(self.names)
            if name in replies
        }

    # ------------------------------------------------------------------ the first round
    def _begin(self, heard: Mapping[int, Reply]) -> None:
        self.about = about = np.array([heard[s].about for s in range(len(self.names))])
        self.terms = make_terms(self.problem, self.names, self.dimension, about[:, 0])
        S, d = self.terms.n_clients, self.dimension
        self.pool = Pool(S, d, self.n + 1 if self.terms.kind == "box" else 0)
        self.metric = Metric(self.terms)
        self.evaluated = Evaluated(self.terms, self.pool)
        self.q = self.terms.mixture.weights
        least = int(about[:, 0].min())
        wish = math.ceil(self.n / (2 * S)) if self.settings.groups is None else self.settings.groups
        self.most_groups = int(np.clip(wish, 1, max(1, min(255, least // 50))))

    def _first_centre(self, heard: Mapping[int, Reply]) -> None:
        """Scales, from the first gradient and curvature; the centre is w = 0."""
        self.centre = self.best = 0
        self.at_zero = self.upper
        q, n = self.q, self.n
        if self.metric.known:
            unit = math.sqrt(max(float(np.trace(self.metric.curvature(q)[:n, :n])) / max(n, 1), 0))
        else:
            unit = math.sqrt(float(q @ self.about[:, 1]))
        self.terms = self.evaluated.terms = self.terms.in_units(unit)
        self.master = Master(self.terms)
        self.metric.set_unit(self.terms.unit)
        g = q @ self.evaluated.points[0].gradients
        size = float(g @ (g / self.metric.diagonal))
        self.mu = self.mu_first = max(0.002 * size / max(self.upper, 1e-300), 1e-12)

    # ------------------------------------------------------------------ replies
    def _take_in(self, heard: Mapping[int, Reply]) -> None:
        """Values, cuts and curvature of this round."""
        fresh: list[Cuts] = []
        first = POINTS * self.round
        for k, proposal in enumerate(self.proposals):
            point = Point.fresh(proposal.x, len(self.names))
            self.evaluated.points[first + k] = point
            for s, reply in heard.items():
                point.values[s], point.multipliers[s] = reply.values[k]
                fresh.append(reply.cuts(self.pool, s, k, first + k, self.round))
                point.gradients[s] = self._gradient(s, fresh[-1], point)
        for s, reply in heard.items():
            if reply.dual is not None:
                fresh.append(reply.dual_cut(self.pool, s, self.round))
            if reply.curvature:
                # The Hessian of the last point asked for; a losing second point is undone below.
                self.metric.hessians[s] = reply.curvature[0]
        self.pool.add(fresh)
        if any(reply.curvature for reply in heard.values()):
            self.metric_point = first
        self._second_hessians = {
            s: r.curvature[1] for s, r in heard.items() if len(r.curvature) > 1
        }
        if not self.metric.known:
            main = self.evaluated.points[first]
            if not np.isnan(main.gradients).any():
                self.metric.observe(main.x, main.gradients)
        for k in range(len(self.proposals)):
            self._offer(first + k)
        if self.centre >= 0:
            self._offer(self.centre)

    def _gradient(self, s: int, cuts: Cuts, point: Point) -> Array:
        """The mean slope over a client's groups: what a quasi-Newton metric learns from."""
        return self.pool.piece_share[cuts.piece] @ cuts.g

    def _offer(self, identity: int) -> None:
        """An upper bound, if every client has evaluated the point."""
        if self.evaluated.points[identity].complete:
            value = self.evaluated.objective(identity)
            if value < self.upper:
                self.upper, self.best = value, identity

    # ------------------------------------------------------------------ serious or null
    def _move(self) -> None:
        """Move the centre if the better point delivers; adapt mu and sigma."""
        first = POINTS * self.round
        at_centre = self.evaluated.objective(self.centre)
        chosen, proposal = first, self.proposals[0]
        f = self.evaluated.objective(first)
        second_wins: bool | None = None
        if len(self.proposals) > 1:
            f2 = self.evaluated.objective(first + 1)
            second_wins = f2 < f
            if second_wins and f2 < at_centre - 0.1 * (at_centre - proposal.model):
                chosen, proposal, f = first + 1, self.proposals[1], f2
                for s, H in self._second_hessians.items():
                    self.metric.hessians[s] = H
                    self.metric_point = first + 1
        promised = at_centre - proposal.model
        delivered = at_centre - f
        stuck_at_rounding = (
            self.smooth and self.decrease < 1e-6 and -delivered <= 1e-9 * abs(at_centre)
        )
        self.serious = delivered >= 0.1 * promised or stuck_at_rounding
        if self.serious:
            self._adapt_serious(delivered, promised, proposal.prox, second_wins)
            self.centre = chosen
        else:
            self.nulls += 1
            self.sigma = min(1.0, 1.2 * self.sigma)
            self.mu *= (2.0 if -delivered > 2.0 * promised else 1.0) * (
                1.6 if self.nulls % 4 == 0 else 1.0
            )

    def _adapt_serious(
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

    # ------------------------------------------------------------------ what to ask next
    def _plan(self, heard: Mapping[int, Reply]) -> None:
        """Solve the masters: next points, multipliers, a lower bound."""
        if self.round == 0:
            self.serious = True
        at_centre = self.evaluated.objective(self.centre)
        x = self.evaluated.points[self.centre].x
        H = self.metric.curvature(self.q)
        tangent = self.pool.cuts.tangent
        cuts = self.pool.cuts.where(tangent)
        active = np.zeros(len(self.pool.cuts), np.bool_)
        for _ in range(3):
            M = self.metric.matrix(H, self.sigma, self.mu)
            solution = self.master.solve(self.pool, cuts, x, M, reference=at_centre)
            self.decrease = (at_centre - solution.model) / max(abs(self.upper), 1e-300)
            # Newton steps: mu has to shrink with the predicted decrease, at no extra round.
            if not (self.smooth and self.serious) or self.decrease <= 0.0:
                break
            if self.mu <= 0.2 * self.mu_first * self.decrease:
                break
            self.mu = 0.1 * self.mu_first * self.decrease
        self._certify(cuts, solution)
        active[tangent] |= solution.cuts > ACTIVE
        self.q = self.terms.mixture.pull(solution.weights)
        proposals = [self._proposal(solution, x, M)]
        if self.decrease < BOUND_AT:
            sharp = self.master.solve(
                self.pool,
                self.pool.cuts,
                x,
                1e-9 * np.diag(self.metric.diagonal),
                eps=1e-11,
                reference=at_centre,
            )
            self._certify(self.pool.cuts, sharp)
            active |= sharp.cuts > ACTIVE
        if self.settings.second_point and not self.smooth:
            far = self.master.solve(self.pool, cuts, x, SECOND * M, reference=at_centre)
            self._certify(cuts, far)
            active[tangent] |= far.cuts > ACTIVE
            proposals.append(self._proposal(far, x, SECOND * M))
        self.dual = []
        if self.settings.dual_cuts and not self.problem.loss.kinks:
            self.dual = dual_request(self.pool, cuts, solution, self.sigma)
        self.previous = POINTS * self.round
        self.proposals = self._with_warm_start(proposals, heard)
        self._forget(active)
        self._set_wishes()

    def _proposal(self, solution: Solution, centre: Array, M: Array) -> Proposal:
        step = solution.x - centre
        return Proposal(solution.x, solution.model, 0.5 * float(step @ M @ step))

    def _with_warm_start(
        self, proposals: list[Proposal], heard: Mapping[int, Reply]
    ) -> list[Proposal]:
        """After the first round: the mean of the clients' own optima, if these are alike."""
        if self.round > 0:
            self.warm = False
        local = {s: r.local for s, r in heard.items() if r.local is not None}
        if not (self.warm and local and self.metric.known):
            self.warm = False
            return proposals
        weights = self.q[list(local)] / self.q[list(local)].sum()
        optima = np.array(list(local.values()))
        mean = weights @ optima
        H = self.metric.curvature(self.terms.mixture.weights)
        spread = np.einsum("si,ij,sj->s", optima - mean, H, optima - mean)
        if float(weights @ spread) > ALIKE * max(float(mean @ H @ mean), 1e-300):
            self.warm = False
            return proposals
        newton = proposals[0]
        return [Proposal(mean, newton.model, newton.prox), newton]

    def _forget(self, active: NDArray[np.bool_]) -> None:
        cuts = self.pool.cuts
        cuts.used[active] = self.round
        self.pool.keep(cuts.used > self.round - DROP_AFTER)
        kept = {self.centre, self.best}
        self.evaluated.points = {
            i: p for i, p in self.evaluated.points.items() if i in kept
        }

    def _set_wishes(self) -> None:
        """Curvature and groups of the next round."""
        ahead = self.round + 1
        if self.smooth and ((self.pool.cuts.slope < 0.0).any() or ahead >= 8):
            self.smooth = False  # flips, or slow Newton steps: treat it as nonsmooth
        self.regrouped = False
        if self.groups == 1 and self.most_groups > 1 and not self.smooth:
            if self.decrease <= REGROUP_AT:
                self.groups, self.regrouped = self.most_groups, True
        want = self.settings.curvature == "auto" and ahead in SCHEDULE
        self.wanted = [want] + [want and self.warm] * (len(self.proposals) - 1)

    # ------------------------------------------------------------------ the certificate
    def _certify(self, cuts: Cuts, solution: Solution) -> None:
        if solution.usable:
            bound = lower_bound(self.pool, cuts, solution, self.terms, None)
            self.lower = max(self.lower, bound)

    def _judge(self) -> None:
        if self.gap <= self.tol:
            self._status = Status(StatusKind.CERTIFIED, "the objective is within the tolerance of the optimum")
        elif self.round >= self.max_rounds:
            self._status = Status(
                StatusKind.MAX_ROUNDS,
                f"the rounds were used up at a proved gap of {self.gap:.1e}: allow more rounds",
            )

    # ------------------------------------------------------------------ what everyone reads
    @property
    def status(self) -> Status | None:
        return self._status

    @property
    def coef(self) -> Array:
        return self.evaluated.points[self.best].x[: self.n]

    @property
    def intercept(self) -> float:
        x = self.evaluated.points[self.best].x
        return float(x[self.n]) if len(x) > self.n else 0.0

    @property
    def objective(self) -> float:
        return self.upper

    @property
    def lower_bound(self) -> float:
        return self.lower

    @property
    def gap(self) -> float:
        return relative_gap(self.upper, self.lower, self.at_zero)

    @property
    def weights(self) -> Array:
        return self.terms.mixture.worst_weights(self.client_losses)

    @property
    def client_losses(self) -> Array:
        return self.evaluated.points[self.best].values

    @property
    def client_multipliers(self) -> Array:
        return self.evaluated.points[self.best].multipliers
