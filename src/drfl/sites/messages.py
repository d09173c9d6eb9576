"""The ledger of a site: what has left it, one JSON object per line, on disk before it leaves."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
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
        line = json.dumps(self.entry(message), allow_nan=False) + "\n"
        # One write of one line, by one process at a time: lines are never torn apart.
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def entry(self, message: Message) -> dict[str, Any]:
        """What is said of a message."""
        failure = Failure.of(message)
        told = {"kind": message.kind} if failure is None else {"kind": "failure", "code": failure}
        return {
            "time": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}Z",
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
