"""What a convex program needs of one client: checked rows, a ball, a support as halfspaces."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from drfl import checks
from drfl.arrays import Array
from drfl.losses import Loss
from drfl.norms import Norm, make_norm
from drfl.supports import Box, Polyhedron, Support, WholeSpace


@dataclass(frozen=True)
class Halfspaces:
    r"""The support :math:`\{(x,y): A x + a y \le d\}`; in classification a = 0."""

    A: Array  # (r, n)
    a: Array  # (r,)
    d: Array  # (r,)
    is_box: bool

    def slack(self, X: Array, y: Array) -> Array:
        """The room of every row to every side, (N, r); negative outside."""
        return np.asarray(self.d - X @ self.A.T - np.outer(y, self.a))


@dataclass(frozen=True)
class ClientRows:
    r"""One client's rows and ball; ``support`` None is the whole space.

    The metric is ``feature_cost`` times :math:`\|x-x'\|`, plus ``label_cost`` for the target.
    """

    X: Array  # (N, n)
    y: Array  # (N,)
    share: Array  # (N,), the rows' weights; they sum to 1
    size: float  # the sum of the weights before that
    radius: float
    label_cost: float
    norm: Norm
    support: Halfspaces | None
    feature_cost: float = 1.0

    def in_units_of(self, unit: float) -> ClientRows:
        """Return the same ball with features divided by ``unit``: F(w) becomes F(w / unit).

        The metric gets a unit too, the price of the cheaper of the two moves (a feature by
        ``unit``, a label): the multiplier is then of the order of the losses.
        """
        price = min(unit, self.label_cost)
        return replace(
            self,
            X=self.X / unit,
            radius=self.radius / price,
            label_cost=self.label_cost / price,
            support=self.support and replace(self.support, A=self.support.A * unit),
            feature_cost=unit / price,
        )


def make_client(
    loss: Loss,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    radius: float,
    label_cost: float,
    norm: str | Norm,
    support: Support | None,
) -> ClientRows:
    """Check one client's data and settings; rows of weight 0 are dropped."""
    X, y = np.asarray(X, dtype=float), np.asarray(y, dtype=float)
    if X.ndim != 2 or y.shape != X.shape[:1] or X.size == 0:
        raise ValueError(f"X must be (N, n) and y (N,), not empty; got {X.shape} and {y.shape}")
    if not (np.isfinite(X).all() and np.isfinite(y).all()):
        raise ValueError("X and y must be finite: remove or fill missing values")
    if loss.task == "classification" and not np.isin(y, (-1.0, 1.0)).all():
        raise ValueError(f"{loss.name} needs labels -1 and +1, but y has others")
    radius = checks.number("radius", radius, least=0.0)
    label_cost = checks.number("label_cost", label_cost, above=0.0, infinite=True)
    weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    size = float(weight.sum())
    if weight.shape != y.shape or not (weight >= 0.0).all() or not 0.0 < size < math.inf:
        raise ValueError("sample_weight must hold one finite weight >= 0 per row, not all 0")
    halfspaces = make_halfspaces(support, X.shape[1], loss)
    rows = weight > 0.0
    X, y, share = X[rows], y[rows], weight[rows] / size
    if halfspaces is not None:
        _refuse_outside(halfspaces, X, y)
    return ClientRows(X, y, share, size, radius, label_cost, make_norm(norm), halfspaces)


def make_halfspaces(support: Support | None, n: int, loss: Loss) -> Halfspaces | None:
    """Read a box or a polyhedron; an infinite side of a box is no halfspace."""
    if support is None or isinstance(support, WholeSpace):
        return None
    if not isinstance(support, Box | Polyhedron):
        raise TypeError(f"support must be a Box, a Polyhedron or None, got {support!r}")
    support.check(n, loss.task)
    if not loss.pieces:
        raise ValueError(
            f"the reference has {loss.name} on the whole space only: on a {support.name} take a "
            "piecewise-linear loss (hinge, epsilon_insensitive, pinball)"
        )
    regression = loss.task == "regression"
    if isinstance(support, Polyhedron):
        sides, d = support.C, support.d
    else:
        low, high = support.bounds(n)
        if regression:
            low, high = np.append(low, support.y_low), np.append(high, support.y_high)
        above, below = np.isfinite(high), np.isfinite(low)
        axes = np.eye(len(low))
        sides, d = np.vstack([axes[above], -axes[below]]), np.append(high[above], -low[below])
    if len(d) == 0:  # a box without a finite side
        return None
    a = sides[:, n] if regression else np.zeros(len(d))
    return Halfspaces(sides[:, :n], a, d, isinstance(support, Box))


def _refuse_outside(support: Halfspaces, X: Array, y: Array) -> None:
    # The tolerance is for rounding only, such as a row that was clipped to an oblique side.
    beyond = support.slack(X, y) < -1e-9 * np.maximum(1.0, np.abs(support.d))
    outside = np.flatnonzero(beyond.any(axis=1))
    if len(outside):
        raise ValueError(
            f"{len(outside)} rows lie outside the support, the first ones of positive weight are "
            f"{outside[:3].tolist()}: widen the support or clip the rows"
        )
