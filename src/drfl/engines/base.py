"""What an engine is: the way a message reaches the clients. The default is serial."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import ClassVar, Self

from drfl.client import Handler, Party, Site, at_hand
from drfl.engines.blas import one_blas_thread
from drfl.problem import Problem
from drfl.wire import Failure, Message, decode, encode


@dataclass(frozen=True)
class Answers:
    """What came back in one round; every asked client is in ``replies`` or in ``failures``.

    Attributes
    ----------
    replies : dict of str to Message
        By client name, always in client order: sums over them are the same on every engine.
    failures : dict of str to str
        Why the others did not answer, in client order: a `drfl.wire.Failure`.
    seconds : dict of str to float
        How long the client computed, where it is known.
    """

    replies: dict[str, Message]
    failures: dict[str, str]
    seconds: dict[str, float]

    def add(self, name: str, reply: Message) -> None:
        """What a client said: a reply, or why there is none."""
        failure = Failure.of(reply)
        if failure is None:
            self.replies[name] = reply
        else:
            self.failures[name] = failure


class Engine(ABC):
    """Places clients once, then carries messages; see ``docs/adding-an-engine.md``.

    An engine makes a `drfl.client.Site` of every client where the client's rows are, and calls
    its ``answer``. It may be started again after it was closed.
    """

    name: ClassVar[str]

    @abstractmethod
    def start(
        self, clients: Sequence[Party], problem: Problem, handlers: Mapping[str, Handler]
    ) -> None:
        """Place the clients; ValueError names a client that does not fit the problem."""

    @abstractmethod
    def map(self, messages: Mapping[str, Message], deadline: float | None) -> Answers:
        """Deliver each message to the client of that name and collect the answers.

        Nothing that happens at a client raises here; it becomes a failure.

        Parameters
        ----------
        messages : mapping of str to Message
            By client name; clients that are not named are not asked.
        deadline : float or None
            Seconds that every client has for its answer, counted from here. An answer that comes
            later is never used. None: wait for ever.
        """

    @abstractmethod
    def close(self) -> None:
        """Let the clients go; closing twice does no harm."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def require_known(messages: Mapping[str, Message], names: Sequence[str]) -> None:
    """Refuse messages to clients that were not placed."""
    known = set(names)  # a list would be searched once for each of thousands of clients
    unknown = [name for name in messages if name not in known]
    if unknown:
        raise ValueError(f"there is no client {unknown[0]!r}: start the engine with it first")


class SerialEngine(Engine):
    """Calls the clients one after the other.

    A computation cannot be interrupted here. The deadline is held against the seconds of each
    client alone, as if all computed at once, and an answer that took longer is dropped. The
    clients compute with one BLAS thread: the numbers do not depend on how many there could be.

    Parameters
    ----------
    debug : bool
        For developing a method: exceptions of the client half are raised as they are, messages go
        through the codec, and a reply whose shape betrays the number of rows is an error.
    """

    name = "serial"

    def __init__(self, *, debug: bool = False) -> None:
        self.debug = debug
        self._sites: dict[str, Site] = {}
        self._handlers: Mapping[str, Handler] = {}

    def start(
        self, clients: Sequence[Party], problem: Problem, handlers: Mapping[str, Handler]
    ) -> None:
        with one_blas_thread():
            sites = {
                client.name: Site(client, problem, debug=self.debug) for client in at_hand(clients)
            }
        self._sites, self._handlers = sites, handlers

    def map(self, messages: Mapping[str, Message], deadline: float | None) -> Answers:
        require_known(messages, list(self._sites))
        answers = Answers({}, {}, {})
        with one_blas_thread():
            for name in self._sites:
                if name in messages:
                    self._ask(name, messages[name], deadline, answers)
        return answers

    def _ask(self, name: str, message: Message, deadline: float | None, answers: Answers) -> None:
        start = perf_counter()
        reply = self._sites[name].answer(self._carried(message), self._handlers)
        answers.seconds[name] = perf_counter() - start
        late = deadline is not None and answers.seconds[name] > deadline
        answers.add(name, Failure.DEADLINE.message(0) if late else self._carried(reply))

    def _carried(self, message: Message) -> Message:
        # A message is a frozen copy already: only a developer needs to see that it encodes.
        return decode(encode(message)) if self.debug else message

    def close(self) -> None:
        self._sites, self._handlers = {}, {}
