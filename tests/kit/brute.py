r"""The worst-case loss by exhaustion: a transport LP over atoms, for a few rows in low dimension.

The adversary moves mass from rows to atoms:

.. math::
    \max_{\pi\ge0} \sum_{ij} \pi_{ij} L(\xi_{ij}) \quad\text{s.t.}\quad
    \sum_j \pi_{ij} = p_i,\quad \sum_{ij} \pi_{ij}\, d(\xi_{ij},\xi_i) \le \rho .

Any atoms give a value that can be reached, so the LP never exceeds the truth; it *is* the truth
when the atoms contain the maximisers of :math:`L - \lambda d`, for every :math:`\lambda`. With the
l1 and linf norms d is linear on the cells cut by a few planes through the row, L is convex, so the
maximisers are corners of cell and support: they are enumerated. Mass that escapes to infinity is a
column without mass: the recession slope of L at the cost of its direction. With the l2 norm in the
plane the maximiser is a corner, the row, or a boundary point, found by column generation.

No formula of the package is used but the values of the losses.
"""

from __future__ import annotations

import math
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array

from drfl.losses import Loss, make_loss

Array = NDArray[np.float64]
Atom = tuple[int, Array, float]  # the row it comes from, its x, its y


def transport_lp(
    share: Array,
    row: NDArray[np.intp],
    gain: Array,
    cost: Array,
    radius: float,
    escape_gain: Array | None = None,
    escape_cost: Array | None = None,
) -> tuple[float, float, Array]:
    """Solve the transport LP; atom j belongs to ``row[j]``.

    Returns the value (-inf if no atoms are within reach), the multiplier of the budget, and those
    of the rows.
    """
    escape_gain = np.zeros(0) if escape_gain is None else escape_gain
    escape_cost = np.zeros(0) if escape_cost is None else escape_cost
    m, k = len(row), len(row) + len(escape_gain)
    leave = csr_array((np.ones(m), (row, np.arange(m))), shape=(len(share), k))
    result = linprog(
        -np.concatenate([gain, escape_gain]),
        A_ub=csr_array(np.concatenate([cost, escape_cost])[None, :]),
        b_ub=[radius],
        A_eq=leave,
        b_eq=share,
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if result.status == 2:
        return -math.inf, math.inf, np.full(len(share), -math.inf)
    assert result.status == 0, result.message
    return -result.fun, -result.ineqlin.marginals[0], -result.eqlin.marginals


def worst_case_loss(
    X: Array,
    y: Array,
    coef: Array,
    intercept: float = 0.0,
    *,
    loss: str | Loss,
    radius: float,
    label_cost: float = math.inf,
    norm: str = "l1",
    support: Any = None,
    sample_weight: Array | None = None,
) -> float:
    """Return F(w), exact up to the LP solver (1e-9), for any convex loss.

    The support is None, a box (infinite sides allowed) or a bounded polyhedron, in at most three
    dimensions (target included where it moves); rows may lie outside it. With the l2 norm: the
    whole space, one feature, or two with a box (rows inside) or with a target that stays put.
    """
    game = _Game(make_loss(loss), np.asarray(coef, float), intercept, label_cost, norm, support)
    X, y = np.asarray(X, float), np.asarray(y, float)
    share = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, float)
    share = share / share.sum()
    atoms = [(i, x, v) for i in range(len(y)) for x, v in game.corners(X[i], y[i])]
    escape_gain, escape_cost = game.escapes(y)
    while True:
        row = np.array([i for i, _, _ in atoms])
        to_x, to_y = np.array([x for _, x, _ in atoms]), np.array([v for _, _, v in atoms])
        gain, cost = game.gain(to_x, to_y), game.cost(X[row], y[row], to_x, to_y)
        value, lam, alpha = transport_lp(share, row, gain, cost, radius, escape_gain, escape_cost)
        better = game.boundary_points(X, y, lam, alpha, atoms) if norm == "l2" else []
        if not better:
            return value
        atoms += better


class _Game:
    """What the adversary may do, and what it earns."""

    def __init__(
        self, loss: Loss, w: Array, b: float, label_cost: float, norm: str, support: Any
    ) -> None:
        self.loss, self.w, self.b, self.label_cost, self.norm = loss, w, b, label_cost, norm
        self.regression = loss.task == "regression"
        self.A, self.a, self.d = _sides(support, len(w), self.regression)

    def gain(self, x: Array, y: Array) -> Array:
        score = x @ self.w + self.b
        return self.loss.value(score - y if self.regression else y * score)

    def cost(self, x: Array, y: Array, to_x: Array, to_y: Array) -> Array:
        moved = np.abs(y - to_y) if self.regression else (y != to_y).astype(float)
        # A target that stays is free, also where moving it costs infinity.
        label = np.multiply(self.label_cost, moved, where=moved > 0.0, out=np.zeros(len(moved)))
        return _length(self.norm, to_x - x) + label

    def corners(self, x: Array, y: float) -> list[tuple[Array, float]]:
        """Return the corners of the cells around one row, as pairs (x, y)."""
        n, joint = len(x), self.regression and math.isfinite(self.label_cost)
        here = np.append(x, y) if joint else x
        A = np.column_stack([self.A, self.a]) if joint else self.A
        d = self.d if joint else self.d - self.a * y
        planes = list(np.eye(len(here)))
        if self.norm == "linf":
            for j, k in combinations(range(n), 2):
                planes += [planes[j] + planes[k], planes[j] - planes[k]]
        cuts = np.array(planes)
        points = corners_of(np.vstack([cuts, A]), np.append(cuts @ here, d), A, d)
        if joint:
            return [(point[:n], float(point[n])) for point in points]
        flips = not self.regression and math.isfinite(self.label_cost)
        return [(point, label) for point in points for label in ((y, -y) if flips else (y,))]

    def escapes(self, y: Array) -> tuple[Array, Array]:
        """Return gain and cost per unit of mass times distance, for the ways to infinity."""
        ways = [np.array(u, float) for u in product((-1, 0, 1), repeat=len(self.w)) if any(u)]
        if self.w.any():
            steepest = self.w / np.linalg.norm(self.w)  # the best way with the l2 norm
            ways += [steepest, -steepest]
        ways = [u for u in ways if (self.A @ u <= 0.0).all()]
        labels = {1.0} if self.regression else {float(label) for label in y}
        if not self.regression and math.isfinite(self.label_cost):
            labels = {-1.0, 1.0}
        rate = [label * float(self.w @ u) for u in ways for label in labels]
        cost = [float(_length(self.norm, u)) for u in ways for _ in labels]
        if self.regression and math.isfinite(self.label_cost):
            up_down = [sign for sign in (1.0, -1.0) if (self.a * sign <= 0.0).all()]
            rate, cost = rate + [-sign for sign in up_down], cost + [self.label_cost] * len(up_down)
        low, high = self.loss.slope_range
        return np.array([max(low * v, high * v) for v in rate]), np.array(cost)

    def boundary_points(
        self, X: Array, y: Array, lam: float, alpha: Array, atoms: list[Atom]
    ) -> list[Atom]:
        r"""Return, for two features and the l2 norm, boundary points that improve the LP.

        From a row straight ahead :math:`L - \lambda d` is convex, so its maximum is the row or
        the boundary: search the angle, then zoom.
        """
        if X.shape[1] != 2 or not len(self.d):
            return []
        found = []
        for i, label in sorted({(i, v) for i, _, v in atoms}):
            room = self.d - self.a * label * self.regression - self.A @ X[i]
            if (room < -1e-9).any():
                continue
            best, width = 0.0, math.pi
            for points in (721, 41, 41, 41, 41, 41):
                angle = best + width * np.linspace(-1.0, 1.0, points)
                u = np.column_stack([np.cos(angle), np.sin(angle)])
                speed = u @ self.A.T
                time = np.divide(
                    room.clip(0.0), speed, where=speed > 1e-12, out=np.full(speed.shape, 1e4)
                )
                x = X[i] + time.min(axis=1)[:, None] * u
                far, labels = np.full(points, y[i]), np.full(points, label)
                reduced = self.gain(x, labels) - lam * self.cost(X[i], far, x, labels) - alpha[i]
                reduced[time.min(axis=1) >= 1e4] = -math.inf  # never meets the boundary
                j = int(np.argmax(reduced))
                best, width = angle[j], 2.0 * width / (points - 1)
            if reduced[j] > 1e-9:
                found.append((i, x[j], label))
        return found


def corners_of(planes: Array, offsets: Array, A: Array, d: Array) -> Array:
    """Return the points where k of the planes in R^k meet, those with ``A x <= d``."""
    k = planes.shape[1]
    choice = np.array(list(combinations(range(len(planes)), k)))
    systems, rhs = planes[choice], offsets[choice]
    regular = np.abs(np.linalg.det(systems)) > 1e-9
    points = np.linalg.solve(systems[regular], rhs[regular][..., None])[..., 0]
    return points[(points @ A.T <= d + 1e-9).all(axis=1)]


def _sides(support: Any, n: int, regression: bool) -> tuple[Array, Array, Array]:
    """Return the halfspaces ``A x + a y <= d`` of a support."""
    if support is None:
        return np.zeros((0, n)), np.zeros(0), np.zeros(0)
    if hasattr(support, "C"):
        C = np.asarray(support.C, float)
        return C[:, :n], C[:, n] if regression else np.zeros(len(C)), np.asarray(support.d, float)
    halfspaces = []
    for j in range(n + regression):
        for sign, bounds, y_bound in (
            (1.0, support.high, support.y_high),
            (-1.0, support.low, support.y_low),
        ):
            bound = np.broadcast_to(bounds, n)[j] if j < n else y_bound
            if math.isfinite(bound):
                halfspaces.append((sign * np.eye(n + 1)[j], sign * bound))
    normals = np.array([normal for normal, _ in halfspaces]).reshape(-1, n + 1)
    return normals[:, :n], normals[:, n], np.array([bound for _, bound in halfspaces])


def _length(norm: str, v: Array) -> Array:
    return np.linalg.norm(v, {"l1": 1, "l2": 2, "linf": np.inf}[norm], axis=-1)
