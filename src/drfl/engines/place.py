"""The clients that share a worker process, and the worker that they have at the moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from queue import SimpleQueue

from drfl.engines.placement import Frame
from drfl.engines.resident import Answered, Errand, News, Resident, WorkerEnded
from drfl.engines.worker import Opening, place_clients
from drfl.wire import Failure, Message

LOST = Failure.BAD_REPLY  # the worker ended before it answered


class Place:
    """A worker process that is replaced when it fails, with the same clients.

    Parameters
    ----------
    names : sequence of str
        The clients.
    frames : sequence of bytes
        What every worker of the place gets at its start.
    news : SimpleQueue
        Where the workers tell what happens.
    restarts : int
        How many workers in a row may fail to answer at all before the place stays empty.
    opening : callable
        What a worker makes of the frames.

    Attributes
    ----------
    worker : Resident or None
        The present one.
    waiting : list of str
        Those who have not answered in this round, in the order in which they are asked.
    replies, seconds : dict
        What came in this round; also a failure is a message here.
    """

    def __init__(
        self,
        names: Sequence[str],
        frames: Sequence[Frame],
        news: SimpleQueue[News],
        restarts: int,
        opening: Opening = place_clients,
    ) -> None:
        self.names, self.frames, self.news, self.restarts = list(names), frames, news, restarts
        self.opening = opening
        self.waiting: list[str] = []
        self.replies: dict[str, Message] = {}
        self.seconds: dict[str, float] = {}
        self.task = Errand({})
        self.silent = 0  # workers in a row without an answer
        self.worker: Resident | None = Resident(frames, news, opening)
        self.all = [self.worker]

    def ask(self, messages: Mapping[str, Message]) -> None:
        """Begin a round with the messages to the clients of this place."""
        self.task = Errand({name: messages[name] for name in self.names if name in messages})
        self.waiting, self.replies, self.seconds = list(self.task.messages), {}, {}
        if not self.waiting:
            return
        if self.worker is None or not self.worker.alive:
            self._replace()  # it died between two rounds: nothing is lost yet
        if self.worker is None:
            self._fail(LOST)
        else:
            self.worker.ask(self.task)

    def hear(self, news: News) -> None:
        """Take in what the present worker has to tell."""
        if isinstance(news, Answered) and news.task is self.task:
            self.waiting.remove(news.client)
            self.replies[news.client], self.seconds[news.client] = news.reply, news.seconds
            self.silent = 0
        elif isinstance(news, WorkerEnded) and self.waiting:
            self._lose(LOST)

    def expire(self) -> None:
        """The deadline has come: whoever has not answered has failed."""
        if not self.waiting:
            return
        if self.worker is not None and self.worker.ready:
            self._lose(Failure.DEADLINE)
        else:  # a worker that is still starting comes too late for this round, but it comes
            self.task.cancelled = True
            self._fail(Failure.DEADLINE)

    def kill(self) -> None:
        """End every worker that the place has had."""
        for worker in self.all:
            worker.kill()

    def join(self) -> None:
        """Wait for their ends."""
        for worker in self.all:
            worker.join()

    def _fail(self, failure: Failure) -> None:
        for name in self.waiting:
            self.replies[name] = failure.message(self.task.messages[name].round)
        self.waiting = []

    def _lose(self, failure: Failure) -> None:
        """Give the worker up; the client it was busy with is the last one to be asked again."""
        culprit = self.waiting[0]
        self.names.remove(culprit)
        self.names.append(culprit)
        self._fail(failure)
        self._replace()

    def _replace(self) -> None:
        """Start another worker, without waiting for it: it is ready for the next round or soon."""
        if self.worker is not None:
            self.worker.kill()
            self.worker = None
        if self.silent < self.restarts:
            self.silent += 1
            with suppress(OSError):  # no more processes: perhaps there are in the next round
                self.worker = Resident(self.frames, self.news, self.opening)
                self.all.append(self.worker)
