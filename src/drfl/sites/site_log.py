"""What a site writes down, and shows to its people: what has left it, is refused or went wrong."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from time import sleep
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.files import write_text
from drfl.problem import to_json
from drfl.sites.config import SiteSettings
from drfl.sites.os_processes import Tail
from drfl.training.progress import Listener
from drfl.wire import Failure, Message, encode

SHOWN = 32  # so many numbers of an array are written out


class MessageLedger:
    """Writes down every message that leaves a site, and the job that it belongs to."""

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
    except (ValueError, RecursionError):
        return None
    return text


SENDERS, LONGEST = 1000, 100
"""So many kinds of refusals are told apart, by so many letters of what the sender wrote."""


class Refusals:
    """Writes down what others have asked in vain: the first time, the tenth, the hundredth ...

    The file grows, but not at the will of whoever asks a million times.
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


def audit_lines(path: Path, *, every: bool) -> Iterator[str]:
    """The ledger for a reader: every message, or a summary of each job."""
    entries = list(read_ledger(path))
    if every:
        yield from (_line(entry) for entry in entries)
        return
    jobs: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        jobs.setdefault(str(entry["job"]), []).append(entry)
    for job, told in jobs.items():
        yield f"job {job}: {told[0]['time']} to {told[-1]['time']}"
        kinds: dict[str, list[dict[str, Any]]] = {}
        for entry in told:
            kinds.setdefault(str(entry["kind"]), []).append(entry)
        for kind, same in kinds.items():
            size = sum(int(entry["bytes"]) for entry in same)
            yield f"  {len(same):5d} x {kind}, {size / 1000:.1f} kB: {_arrays(same[-1])}"
    yield f"{len(entries)} messages have left; each one: --all"


def refusal_lines(path: Path) -> Iterator[str]:
    """What was asked of a site in vain."""
    yield from map(refusal_line, read_ledger(path, REFUSAL))


def refusal_line(entry: dict[str, Any]) -> str:
    """One refusal in a sentence."""
    times = "" if entry["times"] == 1 else f", {entry['times']} times so far"
    return f"{entry['time']}  refused: {entry['what']} from {entry['origin']}{times}"


MESSAGE, REFUSAL = ("time", "job", "kind", "bytes"), ("time", "origin", "what", "times")
"""What every line of a ledger has, of messages and of refusals."""


def read_ledger(path: Path, keys: tuple[str, ...] = MESSAGE) -> Iterator[dict[str, Any]]:
    """Every line, in order; one that a crash cut off does not count: the message has not left."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except FileNotFoundError:
        return
    for number, line in enumerate(lines, start=1):
        try:
            entry = json.loads(line)
            missing = [key for key in keys if key not in entry]
        except (ValueError, TypeError):
            if number == len(lines) and not line.endswith("\n"):
                return
            raise ValueError(f"{path}, line {number}: it is damaged") from None
        if missing:
            raise ValueError(f"{path}, line {number}: it has no {missing[0]}")
        yield entry


def _line(entry: dict[str, Any]) -> str:
    told = f"{entry['time']}  {entry['kind']}  round {entry.get('round', '-')}"
    return f"{told}  {entry['bytes']} bytes  {_arrays(entry)}"


def _arrays(entry: dict[str, Any]) -> str:
    """The names and sizes of what is in a message."""
    if "code" in entry:
        return f"code {entry['code']}"
    parts = []
    for name, array in entry.get("arrays", {}).items():
        shape = " x ".join(str(n) for n in array.get("shape", [])) or "1"
        parts.append(f"{name} ({'text' if 'text' in array else shape})")
    return ", ".join(parts) or "nothing but that"


TROUBLES = logging.getLogger("drfl")  # whoever turns an error into a code says here what it was


def keep_troubles(state: Path) -> None:
    """Let this process write them to ``errors.log``, in a folder of the site; it is never sent."""
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    handler = logging.FileHandler(state / "errors.log", encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    TROUBLES.addHandler(handler)
    TROUBLES.propagate = False


Ask = Callable[[dict[str, Any]], bool]


def attend(
    running: Callable[[], bool], settings: SiteSettings, listener: Listener, ask: Ask
) -> None:
    """Show the people here what concerns them, until it ends."""
    troubles, refusals = Tail(settings.state / "errors.log"), Tail(settings.refused)
    while running():
        for line in troubles.lines():
            # A traceback is for the file; its first line is a sentence.
            if line[:2] == "20":
                listener.warn(line)
        for line in refusals.lines():
            listener.warn(refusal_line(json.loads(line)))
        for question in sorted(settings.approvals.glob("*.asked.json")):
            answer = question.with_name(question.name.removesuffix(".asked.json") + ".answer")
            if not answer.exists():
                shown = json.loads(question.read_text(encoding="utf-8"))
                write_text(answer, "yes" if ask(shown) else "no")
        sleep(0.3)


def forget(folder: Path) -> None:
    """Each kind of message is asked about anew."""
    for pattern in ("*.asked.json", "*.answer"):
        for old in folder.glob(pattern):
            old.unlink()
