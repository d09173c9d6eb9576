"""The computation of a site, in a child of its job process.

The child holds the data. It can be killed at a time limit, by the operating system for want of
memory, or by anyone, and the job goes on: another child takes its place, reads the data again, is
told again what was agreed upon and computes the rounds again that it has to remember.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING

from drfl._registry import load_extensions
from drfl.engines.resident import LOST, News, Place
from drfl.engines.worker import Answer, Opening
from drfl.privacy import Guard
from drfl.protocols.federation import BIND
from drfl.sites.config import SiteSettings, read_site_settings
from drfl.sites.site_log import keep_troubles
from drfl.tables.reading import Reading
from drfl.wire import Failure, Message, decode, encode

if TYPE_CHECKING:
    from drfl.protocols.station import Station


RESTARTS = 3  # children in a row that may end without an answer


class Child:
    """A process that answers messages, and its successors.

    It gets frames at its start, of which ``opening``, at module level, makes who answers: the first
    one, and then pairs of a seat and a message. A successor is told again the last message of each
    of the ``kept`` kinds and every seat. It is told the others since then, too, so that its numbers
    are those of its predecessor; unless they took longer than ``repeated`` seconds, since they only
    filled its caches.
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

    Python lets a child import it; here it is the carrier's, large and of no use to the child.
    """
    main = sys.modules["__main__"]
    before = {name: getattr(main, name, None) for name in ("__spec__", "__file__")}
    vars(main).update(dict.fromkeys(before))
    try:
        yield
    finally:
        vars(main).update(before)


KEPT = ("preflight", BIND)  # messages that change what a station is: a new child is told them again


class Seats(dict[str, Answer]):
    """Who answers, by the number of the seat: always the same station."""

    def __init__(self, station: Station) -> None:
        super().__init__()
        self.station = station

    def __missing__(self, seat: str) -> Answer:
        self[seat] = answer = partial(self.station.answer, seat=int(seat))
        return answer


def open_station(frames: list[bytes]) -> dict[str, Answer]:
    """Make the station of a site.

    The frames are the path of the site's settings, then pairs of a seat and a message that it was
    told before.
    """
    load_extensions()
    settings = read_site_settings(Path(frames[0].decode()))
    keep_troubles(settings.state)
    limit_memory(settings.memory_limit)
    seats = Seats(make_station(settings))
    for seat, data in zip(frames[1::2], frames[2::2], strict=True):
        seats[seat.decode()](decode(data))
    return seats


def make_station(settings: SiteSettings) -> Station:
    """The station of a site, as its own settings want it."""
    from drfl.protocols.station import Station  # heavy, and of no use to who only starts the child

    k = settings.guard
    return Station(
        settings.name,
        settings.data,
        None if k is None else Guard(k=k, ledger=settings.guard_ledger),
        policy=settings.policy,
        reading=Reading(names=settings.columns),
        privacy=settings.privacy,
    )


def limit_memory(megabytes: int | None) -> None:
    """Let allocations beyond a limit fail, where the platform has such limits."""
    if megabytes is None:
        return
    try:
        import resource
    except ImportError:  # there are none on Windows
        return
    limit = megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
