r"""The central path of a loss with corners: Newton's method where cuts would learn too slowly.

With many columns the optimum rests on about as many corners, and a cut per round and group learns
them one by one. Along the central path (`drfl.solvers.bundle.client_half.path_rows`) a round is a
step of an interior-point method: client s tells a quadratic model of its mean loss, and

.. math:: \min_x\ h\big(v\big)+\tfrac12\|x-\hat x\|_M^2\quad\text{s.t.}\quad
          v_s\ge\rho_s\lambda_s+c_s(\mu)+g_s(\mu)^\top(x-\hat x),\quad M=\sum_sq_sH_s,

is a master with one cut per client. The rows' slopes after the step are a point of the dual, and
clients tell the cuts that it makes. With the master's new weights q their slopes add up to
:math:`G=\sum_sq_s(g_s+H_sp)`, which the norm nearly pays for; along the tilt e,
:math:`\sum_sq_sH_se=G'-G`, they add up to the nearest G' that it does pay for. What stopping and
rounding takes from that sum a client settles, or else all mend it together: in each of the two
rounds after, the slopes of a proof move along a step that leads to the newest G'.

A client that was silent stays where it was: its model is moved to the centre.
"""

from __future__ import annotations

import math

import numpy as np

from drfl.arrays import Array
from drfl.solvers.bundle.dual_cuts import overcharge, prove_by_cuts
from drfl.solvers.bundle.messages import (
    FEW_COLUMNS,
    MOST_GROUPS,
    MOST_MENDS,
    PathRequest,
    dual_cut,
)
from drfl.solvers.bundle.planning import TINY, forget, only_silence_left, solve_master
from drfl.solvers.bundle.state import State, ask, ask_again
from drfl.solvers.bundle.steps import Proposal
from drfl.solvers.certificate.cuts import Pool
from drfl.solvers.certificate.proof import payable

SHRINK, FAST = 0.35, 0.1  # mu, as a share of the products; where no row was stopped
WITHIN = 0.8  # of the tolerance: there steps only bring rows back that were stopped
PATIENCE = 12  # rounds without a better bound
SHARE = 0.3  # cuts of a round for every column: their mixtures make up for what is missed
ACCURACY = 1e-9  # of a step
TOGETHER = 1e-8  # accuracy of a master over the cuts of all rounds
LATE = 0.5  # of the gap that the path promises
NEAR = 10.0  # times the tolerance: a round costs more than any master
MISSED = 0.1  # of the proved gap: a proof of this round that misses less is as good as a mixture
RIDGE = 1e-10  # in units of the mean curvature
REFINEMENTS = 1  # of the tilt
# Rows of all clients, for every coefficient, whose slopes a proof does not round: at first, how
# many times more where all proofs of a round missed, and at most.
INSIDE, MORE, MOST_INSIDE = 1.5, 1.25, 6.0
WARM = 4  # rounds, before which proofs are mended in vain now and then


def prove_by_sides(state: State) -> None:
    """What every client's newest cuts on the path prove, mended ones, and those of all rounds.

    Each but the last is one cut of every client with the weights that asked for it. What rows
    that were stopped took from one round's sum another's may have to give: a master tells, where
    all proofs of this one missed and another may gain something.
    """
    pool, asked, missed = state.pool, state.asked, []
    for kind in range(MOST_MENDS + 1):
        on_path = np.flatnonzero(~pool.cuts.tangent & (pool.cuts.group == kind))
        last = dict(zip(pool.cuts.piece[on_path].tolist(), on_path.tolist(), strict=True))
        clients = set(pool.piece_client[list(last)].tolist()) if last else set()
        if len(asked.weights) == len(clients):
            solution = prove_by_cuts(state, np.array(sorted(last.values())), asked.weights)
            missed.append(overcharge(state, solution))
    asked.missed = min(missed, default=0.0)
    if _all_missed(state) and _may_gain(state):
        told = pool.cuts.where(~pool.cuts.tangent)
        x, M = state.points.here.x, TINY * np.diag(state.metric.diagonal)
        upper = state.bounds.upper
        solve_master(state, told, x, M, upper, eps=TOGETHER, sharp=True, kept=False)


def _all_missed(state: State) -> bool:
    """Whether no proof of this round had slopes that the norm pays for, or nearly."""
    return state.asked.missed > MISSED * state.bounds.gap


def _may_gain(state: State) -> bool:
    """Whether everyone follows the path, and the proof is not far ahead of it, or nearly enough."""
    bounds = state.bounds
    if state.path is None or len(state.path) < state.server.n_clients:
        return False
    if state.server.n > FEW_COLUMNS:
        return False
    late = bounds.gap * bounds.scale > LATE * _gap_of(state, _products(state))
    return late or bounds.gap <= NEAR * state.task.tol


def follow_path(state: State) -> bool:
    """Ask for the next step along the path; False if it is not followed, or no longer."""
    asked, points = state.asked, state.points
    if state.path is None:
        return False
    if _ends(state):
        state.path, asked.path = None, None
        return False
    if not state.only_centre:
        points.centre = asked.identities[0]
    points.previous = points.centre
    if only_silence_left(state):
        ask_again(state)
        return True
    mu = _next_mu(state)
    step = _step(state, mu)
    if step is None:
        state.path, asked.path = None, None
        return False
    forget(state)
    x, tilt, wanted = step
    asked.path = PathRequest(mu, tilt, _mends(state, wanted), _groups(state), _inside(state))
    ask(state, [Proposal(x)])
    return True


def _ends(state: State) -> bool:
    """Whether somebody does not follow, labels flip, or nothing more is gained."""
    path, S = state.path, state.server.n_clients
    everyone = path is not None and len(path) == S
    flips = bool((state.pool.cuts.slope < 0.0).any())
    return not everyone or flips or state.round - state.bounds.progress > PATIENCE


def _next_mu(state: State) -> float:
    """A share of the mean product; a small one where the last step stopped no row."""
    assert state.path is not None
    clipped = any(model.clipped > 0.0 for model in state.path.values())
    shrink = SHRINK if clipped else FAST
    if not len(state.asked.weights):  # the path begins here, and the products are its mu
        shrink = 1.0
    return max(shrink * _products(state), _least_mu(state))


def _least_mu(state: State) -> float:
    """Where the gap on the path is well within the tolerance."""
    return WITHIN * state.task.tol * state.bounds.scale / _gap_of(state, 1.0)


def _products(state: State) -> float:
    """The mean product of the rows."""
    assert state.path is not None
    told = [state.path[s].products for s in range(state.server.n_clients)]
    return float(state.q @ told)


def _gap_of(state: State, mu: float) -> float:
    """The gap of rows whose products are mu: twice mu for every corner."""
    return 2.0 * mu * sum(corner.weight for corner in state.task.problem.loss.corners)


def _step(state: State, mu: float) -> tuple[Array, Array, Array] | None:
    """The next point, the tilt, and what slopes then add up to; none if the master fails."""
    server, metric, x = state.server, state.metric, state.points.here.x
    models = Pool(server.n_clients, server.dimension)
    slopes = np.array([_slope(state, s, mu, x, models) for s in range(server.n_clients)])
    H = metric.curvature(state.q)
    M = metric.lifted(H, RIDGE)
    reference = state.points.objective(state.points.centre)
    found = state.master.solve(models, models.cuts, x, M, eps=ACCURACY, reference=reference)
    if not found.usable:
        return None
    state.q = q = server.mixture.pull(found.weights)
    state.asked.weights = q
    # G with the master's own H is what its norm pays for. With that of the new weights slopes add
    # up to something else, which is mended; where nothing is, they have to be right at once.
    H = metric.curvature(q) if server.n > FEW_COLUMNS else H
    return found.x, *_tilt(state, q @ slopes + H @ (found.x - x))


def _slope(state: State, s: int, mu: float, x: Array, models: Pool) -> Array:
    """The gradient of a client's model at x; its tangent becomes a cut of the master."""
    assert state.path is not None
    own, H = state.path[s], state.metric.hessians[s]
    assert H is not None
    line = own.lines[0] + mu * own.lines[1]
    away = x - own.x
    bent = H @ away
    g = line[1:] + bent
    value = line[0] + float(line[1:] @ away + 0.5 * away @ bent)
    models.add([dual_cut(np.append(value - g @ x, g), models, s, state.round, 0)])
    return np.asarray(g)


def _tilt(state: State, G: Array) -> tuple[Array, Array]:
    """e, along which slopes that add up to G add up to what the norm pays for; and that sum."""
    wanted = payable(state.server, state.q, G)
    H = state.metric.curvature(state.q)
    return state.metric.solve(H, wanted - G, RIDGE, REFINEMENTS), wanted


def _groups(state: State) -> int:
    """Of the proof's cuts: their mixtures give what stopping took. One client settles that."""
    n, S = state.server.n, state.server.n_clients
    if S == 1 or n > FEW_COLUMNS:
        return 1
    return max(1, min(math.ceil(SHARE * n / (2 * S)), MOST_GROUPS))


def _inside(state: State) -> float:
    """How many rows for a unit of weight keep slopes between their ends in a proof; 0: all.

    Slopes of which none was stopped add up to what the norm pays for: rounding would spoil that.
    Nor does it help where the last round got nowhere, and next time the others have their turn.
    """
    assert state.path is not None
    stopped = any(model.clipped > 0.0 for model in state.path.values())
    exact, stuck = len(state.asked.weights) > 0 and not stopped, state.bounds.progress < state.round
    if state.server.n > FEW_COLUMNS or exact or (stuck and state.round > WARM):
        return 0.0
    one = state.server.dimension / float(state.clients.about[:, 0].sum())  # for a coefficient
    last = 0.0 if state.asked.path is None else state.asked.path.inside
    wanted = min(MORE * last, MOST_INSIDE * one) if _all_missed(state) else last / MORE
    return max(INSIDE * one, wanted)


def _mends(state: State, wanted: Array) -> tuple[Array, ...]:
    """Steps along which slopes of earlier proofs add up to that, as far as they have room."""
    assert state.path is not None
    models = [state.path[s] for s in range(state.server.n_clients)]
    steps = []
    for every in zip(*(model.proofs for model in models), strict=False):
        slopes, rooms = zip(*every, strict=True)
        C = np.asarray(sum(q * room for q, room in zip(state.q, rooms, strict=True)))
        missed = wanted - state.q @ np.array(slopes)
        steps.append(state.metric.solve(C, missed, RIDGE, REFINEMENTS))
    return tuple(steps)
