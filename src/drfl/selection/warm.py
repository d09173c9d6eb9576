r"""The bundle method along a path of problems that differ in their radii, costs and weights.

The data stay the same, and so do most cuts: a cut is a function of what the radii multiply.

- On the whole space a cut bounds :math:`u(x,\lambda)=\sum_ip_i\max\{L(m_i),L(-m_i)-\kappa\lambda\}`
  from below, whatever :math:`\rho` and Q are. Its slope in :math:`\lambda` is
  :math:`-\kappa\phi` with the flipped mass :math:`\phi`, the rest does not contain
  :math:`\kappa`: for another label cost the slope is rescaled. Where labels no longer move, cuts
  with flips go.
- In a box, lifted cuts are functions of :math:`(x,\omega,\tau,\lambda)`: likewise.
- A cut of :math:`F_s` itself stays valid where the radius grows: the ball only grows.
- With one multiplier for all clients a cut is a function of :math:`(x,\lambda)` and stays.

So the next problem starts with the cuts, the centre and the curvature of the last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np

from drfl.arrays import Array
from drfl.client import Handler
from drfl.problem import Problem
from drfl.solvers.base import Assignment, Session, Solver
from drfl.solvers.bundle import Bundle
from drfl.solvers.bundle.points import Points
from drfl.solvers.bundle.session import BundleSession
from drfl.solvers.bundle.state import State, ask_again, begin, use
from drfl.solvers.bundle.steps import Metric
from drfl.solvers.certificate.server import ServerProblem, server_problem
from drfl.solvers.first_order import takes_over
from drfl.solvers.limits import value_at_zero
from drfl.supports import WholeSpace

MU = 0.01  # the proximal weight at the start, as a multiple of a cold start's


class WarmBundle(Solver):
    """The bundle method; every run begins where the last one on the same rows ended."""

    name: ClassVar[str] = "bundle"
    handlers: ClassVar[Mapping[str, Handler]] = Bundle.handlers
    shared_ball: ClassVar[bool] = Bundle.shared_ball
    max_weight: ClassVar[bool] = Bundle.max_weight
    curves: ClassVar[bool] = Bundle.curves
    own_intercepts: ClassVar[bool] = Bundle.own_intercepts
    joint: ClassVar[bool] = Bundle.joint

    def __init__(self, settings: Bundle) -> None:
        self.settings = settings
        self._last: BundleSession | None = None

    def forget(self) -> None:
        """Begin anew: the next run is about other rows."""
        self._last = None

    def under_guards(self) -> WarmBundle:
        self.settings = self.settings.under_guards()
        return self

    def start(self, task: Assignment) -> Session:
        # Another method begins anew: its rounds are cheap.
        if not self.settings.guarded and takes_over(task):
            return self.settings.start(task)
        state = begin(self.settings, task, task.names)
        if self._last is not None:
            state = inherit(self._last.state, state)
        self._last = BundleSession(state)
        return self._last


def inherit(last: State, fresh: State) -> State:
    """A fresh state with the cuts, the centre and the curvature of another one, if they serve."""
    known = last.points.best >= 0  # everyone has evaluated some point
    if not known or last.clients.names != fresh.clients.names or not _alike(last, fresh):
        return fresh
    task, names = fresh.task, fresh.clients.names
    server = server_problem(task.problem, names, task.dimension, last.clients.about[:, 0])
    if server.is_shared != last.server.is_shared:
        return fresh
    fresh.clients.introductions = last.clients.introductions
    fresh.pool, fresh.points = last.pool, Points(server, last.pool, numbered=last.points.numbered)
    _keep_valid(last, server, task.problem)
    use(fresh, server.in_units(last.server.unit))
    _keep_curvature(last, fresh)
    asked = fresh.asked
    asked.groups, asked.most_groups = last.asked.groups, last.asked.most_groups
    _keep_scale(last, fresh)
    _visit(fresh, last.points.at[last.points.best].x)
    return fresh


def _keep_scale(last: State, fresh: State) -> None:
    """The objective at w = 0; on the whole space radii price the floors there, and nothing else.

    On a support a smaller radius may make it smaller by nobody knows how much: it is left out of
    account.
    """
    server, losses = fresh.server, last.bounds.losses_at_zero
    if server.on_whole_space:
        losses = losses + server.rho * server.floor - last.server.rho * last.server.floor
    else:
        losses = np.where(server.rho < last.server.rho, 0.0, losses)
    cost = server.shared_cost(np.zeros(server.dimension))
    fresh.bounds.losses_at_zero = losses
    found = server.mixture.support(losses) + cost
    fresh.bounds.at_zero = max(found, value_at_zero(fresh.task.problem) or 0.0)


def _keep_curvature(last: State, fresh: State) -> None:
    metric = fresh.metric = Metric(fresh.server)
    metric.hessians, metric.diagonal = last.metric.hessians, last.metric.diagonal
    metric.pairs = last.metric.pairs
    fresh.points.curved, fresh.points.previous = last.points.curved, last.points.previous
    fresh.q = fresh.server.mixture.pull(last.q)
    first = last.step.mu_first
    fresh.step.mu, fresh.step.mu_first = MU * first, first
    fresh.asked.local = fresh.asked.curvature = False


def _visit(state: State, x: Array) -> None:
    """The first round evaluates the centre alone."""
    (state.points.centre,) = state.points.number(1)
    state.points.open(state.points.centre, x)
    ask_again(state)


def _alike(last: State, fresh: State) -> bool:
    """Whether the data are seen through the same loss, support and kind of cut."""
    one, other = last.task.problem, fresh.task.problem
    same = (one.loss, one.norm, one.intercept) == (other.loss, other.norm, other.intercept)
    same = same and one.classes == other.classes
    pairs = [(one.ball_of(name), other.ball_of(name)) for name in fresh.clients.names]
    lifted = last.clients.lifted == fresh.clients.lifted
    # Where flips have cuts of their own, numbers of families stand for other pieces.
    limits = zip(last.clients.limits, fresh.clients.limits, strict=True)
    split = all(before.split == now.split for before, now in limits)
    if not (same and lifted and split) or any(a.support != b.support for a, b in pairs):
        return False
    # What clients told of their support may contain the label cost.
    whole = isinstance(pairs[0][0].support, WholeSpace)
    return whole or all(a.label_cost == b.label_cost for a, b in pairs)


def _keep_valid(last: State, server: ServerProblem, problem: Problem) -> None:
    """Leave in a pool the cuts that hold for another problem; see the module."""
    pool, names = last.pool, last.clients.names
    before = [last.task.problem.ball_of(name) for name in names]
    after = [problem.ball_of(name) for name in names]
    rho, rho_new = (np.array([b.radius for b in balls]) for balls in (before, after))
    kappa, kappa_new = (np.array([b.label_cost for b in balls]) for balls in (before, after))
    if server.is_shared:
        pool.keep((kappa == kappa_new)[pool.cut_client])
    elif server.kind == "plain":
        pool.keep((rho <= rho_new)[pool.cut_client])
    elif server.kind == "box":  # with radius 0 a lifted cut has another form
        pool.keep(((rho > 0.0) == (rho_new > 0.0))[pool.cut_client])
    else:
        moving = (rho_new > 0.0) & np.isfinite(kappa_new)
        pool.keep((pool.cuts.slope == 0.0) | moving[pool.cut_client])
        rescaled = moving & np.isfinite(kappa)
        ratio = np.where(rescaled, kappa_new, 1.0) / np.where(rescaled, kappa, 1.0)
        pool.cuts = replace(pool.cuts, slope=pool.cuts.slope * ratio[pool.cut_client])
    pool.cuts = replace(pool.cuts, used=np.zeros_like(pool.cuts.used))
