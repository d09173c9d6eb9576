"""The clients as the server knows them: who answers, what they said of themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.solvers.bundle.client_cache import CacheMirror
from drfl.solvers.bundle.messages import CutReply, CutRequest
from drfl.solvers.bundle.plausibility import (
    read_reply,
    require_classes,
    require_consistent,
    require_facts,
    require_possible,
)
from drfl.solvers.bundle.points import Points
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
        heard: dict[int, CutReply] = {}
        self.rejected = {}
        for s, request in asked.items():
            name = self.names[s]
            try:
                if name in replies:
                    reply = read_reply(
                        replies[name],
                        round,
                        request,
                        self.lifted,
                        split=self.limits[s].split,
                        classes=self.limits[s].classes,
                        intercepts=points.server.intercepts,
                    )
                    first = self.introductions.get(s, reply)
                    require_possible(reply, s, request, first, self.limits[s], points)
                    require_consistent(reply, s, request, first, self.limits[s], points)
                    if request.introduction:
                        require_facts(reply.facts, self.boxes[s])
                        columns = points.server.n // (self.limits[s].classes or 1)
                        require_classes(reply.classes, self.limits[s], columns)
                    heard[s] = reply
            except WireError as error:
                self.rejected[name] = str(error)
            self.misses[s] = 0 if s in heard else self.misses[s] + 1
            self.answered[s] += s in heard
        for s, reply in heard.items():
            self.cache.note(s, asked[s])
            self.guarded |= reply.guarded
            if asked[s].introduction:
                given = reply.multipliers[0]
                floor = float(points.server.floor[s]) if given is None else given
                self.limits[s] = self.limits[s].told(float(reply.values[0]), floor)
        return heard
