"""What carries questions to sites and answers back; see ``docs/adding-a-carrier.md``.

A carrier knows the names of sites, and bytes. What is in the bytes, which rows they are about, who
is asked again and who is not: that is known by `drfl.sites.engine` on this end, and by
`drfl.sites.gate` on the other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Thread
from time import monotonic, sleep

HOLD = 1.0  # seconds after which a site gives a sign at the latest

WORKING, WAITING = b"working", b"waiting"
"""The signs: it computes; somebody at the site has to approve the answer. No messages of drfl."""

AGAIN = 0.5  # seconds until a call that broke off is repeated


class CallError(Exception):
    """A call that brought no answer and no sign."""


@dataclass(frozen=True)
class Question:
    """What a site is asked: an encoded message, and which of its clients (seats) it is for.

    Where several models are trained in turns a site has a client for each of them.
    """

    seat: int
    message: bytes


@dataclass(frozen=True)
class Outcome:
    """The answer after some seconds, None if none came in time; dead: no sign of life either."""

    answer: bytes | None
    dead: bool
    seconds: float


class Carrier(ABC):
    """Carries questions to several sites at once."""

    @abstractmethod
    def carry(self, questions: Mapping[str, Question], deadline: float) -> dict[str, Outcome]:
        """Ask every site its question.

        Parameters
        ----------
        questions : mapping of str to Question
            By the name of the site; one at a time for each of them.
        deadline : float
            Seconds that a site has for its answer. One that comes later must never be taken for
            the answer to a later question.

        Returns
        -------
        dict of str to Outcome
            One for every site that was asked. What happens at a site or on the way is an outcome;
            an error that is raised ends the job.
        """


class PollingCarrier(Carrier):
    """A carrier over calls that end after a moment, with the answer or with a sign of life.

    So a site that computes for an hour and one that is gone are told apart within seconds, and
    nobody has to wait for a call that will never return. Every question has a number: a site that
    is called again, because an answer was late or got lost, computes nothing twice.

    Parameters
    ----------
    silence : float
        Seconds without a sign of life after which a site is dead; more than `HOLD`.
    patience : float
        Seconds that a person at a site has to approve an answer.
    """

    def __init__(self, silence: float, patience: float) -> None:
        self.silence, self.patience = silence, patience
        self._number = 0

    @abstractmethod
    def call(
        self, site: str, number: int, question: Question, seconds: float, timeout: float
    ) -> bytes:
        """Call a site once, from any thread: bring what `drfl.sites.gate.Gate.answer` says there.

        The site has ``seconds`` for the answer to the question of this number. After ``timeout``
        seconds the call is given up: `CallError`, as for everything that fails.
        """

    def carry(self, questions: Mapping[str, Question], deadline: float) -> dict[str, Outcome]:
        self._number += 1
        asked = [
            _Asking(self, site, self._number, question, deadline)
            for site, question in questions.items()
        ]
        for asking in asked:
            asking.start()
        for asking in asked:
            asking.join()
        return {asking.site: asking.outcome() for asking in asked}


class _Asking(Thread):
    """One question to one site, repeated until there is an outcome."""

    def __init__(
        self, carrier: PollingCarrier, site: str, number: int, question: Question, deadline: float
    ) -> None:
        super().__init__(daemon=True)
        self.carrier, self.site, self.number, self.question = carrier, site, number, question
        self._begun = monotonic()
        self._until, self._waits = self._begun + deadline, False
        self._outcome: Outcome | None = None
        self._error: BaseException | None = None

    def outcome(self) -> Outcome:
        """What came of it, when the thread has ended."""
        if self._error is not None:
            raise self._error
        assert self._outcome is not None
        return self._outcome

    def run(self) -> None:
        try:
            self._outcome = self._ask()
        except BaseException as error:
            self._error = error

    def _ask(self) -> Outcome:
        heard = monotonic()  # when the site last gave a sign
        while (left := heard + self.carrier.silence - monotonic()) > 0.0:
            seconds = max(self._until - monotonic(), 0.0)
            try:
                answer = self.carrier.call(self.site, self.number, self.question, seconds, left)
            except CallError:
                sleep(AGAIN)
                continue
            heard = monotonic()
            if answer not in (WORKING, WAITING):
                return self._ended(answer)
            if answer == WAITING and not self._waits:
                # The answer is there: from now on it is a person who takes time.
                self._until, self._waits = heard + self.carrier.patience, True
            # The site keeps the deadline too, and what it says then may be on its way.
            if heard > self._until + HOLD:
                return self._ended(None)
        return self._ended(None, dead=True)

    def _ended(self, answer: bytes | None, *, dead: bool = False) -> Outcome:
        return Outcome(answer, dead, monotonic() - self._begun)
