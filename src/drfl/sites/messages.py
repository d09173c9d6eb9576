"""The ledgers of a site: what has left it, on disk before it leaves, and what it has refused."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.problem import to_json
from drfl.wire import Failure, Message, encode

SHOWN = 32
"""So many numbers of an array are written out."""


class MessageLedger:
    """Writes down every message that leaves a site.

    Parameters
    ----------
    path : Path
        The file; it grows.

    Attributes
    ----------
    job : str
        The job that the messages belong to.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.job = path, ""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write(self, message: Message) -> None:
        """Write a message down; the line is on the disk when this returns."""
        _append(self.path, self.entry(message))

    def entry(self, message: Message) -> dict[str, Any]:
        """What is said of a message."""
        failure = Failure.of(message)
        told = {"kind": message.kind} if failure is None else {"kind": "failure", "code": failure}
        return {
            "time": _now(),
            "job": self.job,
            **told,
            "round": message.round,
            "bytes": message.nbytes,
            "arrays": {name: _described(array) for name, array in message.arrays.items()},
            "sha256": hashlib.sha256(encode(message)).hexdigest(),
        }


def _described(array: NDArray[Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {"dtype": array.dtype.name, "shape": list(array.shape)}
    if array.dtype == np.uint8 and array.ndim == 1:
        text = _text(array)
        return facts if text is None else facts | {"text": text}
    return facts | {"values": to_json(array.ravel())} if array.size <= SHOWN else facts


def _text(array: NDArray[np.uint8]) -> str | None:
    """JSON travels as bytes: it is shown as it is."""
    try:
        text = array.tobytes().decode()
        json.loads(text)
    except ValueError:
        return None
    return text


SENDERS, LONGEST = 1000, 100
"""So many kinds of refusals are told apart, by so many letters of what the sender wrote."""


class Refusals:
    """Writes down what others have asked in vain: the first time, the tenth, the hundredth ...

    Parameters
    ----------
    path : Path
        The file; it grows, but not at the will of whoever asks a million times.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._times: dict[tuple[str, str], int] = {}
        self._lock = Lock()

    def write(self, origin: str, what: str) -> None:
        """Somebody has asked for something."""
        key = origin[:LONGEST], what[:LONGEST]
        with self._lock:
            if key not in self._times and len(self._times) >= SENDERS:
                key = "many", "many things"
            times = self._times[key] = self._times.get(key, 0) + 1
            if str(times).strip("0") == "1":
                entry = {"time": _now(), "origin": key[0], "what": key[1], "times": times}
                _append(self.path, entry)


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}Z"


def _append(path: Path, entry: dict[str, Any]) -> None:
    """One write of one line: lines are never torn apart."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, (json.dumps(entry, allow_nan=False) + "\n").encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
