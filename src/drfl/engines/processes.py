"""Clients in resident worker processes of this machine, which get their rows once."""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic

from drfl import checks
from drfl.client import Client, Handler, Party, at_hand
from drfl.engines.base import Answers, Engine, require_known
from drfl.engines.placement import Frame, pack
from drfl.engines.resident import News, Place, Started, WorkerEnded
from drfl.problem import Problem
from drfl.wire import Message

# Some platforms do not let Ctrl-C interrupt a wait, so none is longer than this, in seconds.
WAIT = 1.0


class ProcessesEngine(Engine):
    """Distributes the clients over worker processes that stay for the whole run.

    The numbers are those of the serial engine, bit for bit. A script that uses it must do its
    work under ``if __name__ == "__main__":``, because every worker imports the script.

    The deadline is kept by killing. A worker that has not answered by then, or that died, is
    started again with the rows this process has, and its clients miss the round. The clients of
    one worker answer one after the other and share its fate; one that took its worker down is
    asked last from then on.

    Parameters
    ----------
    workers : int, optional
        How many processes; by default as many as there are processors. Never more than clients.
    restarts : int
        A worker that was started again so many times in a row without an answer is given up, and
        its clients miss all later rounds.
    """

    name = "processes"

    def __init__(self, *, workers: int | None = None, restarts: int = 3) -> None:
        self.workers: int | None = checks.optional(checks.whole, "workers", workers, least=1)
        self.restarts = checks.whole("restarts", restarts, least=0)
        self._names: tuple[str, ...] = ()
        self._places: list[Place] = []
        self._news: SimpleQueue[News] = SimpleQueue()

    def start(
        self, clients: Sequence[Party], problem: Problem, handlers: Mapping[str, Handler]
    ) -> None:
        self.close()
        if problem.network is not None:
            problem.network.check_travel()
        self._names, self._news = tuple(client.name for client in clients), SimpleQueue()
        try:
            for group in _groups(at_hand(clients), self.workers or os.cpu_count() or 1):
                frames, names = _packed(group, problem, handlers), [client.name for client in group]
                self._places.append(Place(names, frames, self._news, self.restarts))
            self._wait_until_ready()
        except BaseException:
            self.close()
            raise

    def map(self, messages: Mapping[str, Message], deadline: float | None) -> Answers:
        until = math.inf if deadline is None else monotonic() + deadline
        require_known(messages, self._names)
        for place in self._places:
            place.ask(messages)
        while any(place.waiting for place in self._places) and monotonic() < until:
            news = self._next(until)
            for place in self._places:
                # What an earlier worker of the place still had to tell is of no interest.
                if news is not None and news.worker is place.worker:
                    place.hear(news)
        for place in self._places:
            place.expire()
        return self._answers()

    def _next(self, until: float) -> News | None:
        while (left := until - monotonic()) > 0.0:
            with suppress(Empty):
                return self._news.get(timeout=min(left, WAIT))
        return None

    def _answers(self) -> Answers:
        """What the places have gathered, in client order."""
        found = {name: reply for place in self._places for name, reply in place.replies.items()}
        seconds = {name: time for place in self._places for name, time in place.seconds.items()}
        answers = Answers({}, {}, {})
        for name in self._names:
            if name in seconds:
                answers.seconds[name] = seconds[name]
            if name in found:
                answers.add(name, found[name])
        return answers

    def _wait_until_ready(self) -> None:
        refusals = {}
        for _ in self._places:
            news = self._next(math.inf)
            if isinstance(news, WorkerEnded):
                raise RuntimeError(
                    f"a worker process ended (exit code {news.worker.process.exitcode}) before it "
                    "was ready: a script that uses the engine 'processes' must do its work under "
                    '`if __name__ == "__main__":`'
                )
            assert isinstance(news, Started)
            if news.refusal:
                refusals[news.client] = news.refusal
        # The one that the serial engine would have met first; "": it concerns no client.
        for name in ("", *self._names):
            if name in refusals:
                raise ValueError(refusals[name])

    def close(self) -> None:
        for place in self._places:
            place.kill()
        for place in self._places:
            place.join()
        self._names, self._places = (), []


def _groups(clients: Sequence[Client], most: int) -> list[list[Client]]:
    """The clients of each worker, in client order; the rows are spread evenly, largest first."""
    owners: list[list[Client]] = [[] for _ in range(min(most, len(clients)))]
    loads = [0] * len(owners)
    for client in sorted(clients, key=lambda client: -client.rows.n_rows):
        k = loads.index(min(loads))
        owners[k].append(client)
        loads[k] += client.rows.n_rows
    return [[client for client in clients if client in group] for group in owners]


def _packed(
    clients: list[Client], problem: Problem, handlers: Mapping[str, Handler]
) -> Sequence[Frame]:
    try:
        return pack((clients, problem, dict(handlers)))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"worker processes cannot be told what to do ({error}): define handlers and losses at "
            "the top level of a module"
        ) from None
