"""Masters: what they prove, and what is asked next."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from drfl.arrays import Array
from drfl.solvers.base import relative_gap
from drfl.solvers.bundle.dual_cuts import ask_duals, prove_by_curvature, proves_by_duals
from drfl.solvers.bundle.state import State, ask, ask_again, norm_is_cheap
from drfl.solvers.bundle.steps import Proposal
from drfl.solvers.certificate.cuts import Cuts, Solution
from drfl.solvers.certificate.region import Region

# Curvature is asked for in these rounds: often at first, then ever more rarely.
SCHEDULE = frozenset((0, 1, 2, 3, 4, 6, 8, 11, 15, 20, 26, 33, 41, 50, 60, 71, 83, 96))
DROP_AFTER, MANY_CUTS, DROP_SOON = 8, 4000, 2  # rounds without a multiplier; fewer for big pools
REGROUP_AT = 1e-2  # predicted relative decrease at which the rows are split into groups,
SMALL = 150  # or at once: with so few coefficients more cuts, and more masters, cost little
CROWDED_AT = 0.95  # for several classes with more coefficients than a client has rows: soon
BOUND_AT = 1e-2  # predicted relative decrease at which a master is solved for its bound alone,
BOUND_EVERY = (
    3  # in every so many rounds; in every round if small, or if it may prove the tolerance
)
EXACT_AT = 3.0  # predicted relative decrease, in roots of the tolerance: Newton squares it
REACH = 1.4  # in roots of the largest gap: the longest step it covers costs a quarter of that
EXACT_UP_TO = 500  # coefficients: how far curvature reaches costs as much as itself
SECOND = 0.05  # the second point's metric, as a multiple of the first's
ACTIVE = 10.0  # a multiplier above so many times the accuracy of its master keeps a cut
NEWTON_NULLS = 4  # a smooth loss with so many null steps in a row is treated as nonsmooth,
NEWTON_ROUNDS = 8  # without curvature, or on a support, one that takes so long
ROUGH, FINE, SHARP = 1e-6, 1e-9, 1e-11  # accuracy of masters: bolder point, next point, bound
TINY = 1e-10  # the proximal term of a master that is solved for its bound


# ---------------------------------------------------------------------- what is proved
def prove(state: State) -> list[Proposal]:
    """Solve masters around the centre: a lower bound, and one or two points to ask for."""
    points, bounds, step = state.points, state.bounds, state.step
    x, at_centre = points.here.x, points.objective(points.centre)
    if not state.everywhere:
        # A bound that holds in a region only is not mixed with those of other regions.
        bounds.region, bounds.lower = Region.around(x, state.server.unit), 0.0
    H = state.metric.curvature(state.q)
    tangent = state.pool.cuts.where(state.pool.cuts.tangent)
    while True:
        M = state.metric.matrix(H, step.sigma, step.mu)
        near = solve_master(state, tangent, x, M, at_centre)
        step.decrease = (at_centre - near.model) / max(abs(bounds.upper), 1e-300)
        if not step.shrink():
            break
    state.q = state.server.mixture.pull(near.weights)
    proposals = [_proposal(near, x, M)]
    prove_by_curvature(state, near, near.cuts @ tangent.g + M @ (near.x - x))
    lowest = _prove_lowest(state, x, at_centre)
    if state.settings.second_point and not step.smooth:
        if lowest is not None and _bound_is_far(state):
            far, N = lowest, _least_metric(state)
        else:
            N = SECOND * M
            far = solve_master(state, tangent, x, N, at_centre, eps=ROUGH)
        proposals.append(_proposal(far, x, N))
    state.asked.dual = {}
    if state.settings.dual_cuts and not state.task.problem.loss.kinks:
        ask_duals(state, tangent, near, H)
    return proposals


def _prove_lowest(state: State, x: Array, reference: float) -> Solution | None:
    """The master that is solved for its bound, in the rounds in which that is worth it."""
    if _bound_is_due(state):
        lowest = solve_for_bound(state, x, reference)
    elif _bound_is_cheap(state):
        lowest = solve_for_bound(state, x, reference, kept=False)
    else:
        return None
    return lowest if lowest.usable else None


def solve_for_bound(state: State, x: Array, reference: float, *, kept: bool = True) -> Solution:
    """A master over all cuts with almost no proximal term, for its bound alone."""
    M, cuts = _least_metric(state), state.pool.cuts
    return solve_master(state, cuts, x, M, reference, eps=SHARP, sharp=True, kept=kept)


def _least_metric(state: State) -> Array:
    return np.asarray(TINY * np.diag(state.metric.diagonal))


def solve_master(
    state: State,
    cuts: Cuts,
    x: Array,
    M: Array,
    reference: float,
    *,
    eps: float = FINE,
    sharp: bool = False,
    kept: bool = True,
) -> Solution:
    """A master, whose multipliers also give a bound and, if they are to, keep cuts alive."""
    pool, bounds = state.pool, state.bounds
    solution = state.master.solve(pool, cuts, x, M, eps=eps, reference=reference)
    if solution.usable:
        if kept:
            pool.touch(cuts.serial[solution.cuts > ACTIVE * eps], state.round)
        bound = state.certificate.bound(pool, cuts, solution, bounds.region, polished=sharp)
        bounds.raise_to(bound, state.round)
    return solution


def _bound_is_due(state: State) -> bool:
    """Whether a master should be solved for its bound; the gap cannot be below the decrease."""
    decrease = state.step.decrease
    if proves_by_duals(state):
        return False
    often = decrease < BOUND_AT and (state.round % BOUND_EVERY == 0 or _is_crowded(state))
    return _only_bound_is_open(state) or often


def _only_bound_is_open(state: State) -> bool:
    """Whether the model promises no more than about the tolerance."""
    return state.step.decrease <= 2.0 * state.task.tol


def _bound_is_cheap(state: State) -> bool:
    """Whether such a master costs next to nothing; which cuts stay does not depend on it."""
    small = state.server.dimension <= SMALL and len(state.pool.cuts) <= MANY_CUTS
    return small and state.step.decrease < BOUND_AT


def _bound_is_far(state: State) -> bool:
    """Whether only the bound is open, which no norm keeps near: cuts are missing where it is."""
    return norm_is_cheap(state.server) and _only_bound_is_open(state)


def _proposal(solution: Solution, centre: Array, M: Array) -> Proposal:
    step = solution.x - centre
    return Proposal(solution.x, solution.model, 0.5 * float(step @ M @ step))


# ---------------------------------------------------------------------- what is asked next
def plan(state: State, proposals: Sequence[Proposal]) -> None:
    """Forget what is of no use any more, and ask for the proposals or for what is missing."""
    points = state.points
    points.previous = state.asked.identities[0]
    forget(state)
    _set_wishes(state)
    mean = _mean_optimum(state, proposals[0]) if points.previous == 0 else None
    if only_silence_left(state):
        ask_again(state)
    elif mean is not None:
        ask(state, [mean, proposals[0]], second_curvature=state.asked.curvature)
    else:
        ask(state, proposals)


def forget(state: State) -> None:
    """Cuts that had no multiplier for long, and points that play no part."""
    pool = state.pool
    age = DROP_AFTER if len(pool.cuts) <= MANY_CUTS else DROP_SOON
    pool.keep(pool.cuts.used > state.round - age)
    # A guard allows few answers, and points that are not the centre are not worth another one.
    state.points.forget(missed=not state.clients.guarded)


def _set_wishes(state: State) -> None:
    """Curvature and groups of the next round."""
    ahead, step, asked = state.round + 1, state.step, state.asked
    newton = step.newton and state.metric.known
    late = step.nulls >= NEWTON_NULLS if newton else ahead >= NEWTON_ROUNDS
    if step.smooth and ((state.pool.cuts.slope < 0.0).any() or late):
        step.smooth = False
    small = state.server.dimension <= SMALL
    soon = CROWDED_AT if _is_crowded(state) else REGROUP_AT
    if not step.smooth and (small or step.decrease <= soon):
        asked.groups = asked.most_groups
    # Where the model promises less than the tolerance, only the bound is still open.
    promising = step.decrease > min(state.task.tol, 1e-6)
    auto = state.settings.curvature == "auto"
    asked.curvature = auto and promising and ((newton and not late) or ahead in SCHEDULE)
    asked.reach = _useful_reach(state) if newton else 0.0


def _useful_reach(state: State) -> float:
    """How far curvature has to reach for a proof, if the next step may be the last."""
    tol, bounds = state.task.tol, state.bounds
    close = state.step.decrease <= EXACT_AT * math.sqrt(tol)
    if not close or state.server.dimension > EXACT_UP_TO:
        return 0.0
    return REACH * math.sqrt(tol * bounds.scale)


def _is_crowded(state: State) -> bool:
    """Whether several classes have more coefficients than a client has rows."""
    few = state.clients.about[:, 0].min() < state.server.dimension
    return bool(state.server.intercepts > 1 and few)


def _mean_optimum(state: State, newton: Proposal) -> Proposal | None:
    """The mean of the clients' own optima, if these are alike."""
    local = state.clients.told("local")
    if not local or not state.metric.known:
        return None
    weights = state.q[list(local)]
    if not weights.any():
        return None
    optima = np.array(list(local.values()), dtype=np.float64)
    mean = state.metric.common(optima, weights / weights.sum())
    if mean is None:
        return None
    return Proposal(state.server.gauge.nearest(mean), newton.model, newton.prox)


def only_silence_left(state: State) -> bool:
    """Whether the centre would do, if only everyone had evaluated it."""
    points, bounds = state.points, state.bounds
    gap = relative_gap(points.objective(points.centre), bounds.lower, bounds.at_zero)
    return not points.here.complete and gap <= state.task.tol
