"""The server's half: a point per round, a proof from its slopes, a step to the next one.

A point counts once every client has evaluated it; who has not is asked again. Clients keep nothing,
so that a lost answer or a resumed run needs no more than that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.solvers.base import Assignment, Session, Standing, Status, relative_gap
from drfl.solvers.certificate import Certificate, ServerProblem, server_problem
from drfl.solvers.certificate.proof import Aggregate, add_up, level
from drfl.solvers.first_order.curved_model import CurvedModel
from drfl.solvers.first_order.penalized import PENALTIES, Evaluated, Penalty, weighted_step
from drfl.solvers.first_order.questions import FACTORS, GradientReply, GradientRequest, read_reply
from drfl.solvers.limits import Limits
from drfl.wire import Message, WireError

PATIENCE = 8  # misses in a row after which nobody waits for a client
STALL_AFTER = 40  # rounds without better bounds
HEAVY = 300  # columns whose curvature is asked for where more are at work: less than a gradient


@dataclass
class Known:
    """What the clients' introductions made known."""

    server: ServerProblem  # the problem with the clients' weights
    certificate: Certificate  # what turns slopes into bounds
    penalty: Penalty  # the price of the norm
    model: CurvedModel  # the second derivative
    # Minorants of f that lean to one side and to the other in b: the halves of the first slope
    leaning: list[Aggregate]
    centre: Evaluated  # the best point so far
    q: Array  # (S,), the weights of the last step
    # The newest minorants of f that lean down and up
    newest: dict[bool, Aggregate] = field(default_factory=dict)


@dataclass
class Progress:
    """The state of a run."""

    newton: int  # as in `drfl.solvers.first_order.FirstOrder`, and never changed
    memory: int
    asked: GradientRequest  # the point of this round
    misses: NDArray[np.int_]  # (S,), misses in a row
    limits: list[Limits]  # what the clients' answers cannot exceed
    heard: dict[int, GradientReply] = field(default_factory=dict)  # who has evaluated it
    rejected: dict[str, str] = field(default_factory=dict)
    known: Known | None = None
    round: int = 0
    # upper, lower, at_zero: the bounds, and the objective at w = 0
    upper: float = math.inf
    lower: float = -math.inf
    at_zero: float = math.inf
    better: int = 0  # the round in which a bound got better last
    stuck: bool = False
    status: Status | None = None


@final
class FirstOrderSession(Session):
    """A run: its state, what a round does to it, and what everyone reads of it."""

    def __init__(
        self,
        task: Assignment,
        newton: int,
        memory: int,
        column_sizes: Mapping[str, Sequence[float]],
    ) -> None:
        self.task = task
        first = GradientRequest(np.zeros(task.dimension), introduction=True)
        known = column_sizes.get
        limits = [Limits.of(task.problem, name, task.n, known(name)) for name in task.names]
        misses = np.zeros(len(task.names), np.int_)
        self.progress = Progress(newton, memory, first, misses, limits)

    def propose(self) -> dict[str, Message]:
        now = self.progress
        message = now.asked.message(now.round)
        missing = (s for s in range(len(self.task.names)) if s not in now.heard)
        return {self.task.names[s]: message for s in missing}

    def absorb(self, replies: Mapping[str, Message], failures: Mapping[str, str]) -> None:
        now, task = self.progress, self.task
        hear(task, now, replies)
        if len(now.heard) == len(task.names):
            advance(task, now)
        now.round += 1
        now.status = judge(task, now)

    @property
    def standing(self) -> Standing:
        task, now = self.task, self.progress
        known, columns = now.known, now.asked.columns
        x = np.zeros(task.dimension) if known is None else known.centre.x
        losses = weights = prices = np.full(len(task.names), np.nan)
        if known is not None:
            losses = known.centre.values(known.server)
            weights = known.server.mixture.worst_weights(losses)
            size = known.server.gauge.value(x) * task.problem.loss.lipschitz
            prices = np.full(len(task.names), size)
        w, used = x[: task.n], int(np.count_nonzero(x[: task.n]))
        return Standing(
            now.status,
            w,
            float(x[-1]) if task.problem.shared_intercept else 0.0,
            now.upper,
            now.lower,
            now.at_zero,
            weights,
            losses,
            prices,
            now.rejected,
            {"columns_used": used, "curved_columns": 0 if columns is None else len(columns)},
        )


def hear(task: Assignment, now: Progress, replies: Mapping[str, Message]) -> None:
    """The answers that can be used; a bad one counts as missing, with its reason."""
    now.rejected = {}
    intercept = task.problem.shared_intercept
    for s, name in enumerate(task.names):
        if s in now.heard:
            continue
        try:
            if name in replies:
                before = [] if now.known is None else [now.known.centre.of(s)]
                now.heard[s] = reply = read_reply(
                    replies[name],
                    now.round,
                    now.asked,
                    now.limits[s],
                    before,
                    intercept=intercept,
                )
                if now.asked.introduction:  # at x = 0
                    now.limits[s] = now.limits[s].told(reply.value, 0.0)
        except WireError as error:
            now.rejected[name] = str(error)
        now.misses[s] = 0 if s in now.heard else now.misses[s] + 1


def advance(task: Assignment, now: Progress) -> None:
    """Everyone has evaluated the point: learn, prove, move, and ask for the next one."""
    replies = [now.heard[s] for s in range(len(task.names))]
    at = Evaluated(
        now.asked.x,
        np.array([reply.value for reply in replies]),
        np.array([reply.slope for reply in replies]),
    )
    if now.known is None:
        now.known = introduce(task, now.memory, at, replies)
        now.lower = now.known.server.least
        value = now.at_zero = now.known.server.mixture.support(at.values(now.known.server))
        paid = True
    else:
        value = now.known.server.mixture.support(at.values(now.known.server))
        paid = value < now.upper
    known = now.known
    proved = prove(known, at, replies)
    if proved > now.lower:
        now.lower, now.better = proved, now.round
    if value < now.upper:
        now.upper, now.better = value, now.round
    move(now, at, replies, paid=paid)
    plan(task, now)


def introduce(
    task: Assignment, memory: int, at: Evaluated, replies: Sequence[GradientReply]
) -> Known:
    """What follows once every client has said what it is."""
    sizes = np.array([reply.total for reply in replies])
    server = server_problem(task.problem, task.names, task.dimension, sizes)
    q = server.mixture.weights
    told = [(q[s], reply.diagonal) for s, reply in enumerate(replies) if reply.diagonal is not None]
    slope = q @ at.slopes
    if told:
        share = sum(weight for weight, _ in told)
        diagonal = sum((w * D for w, D in told), np.zeros(task.dimension)) / max(share, 1e-300)
    else:  # nobody tells: a step along the gradient that would halve the loss
        diagonal = np.full(task.dimension, float(slope @ slope) / max(float(q @ at.losses), 1e-12))
    halves = [reply.halves for reply in replies if reply.halves is not None]
    leaning = []
    if len(halves) == len(replies):
        both = np.tensordot(q, np.array(halves), axes=1)
        leaning = [add_up(server, q, float(half[0]), half[1:]) for half in both]
    penalty = PENALTIES[type(task.problem.norm)](task.n, task.dimension)
    certificate = Certificate(server, None)
    model = CurvedModel.of(diagonal, memory)
    return Known(server, certificate, penalty, model, leaning, at, q)


def prove(known: Known, at: Evaluated, replies: Sequence[GradientReply]) -> float:
    """The best bound of the slopes at this point, lowered or not."""
    server, best = known.server, 0.0
    fans = np.array([reply.fan for reply in replies])
    trials = [known.q]
    if not server.certain:
        trials.append(server.mixture.worst_weights(at.values(server)))
    for q in trials:
        slope = q @ at.slopes
        for k, factor in enumerate(FACTORS):
            total = add_up(server, q, float(q @ fans[:, k]), factor * slope)
            for flat in level(total, [*known.leaning, *known.newest.values()]):
                best = max(best, known.certificate.bound_of(flat))
        own = add_up(server, q, float(q @ fans[:, 0]), slope)
        known.newest[bool(own.gb.sum() > 0.0)] = own
    return best


def move(now: Progress, at: Evaluated, replies: Sequence[GradientReply], *, paid: bool) -> None:
    """A better point becomes the centre; a worse one still tells how the slope changes."""
    known = now.known
    assert known is not None
    centre, model = known.centre, known.model
    if at is not centre and (at.x != centre.x).any():
        mean = 0.5 * (known.q + known.server.mixture.weights)
        model.observe(at.x - centre.x, mean @ (at.slopes - centre.slopes))
    if paid:
        known.centre = at
        model.damping = max(1.0, 0.25 * model.damping)
        model.forget_matrix()
    elif (at.x != centre.x).any():
        model.damping *= 4.0 if model.whole else 1.5
    hessians = [reply.hess for reply in replies]
    if (at.x == known.centre.x).all() and all(H is not None for H in hessians):
        told = np.array([H for H in hessians if H is not None])
        assert now.asked.columns is not None
        extra = np.arange(known.server.n, known.server.dimension)
        model.columns, model.whole = np.append(now.asked.columns, extra), now.asked.whole
        # Weights may move by a step: none of the clients' curvature is left out.
        model.matrix = np.tensordot(0.5 * (known.q + known.server.mixture.weights), told, axes=1)


def plan(task: Assignment, now: Progress) -> None:
    """The next point, and of which columns curvature is wanted there."""
    known = now.known
    assert known is not None
    now.heard = {}
    centre, price = known.centre, float(known.q @ known.server.rho)
    working = known.penalty.at_work(centre.x, known.q @ centre.slopes, price)
    if now.asked.introduction and len(working) <= now.newton:
        # Newton's step from 0 saves several of the others: ask for the curvature there first.
        now.asked = GradientRequest(centre.x, columns=working[working < task.n], whole=True)
        return
    x, known.q = weighted_step(known.server, known.penalty, known.model, centre, known.q)
    now.stuck = bool((x == now.asked.x).all()) and bool((x == centre.x).all())
    used = np.union1d(working, np.flatnonzero(x[: task.n]))
    used = used[used < task.n]
    whole = len(used) <= now.newton
    if not whole:
        heaviest = np.argsort(-known.model.first[used], kind="stable")
        used = np.sort(used[heaviest[: min(HEAVY, now.newton)]])
    now.asked = GradientRequest(x, columns=used if now.newton else None, whole=whole)


def judge(task: Assignment, now: Progress) -> Status | None:
    """Why the run ends here; None if it goes on."""
    gone = [name for s, name in enumerate(task.names) if now.misses[s] >= PATIENCE]
    gap = relative_gap(now.upper, now.lower, now.at_zero)
    if gap <= task.tol:
        return Status.certified(gap)
    if gone and now.known is None:
        return Status.unintroduced(gone, now.rejected)
    if gone:
        return Status.partial(
            f"{', '.join(gone)} fell silent: bounds and model are those of the last point that "
            "everyone evaluated",
            gap,
        )
    if now.round >= task.max_rounds:
        return Status.max_rounds(gap, task.tol)
    if now.stuck or now.round - now.better > STALL_AFTER:
        return Status.stalled(gap, task.tol)
    return None
