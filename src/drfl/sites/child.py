"""The computation of a site, in a child of its job process.

The child holds the data. It can be killed at a time limit, by the operating system for want of
memory, or by anyone, and the job goes on: another child takes its place, reads the data again, is
told again what was agreed upon and computes the rounds again that it has to remember.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from time import monotonic

from drfl.engines.place import LOST, Place
from drfl.engines.resident import News
from drfl.engines.worker import Opening
from drfl.wire import Failure, Message, encode

RESTARTS = 3  # children in a row that may end without an answer


class Child:
    """A process that answers messages, and its successors.

    Parameters
    ----------
    opening : callable
        What the process makes of the frames that it gets at its start; at module level.
    frame : bytes
        The first of them. The others are pairs of a seat and a message.
    kept : collection of str
        Kinds of messages that a successor must be told again, the last one of each kind and seat.
        It is told the others since then, too, so that its numbers are those of its predecessor.
    repeated : float
        Seconds that it may spend on these others. If they took longer it must do without; they
        only filled its caches.
    """

    def __init__(
        self, opening: Opening, frame: bytes, kept: Collection[str], repeated: float
    ) -> None:
        self.kept, self.repeated = kept, repeated
        self._frame = frame
        self._told: dict[tuple[str, str], bytes] = {}
        self._spent = 0.0  # seconds of the rounds since
        self._news: SimpleQueue[News] = SimpleQueue()
        with _without_main():
            self._place = Place([], [frame], self._news, RESTARTS, opening)

    def answer(self, message: Message, seat: int, seconds: float) -> Message:
        """The reply, or a failure if there is none within so many seconds.

        A child that ends early is followed by another one, which is asked again once: what ended
        the first may have had nothing to do with the question.
        """
        until, name = monotonic() + seconds, str(seat)
        if name not in self._place.names:
            self._place.names.append(name)
        reply = self._ask(name, message, until)
        if Failure.of(reply) is LOST and monotonic() < until:
            reply = self._ask(name, message, until)
        if Failure.of(reply) is None:
            self._remember(name, message)
        return reply

    def _remember(self, name: str, message: Message) -> None:
        place = self._place
        if message.kind in self.kept:
            # Told again in the order in which they were told last.
            self._told.pop((name, message.kind), None)
            self._told[name, message.kind] = encode(message)
            self._spent = 0.0
        else:
            self._spent += place.seconds[name]
        if message.kind in self.kept or self._spent > self.repeated:
            pairs = [(seat.encode(), data) for (seat, _), data in self._told.items()]
            place.frames = [self._frame, *(frame for pair in pairs for frame in pair)]
        else:
            # A new list: a child that is just being started reads the old one.
            place.frames = [*place.frames, name.encode(), encode(message)]

    def _ask(self, name: str, message: Message, until: float) -> Message:
        place = self._place
        place.ask({name: message})
        while place.waiting and (left := until - monotonic()) > 0.0:
            try:
                news = self._news.get(timeout=left)
            except Empty:
                break
            if news.worker is place.worker:
                place.hear(news)
        place.expire()
        return place.replies[name]

    def close(self) -> None:
        """End the process; closing twice does no harm."""
        self._place.kill()
        self._place.join()


@contextmanager
def _without_main() -> Iterator[None]:
    """Processes started here do not import the program that runs here.

    Python lets a child import it; here it is FLARE's, large and of no use to the child.
    """
    main = sys.modules["__main__"]
    before = {name: getattr(main, name, None) for name in ("__spec__", "__file__")}
    vars(main).update(dict.fromkeys(before))
    try:
        yield
    finally:
        vars(main).update(before)
