"""The conversation with the clients: who is asked what, who has answered, how it begins."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from drfl.arrays import Array
from drfl.problem import Problem
from drfl.solvers.base import Status, relative_gap
from drfl.solvers.bundle.client_cache import CacheMirror
from drfl.solvers.bundle.clients import Clients, without
from drfl.solvers.bundle.master import Master
from drfl.solvers.bundle.messages import Dual, Reply, Request, near_marks
from drfl.solvers.bundle.points import Point, Points
from drfl.solvers.bundle.settings import Settings
from drfl.solvers.bundle.standing import Standing
from drfl.solvers.bundle.steps import Descent, Metric, Proposal
from drfl.solvers.bundle.ties import Ties
from drfl.solvers.certificate.anchors import Anchors, anchor_boxes, make_anchors
from drfl.solvers.certificate.cuts import Pool
from drfl.solvers.certificate.proof import Certificate
from drfl.solvers.certificate.region import Region
from drfl.solvers.certificate.server import lifted, server_problem
from drfl.wire import Message

LINEAR = 1e-6  # curvature below this share of a feature's mean square counts as none


class Conversation(Standing):
    """The state of a run, and what of it concerns requests."""

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
        self.roster = Clients(
            names, self.lifted, [(self.n + 1) * (box is not None) for box in self.boxes]
        )
        self.numbered = 0
        self.introductions: dict[int, Reply] = {}
        self.mirror = CacheMirror(bool(self.lifted))
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
        terms = server_problem(problem, names, self.dimension, np.ones(len(names)))
        self.pool = Pool(terms.n_clients, self.dimension, self.lifted)
        self.evaluated = Points(terms, self.pool)
        self.asked: dict[int, Request] = {}
        self._ask([Proposal(np.zeros(self.dimension))])

    def propose(self) -> dict[str, Message]:
        """One request for every client that has something to answer."""
        return {
            self.roster.names[s]: request.message(self.round) for s, request in self.asked.items()
        }

    def recall(self) -> dict[str, Message]:
        """Points that the clients have to know again."""
        known = self.mirror.known
        return {self.roster.names[s]: self.mirror.message(s, self.round) for s in known}

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
            marks=near_marks(self.identities[0], self.previous, self.centre, self.metric_point),
            dual=self.dual.get(s),
        )

    def _catch_up(self) -> None:
        """Whoever has not evaluated the centre yet does so beside the new points."""
        centre = self.evaluated.points[self.centre]
        for s in np.flatnonzero(np.isnan(centre.values)):
            self.asked[int(s)] = self.asked[int(s)].also(self.centre, centre.x)

    def _let_go(self) -> None:
        """Go on without clients who fell silent before the model knew them."""
        lost = self.roster.lost()
        if lost and len(lost) < len(self.roster.names):
            kept = [name for name in self.roster.names if name not in lost]
            self._reset(without(self.problem, self.roster.names, lost), kept)

    def _about(self) -> Array:
        """What the clients say of themselves: weight of the rows, typical size of a feature."""
        return np.array([self.introductions[s].about for s in range(len(self.roster.names))])

    def _open(self) -> None:
        """Everyone has introduced itself: sizes, and the first centre, w = 0."""
        terms = server_problem(self.problem, self.roster.names, self.dimension, self._about()[:, 0])
        self.metric = Metric(terms)
        self.evaluated.terms = terms
        self.centre = self.best = self.identities[0]
        self.evaluated.points[self.centre] = Point.fresh(self.proposals[0].x, terms.n_clients)

    def _equip(self) -> None:
        """The first replies are in: scales, the master and the certificate."""
        about, terms, self.at_zero = self._about(), self.evaluated.terms, self.upper
        q, n = terms.mixture.weights, self.n
        unit = float(q @ about[:, 1])
        if self.metric.known:
            curved = float(np.trace(self.metric.curvature(q)[:n, :n])) / max(n, 1)
            # Where the loss happens to be linear at w = 0 its curvature says nothing.
            unit = curved if curved > LINEAR * unit else unit
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
        if any(fact is None for fact in facts):
            return None  # a client whose targets cannot follow has nothing to tell
        return make_anchors(
            self.problem.loss, balls, box, self.terms.mixture, np.array(facts, dtype=np.float64)
        )

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

    def _forget_points(self) -> None:
        kept = {self.centre, self.best}
        self.evaluated.points = {i: p for i, p in self.evaluated.points.items() if i in kept}
