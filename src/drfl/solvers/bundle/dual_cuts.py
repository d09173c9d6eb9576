r"""Dual cuts: asked for with slopes that add up to something payable, and proved with at once.

Near the optimum of a smooth loss every tangent lies below it by about the square of a distance; the
cut of the master's dual point does not. The multipliers :math:`a_k` of the master and the curvature
H say which slopes the rows should have: with :math:`\hat g=\sum_ka_kg_k` and the step p,

.. math:: G=\hat g+\sigma Hp

is what the master leaves to the norm. It exceeds the price B of the norm a little, by the proximal
term's own part and by what the QP left open. A further step e, :math:`He=-(1-c)G`, along which
rows' slopes move as well makes it :math:`cG` with :math:`c=(1-\mathrm{room})B/\mathrm{polar}(G)`.
So the clients' newest dual cuts alone, with the weights of the master that asked for them, prove a
bound, without another master.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from drfl.arrays import Array
from drfl.solvers.bundle.messages import (
    dual_cuts,
    dual_requests,
    split_dual_cuts,
)
from drfl.solvers.bundle.stacks import Stack
from drfl.solvers.bundle.state import MOST_ROOM, State
from drfl.solvers.certificate.curved import Reach
from drfl.solvers.certificate.cuts import Cuts, Ints, Pool, Solution
from drfl.solvers.certificate.proof import aggregate, payable, share

REFINEMENTS = 3  # of the step e
RIDGE = 1e-6  # in units of the mean curvature
LEAST_ROOM = 0.1  # of the tolerance, which it can cost at most
SMALL = 120  # coefficients: another master costs nothing to speak of, and may prove more
PAYS = 0.5  # a proof that leaves more of the gap than this is not enough
MISS = 0.3  # the share of the last miss that is left as room
TRIES, FARTHER = 4, 1.2  # of a step from curvature; its reach is looked for with some room
CHEAP, LARGE_ROOM = 0.06, 0.1  # as much as costs this share of the decrease; of the price


def ask_duals(state: State, cuts: Cuts, near: Solution, H: Array) -> None:
    """Ask every client for the dual cut of this master."""
    asked = state.asked
    asked.room = max(min(MISS * asked.miss, _most_room(state, near)), LEAST_ROOM * state.task.tol)
    shift = state.step.sigma * (near.x - state.points.here.x)
    if state.metric.known and _by_gauge(state):
        shift = shift + _correction(state, cuts, near, H, shift)
    asked.dual = dual_requests(state.pool, cuts, near, shift)
    asked.weights = np.maximum(near.weights, 0.0)


def _most_room(state: State, near: Solution) -> float:
    """Where the norm costs next to nothing, room costs less still, and a miss nearly all."""
    server, decrease = state.server, float(max(state.step.decrease, 0.0))
    # Where the curvature is nearly singular, a large room would itself be a large step.
    careful = min(math.sqrt(decrease), MOST_ROOM)
    if not _by_gauge(state):
        return careful
    paid = float(near.weights @ server.rho) * float(server.gauge.value(near.x))
    worth = CHEAP * decrease * abs(state.bounds.upper)
    return max(careful, min(worth / max(paid, 1e-300), LARGE_ROOM))


def proves_by_duals(state: State) -> bool:
    """Whether Newton steps are made whose dual cuts prove ever more: no large master has to."""
    return state.step.newton and state.asked.dual_pays and state.server.dimension > SMALL


def prove_by_duals(state: State, heard: Sequence[Stack]) -> None:
    """What the newest dual cuts of all clients prove, with the weights that asked for them."""
    asked, pool, bounds, S = state.asked, state.pool, state.bounds, state.server.n_clients
    asked.dual_pays = False
    complete = sum(len(stack) for stack in heard if "dual" in stack.arrays) == S
    if not complete or not _by_gauge(state):
        return
    newest = np.flatnonzero(~pool.cuts.tangent & (pool.cuts.used == state.round))
    before, solution = bounds.gap, prove_by_cuts(state, newest, asked.weights)
    asked.dual_pays = bounds.gap <= PAYS * before
    asked.miss = abs(overcharge(state, solution) + asked.room)


def overcharge(state: State, solution: Solution) -> float:
    """By which share the slope of the mixture costs more than the norm pays; negative: less."""
    total = aggregate(state.server, *share(state.server, state.pool, state.pool.cuts, solution))
    return state.server.gauge.polar(total.g) / max(float(total.B.sum()), 1e-300) - 1.0


def prove_by_cuts(state: State, chosen: Ints, weights: Array) -> Solution:
    """What one cut of every piece proves with given weights of the clients."""
    asked, pool, S = state.asked, state.pool, state.server.n_clients
    a, families = np.zeros(len(pool.cuts)), np.zeros(len(pool.family_client))
    a[chosen] = weights[pool.cut_client[chosen]]
    families[pool.piece_family[pool.cuts.piece[chosen]]] = a[chosen]
    x, none = asked.proposals[0].x, np.zeros((S, state.server.n))
    solution = Solution(x, np.nan, a, families, weights, none)
    bound = state.certificate.bound(pool, pool.cuts, solution, polished=True)
    state.bounds.raise_to(bound, state.round)
    return solution


# ---------------------------------------------------------------------- cuts from curvature
def prove_by_curvature(state: State, near: Solution, left: Array) -> None:
    r"""What the cuts at the centre prove, each moved along its client's curvature.

    See `drfl.solvers.certificate.curved`. The step e is the master's p, corrected until
    :math:`\sum_sq_s(g_s+c_sH_se)` is what the master has ``left`` to the norm, which pays for it.
    """
    points, pool, server = state.points, state.pool, state.server
    told = {s: r for s, r in state.metric.reaches.items() if r.point == points.centre}
    here = pool.cuts.where(pool.cuts.tangent & (pool.cuts.point == points.centre))
    parts = state.clients.parts
    whole = are_whole(pool, here, parts)
    if not (told and whole and _by_gauge(state)) or here.slope.any():
        return
    q, cuts = server.mixture.pull(np.maximum(near.weights, 0.0)), _whole_cuts(pool, here)
    change = payable(server, q, left) - q @ cuts[:, 1:]
    found = _moved_step(state, told, q, change, near.x - points.here.x)
    if found is None:
        return
    for s, c in found[1].items():
        cuts[s] = told[s].moved(cuts[s], points.here.x, found[0], c)
    first = len(pool.cuts)
    mean, split = np.flatnonzero(parts == 1), np.flatnonzero(parts > 1)
    nobody_flips = np.zeros((len(split), 1 + cuts.shape[1]))
    pool.add(
        [
            dual_cuts(cuts[mean], mean, state.round, 0),
            split_dual_cuts(cuts[split], nobody_flips, split, state.round),
        ]
    )
    prove_by_cuts(state, np.arange(first, len(pool.cuts)), q)


def are_whole(pool: Pool, here: Cuts, parts: Ints) -> bool:
    """Whether the cuts of the mean loss at a point are there, once, of every client's groups.

    A tangent of the mean loss is bent, not one of some groups: where the pool has forgotten one,
    0 would stand for it, which may be above it. ``parts`` (S,) is 2 where flips have cuts of their
    own, which are not counted.
    """
    owner, family = pool.piece_client[here.piece], pool.piece_family[here.piece]
    share = parts[owner] / np.bincount(pool.piece_family)[family]
    counted = np.bincount(owner, share, pool.n_clients)
    return bool((np.abs(counted - 1.0) < 1e-9).all())


def _whole_cuts(pool: Pool, here: Cuts) -> Array:
    """The cuts of all groups of a client in one, (S, 1 + d): constant and slope."""
    cuts = np.zeros((pool.n_clients, 1 + pool.dimension))
    numbers = pool.piece_share[here.piece, None] * np.column_stack([here.c, here.g])
    np.add.at(cuts, pool.piece_client[here.piece], numbers)
    return cuts


def _moved_step(
    state: State, told: Mapping[int, Reach], q: Array, change: Array, step: Array
) -> tuple[Array, dict[int, float]] | None:
    """The step e that changes the slope so, and the factors c that reach so far; or none."""
    for _ in range(TRIES):
        factors = {s: reach.factor(FARTHER * step) for s, reach in told.items()}
        if not any(factors.values()):
            return None
        K = np.asarray(sum(q[s] * c * told[s].H for s, c in factors.items()))
        step = step + state.metric.solve(K, change - K @ step, RIDGE, REFINEMENTS)
        if all(told[s].factor(step) >= c for s, c in factors.items()):
            return step, factors
    return None


def _by_gauge(state: State) -> bool:
    """Whether the gauge pays for slopes, so that cuts of the mean loss are all it takes."""
    return state.server.priced and state.server.on_whole_space


def _correction(state: State, cuts: Cuts, near: Solution, H: Array, step: Array) -> Array:
    """The step e; none if the curvature cannot be inverted."""
    server = state.server
    G = near.cuts @ cuts.g + H @ step
    paid = float(near.weights @ server.rho + near.cuts @ cuts.slope)
    need = server.gauge.polar(G[: server.n])
    over = 1.0 - min(1.0, (1.0 - state.asked.room) * paid / need) if need > 0.0 else 0.0
    return state.metric.solve(H, -over * G, RIDGE, REFINEMENTS)
