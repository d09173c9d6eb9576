"""Who answers: replies validated, misses counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from drfl.problem import Problem
from drfl.solvers.bundle.evaluated import Evaluated
from drfl.solvers.bundle.exchange import Reply, Request, read_reply
from drfl.wire import Message, WireError

PATIENCE = 8  # misses in a row after which a client counts as gone
KNOWN_AFTER = 5  # answers after which its cuts stand for it
SLACK = 1e-7  # a value may be below the client's own cuts by rounding, relatively


class Roster:
    """The clients of a run by number, and how often each has answered or been silent."""

    def __init__(self, names: Sequence[str], lifted: int) -> None:
        self.names, self.lifted = tuple(names), lifted
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
        evaluated: Evaluated | None,
    ) -> dict[int, Reply]:
        """The replies that can be used; a bad one counts as missing, with its reason."""
        heard: dict[int, Reply] = {}
        self.rejected = {}
        for s, request in asked.items():
            name = self.names[s]
            try:
                if name in replies:
                    reply = read_reply(replies[name], round, request, self.lifted)
                    if evaluated is not None:
                        require_consistent(reply, s, request, evaluated)
                    heard[s] = reply
            except WireError as error:
                self.rejected[name] = str(error)
            self.misses[s] = 0 if s in heard else self.misses[s] + 1
            self.answered[s] += s in heard
        return heard


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


def require_consistent(reply: Reply, s: int, asked: Request, evaluated: Evaluated) -> None:
    """F lies above all the cuts that the client itself sent before."""
    for x, value, given in zip(asked.points, reply.values, reply.multipliers, strict=True):
        multiplier = evaluated.terms.multiplier(s, x) if given is None else given
        least = evaluated.model_of(s, x, multiplier)
        if value < least - SLACK * (1.0 + abs(least)):
            raise WireError("its value is below its own earlier cuts")
