"""A few noisy slopes under differential privacy, and what they prove with probability 99 %."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from drfl import checks
from drfl.client import Checked, Handler
from drfl.solvers.base import Assignment, Session, Solver
from drfl.solvers.private import client
from drfl.solvers.private.client import CLOSE, REPLIES, REQUESTS, SLOPE, START, TERMS
from drfl.solvers.private.session import PrivateSession

ANSWERS = {TERMS: client.terms, START: client.start, SLOPE: client.slope, CLOSE: client.close}


@dataclass(frozen=True)
class Private(Solver):
    """For clients with differential privacy.

    Parameters
    ----------
    share : float
        Of what every client has left of its budget; less than 1 leaves something for later.
    """

    share: float = 1.0
    name: ClassVar[str] = "private"
    private: ClassVar[bool] = True
    handlers: ClassVar[Mapping[str, Handler]] = {
        kind: Checked(answer, REQUESTS[kind], REPLIES[kind], private=True)
        for kind, answer in ANSWERS.items()
    }

    def __post_init__(self) -> None:
        checks.number("share of a privacy budget", self.share, above=0.0, most=1.0)

    def start(self, task: Assignment) -> Session:
        return PrivateSession(self.share, task)
