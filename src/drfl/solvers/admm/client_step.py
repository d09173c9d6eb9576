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
from drfl.solvers.admm.epigraph import UNBOUNDED, BoxFrame, Frame, GainFrame, Touch, WholeSpaceFrame
from drfl.solvers.certificate.server import is_lifted
from drfl.solvers.master.qp import piqp_solver
from drfl.supports import WholeSpace
from drfl.worst_case.gains import GainOracle
from drfl.worst_case.oracle import Oracle
from drfl.worst_case.whole_space import WholeSpaceOracle

KEEP = 4  # steps for which a cut is kept that had a multiplier at the end of one
NEWEST = 8  # cuts of a step that are kept for the next one in any case
ACTIVE = 1e-9  # a multiplier above this makes a cut matter
PASSES = 500
ACCURACY = 1e-13  # of the objective, in units of the squared distance
PRECISION = (1e-12, 1e-8)  # of the QP; the second if the first fails
GAIN = 1e-11  # a variable is worth having if it gains more than this
PATIENCE = 4  # passes without any progress: rounding
RANGE, TINY = 10.0, 1e-9  # lengths for which the units are good; below TINY (a, e) is a solution
UNITS = 10  # tried for a QP: where the distance is rounding of (a, e) itself no unit is good


@dataclass(frozen=True)
class Projection:
    """The nearest point of the epigraph."""

    # v, value: the point, a model (d,) and the value p >= F(v) beside it
    v: Array
    value: float
    passes: int  # passes over the rows
    # How far the objective may be from the optimum, in units of the squared distance of (a, e)
    # from the epigraph, about
    gap: float
    # Of the exact rows and the cuts in the last QP; empty if (a, e) is in the epigraph
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
        search = CuttingPlanes(frame, y, e, max(height, aside), stiffness)
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


# ---------------------------------------------------------------------------- one projection
class CuttingPlanes:
    r"""One projection, in units in which (a, e) is 0 and its distance from the epigraph about 1.

    The scale of x is the unit divided by :math:`\sqrt\omega`: the objective is then half the
    squared length of (x, p).
    """

    def __init__(
        self, frame: Frame, origin: Array, e: float, unit: float, stiffness: float
    ) -> None:
        d, size = frame.d, frame.size
        self.frame, self.unit, self.stiffness = frame, unit, stiffness
        self.origin, self.scale = origin.copy(), np.full(size, 1.0 / math.sqrt(stiffness))
        self.origin[d], self.scale[d] = e, 1.0
        self.free = frame.busy  # how many variables the QP has
        self.quadratic = np.diag((np.arange(size) <= d).astype(np.float64))
        self.best, self.bound, self.misses = math.inf, 0.0, 0
        self.v, self.value = origin[:d], math.inf
        self.z, self.at = np.zeros(size), np.zeros(d)
        self.bend: Array | None = None
        self.norm_price = 0.0
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
        """The minimiser over the rows (the exact ones first), in the user's units."""
        frame, d = self.frame, self.frame.d
        for left in reversed(range(UNITS)):
            b = (right - rows @ self.origin) / self.unit
            self._minimise(rows if self.stiffness == 1.0 else rows * self.scale, b)
            length = math.sqrt(float(self.z[: d + 1] @ self.z[: d + 1]))
            if left == 0 or length <= TINY or 1.0 / RANGE < length < RANGE:
                break
            self._rescale(length)
        bound = 0.5 * length**2
        if self.bend is not None:
            # The objective without the bend is strongly convex with constant 1, so that the
            # bend's slope tells how far below this point its minimum can be.
            pull = self.bend @ (self.z[:d] - self.at)
            bound -= 0.5 * float(pull @ pull)
            learned = slice(len(frame.b), None)
            self.norm_price = float(self.multipliers[learned][rows[learned, d] == 0.0].sum())
        self.misses += 1
        self._raise(bound)
        return np.asarray(self.origin + self.unit * self.scale * self.z)

    def _minimise(self, A: Array, b: Array) -> None:
        """The QP, in the variables that matter: the others are 0 and would not gain by moving."""
        d, P, cost = self.frame.d, self.quadratic, np.zeros(self.frame.size)
        lower = (self.frame.lower - self.origin) / (self.scale * self.unit)
        lower[self.frame.lower <= UNBOUNDED] = UNBOUNDED
        if self.bend is not None:
            P = P.copy()
            P[:d, :d] += self.bend
            cost[:d] = -self.bend @ self.at
        while True:
            k = self.free
            self.z[:k], self.multipliers = minimise(P[:k, :k], cost[:k], A[:, :k], b, lower[:k])
            if k == len(cost) or (self.multipliers @ A[:, k:] >= -GAIN).all():
                return
            self.free = len(cost)

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
        at = (y[:d] - self.origin[:d]) / (self.scale[:d] * self.unit)
        above = max(touch.value - self.origin[d], 0.0) / self.unit
        value = 0.5 * (float(at @ at) + above**2)
        if value >= self.best:
            return
        if value < self.best - 0.1 * ACCURACY:
            self.misses = 0
        self.best, self.at = value, at
        self.v, self.value = y[:d].copy(), float(self.origin[d] + above * self.unit)
        if not self.done:
            self._bend(above)

    def _bend(self, above: float) -> None:
        """The second derivative at the best point, which cuts would take long to learn."""
        loss, norm = self.frame.loss_curvature(self.v), self.frame.norm_curvature(self.v)
        if loss is None and norm is None:
            return
        self.bend = np.zeros((self.frame.d, self.frame.d))
        for price, H in ((above, loss), (self.norm_price, norm)):
            if H is not None:
                self.bend += price * self.unit / self.stiffness * H


def minimise(P: Array, cost: Array, A: Array, b: Array, lower: Array) -> tuple[Array, Array]:
    """Minimise ``z'Pz/2 + cost'z`` subject to ``A z <= b, z >= lower``: z and multipliers of b."""
    P, A = np.asfortranarray(P), np.asfortranarray(A)
    for eps in PRECISION:
        solver = piqp_solver(eps, dense=True)
        solver.setup(P, cost, None, None, A, None, b, lower, None)
        solver.solve()
        z, multipliers = solver.result.x, solver.result.z_u
        if math.isfinite(z @ z) and math.isfinite(multipliers @ multipliers):
            return z.copy(), np.maximum(multipliers, 0.0)
    raise ArithmeticError("the client step's QP has no solution: scale the features")
