"""The server's half of the bundle method: propose points, absorb replies, certify.

Each round every client evaluates one or two points. Their cuts sharpen the model; the better point
becomes the centre if it delivers a part of the decrease that the model promised; masters over the
tangent cuts give the next points, and their multipliers a certificate.
At the end stands when a run ends, and what may then be said of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import final

import numpy as np

from drfl.arrays import Array
from drfl.solvers.base import Session, Standing, Status
from drfl.solvers.bundle import guard
from drfl.solvers.bundle.central_path import follow_path, prove_by_sides
from drfl.solvers.bundle.dual_cuts import prove_by_duals
from drfl.solvers.bundle.planning import plan, prove
from drfl.solvers.bundle.plausibility import path_models
from drfl.solvers.bundle.points import Point, Points
from drfl.solvers.bundle.stacks import Stack
from drfl.solvers.bundle.state import State, equip, open_first, without
from drfl.solvers.bundle.ties import next_tie, single_out
from drfl.solvers.certificate.curved import Reach
from drfl.wire import Message


@final
class BundleSession(Session):
    """A run: its state, what a round does to it, and what everyone reads of it."""

    def __init__(self, state: State) -> None:
        self.state = state

    def propose(self) -> dict[str, Message]:
        """One request for every client that has something to answer."""
        state = self.state
        if state.finish.trials:
            return guard.ask_constants(state)
        requests = state.asked.requests
        different = {id(request): request for request in requests.values()}
        messages = {key: request.message(state.round) for key, request in different.items()}
        return {state.clients.names[s]: messages[id(r)] for s, r in requests.items()}

    def absorb(self, replies: Mapping[str, Message], failures: Mapping[str, str]) -> None:
        """Read the replies, learn from them, move, prove a bound, plan the next round, judge."""
        state = self.state
        if state.finish.trials:
            guard.learn_constants(state, replies)
            return
        heard = state.clients.read(replies, state.asked.requests, state.round, state.points)
        if not state.begun:
            introduce(state, heard)
        elif state.ties is not None:
            learn(state, heard)
            next_tie(state, state.ties)
        elif state.path is not None:
            learn(state, heard)
            prove_by_sides(state)
            compare(state)
            go_on(state)
        else:
            learn(state, heard)
            prove_by_duals(state, heard)
            compare(state)
            if not state.only_centre:  # there is nothing to compare the centre with
                move(state)
            plan(state, prove(state))
        state.round += 1
        self.state = state = let_go(state)
        if state.begun:
            single_out(state)
        state.status = judge(state)
        if state.begun and state.clients.guarded:
            guard.finish_if_stuck(state)

    def recall(self) -> dict[str, Message]:
        """Points that the clients have to know again."""
        names, cache = self.state.clients.names, self.state.clients.cache
        return {names[s]: cache.message(s, self.state.round) for s in cache.of}

    @property
    def standing(self) -> Standing:
        state, best = self.state, self._best
        losses, worst = best.values, np.full(len(best.values), np.nan)
        if not np.isnan(losses).any():
            worst = state.server.mixture.worst_weights(losses)
        whole_space = state.server.kind in ("norm", "flips")
        unit = state.task.problem.loss.lipschitz if whole_space else 1.0
        return Standing(
            state.status,
            *self._model(best.x),
            state.bounds.upper,
            state.bounds.lower,
            state.bounds.at_zero,
            self._of_everyone(worst),
            self._of_everyone(losses),
            self._of_everyone(unit * best.multipliers),
            state.clients.rejected,
            within=state.within,
        )

    def _model(self, x: Array) -> tuple[Array, float | Array]:
        """Coefficients and intercept, of one score or of several classes at once."""
        problem, w, b = self.state.task.problem, *np.split(x, [self.state.task.n])
        if problem.classes is not None:
            return w.reshape(problem.classes, -1), b if len(b) else np.zeros(problem.classes)
        return w, float(b[0]) if problem.shared_intercept else 0.0

    @property
    def _best(self) -> Point:
        points = self.state.points
        if points.best < 0:  # nobody has introduced itself yet
            return Point.fresh(np.zeros(self.state.task.dimension), len(self.state.clients))
        return points.at[points.best]

    def _of_everyone(self, values: Array) -> Array:
        """By client in the order of the run, NaN for those who were let go."""
        known = dict(zip(self.state.clients.names, values, strict=True))
        return np.array([known.get(name, np.nan) for name in self.state.task.names])


def introduce(state: State, heard: Sequence[Stack]) -> None:
    """Wait until everyone has answered the first request, then begin."""
    clients, asked = state.clients, state.asked
    clients.introduce(heard, state.server)
    known = clients.known
    if known.all():
        open_first(state)
        learn(state, clients.introductions)
        compare(state)
        equip(state)
        go_on(state)
    else:
        asked.requests = {s: r for s, r in asked.requests.items() if not known[s]}


def go_on(state: State) -> None:
    """The next step along the central path or, where there is none or no longer, of the masters."""
    if not follow_path(state):
        plan(state, prove(state))


def learn(state: State, heard: Sequence[Stack]) -> None:
    """Values, cuts and curvature of this round."""
    points, pool, metric = state.points, state.pool, state.metric
    main, metric.second = state.asked.identities[0], {}
    metric.before = list(metric.hessians), points.curved
    pool.add([cuts for stack in heard for cuts in stack.cuts(pool, state.round)])
    for stack in heard:
        _evaluate(points, stack)
        if state.path is not None:
            state.path.update(path_models(stack))
        if stack.curvature is not None:
            metric.learn(stack.clients, stack.curvature)
            points.curved = main
    metric.reaches.update(_reaches(heard))
    if not metric.known and points.at[main].complete:
        metric.observe(points.at[main].x, points.at[main].gradients)


def _reaches(heard: Sequence[Stack]) -> dict[int, Reach]:
    """How far curvature is certain, by client in ascending order: of those who tell."""
    told = [
        pair
        for stack in heard
        if stack.reaches
        for pair in zip(stack.clients.tolist(), stack.reaches, strict=True)
    ]
    return dict(sorted(told, key=itemgetter(0)))


def _evaluate(points: Points, stack: Stack) -> None:
    """What clients told of the points themselves."""
    multipliers, gradients = stack.multipliers(points.server), stack.gradients(points.pool)
    for k, identity in enumerate(stack.asked.identities):
        point = points.at[identity]
        point.values[stack.clients] = stack.values[:, k]
        point.multipliers[stack.clients] = multipliers[:, k]
        point.gradients[stack.clients] = gradients[:, k]


def compare(state: State) -> None:
    """The best of the points that everyone has evaluated is the upper bound."""
    points, bounds = state.points, state.bounds
    for identity in state.asked.points:
        if points.at[identity].complete and points.objective(identity) < bounds.upper:
            bounds.upper, points.best = points.objective(identity), identity
            bounds.progress = state.round


def move(state: State) -> None:
    """The better of the points becomes the centre if it delivers what was promised."""
    points, asked, metric = state.points, state.asked, state.metric
    at_centre = points.objective(points.centre)
    chosen, proposal = asked.identities[0], asked.proposals[0]
    f, second_wins = points.objective(chosen), None
    if len(asked.identities) > 1:
        f2 = points.objective(asked.identities[1])
        second_wins = f2 < f
        if second_wins and f2 < at_centre - 0.1 * (at_centre - proposal.model):
            chosen, proposal, f = asked.identities[1], asked.proposals[1], f2
            if metric.second:
                points.curved = chosen
            for s, H in metric.second.items():
                metric.hessians[s] = H
    if state.step.newton:
        second_wins = None  # the second point was the mean of own optima, not a bolder step
    if state.step.judge(at_centre, f, proposal, second_wins):
        points.centre = chosen
    elif state.step.newton and metric.before[1] >= 0:
        # A rejected point's curvature is not that of the centre.
        metric.hessians, points.curved = metric.before
    # Estimates of silent clients may have been too low: never stay above a proved value.
    if state.bounds.upper < points.objective(points.centre):
        points.centre = points.best


def let_go(state: State) -> State:
    """Go on without clients who fell silent before the model knew them."""
    lost = state.clients.lost()
    return without(state, lost) if lost and len(lost) < len(state.clients) else state


STALL_AFTER = 30  # rounds without a better bound


def judge(state: State) -> Status | None:
    """Why the run ends here; None if it goes on."""
    bounds, task, clients = state.bounds, state.task, state.clients
    over = state.round >= task.max_rounds
    if not state.begun:
        nobody = len(clients.lost()) == len(clients)
        return Status.unintroduced(_unheard(state), clients.rejected) if nobody or over else None
    empty = _without_rows(state)
    if empty is not None:
        return Status.failed(f"class {empty} has no rows at any client: leave it out")
    if state.reached and (state.ties is None or state.ties.done or over):
        return _unless_left_out(state, _success(state))
    if state.only_centre and not _awaited(state):
        return Status.partial(_absence(state), bounds.gap, state.within)
    if over:
        return _unless_left_out(state, Status.max_rounds(bounds.gap, task.tol, state.within))
    if state.round - bounds.progress > STALL_AFTER:
        stalled = Status.stalled(bounds.gap, task.tol, state.within)
        return _unless_left_out(state, _success(state) if state.reached else stalled)
    return None


def _without_rows(state: State) -> int | None:
    """The first of several classes at once that nobody has: nothing bounds its intercept."""
    told = state.certificate.classes
    if told is None or state.server.intercepts == 0 or told.mass.all():
        return None
    return int(np.flatnonzero(told.mass == 0.0)[0])


def _unless_left_out(state: State, status: Status) -> Status:
    """The status, unless clients are left out: bounds and gap are then of another problem."""
    if len(state.clients) == len(state.task.names):
        return status
    return Status.partial(_absence(state), state.bounds.gap, state.within)


def _success(state: State) -> Status:
    gap = state.bounds.gap
    if state.everywhere:
        return Status.certified(gap)
    assert state.bounds.region is not None
    return Status.local(gap, float(state.bounds.region.radius.max()))


def _unheard(state: State) -> list[str]:
    """Who has not introduced itself."""
    clients = state.clients
    return [clients.names[s] for s in np.flatnonzero(~clients.known).tolist()]


def _awaited(state: State) -> list[int]:
    """Clients who have not evaluated the centre but may still come back."""
    missing = np.flatnonzero(np.isnan(state.points.here.values))
    return [int(s) for s in missing if not state.clients.gone(int(s))]


def _absence(state: State) -> str:
    """Who is missing, and what the certificate then covers."""
    clients, parts = state.clients, []
    dropped = [name for name in state.task.names if name not in clients.names]
    if dropped:
        parts.append(
            f"{', '.join(dropped)} fell silent before it was known well enough and is left out: "
            "weights and bounds are those of the problem without it"
        )
    frozen = [name for s, name in enumerate(clients.names) if clients.gone(s)]
    if frozen:
        parts.append(
            f"{', '.join(frozen)} fell silent and is represented by its cuts: the lower bound "
            "covers everyone, the objective is that of the best model that everyone evaluated"
        )
    return "; ".join(parts)
