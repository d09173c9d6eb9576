r"""The gauge of several scores: the dearest pair of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.gauges.base import Gauge
from drfl.gauges.flows import cheapest_flow
from drfl.norms import L1, L2, Entries, EpigraphRows, GroupedLInf, LInf, Norm

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

    norm: L1 | L2 | LInf | GroupedLInf
    classes: int
    columns: int
    intercepts: bool = True

    @staticmethod
    def knows(norm: Norm) -> TypeGuard[L1 | L2 | LInf | GroupedLInf]:
        """Whether there are rows and flows in this norm."""
        return isinstance(norm, L1 | L2 | LInf | GroupedLInf)

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
        r"""l1: :math:`u\le W_k\le u+t`; linf: :math:`\pm(W_j-W_k)\le e,\ 1^\top e\le t` by pair.

        The slopes of a curve share the e of their column.
        """
        if isinstance(self.norm, L1):
            return self._range_rows()
        if isinstance(self.norm, L2):
            return None
        n, E, (j, k) = self.columns, self.kinds, self.ends
        rows = np.arange(2 * E * n)
        column, pair = np.tile(np.arange(n), E), np.repeat(np.arange(E), n)
        shared = self.norm.column if isinstance(self.norm, GroupedLInf) else np.arange(n)
        J = int(shared[-1]) + 1
        own, sums = pair * J + shared[column], np.arange(E * J)
        both = np.tile(np.concatenate([j[pair] * n + column, k[pair] * n + column]), 2)
        signs = np.repeat([1.0, -1.0, -1.0, 1.0], E * n)
        half = rows[: E * n]
        w = Entries(np.concatenate([half, half, half + E * n, half + E * n]), both, signs)
        e = Entries(
            np.concatenate([rows, 2 * E * n + sums // J]),
            np.concatenate([own, own, sums]),
            np.concatenate([np.full(2 * E * n, -1.0), np.ones(E * J)]),
        )
        last = 2 * E * n + np.arange(E)
        t = Entries(last, 0 * last, np.full(E, -1.0))
        return EpigraphRows(2 * E * n + E, E * J, w, e, t)

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
        return np.concatenate([self.norm.dual_extra(d) for d in self.differences(x)])

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
