"""What stands between a site's computation and the network, for the whole job.

One question at a time is computed. What leaves is an answer of the agreed form or a code, it has
been written down before, and a person has seen its kind where the site wants that.

That question to a person is a file in a folder of the site, and so is the answer: whoever asks at
the terminal (`drfl sites join`) is another process. It empties the folder when it starts; until it
ends, an answer holds for every job.
"""

from __future__ import annotations

import platform
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from threading import Event, Lock, Thread
from time import sleep
from typing import Any

from drfl.files import write_json
from drfl.protocols.data_request import text_array
from drfl.sites.carrier import HOLD, WAITING, WORKING, Question
from drfl.sites.child import KEPT, Child, open_station
from drfl.sites.config import SiteSettings, read_site_settings
from drfl.sites.order import SCHEMA
from drfl.sites.site_log import TROUBLES, MessageLedger, keep_troubles
from drfl.wire import Failure, Message, WireError, decode, encode

HELLO = "hello"  # the question who is there; answered without a look at the data
GLANCE = 0.2  # seconds between two looks for a person's answer
NOTHING = Question(0, b"")


class Gate:
    """Answers numbered questions; see `drfl.sites.carrier.PollingCarrier`.

    The child computes; the ledger is of what leaves, and whoever knows the job tells it.
    """

    def __init__(self, settings: SiteSettings, child: Child) -> None:
        self.settings, self.child = settings, child
        self.ledger = MessageLedger(settings.ledger)
        self.approvals = Approvals(settings.approvals if settings.approve else None)
        self.computing = Lock()
        self._lock, self._task = Lock(), _Task(self, 0, NOTHING, 0.0)

    def answer(self, number: int, question: Question, seconds: float) -> bytes:
        """The answer, or a sign of life; a repeated number is the same question.

        After so many seconds the answer is of no use any more.
        """
        with self._lock:
            if number < self._task.number:
                return encode(Failure.BAD_REQUEST.message(0))  # overtaken by a later question
            if number > self._task.number:
                self._task = _Task(self, number, question, seconds)
                self._task.start()
            task = self._task
        return task.look()

    def is_current(self, task: _Task) -> bool:
        """Whether somebody still waits for the answer."""
        return task is self._task

    def close(self) -> None:
        """The job is over."""
        with self._lock:
            self._task = _Task(self, 0, NOTHING, 0.0)
        self.child.close()


class _Task(Thread):
    """One question, from the first call to the answer."""

    def __init__(self, gate: Gate, number: int, question: Question, seconds: float) -> None:
        super().__init__(daemon=True)
        self.gate, self.number, self.question = gate, number, question
        self.seconds = min(seconds, gate.settings.time_limit)
        self._answer, self._sign, self._there = b"", WORKING, Event()

    def look(self) -> bytes:
        """What there is after a moment."""
        return self._answer if self._there.wait(HOLD) else self._sign

    def run(self) -> None:
        round = 0
        try:
            with self.gate.computing:
                message = decode(self.question.message)
                round = message.round
                reply = self._approved(self._reply(message))
                if not self.gate.is_current(self):
                    return
                self.gate.ledger.write(reply)
            self._answer = encode(reply)
        except WireError:
            self._answer = encode(Failure.BAD_REQUEST.message(round))
        except Exception:  # whatever it is, not a word of it leaves
            TROUBLES.exception("a question could not be answered")
            self._answer = encode(Failure.ERROR.message(round))
        self._there.set()

    def _reply(self, message: Message) -> Message:
        if message.kind == HELLO:
            return message.reply({"about": text_array(about(self.gate.settings))})
        return self.gate.child.answer(message, self.question.seat, self.seconds)

    def _approved(self, reply: Message) -> Message:
        if Failure.of(reply) is not None:
            return reply
        approvals, entry = self.gate.approvals, self.gate.ledger.entry(reply)
        while (verdict := approvals.of(reply.kind, entry)) is Verdict.NOT_YET:
            self._sign = WAITING
            sleep(GLANCE)
            if not self.gate.is_current(self):
                break
        return reply if verdict is Verdict.YES else Failure.REFUSED.message(reply.round)


NOISE = -1  # what is told as k by a site with differential privacy


def about(settings: SiteSettings) -> dict[str, str | int]:
    """What runs here, and whether a guard does."""
    versions = {"drfl": version("drfl"), "python": platform.python_version()}
    guard = (settings.guard or 0) if settings.privacy is None else NOISE
    return {**versions, "schema": SCHEMA, "guard": guard}


def open_gate(path: Path) -> Gate:
    """What a carrier calls at a site: its gate, with a child behind it that computes.

    The path is that of the site's own settings; ValueError if they cannot be used.
    """
    settings = read_site_settings(path)
    keep_troubles(settings.state)
    # Half of the time that an answer may take is left for the answer itself, should another child
    # have to repeat the rounds before.
    return Gate(settings, Child(open_station, str(path).encode(), KEPT, settings.time_limit / 2))


class Verdict(Enum):
    """What the person says."""

    YES = "yes"
    NO = "no"
    NOT_YET = "not yet"


class Approvals:
    """Asks once for every kind of message, by files in a folder; None: all are approved."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def of(self, kind: str, entry: dict[str, Any]) -> Verdict:
        """Whether messages of a kind may leave; the entry is what the person is shown."""
        if self.folder is None:
            return Verdict.YES
        # A kind is one name, or two with a slash between them: nothing else can be in it.
        stem = kind.replace("/", ".")
        question, answer = self.folder / f"{stem}.asked.json", self.folder / f"{stem}.answer"
        try:
            said = answer.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            if not question.exists():
                write_json(question, entry)
            return Verdict.NOT_YET
        return {"yes": Verdict.YES, "no": Verdict.NO}.get(said, Verdict.NOT_YET)
