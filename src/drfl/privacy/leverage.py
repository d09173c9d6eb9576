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

from drfl.arrays import Array

# Of the squared norm of the weights, so that no loss is too small to be audited:
DEPENDENT = 1e-10  # a smaller squared residual counts as none, and is not sent
ROUNDING = 1e-26  # a squared residual below this is none, the sum is known already
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

    def settle(self, weights: Array, low: Array, high: Array) -> Array | None:
        r"""Weights near the given ones that may leave; None if there are none.

        Rows B that would get too much leverage are held at what the other rows predict,
        :math:`(I-P_{BB})\nu_B=P_{BU}\nu_U`, within their bounds, so that the answer tells nothing
        new of them.
        """
        if self.admits(weights):
            return weights
        weights, held = weights.copy(), np.zeros(len(self.h), np.bool_)
        most = min(len(self.h) // 3, MOST_HELD)
        for _ in range(ATTEMPTS):
            r = self.residual(weights)
            if float(r @ r) <= DEPENDENT * float(weights @ weights):
                return self._known(weights - r, low, high)
            over = self._over(r)
            if not over.any():
                return weights
            held |= over
            B = np.flatnonzero(held)
            if len(B) > most:
                return None
            Q = self.basis
            rest = Q.T @ weights - Q[B].T @ weights[B]
            try:
                predicted = np.linalg.solve(np.eye(len(B)) - Q[B] @ Q[B].T, Q[B] @ rest)
            except np.linalg.LinAlgError:
                return None
            weights[B] = np.clip(predicted, low[B], high[B])
        return None

    def _known(self, weights: Array, low: Array, high: Array) -> Array | None:
        """Weights in the span, drawn towards the middle until they are within their bounds."""
        middle = 0.5 * (low + high)
        middle -= self.residual(middle)
        room = np.minimum(middle - low, high - middle)
        out = np.maximum(np.maximum(low - weights, weights - high), 0.0)
        if (room <= 0.0).any():
            return None if out.any() else weights
        weights = weights + float((out / (out + room)).max()) * (middle - weights)
        return weights if (weights >= low).all() and (weights <= high).all() else None

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
