r"""An interior-point method for large masters: few dense rows, many that are nearly empty.

.. math:: \min_z\ \tfrac12 x^\top Px + c^\top z \quad\text{s.t.}\quad
          Gx + Ez\le g,\quad Rz\le r,\qquad z=(x,\dots).

G holds the slopes of the cuts, E and R a few entries per row: the norm, the set of weights, bounds
of single variables. A general solver that keeps the 2n rows of a norm in full spends nearly all of
its time on them; here they are a diagonal and a border of the normal matrix
:math:`P+G^\top WG+R^\top WR`. Cuts of negligible weight are left out of it, and refinement makes up
for them. The method is Mehrotra's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs

from drfl.arrays import Array
from drfl.solvers.master.blocks import Blocks, BorderedFactor

ITERATIONS = 60
START = 0.1  # slacks of the first point, at least
PATIENCE = 6  # iterations without a smaller residual
NEGLIGIBLE = 1e-10  # weight of a cut, relative to the largest
RAISED = 1e-13, 1e-11, 1e-9, 1e-7, 1e-5  # what is added to the scaled diagonal, until it does
NEAR = 0.995  # of the way to the boundary
REFINE_BELOW = 1e-7  # mean product


@dataclass(frozen=True)
class BarrierRows:
    """Rows ``A z <= b``.

    Attributes
    ----------
    G : (K, d)
        The first K rows in the d leading variables.
    rest : (m, N)
        All other entries; those of the first K rows are not in the leading variables.
    b : (m,)
        The right-hand sides.
    blocks : Blocks or None
        The clients' own variables, if they are so many that they are eliminated.
    """

    G: Array
    rest: sparse.csr_matrix
    b: Array
    blocks: Blocks | None = None

    def times(self, z: Array) -> Array:
        """A z."""
        out = np.asarray(self.rest @ z)
        out[: len(self.G)] += self.G @ z[: self.G.shape[1]]
        return out

    def transposed(self, y: Array) -> Array:
        """A'y."""
        out = np.asarray(self.rest.T @ y)
        out[: self.G.shape[1]] += y[: len(self.G)] @ self.G
        return out

    def normal(self, P: Array, weights: Array, kept: NDArray[np.intp]) -> Array:
        """P + A' diag(weights) A, lower triangle, of the kept cuts and all other rows."""
        (K, d), N = self.G.shape, self.rest.shape[1]
        H = np.zeros((N, N), order="F")
        H[:d, :d] = P
        if len(kept):
            root = np.sqrt(weights[kept])[:, None]
            B = self.G[kept] * root
            H[:d, :d] = dsyrk(1.0, B.T, beta=1.0, c=H[:d, :d], lower=1)
            B *= root
            H[d:, :d] = self.rest[kept][:, d:].T @ B
        every = np.concatenate([kept, np.arange(K, len(weights))])
        some = self.rest[every]
        square = (some.T @ some.multiply(weights[every][:, None])).tocoo()
        H[square.row, square.col] += square.data
        return H


@dataclass(frozen=True)
class BarrierIterate:
    """A point, its slacks and multipliers, and by how much they miss the optimality conditions."""

    z: Array
    s: Array
    y: Array
    dual: Array
    primal: Array

    @classmethod
    def at(
        cls, P: Array, c: Array, rows: BarrierRows, z: Array, s: Array, y: Array
    ) -> BarrierIterate:
        """With its residuals."""
        dual = rows.transposed(y) + c
        dual[: len(P)] += P @ z[: len(P)]
        return cls(z, s, y, dual, rows.times(z) + s - rows.b)

    @property
    def gap(self) -> float:
        """The sum of all products."""
        return float(self.s @ self.y)

    @property
    def residual(self) -> float:
        """The largest of all residuals."""
        sides = np.abs(self.dual).max(initial=0.0), np.abs(self.primal).max(initial=0.0)
        return float(max(*sides, self.gap))


def minimise(P: Array, c: Array, rows: BarrierRows, eps: float) -> BarrierIterate:
    """The iterate with the smallest residual, at most eps unless the method gets stuck."""
    z, s = np.zeros(len(c)), np.maximum(rows.b, START)
    y = START * max(float(np.abs(c).max()), 1e-3) / s
    best = at = BarrierIterate.at(P, c, rows, z, s, y)
    since = 0
    for _ in range(ITERATIONS):
        step = _step(P, rows, at) if at.residual > eps and since <= PATIENCE else None
        if step is None:
            break
        at = BarrierIterate.at(P, c, rows, at.z + step[0], at.s + step[1], at.y + step[2])
        better = at.residual < best.residual
        best, since = (at, 0) if better else (best, since + 1)
        if not np.isfinite(at.residual):
            break
    return best


def _step(P: Array, rows: BarrierRows, at: BarrierIterate) -> tuple[Array, Array, Array] | None:
    """Mehrotra's step in z, s and y; none if the equations cannot be factored."""
    s, y, mu = at.s, at.y, at.gap / len(rows.b)
    system = _System(P, rows, y / s)
    if not system.usable:
        return None

    def direction(aim: Array, times: int) -> tuple[Array, Array, Array]:
        pull = aim / s + system.weights * at.primal
        dz = system.solve(-at.dual - rows.transposed(pull), times)
        moved = rows.times(dz)
        return dz, -at.primal - moved, pull + system.weights * moved

    _, ds, dy = direction(-s * y, 0)
    reach = min(_reach(s, ds), _reach(y, dy))
    left = max(float((s + reach * ds) @ (y + reach * dy)) / at.gap, 1e-6)
    second = ds * dy if reach > START else 0.0
    refine = int(system.left_out or mu < REFINE_BELOW)
    dz, ds, dy = direction(min(1.0, left) ** 3 * mu - s * y - second, refine)
    reach = min(1.0, NEAR * min(_reach(s, ds), _reach(y, dy)))
    return reach * dz, reach * ds, reach * dy


class _System:
    """The normal equations at a point, factored once."""

    def __init__(self, P: Array, rows: BarrierRows, weights: Array) -> None:
        self.P, self.rows, self.weights = P, rows, weights
        self.left_out = False
        self.factor = self._bordered() if rows.blocks is not None else self._whole()
        self.usable = self.factor is not None

    def _bordered(self) -> BorderedFactor | None:
        assert self.rows.blocks is not None
        factor = BorderedFactor(self.P, self.rows.G, self.rows.blocks, self.weights)
        return factor if any(factor.factored(more) for more in RAISED) else None

    def _whole(self) -> _WholeFactor | None:
        """Cuts of negligible weight are left out."""
        P, rows, weights = self.P, self.rows, self.weights
        order = weights[: len(rows.G)] * (1.0 + np.einsum("ij,ij->i", rows.G, rows.G))
        kept = np.flatnonzero(order > NEGLIGIBLE * order.max(initial=0.0))
        self.left_out = len(kept) < len(order)
        for more in RAISED:
            H = rows.normal(P, weights, kept)
            diagonal = np.arange(len(H))
            scale = 1.0 / np.sqrt(np.maximum(H[diagonal, diagonal], 1e-300))
            H *= scale
            H *= scale[:, None]
            H[diagonal, diagonal] += more
            factor, info = dpotrf(H, lower=1, clean=0, overwrite_a=1)
            if not info:
                return _WholeFactor(scale, factor)
        return None

    def solve(self, rhs: Array, refinements: int) -> Array:
        """The step, with so many corrections by the residual of the exact system."""
        assert self.factor is not None
        step = self.factor.solve(rhs)
        for _ in range(refinements):
            rest = rhs - self.rows.transposed(self.weights * self.rows.times(step))
            rest[: len(self.P)] -= self.P @ step[: len(self.P)]
            step = step + self.factor.solve(rest)
        return step


@dataclass(frozen=True)
class _WholeFactor:
    """The normal matrix, its diagonal scaled to 1 and raised a little."""

    scale: Array
    factor: Array

    def solve(self, rhs: Array) -> Array:
        return np.asarray(self.scale * dpotrs(self.factor, self.scale * rhs, lower=1)[0])


def _reach(v: Array, dv: Array) -> float:
    """How far v > 0 may go along dv; at most 1."""
    least = float((dv / v).min(initial=0.0))
    return 1.0 if least >= -1.0 else -1.0 / least
