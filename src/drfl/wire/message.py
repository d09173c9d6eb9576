"""A message: a kind, a round and named arrays of numbers; to bytes and back, and how much is sent.

Decoding runs no code and makes nothing but arrays of numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Room for the curvature of ten thousand features, and for a header of MAX_ARRAYS long names.
MAX_PAYLOAD, MAX_HEADER, MAX_ARRAYS, MAX_NDIM = 2**30, 2**16, 256, 3
MAX_ROUND = 2**31 - 1
DTYPES: dict[str, np.dtype[Any]] = {
    "float64": np.dtype("<f8"),
    "float32": np.dtype("<f4"),
    "float16": np.dtype("<f2"),
    "int64": np.dtype("<i8"),
    "uint8": np.dtype("u1"),
}
# As in the struct module; NumPy's own letter for int64 depends on the platform.
LETTERS = {"float64": "d", "float32": "f", "float16": "e", "int64": "q", "uint8": "B"}
VERSION = 1

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,63}")
_KIND = re.compile(r"[a-z_][a-z0-9_]{0,63}(/[a-z_][a-z0-9_]{0,63})?")


class WireError(ValueError):
    """A message that is not what it must be, with one sentence that says why."""


@dataclass(frozen=True, eq=False)
class Message:
    """A kind, a round and named arrays; it copies the arrays and nobody can change them.

    Parameters
    ----------
    kind : str
        ``name`` for a request, ``name/reply`` for its answer, ``failure/code`` for none.
    round : int
        The round it belongs to, from 0.
    arrays : mapping of str to array
        float64, float32, float16, int64 or uint8, at most three axes; kept in the order of names.

    Examples
    --------
    >>> message = Message("evaluate", 3, {"w": np.zeros(2)})
    >>> message.nbytes
    38
    >>> message.reply({"value": np.array(0.5)}).kind
    'evaluate/reply'
    """

    kind: str
    round: int
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (isinstance(self.kind, str) and _KIND.fullmatch(self.kind)):
            raise WireError(f"a message's kind must be like 'name/reply', got {_short(self.kind)}")
        if not _is_index(self.round, MAX_ROUND):
            raise WireError(f"the round must be a whole number >= 0, got {_short(self.round)}")
        if not isinstance(self.arrays, Mapping) or len(self.arrays) > MAX_ARRAYS:
            raise WireError(f"a message holds a mapping of at most {MAX_ARRAYS} arrays")
        arrays = {name: _checked(name, array) for name, array in self.arrays.items()}
        size = sum(array.nbytes for array in arrays.values())
        if size > MAX_PAYLOAD:
            raise WireError(f"a message holds at most {MAX_PAYLOAD} bytes, got {size}")
        # One order, so that equal messages have equal bytes.
        own = {name: _own(array) for name, array in sorted(arrays.items())}
        object.__setattr__(self, "arrays", MappingProxyType(own))

    def reply(self, arrays: Mapping[str, NDArray[Any]]) -> Message:
        """Answer this message, in the same round."""
        return Message(reply_kind(self.kind), self.round, arrays)

    @property
    def nbytes(self) -> int:
        """The length of the encoded message, without encoding it."""
        return len(self.header) + self.payload

    @property
    def payload(self) -> int:
        """The bytes of the arrays alone."""
        return sum(array.nbytes for array in self.arrays.values())

    @cached_property
    def header(self) -> bytes:
        """Everything but the numbers: a line of text that starts the encoded message."""
        arrays = "".join(
            [_announced(name, array.dtype, array.shape) for name, array in self.arrays.items()]
        )
        return f"drfl{VERSION} {self.kind} {self.round}{arrays}\n".encode("ascii")

    def __eq__(self, other: object) -> bool:
        # Bit for bit: NaN equals itself here, and 0.0 is not -0.0.
        return (
            isinstance(other, Message)
            and self.header == other.header
            and all(a.tobytes() == other.arrays[name].tobytes() for name, a in self.arrays.items())
        )

    def __hash__(self) -> int:
        return hash(self.header)


def reply_kind(kind: str) -> str:
    """The kind of the answer to a request of this kind."""
    return f"{kind}/reply"


class Failure(StrEnum):
    """Why there is no answer: a code with a fixed sentence, never a word from a client's data."""

    UNKNOWN_KIND = "unknown_kind"
    BAD_REQUEST = "bad_request"
    REFUSED = "refused"
    FILE = "file"
    UNFIT = "unfit"
    MEMORY = "memory"
    ERROR = "error"
    WITHHELD = "withheld"
    DEADLINE = "deadline"
    BAD_REPLY = "bad_reply"

    @property
    def sentence(self) -> str:
        """What it means."""
        return _SENTENCES[self]

    def message(self, round: int) -> Message:
        """The message that tells it: no array at all."""
        return Message(f"failure/{self}", round)

    @classmethod
    def of(cls, message: Message) -> Failure | None:
        """The failure a message tells, or None for a proper answer."""
        head, _, code = message.kind.partition("/")
        if head != "failure":
            return None
        return cls(code) if code in set(cls) else cls.BAD_REPLY


_SENTENCES = {
    Failure.UNKNOWN_KIND: "it does not know this kind of message",
    Failure.BAD_REQUEST: "the message it got was not of the agreed form",
    Failure.REFUSED: "its policy, guard or rows do not allow it: why is said there, not here",
    Failure.FILE: "its file cannot be used: why is said there, not here",
    Failure.UNFIT: "the problem does not fit its rows: why is said there, not here",
    Failure.MEMORY: "it ran out of memory",
    Failure.ERROR: "its computation raised an error",
    Failure.WITHHELD: "its answer was not of the agreed form and was withheld",
    Failure.DEADLINE: "it did not answer before the deadline",
    Failure.BAD_REPLY: "its answer could not be read",
}


def is_shape(shape: tuple[int, ...]) -> bool:
    """Whether these are the lengths of an array that may travel."""
    # An empty array may not have huge other axes: NumPy refuses their product.
    return len(shape) <= MAX_NDIM and math.prod(max(1, length) for length in shape) <= MAX_PAYLOAD


def _short(value: object) -> str:
    """What to show of a value that may come from anywhere."""
    return repr(value)[:80]


def _is_index(value: object, largest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= largest


def _checked(name: object, values: Any) -> NDArray[Any]:
    if not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise WireError(f"an array's name must be like 'old_slope', got {_short(name)}")
    try:
        array = np.asarray(values)
    except ValueError:
        raise WireError(f"array {name!r} is not an array of numbers") from None
    if type_name(array.dtype) not in DTYPES:
        raise WireError(
            f"array {name!r} has type {type_name(array.dtype)}: only {', '.join(DTYPES)} travel"
        )
    if not is_shape(array.shape):
        raise WireError(
            f"array {name!r} has shape {array.shape}: at most {MAX_NDIM} axes "
            f"and {MAX_PAYLOAD} entries travel"
        )
    return array


@lru_cache(maxsize=64)
def type_name(dtype: np.dtype[Any]) -> str:
    """NumPy's name of a type, which it makes anew each time: thousands of clients send arrays."""
    return dtype.name


@lru_cache(maxsize=256)
def _announced(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> str:
    """What a header says of an array: the same for thousands of clients."""
    return f" {name}:{LETTERS[type_name(dtype)]}{','.join(map(str, shape))}"


def _own(array: NDArray[Any]) -> NDArray[Any]:
    """A read-only copy in the order and byte order of the wire."""
    own = np.array(array, dtype=DTYPES[type_name(array.dtype)], order="C")
    own.flags.writeable = False
    return own


_DTYPES = {letter: DTYPES[name] for name, letter in LETTERS.items()}
_MAGIC = re.compile(rb"drfl([0-9]{1,4}) ")
_LINE = re.compile(r"(?P<kind>[^ ]+) (?P<round>[0-9]{1,10})(?P<arrays>( [^ ]+)*)")
_ARRAY = re.compile(r"(?P<name>\w+):(?P<letter>[a-zA-Z])(?P<shape>([0-9]{1,10}(,[0-9]{1,10})*)?)")


def encode(message: Message) -> bytes:
    """Return the message as bytes: a line of text, then the arrays one after the other.

    Examples
    --------
    >>> encode(Message("evaluate", 3, {"w": np.array([65, 66], dtype=np.uint8)})).splitlines()
    [b'drfl1 evaluate 3 w:B2', b'AB']
    """
    return b"".join([message.header, *(array.tobytes() for array in message.arrays.values())])


def decode(data: bytes) -> Message:
    """Read a message; whatever is wrong with the bytes raises WireError.

    Only one encoding of a message is accepted, the one that `encode` writes.
    """
    header = _header_of(data)
    kind, round, specs = _read(header)
    arrays, start = {}, len(header)
    for name, dtype, shape in specs:
        end = start + math.prod(shape) * dtype.itemsize
        if end > len(data):
            raise WireError("the message is cut off: its arrays are shorter than announced")
        arrays[name] = np.ndarray(shape, dtype, data, start)
        start = end
    if start != len(data):
        raise WireError(f"the message has {len(data) - start} bytes too many")
    message = Message(kind, round, arrays)
    # It catches names out of order or given twice, and leading zeros.
    if message.header != header:
        raise WireError("the header of the message is not in the one agreed form")
    return message


def _header_of(data: bytes) -> bytes:
    """The first line, after a look at its magic word and version."""
    if not isinstance(data, bytes):
        raise WireError(f"a message comes as bytes, got {type(data).__name__}")
    magic = _MAGIC.match(data)
    if magic is None:
        raise WireError("these bytes are not a drfl message")
    if int(magic[1]) != VERSION:
        raise WireError(
            f"the message has format version {int(magic[1])}, this drfl reads {VERSION}: "
            "run the same version of drfl everywhere"
        )
    end = data.find(b"\n", 0, MAX_HEADER)
    if end < 0:
        raise WireError("the message is cut off, or its header is too long")
    return data[: end + 1]


def _read(header: bytes) -> tuple[str, int, list[tuple[str, np.dtype[Any], tuple[int, ...]]]]:
    """Kind, round and what the arrays are; `Message` looks at names and kinds more closely."""
    text = header.decode("ascii", errors="replace")[:-1].partition(" ")[2]
    line = _LINE.fullmatch(text)
    if line is None:
        raise WireError("the header of a message must hold a kind, a round and its arrays")
    specs = []
    for entry in line["arrays"].split(" ")[1:]:
        array = _ARRAY.fullmatch(entry)
        if array is None or array["letter"] not in _DTYPES:
            raise WireError("the header of a message must tell each array's name, type and shape")
        shape = tuple(int(length) for length in array["shape"].split(",") if length)
        if not is_shape(shape):
            raise WireError("the header of a message tells of an array that is too large")
        specs.append((array["name"], _DTYPES[array["letter"]], shape))
    return line["kind"], int(line["round"]), specs


# ---------------------------------------------------------------------- how much was sent
@dataclass(frozen=True)
class Sent:
    """The messages of one kind that a client has sent: how many, and their size in all.

    ``arrays`` are what they hold: the largest shape of every array.
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
