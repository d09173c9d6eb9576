"""What happens in a job: told there, and said here."""

from __future__ import annotations

import json
from dataclasses import asdict
from threading import Event, Lock
from typing import Any

from drfl.problem import to_json
from drfl.run import Record
from drfl.sites.order import SCHEMA
from drfl.training.progress import Listener

AT_ONCE = 200  # so many events are told at once
ENDS = ("done", "failed")  # phases after which there is nothing more to tell


class ProgressLog:
    """A `drfl.training.progress.Listener` that somebody far away listens to, now and then.

    Its phase is "starting", "working", "done" or "failed".
    """

    live = True

    def __init__(self) -> None:
        self.phase = "starting"
        self._events: list[dict[str, Any]] = []
        self._lock, self._heard = Lock(), Event()

    def since(self, request: dict[str, Any]) -> dict[str, Any]:
        """The events from a number on; a few of them, if there are many."""
        first = request.get("since", 0)
        first = first if type(first) is int and first >= 0 else 0
        with self._lock:
            events = self._events[first : first + AT_ONCE]
            phase = self.phase if first + len(events) == len(self._events) else "working"
            if phase in ENDS:
                self._heard.set()
        return {"schema": SCHEMA, "phase": phase, "next": first + len(events), "events": events}

    def end(self, phase: str, seconds: float) -> None:
        """It is over; wait some seconds for the listener, after that nobody answers any more."""
        self.phase = phase
        self._heard.wait(seconds)

    def say(self, *lines: str) -> None:
        self._add(say=list(lines))

    def warn(self, sentence: str) -> None:
        self._add(warn=sentence)

    def record(self, record: dict[str, Any]) -> None:
        self._add(record=record)

    def progress(self, record: Record, prefix: str = "") -> None:
        self._add(progress=asdict(record), prefix=prefix)

    def clear(self) -> None:
        self._add(clear=True)

    def missing(self, site: str, why: str) -> None:
        """A site is not asked any more."""
        self._add(missing={site: why})

    def _add(self, **event: Any) -> None:
        # As JSON would have it, to the types: nothing else is brought across.
        plain = json.loads(json.dumps(to_json(event), allow_nan=False))
        with self._lock:
            self._events.append(plain)


def tell(listener: Listener, event: dict[str, Any]) -> None:
    """Say here what the driver has said there."""
    if "say" in event:
        listener.say(*event["say"])
    elif "warn" in event:
        listener.warn(event["warn"])
    elif "record" in event:
        listener.record(event["record"])
    elif "progress" in event:
        listener.progress(Record.from_json(event["progress"]), event.get("prefix", ""))
    elif "clear" in event:
        listener.clear()
    elif "missing" in event:
        for site, code in event["missing"].items():
            listener.warn(f"site {site!r} is missing from now on: {MISSING.get(code, code)}")


MISSING = {"absent": "it was not connected when the job began", "silent": "it gave no sign of life"}
"""What the driver's words mean."""
