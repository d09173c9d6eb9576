"""What the server's half asks a door: a question, its number, and whom it is for."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from drfl.sites.carrier import Question
from drfl.sites.setup.project import NAME

HEAD = struct.Struct("<qqqd40s")

WHO = 0  # the number of the question which site this is; the first of all others is 1

FIRST = 1

LOST = b"lost"
"""Instead of an answer: the site has forgotten the beginning of the job. No message of drfl."""


@dataclass(frozen=True)
class AddressedQuestion:
    """One question on its way to a site; empty where which site it is, is the question.

    Another attempt at the run is another job; a repeated number is the same question; the site has
    so many seconds.
    """

    attempt: int
    number: int
    question: Question
    seconds: float
    site: str

    def to_bytes(self) -> bytes:
        """For `read_asked`."""
        numbers = (self.attempt, self.number, self.question.seat, self.seconds)
        return HEAD.pack(*numbers, self.site.encode("ascii")) + self.question.message


def who_is_there() -> bytes:
    """The question which site this is."""
    return AddressedQuestion(0, WHO, Question(0, b""), 0.0, "").to_bytes()


def read_asked(data: bytes) -> AddressedQuestion:
    """Read what came over the network; ValueError if it is nothing of this kind."""
    if len(data) < HEAD.size:
        raise ValueError("it is too short")
    attempt, number, seat, seconds, name = HEAD.unpack_from(data)
    site = name.rstrip(b"\0").decode("ascii")
    if min(attempt, number, seat) < 0 or not math.isfinite(seconds):
        raise ValueError("it has a number that is none")
    if number != WHO and not NAME.fullmatch(site):
        raise ValueError("it names no site")
    return AddressedQuestion(attempt, number, Question(seat, data[HEAD.size :]), seconds, site)
