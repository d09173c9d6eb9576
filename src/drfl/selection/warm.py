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

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from drfl.arrays import Array
from drfl.client import Handler
from drfl.problem import Problem
from drfl.solvers.base import Session, Solver
from drfl.solvers.bundle import Bundle
from drfl.solvers.bundle.master import Master
from drfl.solvers.bundle.points import Point, Points
from drfl.solvers.bundle.session import BundleSession
from drfl.solvers.bundle.steps import Metric
from drfl.solvers.certificate.proof import Certificate
from drfl.solvers.certificate.server import ServerProblem, server_problem
from drfl.supports import WholeSpace

MU = 0.01  # the proximal weight at the start, as a multiple of a cold start's


class WarmBundle(Solver):
    """The bundle method; every run begins where the last one on the same rows ended."""

    name: ClassVar[str] = "bundle"
    handlers: ClassVar[Mapping[str, Handler]] = Bundle.handlers
    shared_ball: ClassVar[bool] = Bundle.shared_ball

    def __init__(self, settings: Bundle) -> None:
        self.settings = settings
        self._last: WarmSession | None = None

    def forget(self) -> None:
        """Begin anew: the next run is about other rows."""
        self._last = None

    def start(
        self,
        problem: Problem,
        names: Sequence[str],
        n_features: int,
        *,
        tol: float,
        max_rounds: int,
    ) -> Session:
        session = WarmSession(
            self.settings, problem, names, n_features, tol=tol, max_rounds=max_rounds
        )
        if self._last is not None:
            session.inherit(self._last)
        self._last = session
        return session


class WarmSession(BundleSession):
    """A session that may begin with what another one knows."""

    def inherit(self, last: BundleSession) -> None:
        """Begin with the cuts, the centre and the curvature of another session, if they serve."""
        if last.centre < 0 or last.roster.names != self.roster.names or not _alike(last, self):
            return
        S, about = len(self.roster.names), last.introductions
        sizes = np.array([about[s].about for s in range(S)])[:, 0]
        terms = server_problem(self.problem, self.roster.names, self.dimension, sizes)
        terms = terms.in_units(last.terms.unit)
        if terms.is_shared != last.terms.is_shared:
            return
        self.introductions, self.numbered = about, last.numbered
        self.terms, self.pool = terms, last.pool
        keep_valid(last, terms, self.problem)
        self.evaluated, self.master = Points(terms, self.pool), Master(terms)
        self.certificate = Certificate(terms, self._anchors())
        self._keep_curvature(last)
        self.groups, self.most_groups = last.groups, last.most_groups
        self.at_zero = last.at_zero  # a scale, in which the radii hardly appear
        self._visit(last.evaluated.points[last.best].x)

    def _keep_curvature(self, last: BundleSession) -> None:
        self.metric = Metric(self.terms)
        self.metric.hessians, self.metric.diagonal = last.metric.hessians, last.metric.diagonal
        self.metric.pairs = last.metric.pairs
        self.metric_point, self.previous = last.metric_point, last.previous
        self.q = self.terms.mixture.pull(last.q)
        first = last.descent.mu_first
        self.descent.mu, self.descent.mu_first = MU * first, first
        self.warm = self.curious = False

    def _visit(self, x: Array) -> None:
        """The first round evaluates the centre alone."""
        self.centre, self.numbered = self.numbered, self.numbered + 1
        self.evaluated.points[self.centre] = Point.fresh(x, len(self.roster.names))
        self._ask_again()

    def _move(self) -> None:
        if self.identities[0] != self.centre:  # there is nothing to compare the centre with
            super()._move()


def _alike(last: BundleSession, new: BundleSession) -> bool:
    """Whether the data are seen through the same loss, support and kind of cut."""
    one, other = last.problem, new.problem
    same = (one.loss, one.norm, one.fit_intercept) == (other.loss, other.norm, other.fit_intercept)
    pairs = [(one.ball_of(name), other.ball_of(name)) for name in new.roster.names]
    if not same or any(a.support != b.support for a, b in pairs) or last.lifted != new.lifted:
        return False
    # What clients told of their support may contain the label cost.
    whole = isinstance(pairs[0][0].support, WholeSpace)
    return whole or all(a.label_cost == b.label_cost for a, b in pairs)


def keep_valid(last: BundleSession, terms: ServerProblem, problem: Problem) -> None:
    """Leave in a session's pool the cuts that hold for another problem; see the module."""
    pool, names = last.pool, last.roster.names
    before = [last.problem.ball_of(name) for name in names]
    after = [problem.ball_of(name) for name in names]
    rho, rho_new = (np.array([b.radius for b in balls]) for balls in (before, after))
    kappa, kappa_new = (np.array([b.label_cost for b in balls]) for balls in (before, after))
    if terms.is_shared:
        pool.keep((kappa == kappa_new)[pool.cut_client])
    elif terms.kind == "plain":
        pool.keep((rho <= rho_new)[pool.cut_client])
    elif terms.kind == "box":  # with radius 0 a lifted cut has another form
        pool.keep(((rho > 0.0) == (rho_new > 0.0))[pool.cut_client])
    else:
        moving = (rho_new > 0.0) & np.isfinite(kappa_new)
        pool.keep((pool.cuts.slope == 0.0) | moving[pool.cut_client])
        rescaled = moving & np.isfinite(kappa)
        ratio = np.where(rescaled, kappa_new, 1.0) / np.where(rescaled, kappa, 1.0)
        pool.cuts = replace(pool.cuts, slope=pool.cuts.slope * ratio[pool.cut_client])
    pool.cuts = replace(pool.cuts, used=np.zeros_like(pool.cuts.used))
