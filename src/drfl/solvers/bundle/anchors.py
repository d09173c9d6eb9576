r"""Minorants of f that hold for every w and b when the data are bounded.

In a box (m its midpoint, h half its sides, :math:`N(w)=\sum_jh_j|w_j|`) the adversary can afford to
move a share :math:`p_s=\min(1,\rho_s/D_s)` of every row to its worst corner, D_s being the mean
distance to the farthest corner. Hence, with :math:`P=\sum_s\hat q_sp_s`-like constants,

.. math::
    \text{A1:}\quad f\ge e + u^\top w + \beta b + \omega N(w)\quad(\beta>0\text{ and }\beta<0),\qquad
    \text{A0:}\quad f\ge w_0\,(c_0+N(w)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drfl.losses import Array, Loss
from drfl.norms import Norm


@dataclass(frozen=True)
class Anchor:
    r"""One :math:`f\ge e+u^\top w+\beta b+\omega N(w)`."""

    e: float
    u: Array
    beta: float
    omega: float


@dataclass(frozen=True)
class Anchors:
    r"""A0, and A1 for either sign of the intercept's slope.

    Attributes
    ----------
    sides : tuple of Anchor
        A1 with beta < 0 and with beta > 0.
    w0, w0c0 : float
        A0: :math:`f\ge w_0N(w)+w_0c_0`.
    half : (n,)
        h; 0 in columns that no finite box bounds.
    price : float
        :math:`h(\rho)`: :math:`f\ge\mathrm{price}\,\|w_I\|_*` over the unbounded columns I.
    unbounded : (n,) bool
        The columns I.
    norm : Norm
        The ground norm.
    """

    sides: tuple[Anchor, ...]
    w0: float
    w0c0: float
    half: Array
    price: float
    unbounded: NDArray[np.bool_]
    norm: Norm

    def bound(self, constant: float, g: Array, gb: float) -> float:
        """The best value of ``constant + g'w + gb b`` mixed with the anchors, free of w and b."""
        r, side = 0.0, Anchor(0.0, np.zeros_like(g), 0.0, 0.0)
        if gb != 0.0:
            fitting = [s for s in self.sides if s.beta * gb < 0.0]
            if not fitting:
                return 0.0
            side = fitting[0]
            r = abs(gb / side.beta)
        slope = g + r * side.u
        finite = ~self.unbounded
        over = max(0.0, _box_dual(slope[finite], self.half[finite]) - r * side.omega)
        escape = float(self.norm(slope[self.unbounded])) if self.unbounded.any() else 0.0
        cost = _cost(over, self.w0) + _cost(escape, self.price)
        if not np.isfinite(cost):
            return 0.0
        k = 1.0 / (1.0 + r + cost)
        spare = k * over / self.w0 if over > 0.0 else 0.0
        return max(0.0, k * (constant + r * side.e) + spare * self.w0c0)


def _box_dual(v: Array, half: Array) -> float:
    """max |v_j| / h_j, with 0/0 = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(v == 0.0, 0.0, np.abs(v) / half)
    return float(ratio.max(initial=0.0))


def _cost(amount: float, price: float) -> float:
    if amount <= 0.0:
        return 0.0
    return amount / price if price > 0.0 else np.inf


# A line under every loss toward the end v of its slope range: L(z) >= v z - L*(v).
def make_anchors(
    loss: Loss,
    norm: Norm,
    middle: Array,
    half: Array,
    unbounded: NDArray[np.bool_],
    rho: Array,
    label_cost: Array,
    center: Array,
    price: float,
    shares: Array,
    means: Array,
    targets: Array,
    distances: Array,
) -> Anchors:
    r"""Anchors from what every client sends once.

    Parameters
    ----------
    shares, means : (S, 2), (S, 2, n)
        Mass and mean row of the two classes (-1, +1); in regression the first entry is everything.
    targets : (S,)
        Mean target (regression).
    distances : (S,)
        Mean distance to the farthest corner.
    """
    p = np.where(distances > 0.0, np.minimum(1.0, rho / np.where(distances > 0, distances, 1)), 1.0)
    p = np.where(rho > 0.0, p, 0.0)[:, None]
    moved = (1.0 - p[..., None]) * means + p[..., None] * middle
    moved[..., unbounded] = means[..., unbounded]
    mass = center[:, None] * shares
    a, P = mass.sum(axis=0), (mass * p).sum(axis=0)
    mu = np.einsum("sk,skn->kn", mass, moved)
    sides = []
    for v in loss.slope_range:
        c0 = -float(loss.conjugate(np.array([v]))[0])
        if v == 0.0:
            continue
        if loss.task == "classification":
            for k, y in enumerate((-1.0, 1.0)):
                sides.append(Anchor(c0 * a[k], v * y * mu[k], v * y * a[k], abs(v) * P[k]))
        else:
            e = c0 - v * float(center @ targets)
            sides.append(Anchor(e, v * mu[0], v, abs(v) * P[0]))
    if loss.task == "classification":
        c0 = -float(loss.conjugate(np.array([-1.0]))[0])
        w0 = 2.0 * P[0] * P[1] / (P[0] + P[1]) if P.sum() > 0.0 else 0.0
        flip = center @ np.where(rho > 0.0, np.minimum(1.0, rho / (distances + label_cost)), 0.0)
        w0 = max(w0, float(flip))
        w0c0 = w0 * c0
    else:
        down, up = sides[0], sides[1]
        t = up.beta / (up.beta - down.beta)
        w0 = t * down.omega + (1.0 - t) * up.omega
        w0c0 = t * down.e + (1.0 - t) * up.e
    usable = tuple(s for s in sides if s.beta != 0.0)
    return Anchors(usable, w0, w0c0, half, price, unbounded, norm)
