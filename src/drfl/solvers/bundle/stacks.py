"""Replies of the same form to the same request, one above the other: thousands read as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.solvers.bundle.messages import CutReply, CutRequest, family_of
from drfl.solvers.bundle.points import Points
from drfl.solvers.certificate.curved import Reach
from drfl.solvers.certificate.cuts import Ints, clipping
from drfl.solvers.certificate.server import ServerProblem
from drfl.solvers.limits import Limits
from drfl.wire import WireError
from drfl.wire.schema import unpack_triangle

Mask = NDArray[np.bool_]
Stacked = Mapping[str, NDArray[Any]]
BYTES = 2**25  # of a stack: what is larger is read in several, large replies one by one


@dataclass(frozen=True)
class Stack:
    """What m clients answered to one request, and what is known of them.

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
    introductions : sequence of CutReply, or None
        Their first answers; None: these are.
    lifted, parts : int
        As in `CutReply`.
    refused : dict of int to str
        By client why its reply is refused: the first reason that was found.
    """

    clients: Ints
    asked: CutRequest
    arrays: Stacked
    limits: Sequence[Limits]
    introductions: Sequence[CutReply] | None
    lifted: int = 0
    parts: int = 1
    refused: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, reply: CutReply, s: int, asked: CutRequest, first: CutReply, limits: Limits
    ) -> Stack:
        """A stack of one; ``first`` is the client's introduction."""
        told = {
            "cuts": reply.rows,
            "share": reply.share,
            "dual": reply.dual,
            "sides": reply.sides,
            "mended": reply.mended,
            "about": reply.about,
        }
        arrays: dict[str, NDArray[Any]] = {
            name: array[None] for name, array in told.items() if array is not None
        }
        columns = [reply.values]
        if None not in reply.multipliers:
            columns.append(np.array(reply.multipliers, dtype=np.float64))
        arrays["value"] = np.stack(columns, axis=1)[None]
        if reply.guarded:
            arrays["guard"] = np.ones((1, 1), np.uint8)
        introductions = None if reply is first else [first]
        return cls(np.array([s]), asked, arrays, [limits], introductions, reply.lifted, reply.parts)

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
        first = self.introductions
        return replace(
            self,
            clients=self.clients[kept],
            arrays={name: array[kept] for name, array in self.arrays.items()},
            limits=[self.limits[i] for i in kept],
            introductions=None if first is None else [first[i] for i in kept],
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

    @cached_property
    def guarded(self) -> bool:
        """Whether they have guards; all have, or none."""
        if self.introductions is None:
            return "guard" in self.arrays
        return bool(self.introductions) and self.introductions[0].guarded

    @cached_property
    def size(self) -> Array:
        """The mean square of a feature that each told of (m,); NaN: it did not."""
        if self.introductions is None:
            told = self.arrays.get("about")
            return np.full(len(self), np.nan) if told is None else np.asarray(told[:, 1])
        every = [first.about for first in self.introductions]
        return np.array([np.nan if about is None else about[1] for about in every])

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
        """Cuts that fall and that rise with the score, each (m, 2, 1 + d)."""
        return [self.arrays[name] for name in ("sides", "mended") if name in self.arrays]

    def masses(self, points: Points) -> Array:
        """The mass of every cut's piece (m, G): that of its group."""
        G = self.rows.shape[2]
        if "share" in self.arrays:
            return np.asarray(np.tile(self.arrays["share"], self.parts))
        family = family_of(G, self.parts)
        return np.asarray(points.pool.shares(self.clients, family, G, self.parts / G))

    def multipliers(self, server: ServerProblem) -> Array:
        """The multipliers at the points (m, P): as they were told, or the norm of w."""
        told = self.arrays["value"]
        if told.shape[2] > 1:
            return np.asarray(told[:, :, 1])
        gauges = np.array([server.gauge.value(x) for x in self.asked.points])
        return np.asarray(np.maximum(gauges, server.floor[self.clients][:, None]))

    def cut_values(self, x: Array, multipliers: Array, points: Points) -> Array:
        """What the new cuts say of F at x (m, K): of every point, dual ones, and curvature."""
        server, arrays = points.server, self.arrays
        at = self._at(x, multipliers, server)
        share = self.masses(points)
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
