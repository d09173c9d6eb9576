"""How much clients have sent, by kind of message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drfl.wire.message import Message


@dataclass(frozen=True)
class Sent:
    """The messages of one kind that a client has sent.

    Attributes
    ----------
    client, message : str
        Who, and the kind.
    count, bytes : int
        How many, and their size in all.
    arrays : dict of str to tuple of int
        What they hold: the largest shape of every array.
    """

    client: str
    message: str
    count: int
    bytes: int
    arrays: dict[str, tuple[int, ...]]

    def plus(self, other: Sent) -> Sent:
        """Both together; they are of the same client and kind."""
        largest = {
            name: max(self.arrays.get(name, ()), other.arrays.get(name, ()))
            for name in self.arrays | other.arrays
        }
        count, size = self.count + other.count, self.bytes + other.bytes
        return Sent(self.client, self.message, count, size, largest)


class Tally:
    """Counts messages by client and kind.

    Examples
    --------
    >>> tally = Tally()
    >>> tally.add({"north": Message("evaluate/reply", 0), "south": Message("evaluate/reply", 0)})
    >>> [(sent.client, sent.count, sent.bytes) for sent in tally.sent]
    [('north', 1, 23), ('south', 1, 23)]
    """

    def __init__(self) -> None:
        self._sent: dict[tuple[str, str], Sent] = {}

    def add(self, messages: Mapping[str, Message]) -> None:
        """Count the messages of some clients."""
        for client, message in messages.items():
            shapes = {name: array.shape for name, array in message.arrays.items()}
            self.extend([Sent(client, message.kind, 1, message.nbytes, shapes)])

    def extend(self, sent: Iterable[Sent]) -> None:
        """Add what was counted elsewhere."""
        for entry in sent:
            key = (entry.client, entry.message)
            self._sent[key] = self._sent[key].plus(entry) if key in self._sent else entry

    @property
    def sent(self) -> tuple[Sent, ...]:
        """What was counted, in the order in which it came first."""
        return tuple(self._sent.values())
