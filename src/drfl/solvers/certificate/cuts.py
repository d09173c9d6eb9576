r"""The server's model of every client: cuts, in pieces and families.

A client may split its rows into groups and send one cut per group. A *piece* is one group of one
client; its cuts bound the mean loss :math:`u_p` of that group from below. The pieces of one way of
grouping form a *family* j of client s, and

.. math:: F_s \ge \rho_s\lambda_s + \sum_{p\in j} \mathrm{share}_p\,u_p,\qquad
          u_p \ge \max\{0,\ c_k + g_k^\top x + \gamma_k\lambda_s\}.

Old families stay valid after a regrouping.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array

Ints = NDArray[np.intp]


@dataclass(frozen=True)
class Cuts:
    r"""Parallel arrays, one entry per cut.

    Attributes
    ----------
    piece : (K,)
        The piece it bounds.
    c, g, slope : (K,), (K, d), (K,)
        Constant, slope in x = (w, b), slope in :math:`\lambda_s`.
    lift : (K, n+1)
        In a box: slopes in the clipped model :math:`\omega_s` and in :math:`\tau_s`; else (K, 0).
    point, group : (K,)
        The evaluated point and the group it came from: how the client recognises its own cut.
    tangent : (K,)
        False for cuts that need not touch the function (dual cuts).
    used : (K,)
        The last round in which it had a multiplier.
    serial : (K,)
        Its number in the pool, in ascending order.
    """

    piece: Ints
    c: Array
    g: Array
    slope: Array
    lift: Array
    point: Ints
    group: Ints
    tangent: NDArray[np.bool_]
    used: Ints
    serial: Ints

    def __len__(self) -> int:
        return len(self.c)

    def where(self, mask: NDArray[np.bool_]) -> Cuts:
        """Keep some of them."""
        return Cuts(*(getattr(self, f.name)[mask] for f in fields(self)))

    def joined(self, others: Sequence[Cuts]) -> Cuts:
        """These and the others."""
        parts = [self, *others]
        return Cuts(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(self)))


class Pool:
    """All cuts, and the table of pieces and families they belong to.

    ``cut_client`` is the client of each cut.
    """

    def __init__(self, n_clients: int, dimension: int, lifted: int = 0) -> None:
        self.n_clients, self.dimension = n_clients, dimension
        none = np.zeros(0, np.intp)
        self.cuts = Cuts(
            none,
            np.zeros(0),
            np.zeros((0, dimension)),
            np.zeros(0),
            np.zeros((0, lifted)),
            none,
            none,
            np.zeros(0, np.bool_),
            none,
            none,
        )
        self.cut_client = none
        self.family_client = none
        self.piece_family, self.piece_share = none, np.zeros(0)
        self._first_piece: dict[tuple[int, int], int] = {}
        self._by_client: tuple[Ints, Ints] | None = None
        self._numbered = 0

    @property
    def piece_client(self) -> Ints:
        """The client of each piece."""
        return self.family_client[self.piece_family]

    def pieces(self, client: int, family: int, groups: int, share: Array | None = None) -> Ints:
        """The pieces of a client's family, registered with their shares when first seen."""
        key = client, family
        if key not in self._first_piece:
            if share is None:
                share = np.full(groups, 1.0 / groups)
            self._first_piece[key] = len(self.piece_share)
            fresh = np.full(groups, len(self.family_client))
            self.family_client = np.append(self.family_client, client)
            self.piece_family = np.concatenate([self.piece_family, fresh])
            self.piece_share = np.concatenate([self.piece_share, share])
        return self._first_piece[key] + np.arange(groups)

    def shares(self, clients: Iterable[int], family: int, pieces: int, otherwise: float) -> Array:
        """The masses of the pieces of some clients' families (m, pieces), or else this number."""
        first = np.array([self._first_piece.get((int(s), family), -1) for s in clients], np.intp)
        known, masses = first >= 0, np.full((len(first), pieces), otherwise)
        masses[known] = self.piece_share[first[known][:, None] + np.arange(pieces)]
        return masses

    def knows(self, client: int, family: int) -> bool:
        """Whether the shares of a client's family are known."""
        return (client, family) in self._first_piece

    def serials(self, count: int) -> Ints:
        """Numbers for new cuts."""
        self._numbered += count
        return np.arange(self._numbered - count, self._numbered)

    def touch(self, serials: Ints, round: int) -> None:
        """Some cuts had a multiplier in this round."""
        self.cuts.used[np.searchsorted(self.cuts.serial, serials)] = round

    def add(self, cuts: Sequence[Cuts]) -> None:
        """Take in the cuts of a round."""
        if cuts:
            self.cuts = self.cuts.joined(cuts)
            self.cut_client = self.piece_client[self.cuts.piece]
            self._by_client = None

    def keep(self, mask: NDArray[np.bool_]) -> None:
        """Forget the other cuts; pieces and families keep their numbers."""
        self.cuts, self.cut_client = self.cuts.where(mask), self.cut_client[mask]
        self._by_client = None

    def values(self, cuts: Cuts, x: Array, lam: Array, half: Array | None = None) -> Array:
        r"""The model of :math:`F_s-\rho_s\lambda_s` at x and given :math:`\lambda_s`."""
        own = lam[self.piece_client[cuts.piece]]
        at = cuts.c + cuts.g @ x + cuts.slope * own
        if cuts.lift.shape[1] and half is not None:
            w = x[: half.shape[1]]
            omega = np.clip(w, -own[:, None], own[:, None])
            tau = (np.abs(w - omega) * half[self.piece_client[cuts.piece]]).sum(axis=1)
            at += (cuts.lift[:, :-1] * omega).sum(axis=1) + cuts.lift[:, -1] * tau
        u = np.zeros(len(self.piece_share))
        np.maximum.at(u, cuts.piece, at)
        families = np.bincount(
            self.piece_family, self.piece_share * u, minlength=len(self.family_client)
        )
        out = np.zeros(self.n_clients)
        np.maximum.at(out, self.family_client, families)
        return out

    def values_of(self, clients: Ints, x: Array, lam: Array, half: Array) -> Array:
        """The same of the cuts of some clients alone (m,), numbers in ascending order."""
        mine, cuts = self._of(clients), self.cuts
        owner = np.searchsorted(clients, self.cut_client[mine])
        at = cuts.c[mine] + cuts.g[mine] @ x + cuts.slope[mine] * lam[owner]
        if cuts.lift.shape[1]:
            clipped = np.array([clipping(x, own, h) for own, h in zip(lam, half, strict=True)])
            at += (cuts.lift[mine] * clipped[owner]).sum(axis=1)
        pieces, position = np.unique(cuts.piece[mine], return_inverse=True)
        u = np.zeros(len(pieces))
        np.maximum.at(u, position, at)
        families, family = np.unique(self.piece_family[pieces], return_inverse=True)
        sums_of = np.bincount(family, self.piece_share[pieces] * u, len(families))
        out = np.zeros(len(clients))
        np.maximum.at(out, np.searchsorted(clients, self.family_client[families]), sums_of)
        return out

    def _of(self, clients: Ints) -> Ints:
        """The cuts of some clients; all are sorted once, for thousands may ask one by one."""
        if self._by_client is None:
            order = np.argsort(self.cut_client, kind="stable")
            ends = np.cumsum(np.bincount(self.cut_client, minlength=self.n_clients))
            self._by_client = order, np.append(0, ends)
        order, ends = self._by_client
        if len(clients) == self.n_clients:
            return order
        parts = [order[ends[s] : ends[s + 1]] for s in clients.tolist()]
        return np.concatenate([order[:0], *parts])


def clipping(x: Array, multiplier: float, half: Array) -> Array:
    r""":math:`(\omega,\tau)` (n + 1,): w clipped at the multiplier, and what that leaves of it."""
    w = x[: len(half)]
    omega = np.clip(w, -multiplier, multiplier)
    return np.append(omega, np.abs(w - omega) @ half)


@dataclass(frozen=True)
class Solution:
    r"""A proposal and the multipliers, in the user's units.

    Attributes
    ----------
    x : (d,)
        The minimiser.
    model : float
        The cut model there, without the proximal term.
    cuts, families : (K,), (J,)
        Multipliers of the cuts, and of each family's bound on :math:`v_s`.
    weights : (S,)
        Multipliers of all bounds on :math:`v_s`: the master's q, up to the solver's accuracy.
    clipping : (S, n)
        In a box: multipliers of :math:`|w-\omega_s|\le r_s`, upper minus lower.
    usable : bool
        False if the QP solver failed; x is then the centre.
    """

    x: Array
    model: float
    cuts: Array
    families: Array
    weights: Array
    clipping: Array
    usable: bool = True


def sums(index: Ints, values: Array, size: int) -> Array:
    """Sum values by index."""
    return np.bincount(index, values, size).astype(np.float64, copy=False)
