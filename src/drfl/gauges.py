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
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.curves import Curves
from drfl.flows import cheapest_flow
from drfl.norms import L1, L2, Entries, EpigraphRows, GroupedLInf, Norm


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


# A pair whose distance is below this share of the largest is not worth a tangent.
CLOSE_PAIR = 0.3


@dataclass(frozen=True)
class Pairs(Gauge):
    r"""The gauge of K scores: :math:`\max_{j<k}\|W_j-W_k\|_*`, the dearest pair of classes.

    It does not change with :math:`W+1c^\top`: models are taken with columns that add up to 0, and
    so are slopes. Its polar is the cost of the cheapest flow between the classes that G asks for.

    Attributes
    ----------
    classes, columns : int
        K, and the length of a row of W; the first K x columns entries of x are W, row by row.
    intercepts : bool
        Whether K intercepts follow.
    """

    norm: Norm
    classes: int
    columns: int
    intercepts: bool = True

    @property
    def n(self) -> int:  # type: ignore[override]
        """How many coefficients there are."""
        return self.classes * self.columns

    @property
    def kinds(self) -> int:  # type: ignore[override]
        """How many pairs there are."""
        return self.classes * (self.classes - 1) // 2

    @property
    def ends(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The two classes of every pair."""
        return np.triu_indices(self.classes, 1)

    def matrix(self, x: Array) -> Array:
        """W (K, columns)."""
        return x[: self.n].reshape(self.classes, self.columns)

    def differences(self, x: Array) -> Array:
        r""":math:`W_j-W_k` of every pair, (E, columns)."""
        W, (j, k) = self.matrix(x), self.ends
        return W[j] - W[k]

    def distances(self, x: Array) -> Array:
        """The dual norms of the differences (E,)."""
        if isinstance(self.norm, L2):
            return np.asarray(np.linalg.norm(self.differences(x), axis=1))
        return np.array([self.norm.dual(d) for d in self.differences(x)])

    def value(self, x: Array) -> float:
        return float(self.distances(x).max(initial=0.0))

    def subgradient(self, x: Array) -> Array:
        return self._tangent(x, int(np.argmax(self.distances(x))))

    def tangents(self, x: Array) -> tuple[Array, NDArray[np.intp]]:
        distances = self.distances(x)
        near = np.flatnonzero(distances > CLOSE_PAIR * distances.max())
        return np.array([self._tangent(x, int(e)) for e in near]).reshape(-1, self.n), near

    def _tangent(self, x: Array, pair: int) -> Array:
        j, k = (int(end[pair]) for end in self.ends)
        u, W = np.zeros((self.classes, self.columns)), self.matrix(x)
        u[j] = self.norm.steepest(W[j] - W[k])
        u[k] = -u[j]
        return u.ravel()

    def polar(self, g: Array) -> float:
        G = self.matrix(g)
        G = G - G.mean(axis=0)
        if isinstance(self.norm, L1):  # column by column, whatever is too much goes where it lacks
            return 0.5 * float(np.abs(G).sum())
        return cheapest_flow(G, self.norm)

    def payable(self, g: Array, price: float) -> Array:
        need = self.polar(g)
        return g if need <= price else g * (max(price, 0.0) / need)

    def nearest(self, x: Array) -> Array:
        W, b = self.matrix(x), x[self.n :]
        return np.concatenate([(W - W.mean(axis=0)).ravel(), b - b.mean() if len(b) else b])

    def invariance(self) -> Array | None:
        K, one = self.classes, np.ones((self.classes, self.classes)) / self.classes
        size = self.n + K * self.intercepts
        out = np.zeros((size, size))
        out[: self.n, : self.n] = np.kron(one, np.eye(self.columns))
        out[self.n :, self.n :] = one if self.intercepts else 0.0
        return out

    def rows(self) -> EpigraphRows | None:
        r"""l1: :math:`u\le W_k\le u+t`; linf: :math:`\pm(W_j-W_k)\le e,\ 1^\top e\le t` by pair."""
        if isinstance(self.norm, L1):
            return self._range_rows()
        if isinstance(self.norm, L2):
            return None
        n, E, (j, k) = self.columns, self.kinds, self.ends
        rows = np.arange(2 * E * n)
        column, pair = np.tile(np.arange(n), E), np.repeat(np.arange(E), n)
        both = np.tile(np.concatenate([j[pair] * n + column, k[pair] * n + column]), 2)
        signs = np.repeat([1.0, -1.0, -1.0, 1.0], E * n)
        half = rows[: E * n]
        w = Entries(np.concatenate([half, half, half + E * n, half + E * n]), both, signs)
        e = Entries(
            np.concatenate([rows, 2 * E * n + pair]),
            np.tile(half, 3),
            np.concatenate([np.full(2 * E * n, -1.0), np.ones(E * n)]),
        )
        last = 2 * E * n + np.arange(E)
        t = Entries(last, 0 * last, np.full(E, -1.0))
        return EpigraphRows(2 * E * n + E, E * n, w, e, t)

    def _range_rows(self) -> EpigraphRows:
        size, rows = self.n, np.arange(2 * self.n)
        column = np.tile(np.arange(self.columns), self.classes)
        signs = np.repeat([1.0, -1.0], size)
        top = rows[:size]
        return EpigraphRows(
            2 * size,
            self.columns,
            Entries(rows, np.tile(top, 2), signs),
            Entries(rows, np.tile(column, 2), -signs),
            Entries(top, 0 * top, np.full(size, -1.0)),
        )

    def extra(self, x: Array) -> Array:
        if isinstance(self.norm, L1):
            return np.asarray(self.matrix(x).min(axis=0))
        return np.abs(self.differences(x)).ravel()

    def curvature(self, x: Array, price: float = 1.0) -> Array | None:
        prices = np.zeros(self.kinds)
        prices[int(np.argmax(self.distances(x)))] = price
        return self.mixed_curvature(x, prices)

    def mixed_curvature(self, x: Array, prices: Array) -> Array | None:
        H = np.zeros((self.classes, self.columns, self.classes, self.columns))
        for d, price, j, k in zip(self.differences(x), prices, *self.ends, strict=True):
            block = self.norm.dual_curvature(d, price) if price > 0.0 else None
            if block is not None:
                H[j, :, j] += block
                H[k, :, k] += block
                H[j, :, k] -= block
                H[k, :, j] -= block
        return H.reshape(self.n, self.n)
