"""Replies of the same form to the same request, one above the other: thousands read as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.solvers.bundle.messages import (
    OF_FLIPS,
    CutRequest,
    dual_cuts,
    family_of,
    side_cuts,
    split_dual_cuts,
)
from drfl.solvers.bundle.points import Points
from drfl.solvers.certificate.curved import Reach
from drfl.solvers.certificate.cuts import FamilyCuts, Ints, Pool, clipping
from drfl.solvers.certificate.server import ServerProblem
from drfl.solvers.limits import Limits
from drfl.wire import WireError
from drfl.wire.schema import unpack_triangle

Mask = NDArray[np.bool_]
Stacked = Mapping[str, NDArray[Any]]
BYTES = 2**25  # of a stack: what is larger is read in several, large replies one by one


@dataclass(frozen=True)
class Stack:
    """What m clients answered to one request, and what is known of them: one is a stack of one.

    Attributes
    ----------
    clients : (m,)
        Who they are, in ascending order.
    asked : CutRequest
        What they were asked; multipliers of dual cuts apart it is the same for all.
    arrays : mapping of str to array
        Those of the replies, with one more axis in front, of length m.
    limits : sequence of Limits
        What each of them cannot exceed.
    about : (m, 2) or None
        What they said of themselves before; None: they say it now.
    guarded : bool
        Whether they have guards; all have, or none.
    lifted : int
        How many numbers of a cut belong to a clipped model.
    parts : int
        2: what flips add has cuts of its own.
    curvature : (m, h, d, d) or None
        That of h points.
    refused : dict of int to str
        By client why its reply is refused: the first reason that was found.
    """

    clients: Ints
    asked: CutRequest
    arrays: Stacked
    limits: Sequence[Limits]
    about: Array | None = None
    guarded: bool = False
    lifted: int = 0
    parts: int = 1
    curvature: Array | None = None
    refused: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.clients)

    # ------------------------------------------------------------------ what is refused
    def refuse(self, bad: Mask | np.bool, why: str | Callable[[int], str]) -> None:
        """Refuse some (m,), with a sentence for all or one by position; True: everyone."""
        if bad.any():
            bad = np.broadcast_to(bad, len(self))
            for i in np.flatnonzero(bad).tolist():
                sentence = why if isinstance(why, str) else why(i)
                self.refused.setdefault(int(self.clients[i]), sentence)

    def require(self) -> None:
        """Of a stack of one: raise the reason for which it is refused."""
        for sentence in self.refused.values():
            raise WireError(sentence)

    def left(self) -> Stack:
        """Those that are not refused."""
        if not self.refused:
            return self
        kept = [i for i, s in enumerate(self.clients.tolist()) if s not in self.refused]
        about, curvature = self.about, self.curvature
        return replace(
            self,
            clients=self.clients[kept],
            arrays={name: array[kept] for name, array in self.arrays.items()},
            limits=[self.limits[i] for i in kept],
            about=None if about is None else about[kept],
            curvature=None if curvature is None else curvature[kept],
        )

    # ------------------------------------------------------------------ what they told
    @property
    def dimension(self) -> int:
        """The length of x."""
        return int(self.asked.points.shape[1])

    @property
    def values(self) -> Array:
        """F at the points (m, P)."""
        return np.asarray(self.arrays["value"][:, :, 0])

    @property
    def rows(self) -> Array:
        """The numbers of the cuts (m, P, G, c)."""
        return np.asarray(self.arrays["cuts"])

    @property
    def slopes(self) -> int:
        """How many numbers of a cut, 0 or 1, are its slope in the multiplier."""
        return int(self.rows.shape[3]) - self.dimension - self.lifted - 1

    @property
    def size(self) -> Array:
        """The mean square of a feature that each told of (m,); NaN: it did not."""
        told = self.arrays.get("about") if self.about is None else self.about
        return np.full(len(self), np.nan) if told is None else np.asarray(told[:, 1])

    @cached_property
    def reaches(self) -> list[Reach]:
        """The curvature of each at the main point, and how far it is certain; or none."""
        if "reach" not in self.arrays:
            return []
        every = unpack_triangle(self.arrays["bend"][:, 0], self.dimension)
        tables, point = self.arrays["reach"], self.asked.identities[0]
        return [Reach(point, H, *table.T) for H, table in zip(every, tables, strict=True)]

    @property
    def sides(self) -> list[Array]:
        """Cuts that fall and that rise with the score, by proof, each (m, 2 G, 1 + d)."""
        if "sides" not in self.arrays:
            return []
        told = self.arrays["sides"]
        if "mended" not in self.arrays:
            return [told]
        mended = self.arrays["mended"]
        return [told, *np.split(mended, mended.shape[1] // told.shape[1], axis=1)]

    def masses(self, pool: Pool) -> Array:
        """The mass of every cut's piece (m, G): that of its group."""
        G = self.rows.shape[2]
        if "share" in self.arrays:
            return np.asarray(np.tile(self.arrays["share"], self.parts))
        return pool.shares(self.clients, family_of(G, self.parts), G, self.parts / G)

    def multipliers(self, server: ServerProblem) -> Array:
        """The multipliers at the points (m, P): as they were told, or the norm of w."""
        told = self.arrays["value"]
        if told.shape[2] > 1:
            return np.asarray(told[:, :, 1])
        gauges = np.array([server.gauge.value(x) for x in self.asked.points])
        return np.asarray(np.maximum(gauges, server.floor[self.clients][:, None]))

    # ------------------------------------------------------------------ what that says of F
    def cut_values(self, x: Array, multipliers: Array, points: Points) -> Array:
        """What the new cuts say of F at x (m, K): of every point, dual ones, and curvature."""
        server, arrays = points.server, self.arrays
        at = self._at(x, multipliers, server)
        share = self.masses(points.pool)
        values = (np.maximum(at, 0.0) * share[:, None]).sum(axis=2)
        more = []
        if "dual" in arrays:
            more.append(arrays["dual"][:, 0] + arrays["dual"][:, 1:] @ x)
        told = [sides[:, :, 0] + sides[:, :, 1:] @ x for sides in self.sides]
        more += [np.maximum(sides, 0.0).sum(axis=1) for sides in told]
        if self.reaches:
            gains = [reach.gain(x - self.asked.points[0]) for reach in self.reaches]
            more.append((at[:, 0] * share).sum(axis=1) + gains)
        values = np.column_stack([values, *more])
        if server.priced:
            values += (server.rho[self.clients] * multipliers)[:, None]
        return values

    def _at(self, x: Array, multipliers: Array, server: ServerProblem) -> Array:
        """The values (m, P, G) of the cuts at x: each is linear in these numbers."""
        rows, slopes = self.rows, self.slopes
        values = rows[..., 0] + rows[..., -self.dimension :] @ x
        if slopes:
            values = values + rows[..., 1] * multipliers[:, None, None]
        if self.lifted:
            half = server.half[self.clients]
            clipped = np.array(
                [clipping(x, lam, h) for lam, h in zip(multipliers, half, strict=True)]
            )
            lift = rows[..., 1 + slopes : 1 + slopes + self.lifted]
            values = values + (lift * clipped[:, None, None]).sum(axis=3)
        return np.asarray(values)

    def largest_terms(self, x: Array) -> Array:
        """What the rounding of these values is relative to (m, K)."""
        size, arrays = np.abs(x), self.arrays
        terms = (np.abs(self.rows[..., -self.dimension :]) @ size).max(axis=2)
        others = [*([arrays["dual"]] if "dual" in arrays else []), *self.sides]
        most = [np.abs(a[..., 1:]) @ size for a in others] + [terms[:, :1]] * bool(self.reaches)
        if not most:
            return np.asarray(terms)
        top = np.max([m if m.ndim == 1 else m.max(axis=1) for m in most], axis=0)
        return np.column_stack([terms, *(top for _ in most)])

    # ------------------------------------------------------------------ what the pool takes
    def cuts(self, pool: Pool, round: int) -> list[FamilyCuts]:
        """All cuts: tangents, dual ones, those of sides."""
        arrays, told = self.arrays, [self.tangents(pool, self.asked.identities, round)]
        if "dual" in arrays:
            told.append(self._dual_cuts(pool, round))
        given = dict(enumerate(self.sides))
        if given:
            told.append(side_cuts(given, self.clients, round))
        return told

    def tangents(self, pool: Pool, identities: Sequence[int], round: int) -> FamilyCuts:
        """The cuts of all points; their family goes by the number of pieces."""
        rows, d, slopes = self.rows, self.dimension, self.slopes
        G = rows.shape[2]
        group = np.append(np.arange(G // self.parts), np.full(G - G // self.parts, OF_FLIPS))
        # Where nobody flips the cut is 0, which is known: the QP is spared its many copies.
        kept = None if self.parts == 1 else (group >= 0) | rows.any(axis=3)
        return FamilyCuts(
            self.clients,
            family_of(G, self.parts),
            self.masses(pool),
            rows[..., 0],
            rows[..., -d:],
            rows[..., 1] if slopes else np.zeros(rows.shape[:3]),
            rows[..., 1 + slopes : 1 + slopes + self.lifted],
            np.array(identities),
            group,
            tangent=True,
            round=round,
            kept=kept,
        )

    def gradients(self, pool: Pool) -> Array:
        """The slopes in x at the points (m, P, d), means over the groups."""
        slopes = self.rows[..., -self.dimension :]
        return np.asarray((self.masses(pool)[:, None, None] @ slopes)[:, :, 0])

    def _dual_cuts(self, pool: Pool, round: int) -> FamilyCuts:
        """In the units of the other cuts.

        Split flips: they are those of the mean loss alone, and what flips add in all groups
        together is the other piece of their family.
        """
        dual = self.arrays["dual"]
        if self.parts == 1:
            return dual_cuts(dual, self.clients, round, self.lifted)
        weighted = self.masses(pool)[:, :, None] * self.rows[:, 0]
        flips = weighted[:, weighted.shape[1] // 2 :].sum(axis=1)
        return split_dual_cuts(dual, flips, self.clients, round)


def parts_of(members: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    """Clients whose replies have this many bytes, so many at a time that a stack stays small."""
    count = max(1, BYTES // max(size, 1))
    for start in range(0, len(members), count):
        yield members[start : start + count]


def stacked(arrays: Iterable[Stacked]) -> dict[str, NDArray[Any]]:
    """Arrays of the same names and shapes, one above the other."""
    every = list(arrays)
    if len(every) == 1:
        return {name: array[None] for name, array in every[0].items()}
    return {name: np.array([own[name] for own in every]) for name in every[0]}
