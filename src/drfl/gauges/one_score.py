r"""Gauges of one score: the dual norm of its coefficients, or of slopes that follow rules."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from drfl.arrays import Array
from drfl.curves import Curves
from drfl.gauges.base import Gauge
from drfl.norms import Entries, EpigraphRows, GroupedLInf, Norm


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


ALTERNATIONS, STILL = 200, 1e-9


@dataclass(frozen=True)
class ShapedCurves(Gauge):
    r"""The dual norm of slopes that follow rules, and infinity for all others.

    So the rules are rows of the epigraph, and a price pays for more slopes: only
    :math:`g^\top s` of slopes s that follow the rules has to be paid for, column by column.
    """

    norm: Norm
    curves: Curves

    @property
    def n(self) -> int:  # type: ignore[override]
        """How many slopes there are."""
        return self.curves.n_slopes

    def value(self, x: Array) -> float:
        return self.norm.dual(x[: self.n])

    def subgradient(self, x: Array) -> Array:
        return self.norm.steepest(x[: self.n])

    def polar(self, g: Array) -> float:
        columns = self.curves.polars(g)
        return float(columns.max() if isinstance(self.norm, GroupedLInf) else columns.sum())

    def payable(self, g: Array, price: float) -> Array:
        r"""The nearest g whose negative is a sum u + c, :math:`\|u\|\le` price.

        c is in the polar cone of the slopes that follow the rules, the part of a vector that is
        left by the projection onto them. Each is projected in turn.
        """
        price, c = max(price, 0.0), np.zeros_like(g)
        for _ in range(0 if self.polar(g) <= price else ALTERNATIONS):
            u = -g - c
            u = price * self.norm.project_ball(u / price) if price > 0.0 else 0.0 * u
            c, last = (-g - u) - self.curves.projected(-g - u), c
            if np.abs(c - last).max(initial=0.0) <= STILL * np.abs(g).max():
                break
        near = g if self.polar(g) <= price else -(u + c)
        need = self.polar(near)
        return near if need <= price else near * (price / need)

    def nearest(self, x: Array) -> Array:
        return np.concatenate([self.curves.nearest(x[: self.n]), x[self.n :]])

    def rows(self) -> EpigraphRows | None:
        rows, rules = self.norm.dual_rows(self.n), self.curves.rows()
        assert rows is not None
        more = Entries(rules.row + rows.n_rows, rules.column, rules.value)
        w = Entries(*(np.concatenate(pair) for pair in zip(rows.w, more, strict=True)))
        count = int(rules.row.max(initial=-1)) + 1
        return replace(rows, n_rows=rows.n_rows + count, w=w)

    def extra(self, x: Array) -> Array:
        return self.norm.dual_extra(x[: self.n])

    def curvature(self, x: Array, price: float = 1.0) -> Array | None:
        return None
