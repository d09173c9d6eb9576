"""The door of a site: a process of its own, the data behind it, that Flower's client knocks at.

Flower starts the client's half of an app in a new process for every message, and the code of that
half comes with the app. So what must last, and what must hold whatever is asked, is here: the data
in memory, the guard, the ledger, the policy. Who knocks has read the key in the door's file; a site
that gives its SuperNode a user of its own lets that user read this one file and no data.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from multiprocessing.connection import Listener as PortListener
from pathlib import Path
from threading import Lock, Thread
from time import monotonic

from drfl.files import PRIVATE, write_json
from drfl.sites import site_log
from drfl.sites.carrier import WAITING, WORKING
from drfl.sites.config import own_settings, require_meant
from drfl.sites.flower.asked import FIRST, LOST, WHO, AddressedQuestion, read_asked
from drfl.sites.gate import Gate, open_gate
from drfl.sites.os_processes import Lock as Instance
from drfl.sites.setup.kit import DESCRIPTION, SCHEMA, Kit
from drfl.sites.setup.project import NAME
from drfl.training.progress import Listener
from drfl.wire import Failure, encode

HOLD = 10.0  # seconds after which a sign is given that the answer is still being computed
SILENT = 30.0  # seconds after which somebody who knocks and says nothing is left
RUN = 8  # bytes of Flower's number of the run, in front of what is asked
LARGEST = 2**30 + 2**20  # bytes of a question


class Door:
    """Answers questions of one job at a time, by a gate for each; the newest job counts."""

    def __init__(
        self, name: str, open_gate: Callable[[], Gate], refusals: site_log.Refusals
    ) -> None:
        self.name, self._open, self.refusals = name, open_gate, refusals
        self._lock, self._job, self._over = Lock(), "", set[str]()
        self._gate: Gate | None = None

    def answer(self, data: bytes) -> bytes:
        """The answer to what a client brings, or a sign."""
        try:
            run, asked = int.from_bytes(data[:RUN], "little"), read_asked(data[RUN:])
        except ValueError:
            self.refusals.write("Flower", "a question that is none of drfl's")
            return encode(Failure.BAD_REQUEST.message(0))
        if asked.number == WHO:
            return self.name.encode("ascii")
        if asked.site != self.name:
            self.refusals.write(f"run {run}", f"a question to site {asked.site!r}")
            return encode(Failure.REFUSED.message(0))
        try:
            gate = self._gate_of(f"{run}.{asked.attempt}", asked)
        except ValueError as error:  # the settings have changed since the door was opened
            print(f"drfl: {error}", file=sys.stderr)
            return encode(Failure.FILE.message(0))
        return LOST if gate is None else _held(gate, asked)

    def _gate_of(self, job: str, asked: AddressedQuestion) -> Gate | None:
        """The gate of a job; None if its beginning was somewhere else, or it is over."""
        with self._lock:
            if job == self._job:
                return self._gate
            if job in self._over or asked.number != FIRST:
                return None
            self._end()
            self._gate, self._job = self._open(), job
            self._gate.ledger.job = job
            return self._gate

    def _end(self) -> None:
        if self._gate is not None:
            self._gate.close()
            self._over.add(self._job)
            self._gate, self._job = None, ""

    def close(self) -> None:
        """End the child."""
        with self._lock:
            self._end()


def _held(gate: Gate, asked: AddressedQuestion) -> bytes:
    """The answer, or a sign after some seconds: another call costs Flower another process."""
    until = monotonic() + HOLD
    while True:
        answer = gate.answer(asked.number, asked.question, asked.seconds)
        if answer not in (WORKING, WAITING) or monotonic() > until:
            return answer


class Doorway:
    """Where a door can be knocked at: a port of this machine, and a key, both told in a file.

    A file that is there keeps its mode and its group, so that a site can let its SuperNode read it.
    """

    def __init__(self, door: Door, file: Path) -> None:
        self.door, self.key = door, secrets.token_bytes(32)
        self._listener = PortListener(("localhost", 0))
        told = {"port": self._listener.address[1], "key": self.key.hex()}
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE)
        with open(descriptor, "w", encoding="utf-8") as opened:
            opened.write(json.dumps(told) + "\n")
        Thread(target=self._attend, daemon=True).start()

    def _attend(self) -> None:
        while True:
            try:
                line = self._listener.accept()
            except OSError:  # closed
                return
            # Somebody who knocks and says nothing keeps nobody else out.
            Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: Connection) -> None:
        with line, suppress(OSError, EOFError, AuthenticationError):
            end_if_silent(line, SILENT)
            deliver_challenge(line, self.key)
            answer_challenge(line, self.key)
            line.send_bytes(self.door.answer(line.recv_bytes(LARGEST)))

    def close(self) -> None:
        """Open no more."""
        self._listener.close()
        self.door.close()


def end_if_silent(line: Connection, seconds: float) -> None:
    """Reading from a line ends in an error once nothing has come for so long."""
    if os.name != "posix":  # elsewhere the time is told in another form
        return
    limit = struct.pack("ll", int(seconds), int(seconds % 1.0 * 1e6))
    with socket.socket(fileno=os.dup(line.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)


DOOR = "door.json"


def site_folder(folder: Path) -> Kit:
    """The folder of a site, made if it is not there; it is called like the site."""
    if not (folder / DESCRIPTION).exists():
        name = folder.resolve().name
        if not NAME.fullmatch(name):
            raise ValueError(
                f"{folder}: the folder is called like the site, and {name!r} cannot be a name: "
                "take up to 40 letters, digits, - and _"
            )
        known = {"name": name, "project": "flower", "host": "localhost", "port": 8000}
        write_json(folder / DESCRIPTION, {"schema": SCHEMA, **known})
    kit = Kit.find(folder)
    kit.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    return kit


def attend(
    folder: Path,
    data: Path | None,
    listener: Listener,
    ask: site_log.Ask,
    *,
    without_guard: bool = False,
) -> None:
    """Open the door of a site until somebody ends it; see `drfl.sites.flare.serving.join`."""
    kit = site_folder(folder)
    settings, path = own_settings(kit, data)
    require_meant(settings, kit.settings, without_guard)
    lock = Instance(kit.state / "lock", f"the site {kit.folder}")
    site_log.forget(settings.approvals)
    door = Door(kit.name, lambda: open_gate(path), site_log.Refusals(settings.refused))
    doorway = Doorway(door, (kit.folder / DOOR).resolve())
    try:
        listener.say(
            f"the door of {kit.name} is open; its SuperNode finds it by",
            f"  --node-config 'drfl=\"{(kit.folder / DOOR).resolve()}\"'",
            *settings.describe(),
            f"what leaves is written to {settings.ledger}; Ctrl-C ends it",
        )
        site_log.attend(lambda: True, settings, listener, ask)
    finally:
        doorway.close()
        lock.release()
