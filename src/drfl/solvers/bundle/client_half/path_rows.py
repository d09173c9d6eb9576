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

What stopping takes from the sum of a proof's slopes the other rows have to give: along a step e
slopes move by :math:`s_i\langle e,x_i\rangle` with the room :math:`s_i=\min(\alpha_i,1-\alpha_i)`,
and the sum by :math:`\sum_ip_is_i(x_i,1)(x_i,1)^\top e`. A client settles that among its own rows,
step after step, where they have it. What is left the server knows a round later, and asks all
clients for it together, by the room that they tell. Several groups of rows make a cut each, so that
mixtures of theirs, over all rounds, give some of it at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from drfl.arrays import Array
from drfl.client import Site
from drfl.losses.base import Corner
from drfl.solvers.bundle.client_half.curvature import may_curve
from drfl.solvers.bundle.client_half.evaluation import (
    GROUP_ROWS,
    Evaluator,
    WholeSpaceEvaluator,
)
from drfl.solvers.bundle.messages import FEW_COLUMNS, PathRequest
from drfl.wire.schema import pack_triangle, triangle_of

KEPT = 0.05  # of the way to the boundary is left after a step that is too long
FLAT = 1e-6  # curvature of a row below this share of the mean is left out: it costs, and adds none
# What stopping took is settled in a few steps; one has to leave less than a share of it, and all
# together a tenth, or else slopes have moved for nothing.
TRIES, LESS, WORTH, ENOUGH = 10, 0.8, 0.1, 1e-8
ROOM, RIDGE = 2, 1e-9  # slopes that move, for every coefficient; in units of the mean room


@dataclass(frozen=True)
class PathRows:
    """The rows between two steps.

    Attributes
    ----------
    arguments : (N,)
        z where the last step led.
    alpha, height : (K, N)
        Multipliers and heights, by corner.
    proved : (K, N) or None
        The slopes, within 0 and 1, with which the step served the proof; None: there was none.
    """

    arguments: Array
    alpha: Array
    height: Array
    proved: Array | None = None

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
    site: Site, evaluator: Evaluator, asked: PathRequest, z: Array
) -> Mapping[str, NDArray[Any]]:
    """Take the step to arguments z, and tell the model of the next one; nothing if refused."""
    corners = site.oracle.loss.corners
    if not corners or not _allowed(site, evaluator):
        return {}
    out: dict[str, NDArray[Any]] = {}
    d, before = site.dimension, site.memory.get("path")
    rows, clipped = _advanced(evaluator, corners, before, asked, z)
    site.memory["path"] = rows
    if before is not None and before.proved is not None and asked.mend is not None:
        mended = np.clip(_moved(evaluator, corners, before.proved, asked.mend), 0.0, 1.0)
        out["mended"] = _minorants(evaluator, corners, mended, asked.groups)[:, : 1 + d]
    if rows.proved is not None:
        out["sides"] = _minorants(evaluator, corners, rows.proved, asked.groups)[:, : 1 + d]
        if evaluator.rows.n_features <= FEW_COLUMNS:
            room = _room_of_sum(evaluator, corners, rows.proved)
            out["room"] = pack_triangle(room[:d, :d])[None]
    lines, H = _model(evaluator, corners, rows)
    ends = [evaluator.rows.mean(rows.products(corners)), clipped]
    out["path"] = np.column_stack([lines[:, : 1 + d], ends])
    out["bend"] = triangle_of(H[:d, :d])[None]
    return out


def replay(site: Site, evaluator: Evaluator, asked: PathRequest, z: Array) -> None:
    """One step of a path that was gone before, without an answer."""
    corners, before = site.oracle.loss.corners, site.memory.get("path")
    if corners and _allowed(site, evaluator):
        site.memory["path"] = _advanced(evaluator, corners, before, asked, z)[0]


def _advanced(
    evaluator: Evaluator,
    corners: Sequence[Corner],
    before: PathRows | None,
    asked: PathRequest,
    z: Array,
) -> tuple[PathRows, float]:
    """The rows after a step, or where the path begins; and the share of them that it stopped."""
    if before is None or asked.tilt is None:
        return PathRows.centred(corners, z, asked.mu), 0.0
    step = PathStep.of(corners, before)
    alpha = _proposed(evaluator, corners, step, asked, z)
    clipped = float(((alpha < 0.0) | (alpha > 1.0)).any(axis=0).mean())
    proved = settled(evaluator, corners, alpha)
    return replace(step.taken(corners, z, asked.mu), proved=proved), clipped


def _allowed(site: Site, evaluator: Evaluator) -> bool:
    """Whether the client tells curvature, dual cuts and sums of groups."""
    policy = site.policy
    fits = isinstance(evaluator, WholeSpaceEvaluator) and may_curve(site)
    return fits and policy.groups and policy.dual_cuts


def _model(evaluator: Evaluator, corners: Sequence[Corner], rows: PathRows) -> tuple[Array, Array]:
    """Values and gradients (2, 2 + n), the second row per mu; and the curvature."""
    step, own = PathStep.of(corners, rows), evaluator.rows
    heights = _total(corners, rows.height)
    logs = _total(corners, -np.log((rows.height - step.u) * rows.height))
    out = np.zeros((2, 2 + own.n_features))
    for k, (value, slope) in enumerate(((heights, step.r), (logs, step.a))):
        v = evaluator.weighted(_total(corners, slope, signed=True))
        out[k] = np.append(own.mean(value), np.append(*own.combine(v)))
    return out, own.gram(_total(corners, step.d) * own.mass())


def _proposed(
    evaluator: Evaluator, corners: Sequence[Corner], step: PathStep, asked: PathRequest, z: Array
) -> Array:
    """Where a step and its tilt lead the slopes, (K, N); perhaps beyond 0 or 1."""
    assert asked.tilt is not None
    du = _sides(corners, z) - step.u + _moves(evaluator, corners, asked.tilt)
    return step.slopes(asked.mu, du)


def settled(evaluator: Evaluator, corners: Sequence[Corner], alpha: Array) -> Array:
    """Slopes within 0 and 1 that add up to what these do, as nearly as the rows have room.

    Where slopes are few, stopped ones are too many of them: that is left to all clients together.
    Where columns are many it takes too long.
    """
    stopped = within = np.clip(alpha, 0.0, 1.0)
    few = alpha.size < _most_moved(evaluator)
    if few or evaluator.rows.n_features > FEW_COLUMNS or (stopped == alpha).all():
        return stopped
    wanted = _sum_of(evaluator, corners, alpha)
    miss = wanted - _sum_of(evaluator, corners, stopped)
    first = left = float(np.linalg.norm(miss))
    for _ in range(TRIES):
        if left <= ENOUGH * float(np.linalg.norm(wanted)):
            break
        room = _room_of_sum(evaluator, corners, within)
        room[np.diag_indices_from(room)] += RIDGE * np.trace(room) / len(room)
        try:
            e = cho_solve(cho_factor(room), miss)
        except LinAlgError:  # no slope has any room
            break
        moved = np.clip(_moved(evaluator, corners, within, e), 0.0, 1.0)
        miss = wanted - _sum_of(evaluator, corners, moved)
        size = float(np.linalg.norm(miss))
        if not size <= LESS * left:
            break
        within, left = moved, size
    return within if left <= WORTH * first else stopped


def _moved(evaluator: Evaluator, corners: Sequence[Corner], alpha: Array, e: Array) -> Array:
    """Slopes, each moved along e as far as it has room; perhaps beyond 0 or 1."""
    return np.asarray(alpha + _room(evaluator, alpha) * _moves(evaluator, corners, e))


def _room(evaluator: Evaluator, alpha: Array) -> Array:
    """That of the slopes with the most of it: the others would cost, and hardly move."""
    room, most = np.minimum(alpha, 1.0 - alpha), _most_moved(evaluator)
    if most < room.size:
        room[room < np.partition(room.ravel(), -most)[-most]] = 0.0
    return np.asarray(room)


def _most_moved(evaluator: Evaluator) -> int:
    return ROOM * int(evaluator.rows.n_features + 1)


def _room_of_sum(evaluator: Evaluator, corners: Sequence[Corner], alpha: Array) -> Array:
    """The matrix (n + 1, n + 1) by which the sum of slopes changes along a step."""
    room = _total(corners, _room(evaluator, alpha))
    return evaluator.rows.gram(room * evaluator.rows.mass())


def _sum_of(evaluator: Evaluator, corners: Sequence[Corner], alpha: Array) -> Array:
    """What slopes add up to, (n + 1,), as a slope of the client's mean loss."""
    v = evaluator.weighted(_total(corners, alpha, signed=True))
    return np.append(*evaluator.rows.combine(v))


def _moves(evaluator: Evaluator, corners: Sequence[Corner], e: Array) -> Array:
    """How much the corners' sides change along a step, (K, N)."""
    moved = evaluator.rows.scores(*evaluator.split(e))
    if evaluator.oracle.is_margin:
        moved *= evaluator.rows.y
    return np.array([c.sign for c in corners])[:, None] * moved


def _minorants(evaluator: Evaluator, corners: Sequence[Corner], alpha: Array, wanted: int) -> Array:
    """The minorants (2 G, 2 + n) of slopes alpha, G groups that fall with the score, G that rise.

    Every group has `GROUP_ROWS` rows on both sides; there may be fewer than are ``wanted``.
    """
    own = evaluator.rows
    rising = np.array([_rises(evaluator, c) for c in corners])
    if evaluator.oracle.is_margin and _few(own.y):
        rising[:] = False  # sums of one class alone would tell too much of its rows
    groups = _enough(rising, wanted)
    out = []
    for k in range(2):
        share = np.where(rising == bool(k), alpha, 0.0)
        v = _total(corners, share, signed=True)
        constant = _total(corners, share * [[-c.sign * c.kink] for c in corners])
        if not evaluator.oracle.is_margin:
            constant -= v * own.y
        constants = evaluator.sums(constant, groups)
        out.append(np.column_stack([constants, *own.group_sums(evaluator.weighted(v), groups)]))
    return np.vstack(out)


def _enough(rising: NDArray[np.bool_], wanted: int) -> int:
    """How many groups may be told apart, row i being in group i mod G; at most so many."""
    sides = [(rising == k).any(axis=0) for k in (False, True)]
    sides = [side for side in sides if side.any()]
    most = min(int(side.sum()) for side in sides) // GROUP_ROWS
    for groups in range(min(wanted, most), 1, -1):
        if all(side[k::groups].sum() >= GROUP_ROWS for side in sides for k in range(groups)):
            return groups
    return 1


def _rises(evaluator: Evaluator, corner: Corner) -> Array:
    """Of which rows this corner's part of the loss rises with the score."""
    if evaluator.oracle.is_margin:
        return np.asarray(corner.sign * evaluator.rows.y > 0.0)
    return np.full(evaluator.rows.n_rows, corner.sign > 0.0)


def _few(y: Array) -> bool:
    positive = int((y > 0.0).sum())
    return min(positive, len(y) - positive) < GROUP_ROWS


def _total(corners: Sequence[Corner], values: Array, *, signed: bool = False) -> Array:
    """The corners' sum of values (K, N)."""
    weights = [c.weight * (c.sign if signed else 1.0) for c in corners]
    return np.asarray(np.array(weights) @ values)
