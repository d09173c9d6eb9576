r"""How much of one row is in what has been sent.

Every answer is a weighted sum of rows, with weights :math:`\nu_j\in R^N` that never leave the
client. With P the projection onto the span of all weights so far, :math:`h_i=P_{ii}` is the
*leverage* of row i: the largest share of its squared weight that any linear combination of the
answers can put on that row. If :math:`\max_ih_i\le1/k`, every combination but 0 involves at least k
rows: one on a set T of rows would be a unit vector u in the span with
:math:`1=\|P_{TT}u\|\le\mathrm{tr}\,P_{TT}\le|T|/k`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.privacy.release.lattice import Lattice

# Of the squared norm of the weights, so that no loss is too small to be audited:
DEPENDENT = 1e-10  # a smaller squared residual counts as none, and is not sent
ROUNDING = 1e-26  # a squared residual below this is none, the sum is known already
NEARLY = 1e-4  # weights that are known but for so much
MARGIN = 1e-10  # kept from 1/k, for rounding
ATTEMPTS = 12  # at holding rows
MOST_HELD = 400  # rows


class Leverage:
    """An orthonormal basis of all weights sent, and the leverage of every row.

    Parameters
    ----------
    n_rows : int
        N.
    k : int
        No row may have more leverage than 1/k.

    Attributes
    ----------
    h : (N,)
        The leverages; they add up to the rank.
    """

    def __init__(self, n_rows: int, k: int) -> None:
        self.limit = 1.0 / k - MARGIN
        self.h = np.zeros(n_rows)
        self._room = np.zeros((n_rows, 8), order="F")
        self.rank = 0

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Arrays that come from another process cannot be written to.
        self.__dict__.update(state)
        self.h, self._room = self.h.copy(), self._room.copy(order="F")

    @property
    def basis(self) -> Array:
        """The basis, (N, rank)."""
        return self._room[:, : self.rank]

    def residual(self, weights: Array) -> Array:
        """The part of the weights that is outside the span; projected twice, for rounding."""
        Q = self.basis
        r = weights - Q @ (Q.T @ weights)
        return r - Q @ (Q.T @ r)

    def add(self, weights: Array) -> None:
        """Weights leave the client. Those in the span add nothing."""
        r = self.residual(unit(weights))
        if float(r @ r) <= DEPENDENT:
            return
        if self.rank == self._room.shape[1]:
            self._room = np.asfortranarray(np.hstack([self._room, np.zeros_like(self._room)]))
        self._room[:, self.rank] = r / np.linalg.norm(r)
        self.h += self._room[:, self.rank] ** 2
        self.rank += 1

    def admits(self, weights: Array, *, exactly: bool = False) -> bool:
        """Whether the weights may leave as they are: new ones, or sums of what has left.

        What is almost in the span may not: the little that differs could be one row. With
        ``exactly`` a leverage of 1/k is not too much, as that of k rows by themselves is.
        """
        r = self.residual(unit(weights))
        if float(r @ r) <= ROUNDING:
            return True
        slack = 2.0 * MARGIN if exactly else 0.0
        return float(r @ r) > DEPENDENT and not self._over(r, slack).any()

    def settle(
        self, weights: Array, low: Array, high: Array, lattice: Lattice, ease: Array
    ) -> Array | None:
        r"""Weights near the given ones that may leave, with a slope on the grid; None: not found.

        Rows B that would get too much leverage are held at what the other rows predict,
        :math:`(I-P_{BB})\nu_B=P_{BU}\nu_U`, within their bounds, so that the answer tells nothing
        new of them; when others are moved onto the grid, they follow.
        """
        held = np.zeros(len(self.h), np.bool_)
        r = self.residual(unit(weights))
        if float(r @ r) <= NEARLY:
            # All that is new will be the change onto the grid: room for all rows to take part.
            weights = weights + lattice.room(low, high) * (0.5 * (low + high) - weights)
        # Rows that have little leverage left are not for making slopes round.
        ease = ease * lattice.calm * np.square(np.maximum(1.0 - self.h / self.limit, 0.0))
        for _ in range(ATTEMPTS):
            B = np.flatnonzero(held)
            if len(B) > min(len(self.h) // 3, MOST_HELD):
                return None
            follow = self._follow(B)
            if follow is None:
                return None
            settled = weights.copy()
            settled[B] = np.clip(follow @ settled, low[B], high[B])
            response = lattice.A + follow.T @ lattice.A[B] if len(B) else lattice.A
            moved = lattice.move(settled, low, high, np.where(held, 0.0, ease), response)
            if moved is None:
                return None
            moved[B] += follow @ (moved - settled)
            r = self.residual(unit(moved))
            if float(r @ r) <= DEPENDENT:
                return None
            over = self._over(r)
            if not over.any():
                inside = (moved >= low) & (moved <= high)
                return moved if inside.all() and lattice.holds(moved) else None
            held |= over
        return None

    def _follow(self, B: NDArray[np.intp]) -> Array | None:
        """What rows B are predicted to be by the others: (B, N), 0 at B itself."""
        Q = self.basis
        try:
            part = np.linalg.solve(np.eye(len(B)) - Q[B] @ Q[B].T, Q[B])
        except np.linalg.LinAlgError:
            return None
        follow = part @ Q.T
        follow[:, B] = 0.0
        return np.asarray(follow)

    def _over(self, r: Array, slack: float = 0.0) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Rows that would get too much leverage."""
        return np.asarray(self.h + r**2 / float(r @ r) > self.limit + slack)


def unit(weights: Array) -> Array:
    """Weights of norm 1, in which they are audited: what they add up to can be scaled at will."""
    largest = float(np.abs(weights).max(initial=0.0))
    if largest == 0.0:
        return weights
    weights = weights / largest  # first: squares of tiny numbers are 0
    return np.asarray(weights / np.linalg.norm(weights))
