r"""WAFL (Nguyen et al., 2022), penalty form: FedAvg on rows that an adversary moves.

.. math:: \min_x\ \sum_s\hat q_s\,E_{\hat P_s}\varphi,\qquad
          \varphi(w;x,y) = \sup_{x'}\ L(w;x',y) - \tfrac\gamma2\|x'-x\|_2^2

For a linear model the supremum is known in closed form: a row is best moved along w, so that

.. math:: \varphi = \sup_t\ L(z+t) - \frac{t^2}{2a} = \max_v\ vz - L^*(v) + \tfrac a2v^2,
          \qquad a = \|w\|_2^2/\gamma.

A maximising v is the derivative in z, and :math:`v^2/2` that in a. There is no inner loop, and the
step options are those of the local steps. Labels stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from drfl import checks
from drfl.arrays import Array
from drfl.client import Handler, Site
from drfl.losses import Line, Loss
from drfl.native.client import NUMBER, REQUEST, Arrays, LinearLoss, LocalSteps, checked, respond
from drfl.native.methods.fedavg import REPLIES, FedAvgSession, step
from drfl.native.session import NativeSession
from drfl.native.settings import LocalMethod
from drfl.problem import Problem
from drfl.wire import Message, Schema, WireError

NEWTON_STEPS = 60


def penalised(loss: Loss, z: Array, a: float) -> tuple[Array, Array]:
    r""":math:`\varphi` and v for margins or residuals z (N,).

    L has sharp corners, one that is rounded, or is the logistic loss;
    :math:`a=\|w\|^2/\gamma\ge0` says how far rows move.
    """
    if a == 0.0:
        return loss.value_and_slope(z)
    if loss.pieces:
        slopes = np.array([piece.slope for piece in loss.pieces])
        constants = np.array([piece.constant for piece in loss.pieces])
        lines = slopes * z[:, None] + constants + 0.5 * a * slopes**2
        best = lines.argmax(axis=1)
        return lines[np.arange(len(z)), best], slopes[best]
    v = _rounded(sorted(loss.rounded), z, a) if loss.rounded else -_logistic(z, a)
    return v * z - loss.conjugate(v) + 0.5 * a * v * v, v


def require_closed(loss: Loss) -> None:
    """Refuse a loss whose supremum has no closed form here."""
    if not (loss.pieces or loss.rounded or loss.probabilistic):
        raise ValueError(
            f"the supremum of {loss.name} at a quadratic price is not known in closed form: take "
            "a piecewise-linear loss, smooth_hinge, huber or logistic, or another method"
        )


def _rounded(lines: Sequence[Line], z: Array, a: float) -> Array:
    r"""Maximise :math:`vz+c-(1-a)v^2/2` over the mixtures :math:`vz+c` of two lines."""
    (low, c), (high, e) = lines
    r = z + (e - c) / (high - low)
    if a < 1.0:
        return np.clip(r / (1.0 - a), low, high)
    # Convex in v: one of the ends.
    gain = (high - low) * r - 0.5 * (1.0 - a) * (high**2 - low**2)
    return np.where(gain >= 0.0, high, low)


def _logistic(z: Array, a: float) -> Array:
    r"""Maximise :math:`-uz+H(u)+au^2/2`, H the entropy, over u in (0, 1).

    Where :math:`u=\sigma(s)`, the derivative is :math:`h(s)=a\sigma(s)-z-s`. The function minus its
    linear part is symmetric about u = 1/2, so the maximum has u >= 1/2 if and only if z <= a/2, and
    the other case is its mirror image with a - z. On s >= 0, h is concave and falls from
    :math:`h(0)\ge0` to :math:`-\infty` behind its root: Newton's method comes down from a - z.
    """
    mirrored = z > 0.5 * a
    c = np.where(mirrored, a - z, z)
    s = a - c
    for _ in range(NEWTON_STEPS):
        u = 1.0 / (1.0 + np.exp(-s))
        slope = a * u * (1.0 - u) - 1.0
        move = (a * u - c - s) / np.minimum(slope, -1e-12)
        s = np.maximum(s - move, 0.0)
        if (np.abs(move) <= 1e-13 * (1.0 + s)).all():
            break
    u = 1.0 / (1.0 + np.exp(-s))
    return np.where(mirrored, 1.0 - u, u)


# ---------------------------------------------------------------------- the client's half
class PenalisedLoss(LinearLoss):
    r"""The mean of :math:`\varphi` over a client's rows, and its gradient.

    .. math:: \nabla_w\,\frac1N\sum_i\varphi(z_i, \|w\|^2/\gamma)
              = \frac1N\sum_i v_i\nabla_wz_i + \frac{w}{\gamma N}\sum_iv_i^2
    """

    def __init__(self, site: Site, gamma: float) -> None:
        super().__init__(site)
        self.gamma = gamma

    def pointwise(self, z: Array, w: Array) -> tuple[Array, Array]:
        return penalised(self.loss, z, float(w @ w) / self.gamma)

    def shrinkage(self, w: Array, mean_square: float) -> Array | float:
        return np.asarray(mean_square / self.gamma * w)


def answer(site: Site, message: Message) -> Arrays:
    """Walk from x, every row where it hurts most."""
    gamma = float(message.arrays["gamma"])
    if not gamma > 0.0:
        raise WireError(f"gamma must be positive, got {gamma}")
    loss = PenalisedLoss(site, gamma) if site.network is None else site.network.penalised(gamma)
    return respond(site, message, loss, {1: step})


# ---------------------------------------------------------------------- the server's half
class WAFLSession(FedAvgSession["WAFL"]):
    """Averages like FedAvg."""

    @property
    def walk(self) -> LocalSteps:
        # Rows that move add curvature: the squared slope over gamma, and more as a grows.
        if self.problem.network is not None:
            return super().walk
        extra = 2.0 * self.problem.loss.lipschitz**2 / self.method.gamma
        return self.local(self.method.local_steps, extra=extra, shorter=2.0)

    @property
    def constants(self) -> dict[str, NDArray[Any]]:
        return {"gamma": np.array(float(self.method.gamma))}


@dataclass(frozen=True, kw_only=True)
class WAFL(LocalMethod):
    r"""WAFL in its penalty form: exactly with one local step, else nearly.

    The objective and the losses of its results are means of :math:`\varphi`. The problem has no
    radius: the price :math:`\gamma` stands for it.

    Parameters
    ----------
    gamma : float
        The price of moving a row.

    The others are those of `drfl.native.settings.LocalMethod`.
    """

    gamma: float = 10.0
    name: ClassVar[str] = "wafl"
    handlers: ClassVar[Mapping[str, Handler]] = {
        "wafl": checked(answer, {**REQUEST, "gamma": NUMBER}, REPLIES)
    }
    replies: ClassVar[Mapping[int, Schema]] = REPLIES
    session: ClassVar[type[NativeSession[Any]]] = WAFLSession

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.number("gamma", self.gamma, above=0.0)

    def refuse(self, problem: Problem, names: Sequence[str]) -> None:
        super().refuse(problem, names)
        if problem.network is None:
            require_closed(problem.loss)
        elif any(problem.ball_of(name).radius > 0.0 for name in names):
            raise ValueError(
                "wafl moves rows at the price gamma, not within a radius: take radius 0, or "
                "another method"
            )
