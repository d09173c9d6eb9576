r"""Minimising :math:`\varphi(\lambda)=\rho\lambda+\sum_ip_ia_i(w,\lambda)` by its tangents.

A joint subgradient :math:`(g_w,g_\lambda)` of :math:`\varphi` at one price is no subgradient of
:math:`F=\min_\lambda\varphi`, unless :math:`g_\lambda=0`. Two prices on either side of the minimum,
with weights :math:`\theta` that make :math:`\sum\theta g_\lambda=0`, give one:

.. math::
    F(w') \ge \sum\theta\,(\varphi-g_\lambda\lambda) + \big\langle\sum\theta g_w,\,w'-w\big\rangle
    \qquad\text{for all } w',

exact for any such bracket and tight when its tangents meet on the graph of :math:`\varphi`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from drfl.arrays import Array
from drfl.worst_case.oracle import Distribution, WorstCase

# Every step at least halves the bracket in two or three: more steps than this mean rounding.
MAX_STEPS = 200


@dataclass(frozen=True)
class PricePoint:
    """A point of a convex function of lambda, with a slope."""

    lam: float
    value: float
    slope: float


@dataclass(frozen=True)
class Tangent(PricePoint):
    r"""A tangent of :math:`\varphi` in (w, b) and lambda.

    Its slope in lambda is the radius minus the mean transport cost.
    """

    gradient: Array
    intercept_gradient: float


Bracket = tuple[tuple[float, Tangent], ...]


def balance(low: PricePoint, high: PricePoint) -> tuple[float, float]:
    """Weights under which the slopes of two points cancel; the first is <= 0, the second >= 0."""
    if low.slope >= 0.0:
        return 1.0, 0.0
    theta = max(high.slope, 0.0) / (max(high.slope, 0.0) - low.slope)
    return theta, 1.0 - theta


def meeting(low: PricePoint, high: PricePoint) -> tuple[float, float]:
    """Where two tangents meet, and their height there: a lower bound of the minimum."""
    theta, rest = balance(low, high)
    height = theta * (low.value - low.slope * low.lam)
    height += rest * (high.value - high.slope * high.lam)
    # Measured from the nearer end, which loses fewer digits.
    if low.value <= high.value:
        return low.lam + (height - low.value) / low.slope, height
    return high.lam + (height - high.value) / high.slope, height


def minimise(
    phi: Callable[[float], Tangent],
    low: float,
    high: float,
    *,
    near: tuple[float, ...] = (),
    accuracy: float = 2e-13,
) -> Bracket:
    """Minimise a convex function of lambda on [low, high].

    Meeting points of tangents find a kink, secants of the slope find a smooth minimum; bisection
    keeps either from creeping. Guesses between low and high, ``near``, are tried first; it stops
    when value and lower bound agree to the relative ``accuracy``.

    Returns two tangents whose slopes cancel, with their weights, or one: at ``low`` with a slope >=
    0, or with slope 0.
    """
    left, right = phi(low), None
    if left.slope >= 0.0 or high <= low:
        return ((1.0, left),)
    for lam in (*sorted(near), high):
        if left.lam < lam and right is None:
            tangent = phi(lam)
            if tangent.slope > 0.0:
                right = tangent
            else:
                left = tangent
    if right is None or left.slope == 0.0:  # the slope at ``high`` is negative by rounding only
        return ((1.0, left),)
    # A minimum of 0 is found to the precision of the numbers it is computed from.
    size = 1e-3 * max(abs(left.value), abs(right.value))
    for step in range(MAX_STEPS):
        meet, bound = meeting(left, right)
        least = min(left.value, right.value)
        if least - bound <= accuracy * max(abs(least), size):
            break
        lam = (meet, _secant(left, right), 0.5 * (left.lam + right.lam))[step % 3]
        if not left.lam < lam < right.lam:
            lam = 0.5 * (left.lam + right.lam)
            if not left.lam < lam < right.lam:
                break
        tangent = phi(lam)
        if tangent.slope == 0.0:
            return ((1.0, tangent),)
        if tangent.slope < 0.0:
            left = tangent
        else:
            right = tangent
    theta, rest = balance(left, right)
    return ((theta, left), (rest, right))


def cut(bracket: Bracket, floor: float, floor_gradient: Array) -> Tangent:
    r"""F and its subgradient, as a tangent of slope 0.

    At the least price :math:`\lambda_0(w)` that keeps F finite, or just above it where the search
    started, :math:`\varphi` may still increase; then the tangent counts at :math:`\lambda_0`, and
    :math:`g_\lambda\,\partial\lambda_0` joins the subgradient.
    """
    best = min(bracket, key=lambda part: part[1].value)[1]
    if len(bracket) == 1:
        slope = max(best.slope, 0.0)
        value = best.value - slope * (best.lam - floor)
        gradient = best.gradient + slope * floor_gradient
        return Tangent(best.lam, value, 0.0, gradient, best.intercept_gradient)
    (theta, left), (rest, right) = bracket
    return Tangent(
        best.lam,
        meeting(left, right)[1],
        0.0,
        theta * left.gradient + rest * right.gradient,
        theta * left.intercept_gradient + rest * right.intercept_gradient,
    )


def as_worst_case(best: Tangent, distribution: Callable[[], Distribution]) -> WorstCase:
    """What `cut` found, with the distribution that has it."""
    at = best.gradient, best.intercept_gradient
    return WorstCase(best.value, *at, best.lam, distribution)


def _secant(low: PricePoint, high: PricePoint) -> float:
    """Where the slope would vanish if it were linear between the two."""
    return low.lam - low.slope * (high.lam - low.lam) / (high.slope - low.slope)
