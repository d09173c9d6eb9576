"""A worker process as its parent sees it, and the clients that share it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread

from drfl.engines.blas import one_blas_thread_in_children
from drfl.engines.placement import Frame
from drfl.engines.worker import Opening, place_clients, serve
from drfl.wire import Failure, Message, WireError, decode, encode

# The one way of starting that every platform has. A fork would copy locks that threads hold.
_SPAWN = multiprocessing.get_context("spawn")


@dataclass(eq=False)
class Errand:
    """The messages of one round to the clients of one worker, asked in this order."""

    messages: Mapping[str, Message]
    cancelled: bool = False


@dataclass(frozen=True)
class Started:
    """The worker has placed its clients, or tells which one does not fit and why."""

    worker: Resident
    client: str
    refusal: str


@dataclass(frozen=True)
class Answered:
    """One client has answered."""

    worker: Resident
    task: Errand
    client: str
    reply: Message
    seconds: float


@dataclass(frozen=True)
class WorkerEnded:
    """The process is gone, and has been waited for."""

    worker: Resident


News = Started | Answered | WorkerEnded


class Resident:
    """Starts a worker process, and tells in ``news`` everything that happens.

    A thread does the talking: a worker that has stopped reading keeps the thread waiting and nobody
    else, until it is killed. The worker gets frames at its start, of which ``opening``, at module
    level, makes who answers.
    """

    def __init__(
        self, frames: Sequence[Frame], news: SimpleQueue[News], opening: Opening = place_clients
    ) -> None:
        self.ready = False
        self._frames, self._news = frames, news
        self._tasks: SimpleQueue[Errand | None] = SimpleQueue()
        pipe, theirs = _SPAWN.Pipe()
        # A daemon: should nobody close the engine, the interpreter ends it when it exits.
        self.process = _SPAWN.Process(target=serve, args=(theirs, opening), daemon=True)
        try:
            with one_blas_thread_in_children():
                self.process.start()
        except BaseException:
            pipe.close()
            raise
        finally:
            theirs.close()  # else its end would not be seen here
        self._thread = Thread(target=self._talk, args=(pipe,), daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process.is_alive()

    def ask(self, task: Errand) -> None:
        """Let it answer a task when it is done with the one before."""
        self._tasks.put(task)

    def kill(self) -> None:
        """End it at once, whatever it does; clients have nothing to save."""
        self._tasks.put(None)
        self.process.kill()

    def join(self) -> None:
        """Wait until nothing of it is left."""
        self._thread.join()

    def _talk(self, pipe: Connection) -> None:
        try:
            with pipe:
                self._place(pipe)
                while (task := self._tasks.get()) is not None:
                    if not task.cancelled:
                        self._exchange(pipe, task)
        except (EOFError, OSError):
            pass  # its end of the pipe is closed: it is gone, or going
        finally:
            self.process.kill()
            self.process.join()
            self._news.put(WorkerEnded(self))

    def _place(self, pipe: Connection) -> None:
        pipe.send_bytes(str(len(self._frames)).encode())
        for frame in self._frames:
            pipe.send_bytes(frame)
        client, refusal = pipe.recv_bytes().decode(), pipe.recv_bytes().decode()
        self.ready = not refusal
        self._news.put(Started(self, client, refusal))

    def _exchange(self, pipe: Connection, task: Errand) -> None:
        pipe.send_bytes(str(len(task.messages)).encode())
        for name, message in task.messages.items():
            pipe.send_bytes(name.encode())
            pipe.send_bytes(encode(message))
        for name, message in task.messages.items():
            data, seconds = pipe.recv_bytes(), float(pipe.recv_bytes())
            try:
                reply = decode(data)
            except WireError:
                reply = Failure.BAD_REPLY.message(message.round)
            self._news.put(Answered(self, task, name, reply, seconds))


LOST = Failure.BAD_REPLY  # the worker ended before it answered


class Place:
    """A worker process that is replaced when it fails, with the same clients.

    Every worker gets the same frames at its start. Once so many ``restarts`` in a row have not
    answered at all the place stays empty. ``waiting`` are those who have not answered in this
    round, in the order in which they are asked; ``replies`` also holds failures, as messages.
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
