r"""Cuts of :math:`F_s(w)=\min_bF_s(w,b)`, where every client has an intercept of its own.

A point is w alone. The client finds its b and tells a cut without one: tangents at two intercepts
mixed so that their slopes in b cancel (`drfl.worst_case.own_intercept`). Its rows are one group,
since slopes in b cancel over all rows only; for the same reason flips have no cuts of their own.

Curvature is that of :math:`F_s`, the intercept following w: :math:`H_{ww}-H_{wb}H_{bb}^{-1}H_{bw}`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq

from drfl.arrays import Array
from drfl.solvers.bundle.client_half.evaluation import Evaluation, Evaluator, WholeSpaceEvaluator
from drfl.worst_case.own_intercept import LEVEL, Balance, balance, own_intercept

if TYPE_CHECKING:
    from drfl.solvers.bundle.client_cache import Cached
    from drfl.solvers.bundle.messages import Dual

FAR = 1e6  # a slope has to move by less
ROUNDING = 1e-13


class OwnInterceptEvaluator(Evaluator):
    """Evaluates w at the client's own intercept; ``inner`` evaluates (w, b)."""

    def __init__(self, inner: Evaluator) -> None:
        super().__init__(inner.oracle)
        self.inner = inner

    def values(self, at: Evaluation) -> list[float]:
        return self.inner.values(at)

    def evaluate(self, x: Array, groups: int) -> Evaluation:
        found, at = self._around(x)
        best = at[found.b]
        cuts = np.array([at[b].cuts[0] for b in found.around])
        flipped = max(at[b].flipped for b in found.around)
        return replace(best, cuts=level(cuts)[None], flipped=flipped, intercept=found.b)

    def _around(self, x: Array) -> tuple[Balance, dict[float, Evaluation]]:
        """The best intercept, and what is seen there and beside it."""
        if not isinstance(self.inner, WholeSpaceEvaluator):
            found = own_intercept(self.oracle, x)
            every = {found.b, *found.around}
            return found, {b: self.inner.evaluate(np.append(x, b), 1) for b in every}
        z = self.rows.scores(x)
        found = balance(self.inner.oracle, z, x)
        return found, {
            b: self.inner.at_arguments(np.append(x, b), self.as_arguments(z + b))
            for b in {found.b, *found.around}
        }


def level(cuts: Array) -> Array:
    """One cut without b of one or two, whose last numbers are their slopes in b."""
    slopes = cuts[:, -1]
    if len(cuts) == 1 or slopes[0] >= 0.0 or slopes[1] <= 0.0:
        return cuts[int(np.argmin(np.abs(slopes))), :-1]
    share = slopes[1] / (slopes[1] - slopes[0])
    return np.asarray(share * cuts[0] + (1.0 - share) * cuts[1])[:-1]


def without_intercept(H: Array) -> Array:
    """The curvature in w where the last coefficient is the best one for w."""
    inner = H[:-1, :-1]
    if H[-1, -1] > 0.0:
        return reduced(inner, np.outer(H[:-1, -1], H[-1, :-1]) / H[-1, -1])
    return inner.copy()


def reduced(H: Array, taken: Array) -> Array:
    """H without what is taken out of it; what cancels must not leave a negative rest."""
    rest = H - taken
    rest += ROUNDING * float(np.diag(H).max(initial=0.0)) * np.eye(len(H))
    return rest


def balanced_dual(
    evaluator: Evaluator, dual: Dual, curved: Cached, old: Sequence[Cached]
) -> Array | None:
    r"""The cut of the master's dual point, slopes moved on until they do not speak of b: (c, g).

    :math:`v_i=\sum_ka_kv_{ik}+d_i\,(\partial m_i[\mathrm{shift}]+y_i\delta)` within the domain of
    slopes, with the :math:`\delta` at which :math:`\sum_ip_iy_iv_i=0` (for regression
    :math:`y_i=1`); None if there is no such :math:`\delta`, as for losses that do not bend.
    """
    rows, loss = evaluator.rows, evaluator.loss
    b = float(curved.intercept)
    m = evaluator.arguments(curved.x, b)
    bend = loss.curvature(m)
    v = evaluator.arguments(curved.x + dual.shift, b)
    v -= m
    v *= bend
    for at, weights in zip(old, dual.weights, strict=True):
        v += weights[0] * loss.slope(evaluator.arguments(at.x, float(at.intercept)))
    if evaluator.oracle.is_margin:
        bend *= rows.y

    def slopes(delta: float) -> Array:
        return np.clip(v + delta * bend, *loss.slope_range)

    def leaning(delta: float) -> float:
        return float(evaluator.weighted(slopes(delta)).sum())

    delta = _root(leaning)
    if delta is None:
        return None
    v = slopes(delta)
    value = -loss.conjugate(v)
    if not evaluator.oracle.is_margin:
        value -= v * rows.y
    g, _ = rows.combine(evaluator.weighted(v))
    return np.append(rows.mean(value), g)


def _root(increasing: Callable[[float], float]) -> float | None:
    """Where an increasing function is 0, if it is anywhere."""
    at, step = increasing(0.0), 1e-3
    if abs(at) <= LEVEL:
        return 0.0
    near, far = 0.0, -math.copysign(step, at)
    while increasing(far) * at > 0.0:
        near, far = far, 4.0 * far
        if abs(far) > FAR:
            return None
    root = brentq(increasing, near, far, xtol=1e-300, rtol=4.0 * np.finfo(float).eps)
    return float(root) if abs(increasing(root)) <= LEVEL else None
