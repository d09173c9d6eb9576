"""The clients as the server knows them: who answers, what they said of themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.solvers.bundle.client_cache import CacheMirror
from drfl.solvers.bundle.messages import CutReply, CutRequest
from drfl.solvers.bundle.plausibility import (
    read_form,
    read_numbers,
    replies_of,
    require_classes,
    require_consistent,
    require_facts,
    require_possible,
)
from drfl.solvers.bundle.points import Points
from drfl.solvers.bundle.stacks import parts_of
from drfl.solvers.certificate.anchors import AnchorBox
from drfl.solvers.limits import Limits
from drfl.wire import Message, WireError

PATIENCE = 8  # misses in a row after which a client counts as gone
KNOWN_AFTER = 5  # answers after which its cuts stand for it


@dataclass
class Clients:
    """The clients of a run by number, and how often each has answered or been silent.

    Attributes
    ----------
    names : tuple of str
        Those who are still part of the run.
    lifted : int
        How many numbers of a cut belong to a clipped model.
    boxes : sequence of AnchorBox or None
        About which support a client has to tell facts.
    limits : list of Limits
        What their answers cannot exceed.
    answered, misses : (S,)
        Answers, and misses in a row.
    introductions : dict of int to CutReply
        The first answers.
    cache : CacheMirror
        What the clients remember.
    rejected : dict of str to str
        Who was refused in this round, and why.
    guarded : bool
        Whether a client has a guard: its answers are few.
    """

    names: tuple[str, ...]
    lifted: int
    boxes: Sequence[AnchorBox | None]
    limits: list[Limits]
    answered: NDArray[np.int_]
    misses: NDArray[np.int_]
    cache: CacheMirror
    introductions: dict[int, CutReply] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)
    guarded: bool = False

    def __len__(self) -> int:
        return len(self.names)

    def gone(self, s: int) -> bool:
        """Whether a client has been silent for so long that nobody waits for it."""
        return bool(self.misses[s] >= PATIENCE)

    def lost(self) -> list[str]:
        """Clients that are gone and have answered too rarely for their cuts to stand for them."""
        return [
            name
            for s, name in enumerate(self.names)
            if self.gone(s) and self.answered[s] < KNOWN_AFTER
        ]

    @property
    def about(self) -> Array:
        """What the clients say of themselves: weight of the rows, typical size of a feature."""
        return np.array([self.introductions[s].about for s in range(len(self))])

    def read(
        self,
        replies: Mapping[str, Message],
        asked: Mapping[int, CutRequest],
        round: int,
        points: Points,
    ) -> dict[int, CutReply]:
        """The replies that can be used; a bad one counts as missing, with its reason."""
        found, refused = dict[int, CutReply](), dict[int, str]()
        for some in self._alike(replies, asked):
            own = [replies[self.names[s]] for s in some]
            found.update(self._read_alike(some, own, round, asked[some[0]], points, refused))
        heard = {s: found[s] for s in asked if s in found}
        self.rejected = {self.names[s]: refused[s] for s in asked if s in refused}
        everyone, answers = list(asked), np.array([s in heard for s in asked], np.bool_)
        self.misses[everyone] = np.where(answers, 0, self.misses[everyone] + 1)
        self.answered[everyone] += answers
        self.cache.note({s: asked[s] for s in heard})
        for s, reply in heard.items():
            self.guarded |= reply.guarded
            if asked[s].introduction:
                given = reply.multipliers[0]
                floor = float(points.server.floor[s]) if given is None else given
                self.limits[s] = self.limits[s].told(float(reply.values[0]), floor)
        return heard

    def _alike(
        self, replies: Mapping[str, Message], asked: Mapping[int, CutRequest]
    ) -> Iterator[Sequence[int]]:
        """Clients whose replies can be read as one: asked the same, answered in the same form."""
        alike: dict[tuple[object, ...], list[int]] = {}
        for s, request in asked.items():
            if self.names[s] in replies:
                header = replies[self.names[s]].header
                alike.setdefault((header, request.form, self._kind(s)), []).append(s)
        for members in alike.values():
            yield from parts_of(members, replies[self.names[members[0]]].payload)

    def _kind(self, s: int) -> tuple[object, ...]:
        """What else clients have in common whose replies are read as one."""
        limits, box, first = self.limits[s], self.boxes[s], self.introductions.get(s)
        about = limits.split, limits.classes, limits.columns is None
        return *about, box and len(box.middle), first and first.guarded

    def _read_alike(
        self,
        some: Sequence[int],
        replies: Sequence[Message],
        round: int,
        asked: CutRequest,
        points: Points,
        refused: dict[int, str],
    ) -> Iterator[tuple[int, CutReply]]:
        """Those that can be used; why the others cannot is added to ``refused``."""
        limits, first = [self.limits[s] for s in some], None
        if some[0] in self.introductions:
            first = [self.introductions[s] for s in some]
        try:
            stack = read_form(replies, some, round, asked, self.lifted, limits, first)
        except WireError as error:
            refused.update(dict.fromkeys(some, str(error)))
            return iter(())
        stack, curvature = read_numbers(stack, points.server.intercepts)
        if len(stack):
            require_possible(stack, points)
            require_consistent(stack, points)
        if len(stack) and asked.introduction:
            require_facts(stack, self.boxes[some[0]])
            require_classes(stack, points.server.n // (limits[0].classes or 1))
        refused.update(stack.refused)
        return replies_of(stack, curvature)
