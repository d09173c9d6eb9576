"""The clients as the server knows them: who answers, what they said of themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.solvers.bundle.client_cache import CacheMirror
from drfl.solvers.bundle.messages import CutRequest
from drfl.solvers.bundle.plausibility import (
    read_form,
    read_numbers,
    require_classes,
    require_consistent,
    require_facts,
    require_possible,
)
from drfl.solvers.bundle.points import Points
from drfl.solvers.bundle.stacks import Mask, Stack, parts_of
from drfl.solvers.certificate.anchors import AnchorBox
from drfl.solvers.certificate.server import ServerProblem
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
    introductions : list of Stack
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
    introductions: list[Stack] = field(default_factory=list)
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
        """What the clients say of themselves (S, 2): weight of the rows, typical size of a feature.

        NaN: they have said nothing yet.
        """
        none = np.full((len(self), 2), np.nan)
        return self._first(none, lambda stack: stack.arrays["about"])

    @property
    def known(self) -> Mask:
        """Who has introduced itself (S,)."""
        return ~np.isnan(self.about[:, 0])

    @property
    def parts(self) -> NDArray[np.int_]:
        """In how many parts cuts of the clients' groups come (S,), as in `Stack`."""
        return self._first(np.ones(len(self), int), lambda stack: stack.parts)

    @property
    def guards(self) -> Mask:
        """Who has a guard (S,)."""
        return self._first(np.zeros(len(self), np.bool_), lambda stack: stack.guarded)

    def _first(self, of_each: NDArray[Any], told: Callable[[Stack], Any]) -> NDArray[Any]:
        """By client what the first answers tell, where there is one."""
        for stack in self.introductions:
            of_each[stack.clients] = told(stack)
        return of_each

    def told(self, name: str) -> dict[int, NDArray[Any]]:
        """The array of this name in the first answers, by client: of those who sent it."""
        every = [
            (s, own)
            for stack in self.introductions
            if name in stack.arrays
            for s, own in zip(stack.clients.tolist(), stack.arrays[name], strict=True)
        ]
        return dict(sorted(every, key=itemgetter(0)))

    def read(
        self,
        replies: Mapping[str, Message],
        asked: Mapping[int, CutRequest],
        round: int,
        points: Points,
    ) -> list[Stack]:
        """The replies that can be used; a bad one counts as missing, with its reason."""
        heard, refused = list[Stack](), dict[int, str]()
        about, guards = self.about, self.guards
        for some in self._alike(replies, asked, guards):
            own = [replies[self.names[s]] for s in some]
            known = None if np.isnan(about[some[0], 0]) else about[some]
            stack = self._read_alike(
                some, own, round, asked[some[0]], points, known, bool(guards[some[0]]), refused
            )
            if stack is not None:
                heard.append(stack)
        self.rejected = {self.names[s]: refused[s] for s in sorted(refused)}
        self._count(asked, heard)
        return heard

    def _count(self, asked: Mapping[int, CutRequest], heard: Sequence[Stack]) -> None:
        """Who has answered, with what of which the rest of the run makes use."""
        answers = np.zeros(len(self), np.bool_)
        for stack in heard:
            answers[stack.clients] = True
            self.guarded |= stack.guarded
        everyone = list(asked)
        self.misses[everyone] = np.where(answers[everyone], 0, self.misses[everyone] + 1)
        self.answered[everyone] += answers[everyone]
        self.cache.note({s: asked[s] for s in np.flatnonzero(answers).tolist()})

    def introduce(self, heard: Sequence[Stack], server: ServerProblem) -> None:
        """Take in first answers: what they told, and what later ones cannot exceed."""
        self.introductions.extend(heard)
        for stack in heard:
            values, at = stack.values[:, 0], stack.multipliers(server)[:, 0]
            for s, value, multiplier in zip(
                stack.clients.tolist(), values.tolist(), at.tolist(), strict=True
            ):
                self.limits[s] = self.limits[s].told(value, multiplier)

    def _alike(
        self, replies: Mapping[str, Message], asked: Mapping[int, CutRequest], guards: Mask
    ) -> Iterator[Sequence[int]]:
        """Clients whose replies can be read as one: asked the same, answered in the same form."""
        alike: dict[tuple[object, ...], list[int]] = {}
        forms = {id(request): request.form for request in asked.values()}
        for s, request in asked.items():
            reply = replies.get(self.names[s])
            if reply is not None:
                form = forms[id(request)]
                alike.setdefault((reply.header, form, self._kind(s), guards[s]), []).append(s)
        for members in alike.values():
            yield from parts_of(members, replies[self.names[members[0]]].payload)

    def _kind(self, s: int) -> tuple[object, ...]:
        """What else clients have in common whose replies are read as one."""
        limits, box = self.limits[s], self.boxes[s]
        return limits.split, limits.classes, limits.columns is None, box and len(box.middle)

    def _read_alike(
        self,
        some: Sequence[int],
        replies: Sequence[Message],
        round: int,
        asked: CutRequest,
        points: Points,
        about: Array | None,
        guarded: bool,
        refused: dict[int, str],
    ) -> Stack | None:
        """Those that can be used, or none; why the others cannot is added to ``refused``."""
        limits = [self.limits[s] for s in some]
        try:
            stack = read_form(
                replies, some, round, asked, self.lifted, limits, about, guarded=guarded
            )
        except WireError as error:
            refused.update(dict.fromkeys(some, str(error)))
            return None
        stack = read_numbers(stack, points.server.intercepts)
        if len(stack):
            require_possible(stack, points)
            require_consistent(stack, points)
        if len(stack) and asked.introduction:
            require_facts(stack, self.boxes[some[0]])
            require_classes(stack, points.server.n // (limits[0].classes or 1))
        refused.update(stack.refused)
        stack = stack.left()
        return stack if len(stack) else None
