r"""The certificate of the ADMMs: exact values at some of the server's points, and a lower bound.

Every few rounds the clients also evaluate the server's point. The best of the points that all of
them evaluated is the model that is returned, and its value the upper bound. The cuts from these
points are kept for the lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from drfl.arrays import Array
from drfl.solvers.base import Assignment, Status, relative_gap
from drfl.solvers.bundle.messages import KIND, CutRequest
from drfl.solvers.bundle.plausibility import (
    read_reply,
    require_consistent,
    require_possible,
)
from drfl.solvers.bundle.points import Point, Points
from drfl.solvers.bundle.stacks import Stack
from drfl.solvers.certificate.anchors import AnchorBox, Anchors, anchors_of
from drfl.solvers.certificate.cuts import Pool
from drfl.solvers.certificate.proof import Certificate
from drfl.solvers.certificate.region import Region
from drfl.solvers.certificate.server import ServerProblem, lifted, server_problem
from drfl.solvers.limits import Limits
from drfl.solvers.master.master import Master
from drfl.wire import Message, WireError, reply_kind

TINY = 1e-10  # the proximal term of the master
ACTIVE = 1e-9  # a multiplier above this keeps a cut
DROP_AFTER = 20  # evaluations without a multiplier


class Certifier:
    """Upper and lower bound of the optimum, from exact evaluations.

    Attributes
    ----------
    upper, at_zero : float
        The upper bound, and the objective at the first point, w = 0.
    proof : LowerBound
        The lower bound, once every client has introduced itself.
    opened : tuple of int
        The numbers of the points that are evaluated at present, w first.
    objectives : dict of int to float
        The objective at those of them that everyone has evaluated.
    """

    def __init__(self, task: Assignment) -> None:
        self.problem, self.names, self.n = task.problem, task.names, task.n
        self.dimension = task.dimension
        self.lifted = lifted(task.problem, task.names, task.n)
        self.limits = [Limits.of(task.problem, name, task.n) for name in task.names]
        self.introductions: dict[int, Stack] = {}
        self.upper, self.at_zero = math.inf, math.nan
        self.points: dict[int, Point] = {}
        self.opened: tuple[int, ...] = ()
        self.objectives: dict[int, float] = {}
        self.numbered = self.evaluations = 0
        self.proof: LowerBound
        self.server: ServerProblem
        self.best = Point.fresh(np.zeros(self.dimension), len(self.names))
        self.open([np.zeros(self.dimension)])

    # ------------------------------------------------------------------ questions and answers
    @property
    def begun(self) -> bool:
        """Whether every client has introduced itself."""
        return len(self.introductions) == len(self.names)

    def open(self, points: Sequence[Array]) -> None:
        """New points to be evaluated; what is unfinished of the old ones is given up."""
        self.evaluations += 1
        self.opened = tuple(range(self.numbered, self.numbered + len(points)))
        self.numbered += len(points)
        fresh = (Point.fresh(self._payable(x), len(self.names)) for x in points)
        self.points = dict(zip(self.opened, fresh, strict=True))
        self.objectives = {}

    def _payable(self, x: Array) -> Array:
        """The same point with a shared multiplier high enough for the objective to be finite."""
        if self.begun and self.server.is_shared:
            x = x.copy()
            least = self.server.multiplier(0, x) if self.server.kind == "norm" else 0.0
            x[-1] = max(x[-1], least)
        return x

    def request(self, s: int) -> CutRequest | None:
        """The points that a client has not evaluated yet; None: nothing is wanted of it."""
        if not self.begun:
            missing = [] if s in self.introductions else list(self.opened)
        else:
            missing = [i for i in self.opened if math.isnan(self.points[i].values[s])]
        if not missing:
            return None
        points = np.array([self.points[i].x for i in missing])
        return CutRequest(
            points,
            tuple(missing),
            (False,) * len(missing),
            introduction=not self.begun,
            lifted=bool(self.lifted),
        )

    def read(self, s: int, arrays: Mapping[str, Array]) -> Stack:
        """A client's evaluation, validated; a value below its own earlier cuts is refused.

        The supporting cut of its step becomes one of its cuts, at a point without a number.
        """
        asked, own = self.request(s), dict(arrays)
        assert asked is not None
        support = own.pop("support", None)
        limits = replace(self.limits[s], split=False)
        message, first = Message(reply_kind(KIND), 0, own), self.introductions.get(s)
        reply = read_reply(message, s, 0, asked, self.lifted, limits, first)
        if self.begun:
            require_possible(reply, self.evaluated)
            reply.require()
        if support is not None:
            if support.shape != reply.rows.shape[3:]:
                raise WireError("its supporting cut is not of the form of its other cuts")
            # A mixture of cuts at several multipliers: only what it says of values is checked.
            rows = np.concatenate([reply.rows, support[None, None, None]], axis=1)
            reply = replace(reply, arrays={**reply.arrays, "cuts": rows})
        if self.begun:
            require_consistent(reply, self.evaluated)
            reply.require()
        return reply

    def take(self, replies: Mapping[int, Stack]) -> None:
        """Cuts and values of an evaluation; a point counts once every client has evaluated it."""
        if not self.begun:
            self.introductions.update(replies)
            if not self.begun:
                return
            self._begin()
            replies = self.introductions
        for s, reply in replies.items():
            told = reply.arrays["value"][0]
            for identity, given in zip(reply.asked.identities, told, strict=True):
                point = self.points[identity]
                point.values[s] = given[0]
                point.multipliers[s] = self._multiplier(s, point.x) if len(given) < 2 else given[1]
            # The supporting cut follows those of the points.
            numbers = np.full(reply.rows.shape[1], -1).tolist()
            self.pool.add([reply.tangents(self.pool, numbers, self.evaluations)])
        for identity in self.opened:
            self._compare(identity)

    def _compare(self, identity: int) -> None:
        point = self.points[identity]
        if point.complete and identity not in self.objectives:
            value = self.server.mixture.support(point.values) + self.server.shared_cost(point.x)
            self.objectives[identity] = value
            if math.isnan(self.at_zero):
                self.at_zero = value
            if value < self.upper:
                self.upper, self.best = value, point

    def _begin(self) -> None:
        """Everyone has introduced itself: sizes and scales."""
        replies = [self.introductions[s] for s in range(len(self.names))]
        about = np.concatenate([reply.arrays["about"] for reply in replies])
        server = server_problem(self.problem, self.names, self.dimension, about[:, 0])
        unit = math.sqrt(max(float(server.mixture.weights @ about[:, 1]), 0.0))
        self.server = server.in_units(unit)
        self.pool = Pool(len(self.names), self.dimension, self.lifted)
        self.evaluated = Points(self.server, self.pool)
        facts = [reply.arrays["facts"][0] if "facts" in reply.arrays else None for reply in replies]
        box = AnchorBox.of(self.problem.ball_of(self.names[0]), self.problem.loss, self.n)
        anchors = anchors_of(self.problem, self.names, box, self.server.mixture, facts)
        self.proof = LowerBound(self.server, anchors)

    def _multiplier(self, s: int, x: Array) -> float:
        return self.server.multiplier(s, x) * self.problem.loss.lipschitz

    @property
    def price(self) -> Array:
        """What the entries of x cost: 0, but for a shared multiplier."""
        price = np.zeros(self.dimension)
        if self.server.is_shared:
            price[-1] = self.server.shared_rho
        return price

    # ------------------------------------------------------------------ the gap
    def bound(self, tol: float) -> None:
        """Raise the lower bound by the cuts at hand, and forget those of no use."""
        self.proof.improve(self.pool, self.best.x, self.upper, self.evaluations)
        if self.gap <= tol:
            self.proof.settle(self.pool, self.best.x, self.upper, self.evaluations)
        self.proof.forget(self.pool, self.evaluations)

    @property
    def lower(self) -> float:
        """The lower bound."""
        return self.proof.value if self.begun else 0.0

    @property
    def gap(self) -> float:
        """The relative gap between the bounds."""
        return relative_gap(self.upper, self.lower, self.at_zero)

    @property
    def within(self) -> float:
        """How far from the best model the lower bound holds."""
        return self.proof.within if self.begun else math.inf


class LowerBound:
    """The best bound proved so far.

    The ``value`` begins at 0, as losses are nonnegative; it holds in a ``region`` if no radius
    bounds the model, and everywhere if that is None.
    """

    def __init__(self, server: ServerProblem, anchors: Anchors | None) -> None:
        self.server, self.master = server, Master(server)
        self.certificate = Certificate(server, anchors)
        self.value, self.region = 0.0, None if self.certificate.everywhere else _nowhere(server)

    @property
    def everywhere(self) -> bool:
        """Whether it holds for every w and b."""
        return self.region is None or self.region.proved

    @property
    def within(self) -> float:
        """How far from the best model it holds; 0 is a bound of every loss."""
        if self.everywhere or self.region is None or self.value <= 0.0:
            return math.inf
        return float(self.region.radius.max())

    def local(self, gap: float) -> Status:
        """What is proved if it does not hold everywhere."""
        return Status.local(gap, float(self.region.radius.max()) if self.region else math.inf)

    def improve(self, pool: Pool, best: Array, upper: float, now: int) -> None:
        """Solve the master for its bound; ``now`` counts the evaluations."""
        if not self.everywhere:
            # A bound that holds in a region only is not mixed with those of other regions.
            self.region, self.value = Region.around(best, self.server.unit), 0.0
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
        cuts, M = pool.cuts, TINY * np.diag(1.0 / self.server.scale**2)
        solution = self.master.solve(pool, cuts, best, M, eps=1e-11, reference=upper)
        if solution.usable:
            pool.touch(cuts.serial[solution.cuts > ACTIVE], now)
            bound = self.certificate.bound(pool, cuts, solution, self.region, polished=True)
            self.value = max(self.value, bound)

    def forget(self, pool: Pool, now: int) -> None:
        """Drop the cuts that have had no multiplier for long."""
        pool.keep(pool.cuts.used > now - DROP_AFTER)


def _nowhere(server: ServerProblem) -> Region:
    return Region(np.zeros(server.dimension), np.zeros(server.dimension))
