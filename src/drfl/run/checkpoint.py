r"""A run that survives: the answers of every round, written down before the next one begins.

The server is deterministic, so its state is a function of the answers it has absorbed. A checkpoint
is their log; resuming feeds them to a fresh session, asks the clients nothing, and goes on. The
format is safe: JSON and messages of `drfl.wire`, nothing that could be executed.

A file is a line ``drfl-checkpoint 1``, a line of JSON that says which run it belongs to, and one
record per round: 8 bytes of length, 32 bytes of SHA-256, and the body, a line of JSON (the round,
the digest of the requests, failures, seconds, and the lengths of the replies by client) followed by
the encoded replies. A record that was cut off by a crash fails its checksum and is dropped.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from drfl.engines import Answers
from drfl.files import PRIVATE, write_bytes
from drfl.wire import Message, WireError, decode, encode

MAGIC = b"drfl-checkpoint 1\n"
HEAD = struct.Struct("<Q32s")


class CheckpointError(ValueError):
    """A checkpoint that cannot be used, with one sentence that says why and what to do."""


class Round(NamedTuple):
    """One recorded round."""

    digest: str
    answers: Answers
    seconds_server: float


class Checkpoint:
    """The log of one run; if the file exists, the run it holds goes on.

    ``identity`` is what the run is, as JSON: a file that says otherwise is refused.
    """

    def __init__(self, path: str | os.PathLike[str], identity: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self.identity = json.loads(json.dumps(identity))
        if self.path.exists():
            self._end = self._check()
        else:
            self._create()

    def rounds(self) -> Iterator[Round]:
        """The recorded rounds, in order; what follows the last whole record is cut off."""
        with self.path.open("rb") as file:
            file.seek(self._start)
            while True:
                body = _record(file)
                if body is None:
                    break
                self._end = file.tell()
                yield _read(body)
        with self.path.open("r+b") as file:
            file.truncate(self._end)

    def append(self, messages: Mapping[str, Message], answers: Answers, server: float) -> None:
        """Write a round down; it is on the disk when this returns."""
        replies = {name: encode(reply) for name, reply in answers.replies.items()}
        line = {
            "requests": digest(messages),
            "failures": answers.failures,
            "seconds": answers.seconds,
            "seconds_server": server,
            "replies": {name: len(data) for name, data in replies.items()},
        }
        body = json.dumps(line).encode() + b"\n" + b"".join(replies.values())
        with self.path.open("ab") as file:
            file.write(HEAD.pack(len(body), hashlib.sha256(body).digest()) + body)
            file.flush()
            os.fsync(file.fileno())

    def _create(self) -> None:
        head = MAGIC + json.dumps(self.identity).encode() + b"\n"
        write_bytes(self.path, head, mode=PRIVATE)  # its cuts tell of rows
        self._start = self._end = len(head)

    def _check(self) -> int:
        with self.path.open("rb") as file:
            if file.readline(len(MAGIC)) != MAGIC:
                raise CheckpointError(
                    f"{self.path} is not a checkpoint of this version: choose another path"
                )
            try:
                found = json.loads(file.readline())
            except ValueError:
                raise CheckpointError(
                    f"the head of {self.path} is damaged: remove the file and start again"
                ) from None
            self._start = file.tell()
        for key, value in self.identity.items():
            if not isinstance(found, dict) or found.get(key) != value:
                raise CheckpointError(
                    f"{self.path} belongs to a run with another {key}: resume with the same "
                    f"{key}, or choose another path"
                )
        return self._start


def cut_back(path: Path, clients: Iterable[str]) -> None:
    """Drop the last rounds of a log, those in which one of these clients did not answer.

    A run that had to go on without them can thus be taken up where they were lost.
    """
    ends, last = [], dict.fromkeys(clients, 0)
    with path.open("rb") as file:
        file.readline()
        file.readline()
        ends.append(file.tell())
        while (body := _record(file)) is not None:
            ends.append(file.tell())
            for name in last.keys() & _read(body).answers.replies.keys():
                last[name] = len(ends) - 1
    with path.open("r+b") as file:
        file.truncate(ends[min(last.values(), default=len(ends) - 1)])


def digest(messages: Mapping[str, Message]) -> str:
    """What identifies the requests of a round, to the bit."""
    total = hashlib.sha256()
    for name, message in messages.items():
        total.update(name.encode() + b"\0" + encode(message))
    return total.hexdigest()


def _record(file: BinaryIO) -> bytes | None:
    head = file.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    length, checksum = HEAD.unpack(head)
    if length > os.fstat(file.fileno()).st_size:
        return None
    body = file.read(length)
    return body if hashlib.sha256(body).digest() == checksum else None


def _read(body: bytes) -> Round:
    line, data = body.split(b"\n", 1)
    fields, replies, start = json.loads(line), {}, 0
    try:
        for name, length in fields["replies"].items():
            replies[name] = decode(data[start : start + length])
            start += length
    except WireError as error:  # its checksum was right: written by something else
        raise CheckpointError(f"a record of the checkpoint cannot be read: {error}") from error
    answers = Answers(replies, fields["failures"], fields["seconds"])
    return Round(fields["requests"], answers, fields["seconds_server"])
