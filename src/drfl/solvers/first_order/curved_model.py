r"""The second derivative as far as the server knows it, in a few vectors.

Of some columns it is what the clients told: of all that are at work if these are few, otherwise of
the heaviest. Of all other columns it is a diagonal, and unless all were told it is corrected by the
last pairs of steps and changes of the gradient:

.. math:: B = D - W M^{-1} W^\top,

the compact form of the BFGS update (Byrd, Nocedal and Schnabel 1994), D with the block in it.
Common columns bend the loss together, rare ones nearly each by itself: the block of a few hundred
of the former leaves little for the pairs to learn.
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
    r""":math:`\tfrac12v^\top Bv` of some coordinates, B = D - W M^-1 W'."""

    diagonal: Array  # (k,), that of D, positive
    # W, M: the pairs, (k, 2m) and (2m, 2m); m may be 0
    W: Array
    M: Array
    # (j, j), D of the first coordinates, j of them; of the others it has a diagonal only
    matrix: Array | None = None

    @cached_property
    def _pulled(self) -> Array:
        """M^-1 W'."""
        return np.asarray(np.linalg.solve(self.M, self.W.T), dtype=np.float64)

    def times(self, v: Array) -> Array:
        """B v."""
        out = self.diagonal * v
        if self.matrix is not None:
            j = len(self.matrix)
            out[:j] = self.matrix @ v[:j]
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
        """Solve (B + diag(more)) z = r, the pairs by Woodbury's formula."""
        if not self.W.shape[1]:
            return self._divided(r[:, None].copy(), more)[:, 0]
        both = self._divided(np.column_stack([r, self.W]), more)
        z, V = both[:, 0], both[:, 1:]
        return np.asarray(z + V @ np.linalg.solve(self.M - self.W.T @ V, self.W.T @ z))

    def _divided(self, R: Array, more: Array | float) -> Array:
        """(D + diag(more))^-1 R, in the place of R."""
        added, j = np.broadcast_to(more, self.diagonal.shape), 0
        if self.matrix is not None:
            j = len(self.matrix)
            A = self.matrix + np.diag(added[:j])
            try:
                first = np.linalg.solve(A, R[:j])
            except np.linalg.LinAlgError:  # no row bends in some direction: no step is taken there
                first = np.linalg.lstsq(A, R[:j])[0]
            R[:j] = first
        R[j:] /= (self.diagonal + added)[j:, None]  # in place: there are many columns
        return R


@dataclass
class CurvedModel:
    """What is known of the second derivative."""

    # first, diagonal: of the second derivative (d,), at the first point with a floor under it, and
    # as it is now
    first: Array
    memory: int  # how many pairs are kept
    diagonal: Array
    # steps, changes: pairs of steps and changes of the gradient, (d,) each, the newest last
    steps: list[Array] = field(default_factory=list)
    changes: list[Array] = field(default_factory=list)
    # columns, matrix: coordinates (j,), and the second derivative of these at the centre (j, j)
    columns: NDArray[np.int64] | None = None
    matrix: Array | None = None
    whole: bool = False  # whether no others are at work, so that pairs have nothing to add
    damping: float = 1.0  # by how much it is multiplied: more after steps that did not pay

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

    def now(self) -> Curvature:
        """What is known now, for the trials of one step."""
        block = self._block()
        alone = block is not None and self.whole
        W, M = (np.zeros((0, len(self.first))), np.zeros((0, 0))) if alone else self._compact(block)
        return Curvature(self.damping * self.diagonal, W, M, self.columns, block)

    def _block(self) -> Array | None:
        """The matrix, damped; none where nothing bends, for a step would have no end."""
        if self.matrix is None or not self.matrix.any():
            return None
        j = len(self.matrix)
        ridge = 1e-8 * float(np.trace(self.matrix)) / j * np.eye(j)
        block = self.damping * (self.matrix + ridge)
        # Where the matrix is flat, damping it alone would not shorten a step.
        block[np.diag_indices(j)] += 0.01 * (self.damping - 1.0) * self.diagonal[self.columns]
        return np.asarray(block)

    def _compact(self, block: Array | None) -> tuple[Array, Array]:
        if not self.steps:
            return np.zeros((0, len(self.first))), np.zeros((0, 0))
        S, Y = np.array(self.steps), np.array(self.changes)
        DS = self.damping * self.diagonal * S
        if block is not None:
            DS[:, self.columns] = S[:, self.columns] @ block
        products = S @ Y.T
        L = np.tril(products, -1)
        M = np.block([[S @ DS.T, L], [L.T, -np.diag(np.diag(products))]])
        return np.vstack([DS, Y]), M


@dataclass
class Curvature:
    """A `CurvedModel` at rest: of all coordinates, for quadratics of some of them."""

    # diagonal, W, M, matrix: as of a `Quadratic`, of all coordinates, W (2m, d) by rows
    diagonal: Array
    W: Array
    M: Array
    columns: NDArray[np.int64] | None  # those of the matrix
    matrix: Array | None
    # The quadratic that was made last: most trials of a step are about the same coordinates
    _last: tuple[NDArray[np.int64], Quadratic] | None = None

    def coordinates(self, wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """The wanted coordinates, those with a matrix first."""
        if self.columns is None:
            return wanted
        return np.concatenate([self.columns, np.setdiff1d(wanted, self.columns)])

    def among(self, coordinates: NDArray[np.int64]) -> Quadratic:
        """The quadratic of these coordinates, ordered by `coordinates`."""
        if self._last is None or not np.array_equal(self._last[0], coordinates):
            self._last = None  # before there is another one: both are large
            self._last = coordinates, self._of(coordinates)
        return self._last[1]

    def _of(self, coordinates: NDArray[np.int64]) -> Quadratic:
        D = self.diagonal[coordinates]
        if self.matrix is not None:
            D[: len(self.matrix)] = np.diag(self.matrix)
        return Quadratic(D, self.W[:, coordinates].T, self.M, self.matrix)
