r"""Minorants of f that hold for every w and b when the data are bounded (docs/theory.md).

In a box with midpoint m and half sides h, :math:`N(w)=\sum_jh_j|w_j|` is what the best corner gains
over the midpoint. The adversary can afford to move the share :math:`p_s=\min(1,\rho_s/D_s)` of
every row to a corner, :math:`D_s` being the mean distance to the farthest one. A line
:math:`L(z)\ge vz+c_v` under the loss then gives *anchors*

.. math:: f \ge e + u^\top w + \beta b + \omega N(w),

two that lean to either side (:math:`\beta\ne0`) and, mixed from them, one that is level
(:math:`\beta=0`). They take the place of :math:`f\ge r\|w\|_*`, which a support does not grant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from drfl.arrays import Array
from drfl.losses import Loss
from drfl.norms import Norm
from drfl.problem import Problem
from drfl.rows import Rows
from drfl.supports import Box, Polyhedron
from drfl.uncertainty import Ball, Mixture
from drfl.worst_case.oracle import Oracle


@dataclass(frozen=True)
class Anchor:
    r"""One :math:`f\ge e+u^\top w+\beta b+\omega N(w)`."""

    e: float
    u: Array
    beta: float
    omega: float


@dataclass(frozen=True)
class Anchors:
    r"""What is known of f everywhere.

    Attributes
    ----------
    leaning : tuple of Anchor
        With beta < 0 and with beta > 0.
    level : Anchor
        With beta = 0; u is 0 in bounded columns.
    half : (n,)
        h; 0 in columns that no finite box bounds.
    unbounded : (n,) bool
        These columns, I.
    price : float
        :math:`h(\rho)\,\mathrm{Lip}(L)`: f is at least so many times :math:`\|w_I\|_*`.
    norm : Norm
        The ground norm.
    pinned : (n,) bool
        Columns with one value :math:`c_j` in the support, which every row has: f depends on their
        coefficients through :math:`b+\sum_jc_jw_j` alone, so that what they add to a slope is what
        the slope in b says already.
    stand_in : tuple of int and float, or None
        A pinned column that takes the place of the intercept, where there is none, and its value.
    """

    leaning: tuple[Anchor, ...]
    level: Anchor
    half: Array
    unbounded: NDArray[np.bool_]
    price: float
    norm: Norm
    pinned: NDArray[np.bool_]
    stand_in: tuple[int, float] | None = None

    def bound(self, constant: float, g: Array, gb: float) -> float:
        r"""The best value of :math:`C+g^\top w+g_bb` mixed with anchors, free of w and b.

        r times a leaning anchor cancels b, s times the level one pays for the bounded columns,
        and t times the price for the others; with weights k, kr, ks, kt that add up to 1 it is a
        minorant of f without slope.
        """
        r, lean = 0.0, Anchor(0.0, np.zeros_like(g), 0.0, 0.0)
        if self.stand_in is not None:
            j, value = self.stand_in
            gb = float(g[j]) / value
        if gb != 0.0:
            fitting = [anchor for anchor in self.leaning if anchor.beta * gb < 0.0]
            if not fitting:
                return 0.0
            lean = fitting[0]
            r = abs(gb / lean.beta)
        slope, bounded = np.where(self.pinned, 0.0, g + r * lean.u), ~self.unbounded
        over = max(0.0, _box_dual(slope[bounded], self.half[bounded]) - r * lean.omega)
        s = _ratio(over, self.level.omega)
        if not np.isfinite(s):
            return 0.0
        open_slope = np.where(self.unbounded, slope + s * self.level.u, 0.0)
        t = _ratio(float(self.norm(open_slope)), self.price)
        k = 1.0 / (1.0 + r + (s + t))
        return max(0.0, k * (constant + r * lean.e) + k * s * self.level.e)


def _box_dual(v: Array, half: Array) -> float:
    """max |v_j| / h_j, with 0/0 = 0: what of N(w) pays for the slope v."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(v == 0.0, 0.0, np.abs(v) / half)
    return float(ratio.max(initial=0.0))


def _ratio(amount: float, price: float) -> float:
    if amount <= 0.0:
        return 0.0
    return amount / price if price > 0.0 else np.inf


@dataclass(frozen=True)
class AnchorBox:
    """A box inside the support, to whose corners rows can be moved.

    Attributes
    ----------
    middle, half : (n,)
        Of the box; 0 in unbounded columns, where rows stay.
    unbounded : (n,)
        Columns that the support does not bound.
    pinned : (n,)
        Columns that have one value in the support, that of the middle.
    target : float or None
        Where targets have to go as well (polyhedra in regression); None: they stay.
    """

    middle: Array
    half: Array
    unbounded: NDArray[np.bool_]
    pinned: NDArray[np.bool_]
    target: float | None = None

    @classmethod
    def of(cls, ball: Ball, loss: Loss, n: int) -> AnchorBox | None:
        """The box of a support; None if there is none that serves."""
        if isinstance(ball.support, Box):
            low, high = ball.support.bounds(n)
            bounded = np.isfinite(low) & np.isfinite(high)
            if (np.isfinite(low) ^ np.isfinite(high)).any():
                return None  # rows may have to head for the finite side: nothing prices w there
            low, high = np.where(bounded, low, 0.0), np.where(bounded, high, 0.0)
            return cls((low + high) / 2.0, (high - low) / 2.0, ~bounded, bounded & (low == high))
        if isinstance(ball.support, Polyhedron):
            return cls._inscribed(ball, loss, n)
        return None

    @classmethod
    def _inscribed(cls, ball: Ball, loss: Loss, n: int) -> AnchorBox | None:
        """A large box in a polyhedron, by a linear program: Cm + |C|h <= d, all h >= t, max t."""
        assert isinstance(ball.support, Polyhedron)
        moves = loss.task == "regression"
        if moves and math.isinf(ball.label_cost):
            return None
        C, d = np.asarray(ball.support.C), np.asarray(ball.support.d)
        k = C.shape[1]
        size = np.where(np.arange(k) < n, 1.0, 0.0)  # the target's side is a point
        A = np.hstack([C, np.abs(C) @ size[:, None], np.abs(C) * size])
        cost = np.concatenate([np.zeros(k), [-1.0], -1e-3 * size])
        bounds = [(None, None)] * k + [(0.0, 1e6)] + [(0.0, 1e6)] * k
        answer = linprog(cost, A_ub=A, b_ub=d, bounds=bounds, method="highs")
        if answer.x is None:
            return None
        middle, least, more = answer.x[:k], answer.x[k], answer.x[k + 1 :]
        # The linear program is solved to a tolerance: stay a little inside.
        half = (1.0 - 1e-6) * (least + more[:n])
        target = float(middle[n]) if moves else None
        # An inscribed box without sides does not say that the polyhedron has none.
        none = np.zeros(n, np.bool_)
        return cls(middle[:n], half, none, none, target)

    @property
    def stand_in(self) -> tuple[int, float] | None:
        """The pinned column whose coefficient acts most like an intercept, and its value."""
        value = np.where(self.pinned, self.middle, 0.0)
        j = int(np.abs(value).argmax())
        return (j, float(value[j])) if value[j] != 0.0 else None

    def facts(self, oracle: Oracle) -> Array:
        r"""What a client tells once, (3, n + 1).

        Share and mean row of the two classes (regression: all rows, nothing), then the mean
        distance to the farthest corner and the mean target.
        """
        rows, n = oracle.rows, oracle.rows.n_features
        out, distance = np.zeros((3, n + 1)), 0.0
        for block, x in rows.dense_blocks():
            y, p = rows.y[block], np.broadcast_to(rows.mass(block), (len(x),))
            # A norm on supports is one of absolute values: the farthest corner is so far.
            reach = np.abs(x - self.middle) + self.half
            far = oracle.ball.norm(np.where(self.unbounded, 0.0, reach))
            if self.target is not None:
                far = far + oracle.ball.label_cost * np.abs(y - self.target)
            distance += float(p @ far)
            classes = (y < 0.0, y > 0.0) if oracle.is_margin else (np.ones(len(y), bool),)
            for k, chosen in enumerate(classes):
                out[k, 0] += p[chosen].sum()
                out[k, 1:] += p[chosen] @ x[chosen]
            out[2, 1] += float(p @ y)
        out[:2, 1:] /= np.where(out[:2, :1] > 0.0, out[:2, :1], 1.0)
        out[2, 0] = distance
        return out


def anchor_boxes(problem: Problem, names: Sequence[str], n: int) -> list[AnchorBox | None]:
    """The box of every client, found once for every ball that they share."""
    balls = [problem.ball_of(name) for name in names]
    found = {id(ball): AnchorBox.of(ball, problem.loss, n) for ball in balls}
    return [found[id(ball)] for ball in balls]


@dataclass(frozen=True)
class AnchorFacts:
    r"""What the clients told, and what they can afford.

    Attributes
    ----------
    mass : (S, 2)
        :math:`\hat q_s` times the share of the class (regression: of all rows, and nothing).
    means : (S, 2, n)
        The classes' mean rows.
    targets : (S,)
        The mean targets, moved as the rows are.
    distance, moved : (S,)
        D and p.
    """

    mass: Array
    means: Array
    targets: Array
    distance: Array
    moved: Array

    @classmethod
    def read(cls, facts: Array, box: AnchorBox, center: Array, rho: Array) -> AnchorFacts:
        """Of `AnchorBox.facts` of every client, (S, 3, n + 1)."""
        distance, targets = facts[:, 2, 0], facts[:, 2, 1]
        safe = np.where(distance > 0.0, distance, 1.0)
        p = np.where(rho > 0.0, np.where(distance > 0.0, np.minimum(1.0, rho / safe), 1.0), 0.0)
        if box.target is not None:
            targets = (1.0 - p) * targets + p * box.target
        return cls(center[:, None] * facts[:, :2, 0], facts[:, :2, 1:], targets, distance, p)

    def moved_means(self, box: AnchorBox) -> Array:
        """The classes' mean rows once the share p is at the midpoint; open columns stay."""
        p = self.moved[:, None, None]
        return np.where(box.unbounded, self.means, (1.0 - p) * self.means + p * box.middle)


def anchors_of(
    problem: Problem,
    names: Sequence[str],
    box: AnchorBox | None,
    mixture: Mixture,
    facts: Sequence[Array | None],
) -> Anchors | None:
    """Of the clients' first answers; ``box`` is the first client's. None: there are none."""
    balls = [problem.ball_of(name) for name in names]
    if box is None or all(ball.radius == 0.0 for ball in balls):
        return None
    if any(ball.support != balls[0].support for ball in balls):
        return None
    told = [fact for fact in facts if fact is not None]
    if len(told) < len(balls):  # a client whose targets cannot follow has nothing to tell
        return None
    make = anchors_of_each if problem.own_intercepts else make_anchors
    made = make(problem.loss, balls, box, mixture, np.array(told, dtype=np.float64))
    return replace(made, stand_in=box.stand_in if problem.intercept == "none" else None)


def make_anchors(
    loss: Loss, balls: Sequence[Ball], box: AnchorBox, mixture: Mixture, facts: Array
) -> Anchors:
    """Anchors from what every client told; the balls share their support."""
    rho, center = np.array([ball.radius for ball in balls]), mixture.weights
    told = AnchorFacts.read(facts, box, center, rho)
    if loss.task == "classification":
        leaning = _leaning_classes(loss, box, told)
        cost = np.array([ball.label_cost for ball in balls])
        flips = np.where(rho > 0.0, np.minimum(1.0, rho / (told.distance + cost)), 0.0)
        level = _level_classes(loss, box, told, float(center @ flips))
    else:
        leaning = _leaning_residuals(loss, box, told, center)
        level = _level_residuals(*leaning)
    leaning = tuple(anchor for anchor in leaning if anchor.beta != 0.0)
    price = mixture.support(rho * loss.lipschitz)
    return Anchors(leaning, level, box.half, box.unbounded, price, balls[0].norm, box.pinned)


def anchors_of_each(
    loss: Loss, balls: Sequence[Ball], box: AnchorBox, mixture: Mixture, facts: Array
) -> Anchors:
    """The same where every client has an intercept of its own: b cancels at each of them.

    The level anchors of the clients alone add up with the weights of the centre.
    """
    one = Mixture().resolve([1.0])
    alone = [make_anchors(loss, [ball], box, one, facts[s : s + 1]) for s, ball in enumerate(balls)]
    q = mixture.weights
    level = Anchor(
        float(sum(w * found.level.e for w, found in zip(q, alone, strict=True))),
        np.asarray(sum(w * found.level.u for w, found in zip(q, alone, strict=True))),
        0.0,
        float(sum(w * found.level.omega for w, found in zip(q, alone, strict=True))),
    )
    price = mixture.support(np.array([ball.radius for ball in balls]) * loss.lipschitz)
    return Anchors((), level, box.half, box.unbounded, price, balls[0].norm, box.pinned)


def _leaning_classes(loss: Loss, box: AnchorBox, told: AnchorFacts) -> tuple[Anchor, ...]:
    r"""One class alone, the other one's losses being nonnegative, for every line under the loss.

    With :math:`a_y=\sum\hat q\pi_y` and :math:`P_y=\sum\hat q\pi_yp`:
    :math:`f\ge a_yc_v+vy(a_yb+w^\top\sum\hat q\pi_y\tilde\mu_y)+|v|P_yN(w)`.
    """
    a, P = told.mass.sum(axis=0), (told.mass * told.moved[:, None]).sum(axis=0)
    rows = (told.mass[:, :, None] * told.moved_means(box)).sum(axis=0)
    return tuple(
        Anchor(c * a[k], v * y * rows[k], v * y * a[k], abs(v) * P[k])
        for v, c in _end_lines(loss)
        for k, y in enumerate((-1.0, 1.0))
    )


def _level_classes(loss: Loss, box: AnchorBox, told: AnchorFacts, flipping: float) -> Anchor:
    r"""Rows at corners of both classes, or with both labels: :math:`f\ge\omega(c_v+N(w))`, v = -1.

    Of the moved rows alone, :math:`f\ge P_y(c_v-y(b+m^\top w)+N(w))`; mixed in the ratio
    :math:`P_-:P_+` the two signs of y cancel. In open columns the rows stay where they are, and the
    difference of the classes' means is left. With labels that can be moved as well, a share
    :math:`\rho_s/(D_s+\kappa)` of the rows is at the worse label.
    """
    P = (told.mass * told.moved[:, None]).sum(axis=0)
    both = 2.0 * P[0] * P[1] / (P[0] + P[1]) if P.sum() > 0.0 else 0.0
    u = np.zeros(len(box.middle))
    if both > flipping:
        weighted = told.mass[:, :, None] * told.moved[:, None, None] * told.means
        negative, positive = weighted.sum(axis=0) / P[:, None]
        u = np.where(box.unbounded, both * 0.5 * (negative - positive), 0.0)
    omega = max(both, flipping)
    return Anchor(-omega * float(loss.conjugate(np.array([-1.0]))[0]), u, 0.0, omega)


def _leaning_residuals(
    loss: Loss, box: AnchorBox, told: AnchorFacts, center: Array
) -> tuple[Anchor, ...]:
    r"""All rows: :math:`f\ge c_v+v(b+w^\top\tilde x-\tilde y)+|v|PN(w)`, v an end of the slopes."""
    P = float((told.mass[:, 0] * told.moved).sum())
    row = (told.mass[:, :1] * told.moved_means(box)[:, 0]).sum(axis=0)
    target = float(center @ told.targets)
    return tuple(Anchor(c - v * target, v * row, v, abs(v) * P) for v, c in _end_lines(loss))


def _level_residuals(down: Anchor, up: Anchor) -> Anchor:
    """The two signs of v cancel b, and with it everything but N(w)."""
    t = up.beta / (up.beta - down.beta)
    mixed = t * down.e + (1.0 - t) * up.e, t * down.omega + (1.0 - t) * up.omega
    return Anchor(mixed[0], np.zeros_like(up.u), 0.0, mixed[1])


def _end_lines(loss: Loss) -> list[tuple[float, float]]:
    r"""The steepest lines under the loss, :math:`L(z)\ge vz-L^*(v)`."""
    ends = [v for v in loss.slope_range if v != 0.0]
    return [(v, -float(loss.conjugate(np.array([v]))[0])) for v in ends]


@dataclass(frozen=True)
class ClassAnchors:
    r"""What bounds the intercepts of K classes: the rows of one class alone.

    A row of class y loses at least :math:`e_0+z_j-z_y`, whatever j is, so that

    .. math:: f\ \ge\ a_y\big(e_0+\langle W_j-W_y,\mu_y\rangle+b_j-b_y\big)
              +\hat q^\top\rho\,\Lambda(W).

    Attributes
    ----------
    mass, means : (K,), (K, n)
        :math:`a_y=\sum_s\hat q_s\pi_{sy}`, and the classes' mean rows, weighted so.
    end : float
        :math:`e_0`: 0 for the cross-entropy, 1 for the loss of Crammer and Singer.
    prices : (S,)
        :math:`\hat q_s\rho_s`.
    """

    mass: Array
    means: Array
    end: float
    prices: Array

    @classmethod
    def of(cls, facts: Array, end: float, center: Array, rho: Array) -> ClassAnchors:
        """Of what every client told, (S, K, n + 1): the shares and mean rows of its classes."""
        mass = center[:, None] * facts[:, :, 0]
        total = mass.sum(axis=0)
        means = (mass[:, :, None] * facts[:, :, 1:]).sum(axis=0)
        means /= np.where(total > 0.0, total, 1.0)[:, None]
        return cls(total, means, end, center * rho)

    def against(self, gb: Array) -> tuple[float, float, Array] | None:
        r"""Anchors that cancel slopes :math:`g_b` (K,) in the intercepts.

        What class y has too much of, others lack; each gets it in proportion. None: a class that
        has too much has no rows.

        Returns
        -------
        tuple
            The sum R of the anchors' weights, their constant, and their slope in W (Kn,).
        """
        gb = gb - gb.mean()  # only differences of scores count
        more, less = np.maximum(gb, 0.0), np.maximum(-gb, 0.0)
        have = more > 0.0
        if not have.any():
            return 0.0, 0.0, np.zeros(self.means.size)
        if not (self.mass[have] > 0.0).all():
            return None
        R = float((more[have] / self.mass[have]).sum())
        flow = np.outer(less, more) / float(more.sum())  # to j from y
        slope = flow @ self.means - flow.sum(axis=0)[:, None] * self.means
        return R, self.end * float(more.sum()), slope.ravel()


def class_facts(rows: Rows, classes: int) -> Array:
    """What a client tells once of its classes, (K, n + 1): their shares and mean rows."""
    member = np.zeros((classes, rows.n_rows))
    member[rows.y.astype(np.intp), np.arange(rows.n_rows)] = 1.0
    sums, share = rows.combine_many(member * rows.mass())
    means = sums[:, 0] / np.where(share > 0.0, share, 1.0)
    return np.column_stack([share, means])
