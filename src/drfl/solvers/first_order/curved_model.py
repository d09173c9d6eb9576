r"""The second derivative as far as the server knows it, in a few vectors.

With few columns at work it is what the clients told of these columns. Otherwise, and for all other
columns, it is a diagonal, corrected by the last pairs of steps and changes of the gradient:

.. math:: B = D - W M^{-1} W^\top,

the compact form of the BFGS update (Byrd, Nocedal and Schnabel 1994).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array


@dataclass(frozen=True)
class Quadratic:
    r""":math:`\tfrac12v^\top Bv` of some coordinates, B = diagonal - W M^-1 W', or a matrix.

    Attributes
    ----------
    diagonal : (k,)
        D, positive.
    W, M : (k, 2m), (2m, 2m)
        The pairs; m may be 0.
    matrix : (j, j) or None
        The block of the first coordinates, j of them; the rest is D.
    """

    diagonal: Array
    W: Array
    M: Array
    matrix: Array | None = None

    @cached_property
    def _pulled(self) -> Array:
        """M^-1 W'."""
        return np.asarray(np.linalg.solve(self.M, self.W.T), dtype=np.float64)

    def times(self, v: Array) -> Array:
        """B v."""
        if self.matrix is not None:
            j = len(self.matrix)
            return np.append(self.matrix @ v[:j], self.diagonal[j:] * v[j:])
        out = self.diagonal * v
        if self.W.shape[1]:
            out -= self.W @ (self._pulled @ v)
        return np.asarray(out)

    def of(self, chosen: NDArray[np.bool_]) -> Quadratic:
        """The same of fewer coordinates."""
        block = self.matrix
        if block is not None:
            inside = chosen[: len(block)]
            block = block[np.ix_(inside, inside)]
        return Quadratic(self.diagonal[chosen], self.W[chosen], self.M, block)

    def solve(self, r: Array, more: Array | float = 0.0) -> Array:
        """Solve (B + diag(more)) z = r; ``more`` is for the pairs (Woodbury) alone."""
        if self.matrix is not None:
            j = len(self.matrix)
            return np.append(np.linalg.solve(self.matrix, r[:j]), r[j:] / self.diagonal[j:])
        inverse = 1.0 / (self.diagonal + more)
        z = inverse * r
        if self.W.shape[1]:
            K = self.M - self.W.T @ (inverse[:, None] * self.W)
            z += inverse * (self.W @ np.linalg.solve(K, self.W.T @ z))
        return np.asarray(z)


@dataclass
class CurvedModel:
    """What is known of the second derivative.

    Attributes
    ----------
    first, diagonal : (d,)
        Of the second derivative at the first point, with a floor under it, and as it is now.
    memory : int
        How many pairs are kept.
    steps, changes : lists of (d,)
        Pairs of steps and changes of the gradient, the newest last.
    columns, matrix : (j,), (j, j) or None
        Coordinates at work, and the second derivative of these at the centre.
    damping : float
        By how much it is multiplied: more after steps that did not pay.
    """

    first: Array
    memory: int
    diagonal: Array
    steps: list[Array] = field(default_factory=list)
    changes: list[Array] = field(default_factory=list)
    columns: NDArray[np.int64] | None = None
    matrix: Array | None = None
    damping: float = 1.0

    @classmethod
    def of(cls, diagonal: Array, memory: int) -> CurvedModel:
        """With a floor: columns that hardly occur would take steps without measure."""
        first = diagonal + 1e-3 * float(diagonal.mean()) + 1e-300
        return cls(first, memory, first)

    def observe(self, step: Array, change: Array) -> None:
        """A pair; one that shows no curvature says nothing."""
        along = float(step @ change)
        if along > 1e-12 * np.linalg.norm(step) * np.linalg.norm(change):
            self.steps, self.changes = [*self.steps, step], [*self.changes, change]
            del self.steps[: -self.memory], self.changes[: -self.memory]
            # The loss bends less as it falls: as much as the most bent of the last steps.
            bent = [float(s @ y) / float(s @ (self.first * s)) for s, y in self._pairs]
            self.diagonal = min(1.0, max(bent)) * self.first

    @property
    def _pairs(self) -> Iterable[tuple[Array, Array]]:
        return zip(self.steps, self.changes, strict=True)

    def forget_matrix(self) -> None:
        """The centre has moved."""
        self.columns = self.matrix = None

    def coordinates(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """The wanted coordinates, those with a matrix first."""
        if self.columns is None:
            return wanted
        return np.concatenate([self.columns, np.setdiff1d(wanted, self.columns)])

    def among(self, coordinates: NDArray[np.int64]) -> Quadratic:
        """The quadratic of these coordinates, ordered by `coordinates`."""
        D = self.damping * self.diagonal[coordinates]
        if self.matrix is not None:
            j, none = len(self.matrix), np.zeros((len(D), 0))
            ridge = 1e-8 * float(np.trace(self.matrix)) / j * np.eye(j)
            block = self.damping * (self.matrix + ridge)
            # Where the matrix is flat, damping it alone would not shorten a step.
            block[np.diag_indices(j)] += (
                0.01 * (self.damping - 1.0) * self.diagonal[coordinates[:j]]
            )
            D[:j] = np.diag(block)
            return Quadratic(D, none, np.zeros((0, 0)), block)
        return Quadratic(D, *self._compact(coordinates))

    def _compact(self, coordinates: NDArray[np.int64]) -> tuple[Array, Array]:
        if not self.steps:
            return np.zeros((len(coordinates), 0)), np.zeros((0, 0))
        S, Y = np.array(self.steps), np.array(self.changes)
        DS = self.damping * self.diagonal * S
        products = S @ Y.T
        L = np.tril(products, -1)
        M = np.block([[S @ DS.T, L], [L.T, -np.diag(np.diag(products))]])
        return np.vstack([DS, Y])[:, coordinates].T, M
