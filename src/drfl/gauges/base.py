r"""What a gauge states: its value and a subgradient, its epigraph as rows, and its polar."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.norms import EpigraphRows


class Gauge(ABC):
    r"""A convex function of x's first ``n`` entries, :math:`\ge0`, with gauge(cx) = c gauge(x).

    Attributes
    ----------
    n : int
        How many entries of x it depends on; an intercept is not among them.
    """

    n: int

    @abstractmethod
    def value(self, x: Array) -> float:
        """The gauge of x."""

    @abstractmethod
    def subgradient(self, x: Array) -> Array:
        """One subgradient u (n,): value(y) >= u'y everywhere, with equality at x."""

    @abstractmethod
    def polar(self, g: Array) -> float:
        r"""The least B with :math:`g^\top x+B\,\mathrm{gauge}(x)\ge0` for all x.

        It is what the slope g (n,) costs: :math:`\max\{g^\top x:\mathrm{gauge}(x)\le1\}` for a
        symmetric gauge.
        """

    @abstractmethod
    def payable(self, g: Array, price: float) -> Array:
        """A slope (n,) near g whose polar is at most the price; 0 if that is 0."""

    def nearest(self, x: Array) -> Array:
        """A point where the gauge is finite, near one where it is up to rounding."""
        return x

    @abstractmethod
    def rows(self) -> EpigraphRows | None:
        """The epigraph gauge(x) <= t by linear rows; None: tangents have to approximate it."""

    def extra(self, x: Array) -> Array:
        """The rows' further variables at x, with which they hold at t = value(x); often none."""
        return x[:0]

    def invariance(self) -> Array | None:
        """A matrix (d, d) whose kernel is where models are told apart; None: everywhere.

        In the other directions nothing changes, so that it may be added to any metric.
        """
        return None

    def tangents(self, x: Array) -> tuple[Array, NDArray[np.intp]]:
        """Linear minorants (T, n) of which the gauge at x is the largest, and their kinds."""
        return self.subgradient(x)[None], np.zeros(1, np.intp)

    kinds: int = 1
    """How many kinds of tangents there are."""

    @abstractmethod
    def curvature(self, x: Array, price: float = 1.0) -> Array | None:
        """``price`` times the second derivative (n, n) at x; None where there is none to speak of.

        It guides the search where the epigraph has no rows, and is never trusted.
        """

    def mixed_curvature(self, x: Array, prices: Array) -> Array | None:
        """The same of the tangents of all kinds, each times its price (kinds,)."""
        return self.curvature(x, float(prices.sum()))
