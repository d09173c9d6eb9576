"""One projection by cutting planes: a small QP over the cuts, in units that suit it."""

from __future__ import annotations

import math

import numpy as np
import piqp

from drfl.arrays import Array
from drfl.solvers.admm.epigraph import UNBOUNDED, Frame, Touch

ACCURACY = 1e-13  # of the objective, in units of the squared distance
PRECISION = (1e-12, 1e-8)  # of the QP; the second if the first fails
GAIN = 1e-11  # a variable is worth having if it gains more than this
PATIENCE = 4  # passes without any progress: rounding
RANGE, TINY = 10.0, 1e-9  # lengths for which the units are good; below TINY (a, e) is a solution


class Search:
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
        while True:
            b = (right - rows @ self.origin) / self.unit
            self._minimise(rows if self.stiffness == 1.0 else rows * self.scale, b)
            length = math.sqrt(float(self.z[: d + 1] @ self.z[: d + 1]))
            if length <= TINY or 1.0 / RANGE < length < RANGE:
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
        solver = piqp.DenseSolver()
        settings = solver.settings
        settings.eps_abs = settings.eps_rel = eps
        settings.eps_duality_gap_abs = settings.eps_duality_gap_rel = eps
        settings.max_iter = 100
        solver.setup(P, cost, None, None, A, None, b, lower, None)
        solver.solve()
        z, multipliers = solver.result.x, solver.result.z_u
        if math.isfinite(z @ z) and math.isfinite(multipliers @ multipliers):
            return z.copy(), np.maximum(multipliers, 0.0)
    raise ArithmeticError("the client step's QP has no solution: scale the features")
