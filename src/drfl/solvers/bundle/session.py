r"""The server's half of the bundle method: propose points, absorb replies, certify.

Each round every client evaluates one or two points. Their cuts sharpen the model; the better point
becomes the centre if it delivers a part of the decrease that the model promised; masters over the
tangent cuts give the next points, and their multipliers a certificate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from drfl.losses import Array
from drfl.problem import Problem
from drfl.solvers.base import Session, Status, relative_gap
from drfl.solvers.bundle.anchors import Anchors, anchor_boxes, make_anchors
from drfl.solvers.bundle.certificate import Certificate
from drfl.solvers.bundle.cuts import Cuts, Pool
from drfl.solvers.bundle.descent import Descent, Proposal
from drfl.solvers.bundle.evaluated import Evaluated, Point
from drfl.solvers.bundle.exchange import Dual, Request, dual_requests
from drfl.solvers.bundle.master import Master, Solution
from drfl.solvers.bundle.metric import Metric
from drfl.solvers.bundle.recall import Recollection
from drfl.solvers.bundle.region import Region, proved_region
from drfl.solvers.bundle.reply import Reply
from drfl.solvers.bundle.roster import Roster, without
from drfl.solvers.bundle.settings import Settings
from drfl.solvers.bundle.terms import lifted, make_terms
from drfl.solvers.bundle.ties import Ties, is_unique
from drfl.solvers.bundle.verdict import verdict
from drfl.wire import Message

# Curvature is asked for in these rounds: often at first, then ever more rarely.
SCHEDULE = frozenset((0, 1, 2, 3, 4, 6, 8, 11, 15, 20, 26, 33, 41, 50, 60, 71, 83, 96))
DROP_AFTER, MANY_CUTS, DROP_SOON = 8, 4000, 2  # rounds without a multiplier; fewer for big pools
REGROUP_AT = 1e-2  # predicted relative decrease at which the rows are split into groups
BOUND_AT = 1e-2  # predicted relative decrease at which a master is solved for its bound alone
SECOND = 0.05  # the second point's metric, as a multiple of the first's
ACTIVE = 1e-9  # a multiplier above this keeps a cut
NEWTON_ROUNDS = 8  # a smooth loss that takes longer is treated as nonsmooth
TINY = 1e-10  # the proximal term of a master that is solved for its bound


class BundleSession(Session):
    """See the module. The attributes are the state of the run."""

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
        self.settings = settings
        self.tol, self.max_rounds = tol, max_rounds
        self.n = n_features
        self.dimension = n_features + problem.fit_intercept + problem.shared_ball
        self.every_name = tuple(names)
        self.round = 0
        self._reset(problem, names)

    def _reset(self, problem: Problem, names: Sequence[str]) -> None:
        """Begin with these clients, knowing nothing."""
        self.problem = problem
        self.lifted = lifted(problem, names, self.n)
        self.boxes = anchor_boxes(problem, names, self.n)
        self.roster = Roster(
            names, self.lifted, [(self.n + 1) * (box is not None) for box in self.boxes]
        )
        self.numbered = 0
        self.introductions: dict[int, Reply] = {}
        self.recollection = Recollection(bool(self.lifted))
        self.descent = Descent(smooth=not problem.loss.kinks)
        self.upper, self.lower, self.at_zero = math.inf, 0.0, math.nan
        self.groups = 1
        self.warm = self.settings.warm_start and len(names) > 1 and not problem.shared_ball
        self.curious = self.settings.curvature == "auto"  # about the next main point
        self.centre = self.best = self.previous = self.metric_point = -1
        self.dual: dict[int, Dual] = {}
        self.last_progress = self.round
        self.closing = False
        self.ties: Ties | None = None
        self.region: Region | None = None
        self._status: Status | None = None
        # Until the clients' sizes are known: all else of the terms is.
        terms = make_terms(problem, names, self.dimension, np.ones(len(names)))
        self.pool = Pool(terms.n_clients, self.dimension, self.lifted)
        self.evaluated = Evaluated(terms, self.pool)
        self.asked: dict[int, Request] = {}
        self._ask([Proposal(np.zeros(self.dimension))])

    # ------------------------------------------------------------------ a round
    def propose(self) -> dict[str, Message]:
        """One request for every client that has something to answer."""
        return {
            self.roster.names[s]: request.message(self.round) for s, request in self.asked.items()
        }

    def recall(self) -> dict[str, Message]:
        """Points that the clients have to know again."""
        known = self.recollection.sights
        return {self.roster.names[s]: self.recollection.message(s, self.round) for s in known}

    def absorb(self, replies: Mapping[str, Message], failures: Mapping[str, str]) -> None:
        """Take the replies in, move, certify, and decide what to ask next."""
        heard = self.roster.read(replies, self.asked, self.round, self.evaluated)
        for s in heard:
            self.recollection.note(s, self.asked[s])
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

    def _introduce(self, heard: Mapping[int, Reply]) -> None:
        """Wait until everyone has answered the first request, then begin."""
        self.introductions.update(heard)
        if len(self.introductions) == len(self.roster.names):
            self._begin()
            self._plan()
        else:
            silent = [s for s in self.asked if s not in self.introductions]
            self.asked = {s: self.asked[s] for s in silent}

    def _let_go(self) -> None:
        """Go on without clients who fell silent before the model knew them."""
        lost = self.roster.lost()
        if lost and len(lost) < len(self.roster.names):
            kept = [name for name in self.roster.names if name not in lost]
            self._reset(without(self.problem, self.roster.names, lost), kept)

    def _ask(self, proposals: list[Proposal], second_curvature: bool = False) -> None:
        """Number the points and write down what every client is to answer."""
        self.proposals = proposals
        self.identities = tuple(range(self.numbered, self.numbered + len(proposals)))
        self.numbered += len(proposals)
        points = np.array([p.x for p in proposals])
        curvature = (self.curious, *(second_curvature for _ in proposals[1:]))
        everyone = range(len(self.roster.names))
        self.asked = {s: self._request(s, points, curvature) for s in everyone}
        if self.centre >= 0:
            self._catch_up()
            for identity, proposal in zip(self.identities, proposals, strict=True):
                self.evaluated.points[identity] = Point.fresh(proposal.x, len(self.roster.names))

    def _request(self, s: int, points: Array, curvature: tuple[bool, ...]) -> Request:
        first = self.centre < 0
        return Request(
            points,
            self.identities,
            curvature,
            groups=self.groups,
            shares=self.groups > 1 and not self.pool.knows(s, self.groups),
            introduction=first,
            local=first and self.warm,
            lifted=bool(self.lifted),
            marks=(self.previous, self.centre, self.metric_point),
            dual=self.dual.get(s),
        )

    def _catch_up(self) -> None:
        """Whoever has not evaluated the centre yet does so beside the new points."""
        centre = self.evaluated.points[self.centre]
        for s in np.flatnonzero(np.isnan(centre.values)):
            self.asked[int(s)] = self.asked[int(s)].also(self.centre, centre.x)

    # ------------------------------------------------------------------ the first round
    def _begin(self) -> None:
        """Sizes, scales and the first centre, w = 0."""
        about = np.array([self.introductions[s].about for s in range(len(self.roster.names))])
        terms = make_terms(self.problem, self.roster.names, self.dimension, about[:, 0])
        self.metric = Metric(terms)
        self.evaluated.terms = terms
        self.centre = self.best = self.identities[0]
        self.evaluated.points[self.centre] = Point.fresh(self.proposals[0].x, terms.n_clients)
        self._take_in(self.introductions)
        self.at_zero = self.upper
        q, n = terms.mixture.weights, self.n
        unit = float(q @ about[:, 1])
        if self.metric.known:
            unit = float(np.trace(self.metric.curvature(q)[:n, :n])) / max(n, 1)
        self.terms = self.evaluated.terms = terms.in_units(math.sqrt(max(unit, 0.0)))
        self.metric.set_unit(self.terms.unit)
        self.master = Master(self.terms)
        self.certificate = Certificate(self.terms, self._anchors())
        self.q = q
        g = q @ self.evaluated.points[self.centre].gradients
        self.descent.start(float(g @ (g / self.metric.diagonal)), self.upper)
        wish = self.settings.groups or math.ceil(n / (2 * terms.n_clients))
        self.most_groups = int(np.clip(wish, 1, max(1, min(255, int(about[:, 0].min()) // 50))))

    def _anchors(self) -> Anchors | None:
        """What bounds f everywhere when the data have a support."""
        balls = [self.problem.ball_of(name) for name in self.roster.names]
        box = self.boxes[0]
        same = all(ball.support == balls[0].support for ball in balls)
        facts = [self.introductions[s].facts for s in range(len(balls))]
        if box is None or not same or all(ball.radius == 0.0 for ball in balls):
            return None
        return make_anchors(
            self.problem.loss, balls, box, self.terms.mixture, np.array(facts, dtype=np.float64)
        )

    # ------------------------------------------------------------------ replies
    def _take_in(self, heard: Mapping[int, Reply]) -> None:
        """Values, cuts and curvature of this round."""
        fresh: list[Cuts] = []
        for s, reply in heard.items():
            for k, identity in enumerate(reply.identities):
                point = self.evaluated.points[identity]
                point.values[s] = reply.values[k]
                given = reply.multipliers[k]
                point.multipliers[s] = self._multiplier(s, point.x) if given is None else given
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

    def _multiplier(self, s: int, x: Array) -> float:
        return self.evaluated.terms.multiplier(s, x) * self.problem.loss.lipschitz

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
        if descent.decrease < BOUND_AT:
            D = np.diag(self.metric.diagonal)
            self._solve(self.pool.cuts, x, TINY * D, at_centre, sharp=True)
        if self.settings.second_point and not descent.smooth:
            far = self._solve(tangent, x, SECOND * M, at_centre)
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

    def _only_silence_left(self) -> bool:
        """Whether the centre would do, if only everyone had evaluated it."""
        centre = self.evaluated.points[self.centre]
        value = self.evaluated.objective(self.centre)
        self.closing = (
            not centre.complete and relative_gap(value, self.lower, self.at_zero) <= self.tol
        )
        return self.closing

    def _ask_again(self) -> None:
        """Only the centre, only of those who have not evaluated it: the bound has to be real."""
        point = self.evaluated.points[self.centre]
        self.proposals, self.identities = [Proposal(point.x)], (self.centre,)
        self.dual = {}
        silent = np.flatnonzero(np.isnan(point.values))
        self.asked = {int(s): self._request(int(s), point.x[None], (False,)) for s in silent}

    def _solve(
        self, cuts: Cuts, x: Array, M: Array, reference: float, *, sharp: bool = False
    ) -> Solution:
        """A master, whose multipliers also give a bound and keep cuts alive."""
        eps = 1e-11 if sharp else 1e-9
        solution = self.master.solve(self.pool, cuts, x, M, eps=eps, reference=reference)
        if solution.usable:
            self.pool.touch(cuts.serial[solution.cuts > ACTIVE], self.round)
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

    def _forget_points(self) -> None:
        kept = {self.centre, self.best}
        self.evaluated.points = {i: p for i, p in self.evaluated.points.items() if i in kept}

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

    # ------------------------------------------------------------------ radius 0 everywhere
    @property
    def bounded_everywhere(self) -> bool:
        """Whether the lower bound holds for every w and b, not in a region only."""
        return self.certificate.everywhere or (self.region is not None and self.region.proved)

    def _single_out(self) -> None:
        """At an optimum that no radius singles out: prove where it is, then seek the smallest."""
        if self.ties is not None or self.gap > self.tol or self.certificate.everywhere:
            return
        x = self._best.x
        region = proved_region(self.master, self.pool, self.upper, x)
        if region is not None:
            self.region, self.lower = region, 0.0
            D = np.diag(self.metric.diagonal)
            self._solve(self.pool.cuts, x, TINY * D, self.upper, sharp=True)
        smooth = not self.problem.loss.kinks
        if self.gap <= self.tol and not (smooth and is_unique(self.metric, self.q)):
            scale = max(abs(self.upper), 1e-3 * self.at_zero)
            level = max(self.lower + self.tol * scale, self.upper)
            self.ties = Ties(level, x, self.upper, self.n)
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
        tangent = self.pool.cuts.where(self.pool.cuts.tangent)
        solution = self.master.smallest(self.pool, tangent, ties.level)
        self._forget_points()
        self.curious, self.dual = False, {}
        self._ask(ties.next_points(solution, refused))

    # ------------------------------------------------------------------ what everyone reads
    @property
    def status(self) -> Status | None:
        return self._status

    @property
    def coef(self) -> Array:
        return self._best.x[: self.n]

    @property
    def intercept(self) -> float:
        return float(self._best.x[self.n]) if self.problem.fit_intercept else 0.0

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
        values = self._best.values
        if np.isnan(values).any():
            return self._of_everyone(np.full(len(values), np.nan))
        return self._of_everyone(self.terms.mixture.worst_weights(values))

    @property
    def client_losses(self) -> Array:
        return self._of_everyone(self._best.values)

    @property
    def client_multipliers(self) -> Array:
        return self._of_everyone(self._best.multipliers)

    @property
    def _best(self) -> Point:
        if self.best < 0:  # nobody has introduced itself yet
            return Point.fresh(np.zeros(self.dimension), len(self.roster.names))
        return self.evaluated.points[self.best]

    def _of_everyone(self, values: Array) -> Array:
        """By client in the order of the run, NaN for those who were let go."""
        known = dict(zip(self.roster.names, values, strict=True))
        return np.array([known.get(name, np.nan) for name in self.every_name])

    @property
    def rejected(self) -> Mapping[str, str]:
        return self.roster.rejected


def _proposal(solution: Solution, centre: Array, M: Array) -> Proposal:
    step = solution.x - centre
    return Proposal(solution.x, solution.model, 0.5 * float(step @ M @ step))
