r"""Clients with a guard: what they answer, and how a run with them ends.

Under a guard a client answers with a bound and one cut per point, and nothing else: no curvature,
no groups, no dual cut, no local optimum, whatever is asked for. Such cuts need not touch, so that
the bound they prove stays behind. But the server knows the slopes :math:`g_s` that a certificate
needs, from the multipliers of its masters; it makes their mixture payable,
:math:`\|\sum_sq_sg_s\|\le\sum_sq_s\rho_s` with no slope in b, and asks every client for the best
constant of a minorant with that slope. Then :math:`f\ge\sum_sq_sC_s` everywhere, and each
:math:`(C_s,g_s)` is another cut. With them comes a closer value of the best model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import RefusedError, Site
from drfl.privacy import NO_BOUND, Keeper, SpentError
from drfl.privacy.keeper import GuardedAnswer
from drfl.privacy.release.rounding import power_of_two
from drfl.privacy.release.tilt import best_constant
from drfl.solvers.base import Status, StatusKind
from drfl.solvers.bundle.client_half.level_cuts import level
from drfl.solvers.bundle.messages import CutRequest, dual_cuts
from drfl.solvers.bundle.planning import solve_for_bound
from drfl.solvers.bundle.plausibility import require_constants
from drfl.solvers.bundle.state import State, Trial
from drfl.solvers.certificate.cuts import Cuts, sums
from drfl.solvers.certificate.proof import bound_of_constants, payable_slopes, weights_in
from drfl.wire import Field, Message, WireError, reply_kind, validate
from drfl.worst_case.whole_space import WholeSpaceOracle

KIND = "bundle_close"
REQUEST = {
    "g": Field("float64", ("P", "d")),  # slopes
    "x": Field("float64", ("d",), optional=True),  # the best point so far
}
REPLY = {
    "constant": Field("float64", ("P",)),  # of the best minorants with these slopes
    "value": Field("float64", (1,), optional=True),  # an upper bound of F at x
}

PROXIMAL = (1e-2, 1e-4, 1e-7)  # multiples of the metric; one trial each
ROUNDS = 3  # of trials
SIDEWAYS = (1.0, 4.0, 16.0, 64.0)  # steps from the best intercept, until the slopes in b differ
PATIENCE = 4  # rounds in which the gap or the objective has to fall, relatively by so much:
GAP_FALLS, OBJECTIVE_FALLS = 0.1, 1e-4
FAR = 0.1  # a gap above which it has twice as many: constants close a gap, cuts find the model


# ---------------------------------------------------------------------- the client's half
def guarded_answer(site: Site, request: CutRequest) -> Mapping[str, NDArray[Any]]:
    """Evaluate the points of a request with what the ledger allows."""
    keeper, n = keeper_of(site), site.n_features
    moves, d = keeper.oracle.labels_move, site.dimension
    values, cuts = [], []
    for x in request.points:
        told = _answer(site, keeper, x)[0]
        values.append([told.upper, told.multiplier] if moves else [told.upper])
        head = told.cut[:2] if moves else told.cut[:1]
        cuts.append(np.concatenate([head, told.cut[2 : 2 + d]])[None])
    reply = {"value": np.array(values), "cuts": np.array(cuts)}
    if request.introduction:
        size = float(site.rows.moments()[1].mean()) if n else 1.0
        reply["about"] = np.array([site.rows.total, power_of_two(size)])
        reply["guard"] = np.array([min(keeper.ledger.k, 255)], dtype=np.uint8)
    return reply


def _answer(site: Site, keeper: Keeper, x: Array) -> tuple[GuardedAnswer, Array, float]:
    """What may be told at a point, and the model and the intercept that it is told at."""
    n = site.n_features
    if site.problem.own_intercepts:
        return _level_answer(keeper, x)
    b = float(x[n]) if site.dimension > n else 0.0
    return keeper.answer(x[:n], b), x[:n], b


def _level_answer(keeper: Keeper, asked: Array) -> tuple[GuardedAnswer, Array, float]:
    """An answer that does not speak of b, where the client has an intercept of its own.

    Audited cuts at intercepts on either side of the best one, mixed so that their slopes in b
    cancel: a combination of what the ledger holds tells nothing new, and b itself never leaves. A
    model that is too far away is answered at one towards 0, before its intercept is sought: how
    far that is must not depend on b.
    """
    w = keeper.inside(asked)
    middle, told = keeper.intercept(w), dict[float, GuardedAnswer]()
    sides: dict[float, Array] = {}
    for side in (-1.0, 1.0):
        for reach in SIDEWAYS:
            b = middle + side * reach * keeper.step
            told[b] = keeper.answer(w, b, asked)
            if side * told[b].cut[-1] > 0.0:
                sides[side] = told[b].cut
                break
    best = min(told, key=lambda b: told[b].upper)
    cut = np.zeros(len(w) + 3)  # losses are not negative
    if len(sides) == 2:
        cut[:-1] = level(np.array([sides[-1.0], sides[1.0]]))
    return replace(told[best], cut=cut), w, best


def keeper_of(site: Site) -> Keeper:
    """Who answers for a guarded site."""
    assert site.guard is not None
    assert site.ledger is not None
    assert isinstance(site.oracle, WholeSpaceOracle)  # the site was refused otherwise
    if "keeper" not in site.memory:
        site.memory["keeper"] = Keeper(
            site.oracle, site.ledger, site.guard.answers, site.problem.curves
        )
    keeper = site.memory["keeper"]
    assert isinstance(keeper, Keeper)
    return keeper


def constants(site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
    """A constant for every slope, rounded down, and the value at a point, rounded up."""
    if site.shared_ball:
        raise RefusedError("constants are not for a shared ball")
    slopes, reply = message.arrays["g"], {}
    if "x" in message.arrays and site.ledger is not None:
        reply["value"] = np.array([_value(site, message.arrays["x"])])
    told = np.full(len(slopes), NO_BOUND)
    for k, g in enumerate(slopes):
        try:
            told[k] = _constant(site, g)
        except SpentError:
            if k == 0:
                raise
            break  # what has been told is not lost
    return {"constant": told, **reply}


def _constant(site: Site, g: NDArray[np.float64]) -> float:
    if site.problem.own_intercepts:
        g = np.append(g, 0.0)  # whatever the intercept is
    if site.guard is not None:
        return keeper_of(site).constant(g, site.guard.scalars)
    found = best_constant(site.oracle, g)
    return NO_BOUND if found is None else found


def _value(site: Site, x: NDArray[np.float64]) -> float:
    """An upper bound of F at x, at the multiplier that was told there."""
    assert site.guard is not None
    keeper = keeper_of(site)
    told, w, b = _answer(site, keeper, x)
    if (w != x[: site.n_features]).any():
        return told.upper
    return keeper.value(w, b, site.guard.scalars)


# ---------------------------------------------------------------------- the server's half
def finish_if_stuck(state: State) -> None:
    """Ask for constants once the cuts do not prove much more, or the rounds are nearly used up."""
    bounds, end = state.bounds, state.finish
    end.course = (*end.course, (bounds.gap, bounds.upper))
    if state.reached or state.task.problem.shared_ball:
        return
    patience = PATIENCE if bounds.gap <= FAR else 2 * PATIENCE
    late = len(end.course) > patience
    if late:
        gap, upper = end.course[-1 - patience]
        slow = bounds.gap > (1.0 - GAP_FALLS) * gap
        late = slow and bounds.upper > (1.0 - OBJECTIVE_FALLS) * upper
    last = state.round >= state.task.max_rounds - ROUNDS
    if late or last or state.status is not None:
        _try_slopes(state)


def ask_constants(state: State) -> dict[str, Message]:
    """The slopes of the trials, to every client."""
    slopes = np.array([trial.g for trial in state.finish.trials])
    x = state.points.at[state.points.best].x
    return {
        name: Message(KIND, state.round, {"g": slopes[:, s], "x": x})
        for s, name in enumerate(state.clients.names)
    }


def learn_constants(state: State, replies: Mapping[str, Message]) -> None:
    """Bounds from the trials themselves, and from all cuts with the new ones among them."""
    trials, bounds, end = state.finish.trials, state.bounds, state.finish
    best = state.points.at[state.points.best]
    C = _read_constants(state, replies)
    bounds.upper = min(bounds.upper, state.points.objective(state.points.best))
    for trial, constant in zip(trials, C, strict=True):
        if state.everywhere:
            bound = bound_of_constants(state.server, trial.q, trial.g, constant)
            bounds.raise_to(bound, state.round)
        _add_cuts(state, trial, constant)
    solve_for_bound(state, best.x, bounds.upper)
    state.round += 1
    end.rounds, end.trials = end.rounds + 1, ()
    if not state.reached and end.rounds < ROUNDS and state.round < state.task.max_rounds:
        _try_slopes(state)
    if not end.trials:
        state.status = _last_word(state)


def _try_slopes(state: State) -> None:
    """Slopes from masters with ever weaker proximal terms."""
    x, pool, metric = state.points.at[state.points.best].x, state.pool, state.metric
    M = metric.matrix(metric.curvature(state.q), 1.0, state.step.mu)
    trials = []
    for factor in PROXIMAL:
        solution = state.master.solve(pool, pool.cuts, x, factor * M, reference=state.bounds.upper)
        if solution.usable and len(pool.cuts):
            trials.append(_payable(state, pool.cuts, solution.cuts, solution.weights))
    state.finish.trials = tuple(trials)
    state.status = None if trials else _last_word(state)


def _payable(state: State, cuts: Cuts, a: Array, weights: Array) -> Trial:
    """The slopes that multipliers a make, their mixture moved to where the radii pay for it."""
    server, client = state.server, state.pool.cut_client
    q = weights_in(server, weights)
    total = np.stack([sums(client, a * column, server.n_clients) for column in cuts.g.T], axis=1)
    g = total / np.maximum(weights, 1e-12)[:, None]
    return Trial(q, payable_slopes(server, q, g))


def _read_constants(state: State, replies: Mapping[str, Message]) -> Array:
    """The constants (P, S) that came; values of the best point are lowered where one is closer."""
    trials, clients, points = state.finish.trials, state.clients, state.points
    sizes, best = {"P": len(trials), "d": state.task.dimension}, points.at[points.best]
    C = np.full((len(trials), len(clients)), NO_BOUND)
    clients.rejected = {}
    for s, name in enumerate(clients.names):
        if name not in replies:
            continue
        arrays, slopes = replies[name].arrays, np.array([trial.g[s] for trial in trials])
        try:
            validate(replies[name], reply_kind(KIND), state.round, REPLY, sizes)
            value = min(best.values[s], *arrays.get("value", ()), math.inf)
            require_constants(arrays["constant"], slopes, value, s, clients.limits[s], points)
        except WireError as error:
            clients.rejected[name] = str(error)
            continue
        C[:, s], best.values[s] = arrays["constant"], value
    return C


def _add_cuts(state: State, trial: Trial, constant: Array) -> None:
    told = np.flatnonzero(constant > 0.5 * NO_BOUND)
    numbers = np.column_stack([constant[told], trial.g[told]])
    state.pool.add([dual_cuts(numbers, told, state.round, state.clients.lifted)])


def _last_word(state: State) -> Status:
    gap, tol = state.bounds.gap, state.task.tol
    if gap <= tol:
        return Status.certified(gap)
    return Status(
        StatusKind.STALLED,
        f"the guards of the clients allow no more, the proved gap is {gap:.1e}, not yet "
        f"{tol:.1e}: more rows or a smaller k would",
    )
