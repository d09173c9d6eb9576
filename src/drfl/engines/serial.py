"""One client after the other, in this process: the default, and the yardstick of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter

from drfl.client import Handler, Party, Site, at_hand
from drfl.engines.base import Answers, Engine, require_known
from drfl.engines.blas import one_blas_thread
from drfl.problem import Problem
from drfl.wire import Failure, Message, decode, encode


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
        failure = Failure.of(reply)
        if deadline is not None and answers.seconds[name] > deadline:
            failure = Failure.DEADLINE
        if failure is None:
            answers.replies[name] = self._carried(reply)
        else:
            answers.failures[name] = failure

    def _carried(self, message: Message) -> Message:
        # A message is a frozen copy already: only a developer needs to see that it encodes.
        return decode(encode(message)) if self.debug else message

    def close(self) -> None:
        self._sites, self._handlers = {}, {}
