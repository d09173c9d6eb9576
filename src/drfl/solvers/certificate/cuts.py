r"""The server's model of every client: cuts, in pieces and families.

A client may split its rows into groups and send one cut per group. A *piece* is one group of one
client; its cuts bound the mean loss :math:`u_p` of that group from below. The pieces of one way of
grouping form a *family* j of client s, and

.. math:: F_s \ge \rho_s\lambda_s + \sum_{p\in j} \mathrm{share}_p\,u_p,\qquad
          u_p \ge \max\{0,\ c_k + g_k^\top x + \gamma_k\lambda_s\}.

Old families stay valid after a regrouping.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

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

    def where(self, chosen: NDArray[np.bool_] | Ints) -> Cuts:
        """Some of them, by a mask or in an order."""
        return Cuts(*(getattr(self, f.name)[chosen] for f in fields(self)))

    def joined(self, others: Sequence[Cuts]) -> Cuts:
        """These and the others."""
        parts = [self, *others]
        return Cuts(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(self)))


@dataclass(frozen=True)
class FamilyCuts:
    """Cuts of one family of each of m clients as they come in: P for every one of its G pieces.

    Attributes
    ----------
    clients : (m,)
        Whose they are, nobody twice.
    family : int
        Which of a client's families it is.
    masses : (m, G)
        The shares of its pieces, which the pool takes when it first sees the family.
    c, g, slope, lift : (m, P, G), (m, P, G, d), (m, P, G), (m, P, G, l)
        As in `Cuts`.
    point, group : (P,), and (G,) or (P, 1)
        As in `Cuts`, the same for all clients.
    tangent, round : bool, int
        Whether they touch the function, and when they came.
    kept : (m, P, G) or None
        Those that are told; None: all are.
    """

    clients: Ints
    family: int
    masses: Array
    c: Array
    g: Array
    slope: Array
    lift: Array
    point: Ints
    group: Ints
    tangent: bool
    round: int
    kept: NDArray[np.bool_] | None = None

    def of_pieces(self, first: Ints) -> Cuts:
        """One entry per cut, without numbers; ``first`` (m,) are the clients' first pieces."""
        shape = self.c.shape
        size, every = self.c.size, np.arange(shape[2])
        cuts = Cuts(
            piece=np.broadcast_to(first[:, None, None] + every, shape).ravel(),
            c=self.c.ravel(),
            g=self.g.reshape(size, self.g.shape[3]),
            slope=self.slope.ravel(),
            lift=self.lift.reshape(size, self.lift.shape[3]),
            point=np.broadcast_to(self.point[:, None], shape).ravel(),
            group=np.broadcast_to(self.group, shape).ravel(),
            tangent=np.full(size, self.tangent),
            used=np.full(size, self.round),
            serial=np.full(size, -1),
        )
        return cuts if self.kept is None else cuts.where(self.kept.ravel())


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
        self._first_piece: dict[int, Ints] = {}  # by family, of every client
        self._by_client: tuple[Ints, Ints] | None = None
        self._numbered = 0

    @property
    def piece_client(self) -> Ints:
        """The client of each piece."""
        return self.family_client[self.piece_family]

    def shares(self, clients: Ints, family: int, pieces: int, otherwise: float) -> Array:
        """The masses of the pieces of some clients' families (m, pieces), or else this number."""
        first = self._first_of(family)[clients]
        known, masses = first >= 0, np.full((len(first), pieces), otherwise)
        masses[known] = self.piece_share[first[known][:, None] + np.arange(pieces)]
        return masses

    def knows(self, family: int) -> NDArray[np.bool_]:
        """Of which clients the shares of a family are known (S,)."""
        return self._first_of(family) >= 0

    def _first_of(self, family: int) -> Ints:
        """The first piece of every client's family (S,); -1: it is not known."""
        return self._first_piece.get(family, np.full(self.n_clients, -1))

    def touch(self, serials: Ints, round: int) -> None:
        """Some cuts had a multiplier in this round."""
        self.cuts.used[np.searchsorted(self.cuts.serial, serials)] = round

    def add(self, told: Sequence[FamilyCuts]) -> None:
        """Take in the cuts of a round, client by client; nobody's family comes twice in it."""
        if not told:
            return
        self._register(told)
        fresh = [some.of_pieces(self._first_of(some.family)[some.clients]) for some in told]
        new = fresh[0].joined(fresh[1:])
        new = new.where(np.argsort(self.piece_client[new.piece], kind="stable"))
        numbers = np.arange(self._numbered, self._numbered + len(new))
        self._numbered += len(new)
        self.cuts = self.cuts.joined([replace(new, serial=numbers)])
        self.cut_client = self.piece_client[self.cuts.piece]
        self._by_client = None

    def _register(self, told: Sequence[FamilyCuts]) -> None:
        """Number the families that are new, and their pieces, client by client."""
        fresh = [(some, ~self.knows(some.family)[some.clients]) for some in told]
        client = np.concatenate([some.clients[new] for some, new in fresh])
        count = np.concatenate([np.full(new.sum(), some.masses.shape[1]) for some, new in fresh])
        order, known = np.argsort(client, kind="stable"), len(self.piece_share)
        first = np.empty_like(count)
        first[order] = known + np.cumsum(count[order]) - count[order]
        families = len(self.family_client) + np.arange(len(order))
        self.piece_family = np.append(self.piece_family, np.repeat(families, count[order]))
        self.family_client = np.append(self.family_client, client[order])
        self.piece_share = np.append(self.piece_share, np.empty(len(self.piece_family) - known))
        for some, new in fresh:
            mine, first = np.split(first, [new.sum()])
            self._first_piece[some.family] = every = self._first_of(some.family).copy()
            every[some.clients[new]] = mine
            self.piece_share[mine[:, None] + np.arange(some.masses.shape[1])] = some.masses[new]

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
