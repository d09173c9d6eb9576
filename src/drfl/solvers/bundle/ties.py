r"""Among models that are equally good, the one of smallest norm.

Where every radius is 0 the optimum is often not unique, and an arbitrary one can be much worse on
other data. So the run goes on with

.. math:: \min_w \|w\|_2\quad\text{s.t.}\quad f(w,b)\le\mathrm{level},

by cuts: z solves it over the model, so :math:`\|z\|` is a lower bound of the smallest norm. If a
point is not good enough, the one on the segment from the best model to it that must be (f is
convex) is evaluated as well. Where f is smooth, its cuts near the level are nearly flat; there the
Newton step of the Lagrangian, :math:`\tfrac12\|w\|^2+\tfrac\nu2\|x-x_k\|_H^2` over the cuts with
:math:`\nu` the multiplier of the level, goes first.
"""

from __future__ import annotations

import numpy as np

from drfl.arrays import Array
from drfl.solvers.bundle.planning import solve_for_bound
from drfl.solvers.bundle.state import State, Ties, ask
from drfl.solvers.bundle.steps import Metric, Proposal
from drfl.solvers.certificate.cuts import Solution

CLOSE = 1.01  # the norm is within 1 % of the smallest
INSIDE = 0.1  # how far inside the level, relatively, a Newton step aims


def single_out(state: State) -> None:
    """At an optimum that no radius singles out: prove where it is, then seek the smallest."""
    bounds, task = state.bounds, state.task
    if state.ties is not None or not state.reached or state.certificate.everywhere:
        return
    if not state.settings.smallest:
        return
    x = state.points.at[state.points.best].x
    region = state.master.region(state.pool, bounds.upper, x)
    if region is not None:
        bounds.region, bounds.lower = region, 0.0
        solve_for_bound(state, x, bounds.upper)
    if not state.reached or state.clients.guarded:
        return
    if task.problem.loss.kinks or not is_unique(state.metric, state.q):
        level = max(bounds.lower + task.tol * bounds.scale, bounds.upper)
        state.ties = Ties(level, x, bounds.upper, task.n, x)
        bounds.progress = state.round
        _ask_smaller(state, state.ties, None)


def is_unique(metric: Metric, q: Array) -> bool:
    """Whether the curvature of a smooth loss is so full that there is one minimiser."""
    if not metric.known:
        return False
    scale = 1.0 / np.sqrt(metric.diagonal)
    H = metric.curvature(q) * np.outer(scale, scale)
    same = metric.server.gauge.invariance()
    H = H if same is None else H + same * (np.trace(H) / len(H))
    return bool(np.linalg.eigvalsh(H)[0] > 1e-4 * np.trace(H) / len(H))


def next_tie(state: State, ties: Ties) -> None:
    """Take the smallest model that is good enough, and ask for a smaller one."""
    points, identities = state.points, state.asked.identities
    for identity in identities:
        point = points.at[identity]
        if point.complete and _offer(ties, point.x, points.objective(identity)):
            points.best, state.bounds.upper = identity, ties.objective
            state.bounds.progress = state.round
    first = points.at[identities[0]]
    refused = first.x, points.objective(identities[0])
    _ask_smaller(state, ties, refused if first.complete else None)


def _offer(ties: Ties, x: Array, objective: float) -> bool:
    """Take a point that is good enough and smaller; say whether it was taken."""
    taken = objective <= ties.level and _norm(ties, x) < _norm(ties, ties.x)
    if taken:
        ties.x, ties.objective = x, objective
    ties.done = _is_close(ties)
    return taken


def _ask_smaller(state: State, ties: Ties, refused: tuple[Array, float] | None) -> None:
    cuts, asked, metric = state.pool.cuts.where(state.pool.cuts.tangent), state.asked, state.metric
    solution, multiplier = state.master.smallest(state.pool, cuts, ties.level)
    proposals = _next_points(ties, solution, refused)
    task = state.task
    asked.curvature = state.settings.curvature == "auto" and not task.problem.loss.kinks
    if asked.curvature and metric.known:
        bend = (ties.nu or multiplier) * metric.curvature(state.q), ties.at
        # A little inside, so that the step does not end just beyond the level.
        aim = ties.level - INSIDE * (ties.level - state.bounds.lower)
        newton, ties.nu = state.master.smallest(state.pool, cuts, aim, bend)
        if newton.usable:
            proposals.insert(0, Proposal(newton.x))
            ties.at = newton.x
    state.points.forget(missed=False)  # the next one is smaller
    asked.dual = {}
    ask(state, proposals)


def _next_points(
    ties: Ties, solution: Solution, refused: tuple[Array, float] | None
) -> list[Proposal]:
    """The smallest model that the cuts allow, and the way back from the one just refused."""
    if solution.usable:
        ties.least = max(ties.least, _norm(ties, solution.x))
    ties.done = _is_close(ties) or not solution.usable
    proposals = [Proposal(solution.x)]
    if refused is not None and refused[1] > ties.level:
        z, value = refused
        share = (ties.level - ties.objective) / max(value - ties.objective, 1e-300)
        proposals.append(Proposal(ties.x + max(share, 0.0) * (z - ties.x)))
    return proposals


def _is_close(ties: Ties) -> bool:
    return _norm(ties, ties.x) <= CLOSE * ties.least + 1e-12


def _norm(ties: Ties, x: Array) -> float:
    """The Euclidean norm of the coefficients."""
    return float(np.linalg.norm(x[: ties.n]))
