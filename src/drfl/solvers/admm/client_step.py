r"""The client step :math:`\mathfrak C_s`: the projection onto the epigraph of :math:`F_s`.

The paper's client minimises over :math:`(\lambda,\alpha,\hat w)\in\Omega_s`, with
:math:`\pi=\rho\lambda+\tfrac1Ne^\top\alpha`,

.. math::
    \zeta\pi-\psi^\top\hat w+\tfrac c2\|w-\hat w\|^2+\tfrac c2(\pi-z)^2 .

Given :math:`\hat w`, the values that :math:`\pi` can take are those from :math:`F_s(\hat w)` on.
So with :math:`a=w+\psi/c` and :math:`e=z-\zeta/c` it is

.. math:: \min_{v,\,p}\ \tfrac\omega2\|v-a\|^2+\tfrac12(p-e)^2\quad\text{s.t.}\quad p\ge F_s(v),

with :math:`\omega=1`; another stiffness :math:`\omega` serves penalties that differ. It is solved
by cutting planes: a small QP over the cuts so far, a pass over the rows at its solution, a new
cut. Cuts stay valid, so those that mattered lately are kept for the next round. Where F is smooth
the second derivative joins the QP, centred at the best point, which makes it a Newton method.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array
from drfl.solvers.admm.epigraph import Frame, Touch
from drfl.solvers.admm.epigraph_box import BoxFrame
from drfl.solvers.admm.epigraph_gains import GainFrame
from drfl.solvers.admm.epigraph_whole import WholeSpaceFrame
from drfl.solvers.admm.search import Search
from drfl.solvers.certificate.server import is_lifted
from drfl.supports import WholeSpace
from drfl.worst_case.gains import GainOracle
from drfl.worst_case.oracle import Oracle
from drfl.worst_case.whole_space import WholeSpaceOracle

KEEP = 4  # steps for which a cut is kept that had a multiplier at the end of one
NEWEST = 8  # cuts of a step that are kept for the next one in any case
ACTIVE = 1e-9  # a multiplier above this makes a cut matter
PASSES = 500


@dataclass(frozen=True)
class Projection:
    """The nearest point of the epigraph.

    Attributes
    ----------
    v, value : array of shape (d,), float
        The point: a model and the value p >= F(v) beside it.
    passes : int
        Passes over the rows.
    multipliers : array
        Of the exact rows and the cuts in the last QP; empty if (a, e) is in the epigraph.
    gap : float
        How far the objective may be from the optimum, in units of the squared distance of (a, e)
        from the epigraph, about.
    """

    v: Array
    value: float
    passes: int
    gap: float
    multipliers: Array


class ClientStep:
    """Projects onto the epigraph of one client's F; keeps cuts, which change time only."""

    def __init__(self, oracle: Oracle, dimension: int, *, shared: bool = False) -> None:
        self.frame = make_frame(oracle, dimension, shared=shared)
        # The exact rows first, which are never forgotten, then the cuts.
        self.rows, self.right = self.frame.A, self.frame.b
        self.used = np.zeros(0, np.intp)  # the last step at whose end a cut had a multiplier
        self.steps = 0

    def project(self, a: Array, e: float, stiffness: float = 1.0) -> Projection:
        r"""The solution :math:`(v,p)` for the point (a, e) and the stiffness :math:`\omega`."""
        self._forget()
        self.steps += 1
        frame, passes = self.frame, 0
        y = frame.start(a)
        aside = float(np.linalg.norm(y[: len(a)] - a)) * math.sqrt(stiffness)
        height = self._model(y) - e
        if height <= 0.0:
            touch, passes = frame.touch(y), 1
            self._add(touch)
            height = touch.value - e
            if height <= 0.0 and aside == 0.0:
                return Projection(a.copy(), float(e), passes, 0.0, np.zeros(0))
        y[: len(a)] = a
        search = Search(frame, y, e, max(height, aside), stiffness)
        while not search.done and passes < PASSES:
            y = frame.feasible(search.propose(self.rows, self.right))
            touch = frame.touch(y)
            passes += 1
            search.judge(y, touch)
            if not search.done:  # otherwise the cuts at hand say all that the new one says
                self._add(touch)
        self.used[-NEWEST:] = np.maximum(self.used[-NEWEST:], self.steps - KEEP + 1)
        self.used[np.flatnonzero(search.multipliers[len(frame.b) :] > ACTIVE)] = self.steps
        return Projection(search.v, search.value, passes, search.gap, search.multipliers)

    def summary(self, found: Projection, *, lifted: bool) -> Array | None:
        """The supporting cut at the projection just made, as the bundle method sends cuts."""
        k = len(found.multipliers)
        if k == 0:
            return None
        return self.frame.summary(self.rows[:k], self.right[:k], found.multipliers, lifted=lifted)

    def _model(self, y: Array) -> float:
        """A lower estimate of p at y, from the cuts of p; -inf without any."""
        d = self.frame.d
        cuts = self.rows[:, d] < 0.0  # the others are tangents of the norm
        cuts[: len(self.frame.b)] = False
        at = self.rows[cuts] @ y + y[d] - self.right[cuts]
        return float(at.max(initial=-math.inf))

    def _add(self, touch: Touch) -> None:
        self.rows = np.vstack([self.rows, touch.rows])
        self.right = np.append(self.right, touch.right)
        self.used = np.append(self.used, np.full(len(touch.right), self.steps - KEEP))

    def _forget(self) -> None:
        kept = self.used > self.steps - KEEP
        if not kept.all():
            rows = np.append(np.ones(len(self.frame.b), np.bool_), kept)
            self.rows, self.right, self.used = self.rows[rows], self.right[rows], self.used[kept]


def make_frame(oracle: Oracle, dimension: int, *, shared: bool = False) -> Frame:
    """The frame that fits an oracle; without a budget no support plays a role.

    ``shared``: x ends with everybody's multiplier.
    """
    parts = oracle.rows, oracle.loss, oracle.ball
    if isinstance(oracle.ball.support, WholeSpace) or oracle.ball.radius == 0.0:
        return WholeSpaceFrame(WholeSpaceOracle(*parts), dimension, shared=shared)
    if is_lifted(oracle.loss, oracle.ball) and not shared:
        return BoxFrame(oracle, dimension)
    return GainFrame(GainOracle(*parts), dimension, shared=shared)
