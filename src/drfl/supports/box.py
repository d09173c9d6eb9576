"""Boxes: every feature, and in regression the target, between two bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from drfl._sealed import sealed
from drfl.arrays import Array
from drfl.losses import Task
from drfl.supports.base import Support


@sealed
@dataclass(frozen=True, init=False)
class Box(Support):
    r"""Rows with :math:`\mathrm{low}\le x\le\mathrm{high}` and targets between y_low and y_high.

    Parameters
    ----------
    low, high : float or array of shape (n,)
        Bounds of the features, in the units of the rows; infinite sides are allowed.
    y_low, y_high : float
        Bounds of the target, for regression only.

    Examples
    --------
    >>> Box(0, [1, 2])
    Box(low=0.0, high=(1.0, 2.0), y_low=-inf, y_high=inf)
    """

    low: float | tuple[float, ...]
    high: float | tuple[float, ...]
    y_low: float
    y_high: float

    name = "box"

    def __init__(
        self,
        low: ArrayLike,
        high: ArrayLike,
        y_low: float = -math.inf,
        y_high: float = math.inf,
    ) -> None:
        set_field = object.__setattr__  # the record is frozen
        set_field(self, "low", _side("low", low))
        set_field(self, "high", _side("high", high))
        set_field(self, "y_low", float(y_low))
        set_field(self, "y_high", float(y_high))
        widths = {len(side) for side in (self.low, self.high) if isinstance(side, tuple)}
        if len(widths) > 1:
            raise ValueError(
                f"low has {np.size(self.low)} bounds and high {np.size(self.high)}: give one "
                "number, or one per feature"
            )
        self._refuse_empty(max(widths, default=1))

    def bounds(self, n_features: int) -> tuple[Array, Array]:
        """The two sides as arrays of shape (n,)."""
        self._require_columns(n_features)
        return np.full(n_features, self.low), np.full(n_features, self.high)

    def _require_columns(self, n_features: int) -> None:
        for side in (self.low, self.high):
            if isinstance(side, tuple) and len(side) != n_features:
                raise ValueError(
                    f"the box has {len(side)} columns but the data have {n_features} features: "
                    "give one number, or one bound per feature"
                )

    def check(self, n_features: int, task: Task) -> None:
        self._require_columns(n_features)
        if task == "classification" and (self.y_low, self.y_high) != (-math.inf, math.inf):
            raise ValueError(
                "y_low and y_high bound the target of a regression: leave them out for labels"
            )

    def distance(self, x: Array, y: Array, tolerance: float) -> Array:
        low, high = self.bounds(x.shape[1])
        beyond = _beyond(x, low, high, tolerance).max(axis=1, initial=0.0)
        return np.asarray(np.maximum(beyond, _beyond(y, self.y_low, self.y_high, tolerance)))

    def is_bounded(self, *, targets: bool) -> bool:
        sides = [*np.atleast_1d(self.low), *np.atleast_1d(self.high)]
        if targets:
            sides += [self.y_low, self.y_high]
        return bool(np.isfinite(sides).all())

    def widened(self, x: Array, y: Array) -> Box:
        low, high = self.bounds(x.shape[1])
        # Labels are never outside: their sides are infinite and stay so.
        return Box(
            np.minimum(low, x.min(axis=0)),
            np.maximum(high, x.max(axis=0)),
            min(self.y_low, float(y.min())),
            max(self.y_high, float(y.max())),
        )

    def _refuse_empty(self, n: int) -> None:
        low, high = self.bounds(n)
        empty = (low > high) | (low == math.inf) | (high == -math.inf)
        if empty.any():
            j = int(np.argmax(empty))
            raise ValueError(f"the box is empty: low is {low[j]} and high {high[j]} in column {j}")
        if not (self.y_low <= self.y_high and self.y_low < math.inf and self.y_high > -math.inf):
            raise ValueError(f"the box is empty: y_low is {self.y_low} and y_high {self.y_high}")


def _side(name: str, side: ArrayLike) -> float | tuple[float, ...]:
    array = np.asarray(side, dtype=np.float64)
    if array.ndim > 1 or array.size == 0 or np.isnan(array).any():
        raise ValueError(f"{name} must be a number or one number per feature, without NaN")
    return float(array) if array.ndim == 0 else tuple(array.tolist())


def _beyond(v: Array, low: ArrayLike, high: ArrayLike, tolerance: float) -> Array:
    """By how much v passes its bounds, 0 where that is rounding."""
    low, high = np.asarray(low), np.asarray(high)
    size = np.maximum(_finite(low), _finite(high))
    beyond = np.maximum(np.maximum(low - v, v - high), 0.0)
    return np.where(beyond > tolerance * np.where(size > 0.0, size, 1.0), beyond, 0.0)


def _finite(bound: Array) -> Array:
    return np.where(np.isfinite(bound), np.abs(bound), 0.0)
