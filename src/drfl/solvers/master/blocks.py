r"""Masters of many clients: what belongs to one client is eliminated, client by client.

A row speaks of what all share (x, t, what h adds) and of at most one client's own variables
:math:`z_s`. So the normal matrix is block diagonal with a border,

.. math:: \begin{pmatrix}H_0&B^\top\\B&D\end{pmatrix},\quad D=\mathrm{diag}(D_1,\dots,D_S),

and what is left to factor, :math:`H_0-\sum_sB_s^\top D_s^{-1}B_s`, is as wide as what is shared:
an iteration takes time in proportion to the number of cuts, however many clients there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg.lapack import dpotrf, dpotrs

from drfl.arrays import Array

Ints = NDArray[np.intp]
MOST_ENTRIES = 10_000_000  # of all blocks, or of the border


@dataclass(frozen=True)
class Blocks:
    """Where variables are: the shared ones first, then those of every block, padded.

    Attributes
    ----------
    shared, own : (n0,), (n1,)
        Variables that rows of all blocks may speak of, and those of single blocks.
    slot : (n1,)
        The place of each of the latter among all blocks, of ``size`` places each.
    count, size : int
        How many blocks there are, and how many places each has.
    pairs : sparse matrix
        The weights of rows to the entries of H_0, B and D, as far as the sparse rows go.
    cuts : sparse matrix (n0 + count * size, K)
        The sparse entries of the full rows, transposed.
    """

    shared: Ints
    own: Ints
    slot: Ints
    count: int
    size: int
    pairs: sparse.csr_matrix
    cuts: sparse.csr_matrix

    @classmethod
    def of(cls, owner: Ints, rest: sparse.csr_matrix, n_full: int) -> Blocks | None:
        """The blocks of variables that have an owner (-1: none); None: a row ties two of them."""
        own = np.flatnonzero(owner >= 0)
        own = own[np.argsort(owner[own], kind="stable")]
        _, first, block, sizes = np.unique(
            owner[own], return_index=True, return_inverse=True, return_counts=True
        )
        shared, count, size = np.flatnonzero(owner < 0), len(sizes), int(sizes.max(initial=0))
        n0 = len(shared)
        if count * size * max(size, n0) > MOST_ENTRIES or n0**2 > MOST_ENTRIES:
            return None
        slot = block * size + np.arange(len(own)) - first[block]
        place = np.empty(len(owner), np.intp)
        place[shared], place[own] = np.arange(n0), n0 + slot
        entries = rest.tocoo()
        moved = sparse.csr_matrix(
            (entries.data, (entries.row, place[entries.col])), (rest.shape[0], n0 + count * size)
        )
        pairs = _pairs(moved, n0, count, size)
        if pairs is None:
            return None
        return cls(shared, own, slot, count, size, pairs, moved[:n_full].T.tocsr())


def _pairs(rest: sparse.csr_matrix, n0: int, count: int, size: int) -> sparse.csr_matrix | None:
    """The products of all pairs of entries of a row; None: a pair belongs to two blocks."""
    lengths = np.diff(rest.indptr)
    row = np.repeat(np.arange(len(lengths)), lengths)
    partners = lengths[row]
    one = np.repeat(np.arange(len(row)), partners)
    start = np.cumsum(partners) - partners
    two = rest.indptr[row[one]] + np.arange(len(one)) - start[one]
    i, j = rest.indices[one].astype(np.intp), rest.indices[two].astype(np.intp)
    a, b = i - n0, j - n0  # places among the blocks
    both, neither = (a >= 0) & (b >= 0), (a < 0) & (b < 0)
    if (a[both] // size != b[both] // size).any():
        return None
    border, blocks = n0 * n0, n0 * n0 + count * size * n0
    entry = np.where(neither, i * n0 + j, border + a * n0 + j)
    entry = np.where(both, blocks + a * size + b % max(size, 1), entry)
    used = neither | (a >= 0)  # of a pair of both kinds one half is enough
    values = rest.data[one] * rest.data[two]
    shape = blocks + count * size * size, len(lengths)
    return sparse.csr_matrix((values[used], (entry[used], row[one[used]])), shape)


class BorderedFactor:
    """The normal matrix of so many weights, its diagonal scaled to 1 and raised a little."""

    def __init__(self, P: Array, G: Array, blocks: Blocks, weights: Array) -> None:
        n0, d, m = len(blocks.shared), len(P), blocks.count * blocks.size
        entries = blocks.pairs @ weights
        H, B, D = np.split(entries, [n0 * n0, n0 * n0 + m * n0])
        H, B = H.reshape(n0, n0), B.reshape(m, n0)
        weighted = weights[: len(G), None] * G
        mixed = blocks.cuts @ weighted
        H[:d, :d] += P + G.T @ weighted
        H[:, :d] += mixed[:n0]
        H[:d, :] += mixed[:n0].T
        B[:, :d] += mixed[n0:]
        D = D.reshape(blocks.count, blocks.size, blocks.size)
        unused = np.ones(m, np.bool_)
        unused[blocks.slot] = False
        np.einsum("sii->si", D)[unused.reshape(blocks.count, -1)] = 1.0
        self.blocks, self.H, self.B, self.D = blocks, H, B, D
        self.scale = 1.0 / np.sqrt(np.maximum(np.diagonal(H), 1e-300))
        self.own_scale = 1.0 / np.sqrt(np.maximum(np.einsum("sii->si", D), 1e-300)).ravel()
        H *= np.outer(self.scale, self.scale)
        B *= np.outer(self.own_scale, self.scale)
        own = self.own_scale.reshape(blocks.count, -1)
        D *= own[:, :, None] * own[:, None, :]

    def factored(self, more: float) -> bool:
        """Whether it can be factored with so much more on the diagonal."""
        self.raised = self.D + more * np.eye(self.blocks.size)
        self.inverse = np.linalg.inv(self.raised)
        self.eliminated = self._times_inverse(self.B)
        left = self.H + more * np.eye(len(self.H)) - self.B.T @ self.eliminated
        self.factor, info = dpotrf(left, lower=1, clean=0)
        return bool(info == 0)

    def solve(self, rhs: Array) -> Array:
        """Its inverse times a vector."""
        blocks = self.blocks
        own = np.zeros(len(self.B))
        own[blocks.slot] = rhs[blocks.own]
        own = self._times_inverse((self.own_scale * own)[:, None])[:, 0]
        rest = self.scale * rhs[blocks.shared] - self.B.T @ own
        found = np.asarray(dpotrs(self.factor, rest, lower=1)[0])
        own = self.own_scale * (own - self.eliminated @ found)
        out = np.empty(len(rhs))
        out[blocks.shared], out[blocks.own] = self.scale * found, own[blocks.slot]
        return out

    def _times_inverse(self, columns: Array) -> Array:
        stacked = columns.reshape(self.blocks.count, self.blocks.size, -1)
        found = self.inverse @ stacked
        if self.blocks.size > 1:  # an inverse alone is not accurate
            found += self.inverse @ (stacked - self.raised @ found)
        return np.asarray(found.reshape(len(columns), -1))
