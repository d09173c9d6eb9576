"""What lives in the computing child of a site: the data, and who answers with them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from drfl.client import Policy
from drfl.engines.worker import Answer
from drfl.privacy import Guard
from drfl.sites.config import SiteSettings, read_site_settings
from drfl.sites.trouble import keep_troubles
from drfl.training.binding import BIND
from drfl.wire import decode

if TYPE_CHECKING:
    from drfl.training.station import Station

KEPT = ("preflight", BIND)
"""Messages that change what a station is: a new child is told them again."""


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
    settings = read_site_settings(Path(frames[0].decode()))
    keep_troubles(settings.state)
    limit_memory(settings.memory_limit)
    seats = Seats(make_station(settings))
    for seat, data in zip(frames[1::2], frames[2::2], strict=True):
        seats[seat.decode()](decode(data))
    return seats


def make_station(settings: SiteSettings) -> Station:
    """The station of a site, as its own settings want it."""
    from drfl.training.station import Station  # heavy, and of no use to who only starts the child

    k = settings.guard
    return Station(
        settings.name,
        settings.data,
        None if k is None else Guard(k=k, ledger=settings.guard_ledger),
        policy=Policy(curvature=settings.curvature),
        columns=settings.columns,
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
