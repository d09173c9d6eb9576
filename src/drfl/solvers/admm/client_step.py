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

from dataclasses import dataclass

import numpy as np
import piqp

from drfl.losses import Array
from drfl.solvers.admm.epigraph import UNBOUNDED, Frame, Touch
from drfl.solvers.admm.epigraph_box import BoxFrame
from drfl.solvers.admm.epigraph_gains import GainFrame
from drfl.solvers.admm.epigraph_whole import WholeSpaceFrame
from drfl.solvers.bundle.terms import is_lifted
from drfl.supports import WholeSpace
from drfl.worst_case.gains import GainOracle
from drfl.worst_case.oracle import Oracle
from drfl.worst_case.whole_space import WholeSpaceOracle

KEEP = 6  # steps for which a cut without a multiplier is kept
ACTIVE = 1e-9  # a multiplier above this makes a cut matter
ACCURACY = 1e-13  # of the objective, in units of the squared distance
PRECISION = (1e-12, 1e-8)  # of the QP; the second if the first fails
PATIENCE = 4  # passes without any progress: rounding
PASSES = 500
RANGE, TINY = 10.0, 1e-9  # lengths for which the units are good; below TINY (a, e) is a solution


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

    def __init__(self, oracle: Oracle, dimension: int) -> None:
        self.frame = make_frame(oracle, dimension)
        self.rows, self.right = np.zeros((0, self.frame.size)), np.zeros(0)
        self.used = np.zeros(0, np.intp)  # the last step in which a cut had a multiplier
        self.steps = 0

    def project(self, a: Array, e: float, stiffness: float = 1.0) -> Projection:
        r"""The solution :math:`(v,p)` for the point (a, e) and the stiffness :math:`\omega`."""
        self._forget()
        self.steps += 1
        frame, passes = self.frame, 0
        y = frame.start(a)
        height = self._model(y) - e
        if height <= 0.0:
            touch, passes = frame.touch(y), 1
            self._add(touch)
            height = touch.value - e
            if height <= 0.0:
                return Projection(a.copy(), float(e), passes, 0.0, np.zeros(0))
        search = Search(frame, y, e, height, stiffness)
        while not search.done and passes < PASSES:
            y = search.propose(self.rows, self.right)
            self.used[search.multipliers[len(frame.b) :] > ACTIVE] = self.steps
            touch = frame.touch(y)
            passes += 1
            search.judge(y, touch)
            if not search.done:  # otherwise the cuts at hand say all that the new one says
                self._add(touch)
        return Projection(search.v, search.value, passes, search.gap, search.multipliers)

    def summary(self, found: Projection, *, lifted: bool) -> Array | None:
        """The supporting cut at the projection just made, as the bundle method sends cuts."""
        k = len(found.multipliers) - len(self.frame.b)
        if k < 0:
            return None
        rows = np.vstack([self.frame.A, self.rows[:k]])
        right = np.append(self.frame.b, self.right[:k])
        return self.frame.summary(rows, right, found.multipliers, lifted=lifted)

    def _model(self, y: Array) -> float:
        """A lower estimate of p at y, from the cuts of p; -inf without any."""
        d = self.frame.d
        cuts = self.rows[:, d] < 0.0  # the others are tangents of the norm
        at = self.rows[cuts] @ y + y[d] - self.right[cuts]
        return float(at.max(initial=-np.inf))

    def _add(self, touch: Touch) -> None:
        self.rows = np.vstack([self.rows, touch.rows])
        self.right = np.append(self.right, touch.right)
        self.used = np.append(self.used, np.full(len(touch.right), self.steps))

    def _forget(self) -> None:
        kept = self.used > self.steps - KEEP  # the last step's are all there until the next one
        self.rows, self.right, self.used = self.rows[kept], self.right[kept], self.used[kept]


class Search:
    r"""One projection, in units in which (a, e) is 0 and its distance from the epigraph about 1.

    The scale of x is the unit divided by :math:`\sqrt\omega`: the objective is then half the
    squared length of (x, p).
    """

    def __init__(
        self, frame: Frame, origin: Array, e: float, unit: float, stiffness: float
    ) -> None:
        d = frame.d
        self.frame, self.unit, self.stiffness = frame, unit, stiffness
        self.origin, self.scale = origin.copy(), np.full(frame.size, 1.0 / np.sqrt(stiffness))
        self.origin[d], self.scale[d] = e, 1.0
        self.quadratic = np.zeros((frame.size, frame.size), order="F")
        self.quadratic[range(d + 1), range(d + 1)] = 1.0
        self.best, self.bound, self.misses = np.inf, 0.0, 0
        self.v, self.value = origin[:d], np.inf
        self.z, self.at = np.zeros(frame.size), np.zeros(d)
        self.bend, self.norm_price = np.zeros((d, d)), 0.0
        self.multipliers = np.zeros(0)

    @property
    def gap(self) -> float:
        """Between the best point and what the cuts allow."""
        return float(self.best - self.bound)

    @property
    def done(self) -> bool:
        """Whether rounding is all that is left."""
        return self.gap <= ACCURACY or self.misses >= PATIENCE

    def propose(self, rows: Array, right: Array) -> Array:
        """The minimiser over the cuts, in the user's units."""
        frame, d = self.frame, self.frame.d
        A = np.vstack([frame.A, rows])
        b = (np.append(frame.b, right) - A @ self.origin) / self.unit
        lower = (frame.lower - self.origin) / (self.scale * self.unit)
        lower[frame.lower <= UNBOUNDED] = UNBOUNDED
        P, cost = self.quadratic.copy(order="F"), np.zeros(frame.size)
        P[:d, :d] += self.bend
        cost[:d] = -self.bend @ self.at
        self.z, multipliers = minimise(P, cost, A * self.scale, b, lower)
        length = float(np.linalg.norm(self.z[: d + 1]))
        if length > TINY and not 1.0 / RANGE < length < RANGE:
            self._rescale(length)
            return self.propose(rows, right)
        self.multipliers = multipliers
        self.norm_price = float(multipliers[len(frame.b) :][rows[:, d] == 0.0].sum())
        # The objective without the bend is strongly convex with constant 1, so that the bend's
        # slope tells how far below this point its minimum can be.
        pull = self.bend @ (self.z[:d] - self.at)
        self.misses += 1
        self._raise(0.5 * float(length**2 - pull @ pull))
        return np.asarray(self.origin + self.unit * self.scale * self.z)

    def _rescale(self, factor: float) -> None:
        self.unit *= factor
        self.at /= factor
        self.best, self.bound = self.best / factor**2, self.bound / factor**2

    def _raise(self, bound: float) -> None:
        if bound > self.bound:
            if bound > self.bound + 0.1 * ACCURACY:
                self.misses = 0
            self.bound = bound

    def judge(self, y: Array, touch: Touch) -> None:
        """Compare the point with the best one so far."""
        d = self.frame.d
        above = max(touch.value - self.origin[d], 0.0) / self.unit
        value = 0.5 * (float(self.z[:d] @ self.z[:d]) + above**2)
        if value >= self.best:
            return
        if value < self.best - 0.1 * ACCURACY:
            self.misses = 0
        self.best, self.at = value, self.z[:d].copy()
        self.v, self.value = y[:d].copy(), float(self.origin[d] + above * self.unit)
        if not self.done:
            self._bend(above)

    def _bend(self, above: float) -> None:
        """The second derivative at the best point, which cuts would take long to learn."""
        loss, norm = self.frame.loss_curvature(self.v), self.frame.norm_curvature(self.v)
        self.bend = np.zeros_like(self.bend)
        for price, H in ((above, loss), (self.norm_price, norm)):
            if H is not None:
                self.bend += price * self.unit / self.stiffness * H


def minimise(P: Array, cost: Array, A: Array, b: Array, lower: Array) -> tuple[Array, Array]:
    """Minimise ``z'Pz/2 + cost'z`` subject to ``A z <= b, z >= lower``: z and multipliers of b."""
    for eps in PRECISION:
        solver = piqp.DenseSolver()
        settings = solver.settings
        settings.eps_abs = settings.eps_rel = eps
        settings.eps_duality_gap_abs = settings.eps_duality_gap_rel = eps
        settings.max_iter = 100
        free, above = np.full(len(b), UNBOUNDED), np.full(len(cost), -UNBOUNDED)
        solver.setup(P, cost, None, None, np.asfortranarray(A), free, b, lower, above)
        solver.solve()
        z, multipliers = np.array(solver.result.x), np.array(solver.result.z_u)
        if np.isfinite(z).all() and np.isfinite(multipliers).all():
            return z, np.maximum(multipliers, 0.0)
    raise ArithmeticError("the client step's QP has no solution: scale the features")


def make_frame(oracle: Oracle, dimension: int) -> Frame:
    """The frame that fits an oracle; without a budget no support plays a role."""
    parts = oracle.rows, oracle.loss, oracle.ball
    if isinstance(oracle.ball.support, WholeSpace) or oracle.ball.radius == 0.0:
        return WholeSpaceFrame(WholeSpaceOracle(*parts), dimension)
    if is_lifted(oracle.loss, oracle.ball):
        return BoxFrame(oracle, dimension)
    return GainFrame(GainOracle(*parts), dimension)
