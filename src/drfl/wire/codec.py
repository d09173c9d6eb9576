"""Messages to bytes and back. Decoding runs no code and makes nothing but arrays of numbers."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from drfl.wire.message import DTYPES, LETTERS, MAX_HEADER, VERSION, Message, WireError, is_shape

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
