r"""Slopes of few bits: weights are moved until the slope that they make is on a grid.

A slope that is rounded by itself is that of no minorant: off by e it is wrong by
:math:`\langle e,x\rangle` far away. Here the weights :math:`\nu` become :math:`\nu'`, within their
bounds, with

.. math:: \frac1N\sum_i\nu_i'x_i=g',\qquad g'_j\in\delta_j\mathbb Z,

so that g' is a slope of the mean loss's own dual, and the cut made of :math:`\nu'` a minorant
everywhere. The grid is what one row adds to a sum, within 12 to 16 bits,
:math:`\delta_j\approx s_j\sigma_j\mathrm{Lip}\,2^{1-B}` with B the bits of 2N, :math:`s_j` the size
of column j and :math:`\sigma_j` the part of it that the columns before it do not explain: another
unit of a column or of the loss changes nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drfl.arrays import Array
from drfl.rows import Rows

FEWEST, MOST = 12, 16  # bits of a coefficient, also where there are few rows, or very many
ATTEMPTS = 40
SMALL, SHORTEST = 1e-8, 1e-6
ROOM = 4.0
EXACT = 1e-13  # of a column's size: how well the slope has to be met
EXPLAINED = 3e-7  # a column is a sum of others, and its slope too
NEARLY = 1e-3  # a smaller part of a column that others do not explain is looked at closely
FOLLOWS = 1e-12  # of a column's size: the grid of a slope that follows from others
SINGULAR = 1e-13


def bits_of(n_rows: int) -> int:
    """How many bits a coefficient has, from minus the size of its column to plus it."""
    return min(max(math.ceil(math.log2(2.0 * n_rows)), FEWEST), MOST)


@dataclass(frozen=True)
class Lattice:
    """The grid of a client's slopes."""

    A: Array  # (N, d), a column of ones, if the model has an intercept or not, and the rows
    sizes: Array  # (d,), root mean squares of the columns
    steps: Array  # (d,), of the grid, powers of 2; 0 where a column is a sum of those before it
    rest: Array  # (d,), the same, but where it would be 0 what rounding may leave of a slope
    # (N,), how little rows are moved that are far from the others: they would stand out
    calm: Array

    @classmethod
    def of(cls, rows: Rows, lipschitz: float) -> Lattice:
        """The grid of these rows and a loss."""
        A = np.column_stack([np.ones(rows.n_rows), rows.take(slice(None))])
        sizes = np.sqrt(np.maximum(np.mean(np.square(A), axis=0), 1e-300))
        gram = (A.T @ A / len(A)) / np.outer(sizes, sizes)
        own = np.diag(_triangle(gram))
        if (own < NEARLY).any():
            # A root of rounding is not small enough: what is hidden there would have all its bits.
            own = _unexplained(A, sizes)
        scaled = A / sizes
        distance = ((scaled @ np.linalg.pinv(gram)) * scaled).sum(axis=1)
        told = np.log2(np.maximum(own, EXPLAINED)) - (bits_of(len(A)) - 1)
        told = np.where(own > EXPLAINED, told, math.log2(FOLLOWS))
        rest = 2.0 ** np.floor(np.log2(sizes * lipschitz) + told)
        calm = 1.0 / (1.0 + distance / A.shape[1])
        return cls(A, sizes, np.where(own > EXPLAINED, rest, 0.0), rest, calm)

    def told(self, weights: Array) -> Array:
        """The slope in (b, w) of weights that are on the grid, without the rounding of sums."""
        return np.asarray(self.rest * np.round(self._mean(weights) / self.rest))

    def holds(self, weights: Array) -> bool:
        """Whether the slope is on the grid but for rounding."""
        miss = np.abs(self._mean(weights) - self.told(weights))
        return bool((miss <= 10.0 * EXACT * self._scale(weights)).all())

    def move(self, weights: Array, low: Array, high: Array, ease: Array, A: Array) -> Array | None:
        r"""Weights near the given ones whose slope is on the grid; None if none were found.

        The smallest change in the norm :math:`\sum_i\Delta_i^2/\mathrm{ease}_i` within the bounds
        that gives the slope, :math:`\Delta_i=\mathrm{clip}(\mathrm{ease}_i\langle a_i,c\rangle)`,
        by Newton's method on its dual in c.

        Parameters
        ----------
        weights, low, high : (N,)
            Of the rows, and their bounds.
        ease : (N,)
            How gladly a row is moved; 0: not at all.
        A : (N, d)
            What the slope changes by, N times, if a row's weight does and others follow it.
        """
        N, used = len(A), np.flatnonzero(self.steps > 0.0)
        miss = self._nearest(self._mean(weights), (A.T * ease) @ A / N)[used]
        tight, A = (EXACT * self._scale(weights))[used], A[:, used]
        low, high = low - weights, high - weights
        c, size = np.zeros(len(used)), 1.0
        change, height = self._change(A, c, ease, low, high), 0.0
        for _ in range(ATTEMPTS):
            error = miss - A.T @ change / N
            if (np.abs(error) <= tight).all():
                return weights + change
            free = np.where((change > low) & (change < high), ease, SMALL * ease)
            gram = (A.T * free) @ A / N
            d = np.sqrt(np.maximum(np.diag(gram), 1e-300))
            step = np.linalg.lstsq(gram / np.outer(d, d), error / d, rcond=SINGULAR)[0] / d
            size = 1.0
            while size > SHORTEST:
                tried = self._change(A, c + size * step, ease, low, high)
                here = self._height(A @ (c + size * step), tried, ease) - miss @ (c + size * step)
                if here <= height - 1e-4 * size * float(error @ step) or size * 0.5 <= SHORTEST:
                    break
                size *= 0.5
            c, change, height = c + size * step, tried, here
        return None

    @staticmethod
    def _change(A: Array, c: Array, ease: Array, low: Array, high: Array) -> Array:
        return np.asarray(np.clip(ease * (A @ c), low, high))

    @staticmethod
    def _height(t: Array, change: Array, ease: Array) -> float:
        """The conjugate of the norm of a change."""
        cost = np.divide(change**2, 2.0 * ease, out=np.zeros_like(t), where=ease > 0.0)
        return float((change * t - cost).mean())

    def room(self, low: Array, high: Array) -> float:
        """Which part of the way to the middle gives every row room for a usual change."""
        change = ROOM * float((self.steps / self.sizes).max()) * math.sqrt(len(self.steps))
        return min(change / max(float((high - low).max()), 1e-300), 0.5)

    def _nearest(self, g: Array, gram: Array) -> Array:
        """How far a grid point is that small changes reach: coordinate by coordinate (Babai)."""
        d = np.sqrt(np.maximum(np.diag(gram), 1e-300))
        L = _triangle(gram / np.outer(d, d)) * d[:, None]
        y, miss = np.zeros_like(g), np.zeros_like(g)
        for j, step in enumerate(self.steps):
            drift = float(L[j, :j] @ y[:j])
            if step > 0.0:
                miss[j] = step * np.round((g[j] + drift) / step) - g[j]
                y[j] = (miss[j] - drift) / max(L[j, j], 1e-300)
        return miss

    def _mean(self, weights: Array) -> Array:
        return np.asarray(self.A.T @ weights / len(self.A))

    def _scale(self, weights: Array) -> Array:
        return np.asarray(self.sizes * float(np.abs(weights).max(initial=0.0)))


def _triangle(gram: Array) -> Array:
    """The triangular root of a correlation matrix, rows that others explain with 0 at the end."""
    L = np.zeros_like(gram)
    for j in range(len(gram)):
        L[j, j] = math.sqrt(max(gram[j, j] - L[j, :j] @ L[j, :j], 0.0))
        if L[j, j] > SINGULAR**0.5:
            L[j + 1 :, j] = (gram[j + 1 :, j] - L[j + 1 :, :j] @ L[j, :j]) / L[j, j]
    return L


def _unexplained(A: Array, sizes: Array) -> Array:
    """The part of every column that the columns before it do not explain; 0 of a column of 0."""
    out, used = np.zeros(A.shape[1]), np.flatnonzero(A.any(axis=0))
    few = np.zeros((max(len(used) - len(A), 0), len(used)))  # R has a row per column
    scaled = A[:, used] / (sizes[used] * math.sqrt(len(A)))
    out[used] = np.abs(np.diag(np.linalg.qr(np.vstack([scaled, few]), mode="r")))
    return out
