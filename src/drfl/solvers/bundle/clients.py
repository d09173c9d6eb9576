"""Who answers: replies validated, misses counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from drfl.arrays import Array
from drfl.problem import Problem
from drfl.solvers.bundle.checks import read_reply, require_consistent
from drfl.solvers.bundle.messages import Reply, Request
from drfl.solvers.bundle.points import Points
from drfl.wire import Message, WireError

PATIENCE = 8  # misses in a row after which a client counts as gone
KNOWN_AFTER = 5  # answers after which its cuts stand for it


class Clients:
    """The clients of a run by number, and how often each has answered or been silent."""

    def __init__(self, names: Sequence[str], lifted: int, facts: Sequence[int]) -> None:
        self.names, self.lifted = tuple(names), lifted
        self.facts = facts  # how many columns of facts about its support a client has to tell
        self.answered = np.zeros(len(names), int)
        self.misses = np.zeros(len(names), int)  # in a row
        self.rejected: dict[str, str] = {}

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

    def read(
        self,
        replies: Mapping[str, Message],
        asked: Mapping[int, Request],
        round: int,
        evaluated: Points,
    ) -> dict[int, Reply]:
        """The replies that can be used; a bad one counts as missing, with its reason."""
        heard: dict[int, Reply] = {}
        self.rejected = {}
        for s, request in asked.items():
            name = self.names[s]
            try:
                if name in replies:
                    reply = read_reply(replies[name], round, request, self.lifted)
                    require_consistent(reply, s, request, evaluated)
                    if request.introduction:
                        self._require_facts(s, reply.facts)
                    heard[s] = reply
            except WireError as error:
                self.rejected[name] = str(error)
            self.misses[s] = 0 if s in heard else self.misses[s] + 1
            self.answered[s] += s in heard
        return heard

    def _require_facts(self, s: int, facts: Array | None) -> None:
        """The anchors of a support are made of what clients tell in their first answer."""
        columns = 0 if facts is None else facts.shape[1]
        if columns != self.facts[s]:
            raise WireError(f"{columns} columns of facts about its support, not {self.facts[s]}")
        if facts is not None and not (
            (facts[:2, 0] >= 0.0).all() and facts[:2, 0].sum() <= 1.0 + 1e-9 and facts[2, 0] >= 0.0
        ):
            raise WireError("shares of classes or a distance that cannot be")


def without(problem: Problem, names: Sequence[str], lost: Sequence[str]) -> Problem:
    """The problem of the other clients; given weights keep their proportions."""
    mixture = problem.mixture
    if not isinstance(mixture.center, str):
        pairs = zip(names, mixture.center, strict=True)
        kept = np.array([weight for name, weight in pairs if name not in lost])
        center = kept / kept.sum() if kept.sum() > 0.0 else "uniform"
        mixture = replace(mixture, center=center)
    return Problem(
        problem.loss,
        problem.ball,
        mixture,
        fit_intercept=problem.fit_intercept,
        shared_ball=problem.shared_ball,
    )
