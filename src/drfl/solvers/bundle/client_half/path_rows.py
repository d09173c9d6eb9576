r"""A client's rows on the central path of a loss with corners.

The loss is a sum of corners, :math:`L(z)=\sum_kc_k(u_k)_+,\ u_k=\sigma_k(z-z_k)`, and
:math:`(u)_+` the least height :math:`\xi\ge u,\ \xi\ge0`. On the central path its multiplier
:math:`\alpha` has products :math:`\alpha(\xi-u)=(1-\alpha)\xi=\mu`. A step of Newton's method from
any :math:`\alpha,\xi` inside leads, where u changes by du, to

.. math:: \alpha^+=r+\mu a+d\,du,\qquad \xi^+=\xi+\mu b-\tfrac1{w_1+w_2}+r\,du,

with :math:`w_1=\alpha/(\xi-u),\ w_2=(1-\alpha)/\xi,\ r=w_1/(w_1+w_2),\ d=rw_2`. So the rows add up
to a model of the client's mean loss: a value and a gradient, both linear in :math:`\mu`, and the
curvature :math:`\sum_ip_id_i(x_i,1)(x_i,1)^\top`. Whatever slopes :math:`0\le\alpha\le1` come out
of a step, :math:`\sum_ip_ic\,\alpha_iu_i(x)` is a minorant of the loss: rows that the step takes
too far are stopped, for the proof at 0 or 1, for the next step short of it.

How those slopes are made to serve the proof is told in `path_proof`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Site
from drfl.losses.base import Corner
from drfl.solvers.bundle.client_half.curvature import may_curve
from drfl.solvers.bundle.client_half.evaluation import Evaluator, WholeSpaceEvaluator
from drfl.solvers.bundle.client_half.path_proof import (
    minorants,
    moved,
    moves,
    room_of_sum,
    settled,
    total,
)
from drfl.solvers.bundle.messages import FEW_COLUMNS, MOST_MENDS, PathRequest
from drfl.wire.schema import pack_triangle, triangle_of

KEPT = 0.05  # of the way to the boundary is left after a step that is too long
FLAT = 1e-6  # curvature of a row below this share of the mean is left out: it costs, and adds none


@dataclass(frozen=True)
class PathRows:
    """The rows between two steps.

    Attributes
    ----------
    arguments : (N,)
        z where the last step led.
    alpha, height : (K, N)
        Multipliers and heights, by corner.
    proofs : up to `MOST_MENDS` of (K, N)
        The slopes, within 0 and 1, with which the step served the proof; those of the last step,
        mended once, and so on.
    """

    arguments: Array
    alpha: Array
    height: Array
    proofs: tuple[Array, ...] = ()

    @classmethod
    def centred(cls, corners: Sequence[Corner], z: Array, mu: float) -> PathRows:
        r"""All products are mu: :math:`\mu/\xi+\mu/(\xi-u)=1`."""
        u = _sides(corners, z)
        size = np.abs(u)
        larger = mu + 0.5 * (size + np.sqrt(u * u + 4.0 * mu * mu))  # of height and slack
        smaller = mu * larger / (larger - mu)
        height, slack = np.where(u > 0.0, (larger, smaller), (smaller, larger))
        return cls(z, np.where(u > 0.0, 1.0 - mu / height, mu / slack), height)

    def products(self, corners: Sequence[Corner]) -> Array:
        """The mean of both products, (N,), weighted by the corners."""
        weights = np.array([c.weight for c in corners])
        slack = self.height - _sides(corners, self.arguments)
        both = self.alpha * slack + (1.0 - self.alpha) * self.height
        return np.asarray(weights @ both / (2.0 * weights.sum()))


@dataclass(frozen=True)
class PathStep:
    """Newton's step from some rows, every array (K, N): see the module."""

    rows: PathRows
    u: Array
    r: Array
    a: Array
    b: Array
    short: Array
    d: Array

    @classmethod
    def of(cls, corners: Sequence[Corner], rows: PathRows) -> PathStep:
        """The step; its length mu and the change of u come later."""
        u = _sides(corners, rows.arguments)
        slack, height = rows.height - u, rows.height
        w1, w2 = rows.alpha / slack, (1.0 - rows.alpha) / height
        short = 1.0 / (w1 + w2)
        r = w1 * short
        a, b = (1.0 - r) / slack - r / height, (1.0 / slack + 1.0 / height) * short
        d = r * w2
        d[d < FLAT * d.mean()] = 0.0
        return cls(rows, u, r, a, b, short, d)

    def slopes(self, mu: float, du: Array) -> Array:
        """Where the multipliers go, (K, N); perhaps beyond 0 or 1."""
        return self.r + mu * self.a + self.d * du

    def taken(self, corners: Sequence[Corner], z: Array, mu: float) -> PathRows:
        """The rows after the step to these arguments, each stopped by itself."""
        old, u = self.rows, _sides(corners, z)
        du = u - self.u
        alpha = np.clip(self.slopes(mu, du), KEPT * old.alpha, 1.0 - KEPT * (1.0 - old.alpha))
        height = old.height + mu * self.b - self.short + self.r * du
        slack = old.height - self.u
        height = np.maximum(np.maximum(height, KEPT * old.height), u + KEPT * slack)
        return PathRows(z, alpha, height)


def _sides(corners: Sequence[Corner], z: Array) -> Array:
    return np.array([c.sign * (z - c.kink) for c in corners])


# ---------------------------------------------------------------------- what a client tells
def follow(
    site: Site, evaluator: Evaluator, asked: PathRequest, identity: int, z: Array
) -> Mapping[str, NDArray[Any]]:
    """Take the step to a point, with arguments z, and tell the model of the next one.

    Nothing if the client refuses.
    """
    corners = site.oracle.loss.corners
    if not corners or not _allowed(site, evaluator):
        return {}
    out: dict[str, NDArray[Any]] = {}
    d, kept = site.dimension, site.memory.get("path", {})
    rows, mended, clipped = _advanced(evaluator, corners, kept.get(asked.base), asked, z)
    site.memory["path"] = _kept(kept, asked.base, identity, rows)
    for name, proofs in (("sides", rows.proofs[:1]), ("mended", mended)):
        cuts = [minorants(evaluator, corners, alpha, asked.groups) for alpha in proofs]
        if cuts:
            out[name] = np.vstack(cuts)[:, : 1 + d]
    if rows.proofs and evaluator.rows.n_features <= FEW_COLUMNS:
        rooms = [room_of_sum(evaluator, corners, alpha)[:d, :d] for alpha in rows.proofs]
        out["room"] = np.array([pack_triangle(room) for room in rooms])
    lines, H = _model(evaluator, corners, rows)
    ends = [evaluator.rows.mean(rows.products(corners)), clipped]
    out["path"] = np.column_stack([lines[:, : 1 + d], ends])
    out["bend"] = triangle_of(H[:d, :d])[None]
    return out


def replay(site: Site, evaluator: Evaluator, asked: PathRequest, identity: int, z: Array) -> None:
    """One step of a path that was gone before, without an answer."""
    corners, kept = site.oracle.loss.corners, site.memory.get("path", {})
    if corners and _allowed(site, evaluator):
        rows = _advanced(evaluator, corners, kept.get(asked.base), asked, z)[0]
        site.memory["path"] = _kept(kept, asked.base, identity, rows)


def _kept(
    known: Mapping[int, PathRows], base: int, identity: int, rows: PathRows
) -> dict[int, PathRows]:
    """The rows by point: also where a step began, since its answer may not arrive."""
    return {base: known[base], identity: rows} if base in known else {identity: rows}


def _advanced(
    evaluator: Evaluator,
    corners: Sequence[Corner],
    before: PathRows | None,
    asked: PathRequest,
    z: Array,
) -> tuple[PathRows, tuple[Array, ...], float]:
    """The rows after a step, or where the path begins.

    Also the slopes of earlier proofs, moved as asked, and the share of rows that the step stopped.
    """
    if before is None or asked.tilt is None:
        return PathRows.centred(corners, z, asked.mu), (), 0.0
    mended = tuple(
        moved(evaluator, corners, alpha, e)
        for alpha, e in zip(before.proofs, asked.mends, strict=False)
    )
    step = PathStep.of(corners, before)
    alpha = _proposed(evaluator, corners, step, asked, z)
    clipped = float(((alpha < 0.0) | (alpha > 1.0)).any(axis=0).mean())
    proofs = (settled(evaluator, corners, alpha, asked.inside), *mended[: MOST_MENDS - 1])
    return replace(step.taken(corners, z, asked.mu), proofs=proofs), mended, clipped


def _allowed(site: Site, evaluator: Evaluator) -> bool:
    """Whether the client tells curvature, dual cuts and sums of groups."""
    policy = site.policy
    fits = isinstance(evaluator, WholeSpaceEvaluator) and may_curve(site)
    return fits and policy.groups and policy.dual_cuts


def _model(evaluator: Evaluator, corners: Sequence[Corner], rows: PathRows) -> tuple[Array, Array]:
    """Values and gradients (2, 2 + n), the second row per mu; and the curvature."""
    step, own = PathStep.of(corners, rows), evaluator.rows
    heights = total(corners, rows.height)
    logs = total(corners, -np.log((rows.height - step.u) * rows.height))
    out = np.zeros((2, 2 + own.n_features))
    for k, (value, slope) in enumerate(((heights, step.r), (logs, step.a))):
        v = evaluator.weighted(total(corners, slope, signed=True))
        out[k] = np.append(own.mean(value), np.append(*own.combine(v)))
    return out, own.gram(total(corners, step.d) * own.mass())


def _proposed(
    evaluator: Evaluator, corners: Sequence[Corner], step: PathStep, asked: PathRequest, z: Array
) -> Array:
    """Where a step and its tilt lead the slopes, (K, N); perhaps beyond 0 or 1."""
    assert asked.tilt is not None
    du = _sides(corners, z) - step.u + moves(evaluator, corners, asked.tilt)
    return step.slopes(asked.mu, du)
