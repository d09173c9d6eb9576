r"""Gauges: what bounds the price of transport from below, :math:`\lambda\ge\mathrm{gauge}(x)`.

Moving a row by :math:`\delta` changes a score by at most :math:`\mathrm{gauge}(x)\|\delta\|`, so
that on the whole space no smaller :math:`\lambda` keeps the adversary's gain finite. For one
score :math:`\langle w,x\rangle+b` it is the dual norm of w; several scores, or other features of
the same columns, are another gauge. All that a solver and the proof of its lower bound ask of it is
here: its value and a subgradient, its epigraph as rows of a quadratic program, and its *polar*,
which says which slopes a price pays for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from drfl.arrays import Array
from drfl.norms import EpigraphRows, Norm


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

    @abstractmethod
    def rows(self) -> EpigraphRows | None:
        """The epigraph gauge(x) <= t by linear rows; None: tangents have to approximate it."""

    def extra(self, x: Array) -> Array:
        """The rows' further variables at x, with which they hold at t = value(x); often none."""
        return x[:0]

    @abstractmethod
    def curvature(self, x: Array, price: float = 1.0) -> Array | None:
        """``price`` times the second derivative (n, n) at x; None where there is none to speak of.

        It guides the search where the epigraph has no rows, and is never trusted.
        """


@dataclass(frozen=True)
class DualNorm(Gauge):
    r"""The gauge of one linear score: :math:`\|w\|_*`, the dual of the ground norm."""

    norm: Norm
    n: int

    def value(self, x: Array) -> float:
        return self.norm.dual(x[: self.n])

    def subgradient(self, x: Array) -> Array:
        return self.norm.steepest(x[: self.n])

    def polar(self, g: Array) -> float:
        return float(self.norm(g))

    def payable(self, g: Array, price: float) -> Array:
        return price * self.norm.project_ball(g / price) if price > 0.0 else 0.0 * g

    def rows(self) -> EpigraphRows | None:
        return self.norm.dual_rows(self.n)

    def extra(self, x: Array) -> Array:
        return self.norm.dual_extra(x[: self.n])

    def curvature(self, x: Array, price: float = 1.0) -> Array | None:
        return self.norm.dual_curvature(x[: self.n], price)
