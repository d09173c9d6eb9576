"""Say here what the driver of a job says there, until the job has ended."""

from __future__ import annotations

import time
from typing import Any

from drfl.problem import from_json
from drfl.result import Record
from drfl.sites.session import LostError, Session
from drfl.training.progress import Listener

PAUSE = 0.25
"""Seconds between two questions about the progress."""

ENDING, SILENT = 30.0, 90.0
"""Seconds that FLARE has to end a job whose work is done, and to say anything of one that runs."""


def follow(session: Session, job: str, voice: Listener) -> dict[str, Any]:
    """Tell what happens until the job has ended; FLARE's facts about it."""
    since, born, heard, done = 0, session.born(), time.monotonic(), False
    while True:
        facts = session.status(job)
        status = str(facts.get("status", ""))
        if status.startswith("FINISHED"):
            return facts
        if session.born() != born:
            raise LostError("the server was restarted")
        reply = session.progress(job, since) if status == "RUNNING" and not done else None
        if reply is not None:
            since, heard = reply["next"], time.monotonic()
            done = reply["phase"] in ("done", "failed")
            for event in reply["events"]:
                tell(voice, event)
        if time.monotonic() > heard + (ENDING if done else SILENT):
            session.abort(job)
            heard = time.monotonic()
        # FLARE notes every question that nobody is there yet to answer.
        time.sleep(PAUSE if since else 4 * PAUSE)


def tell(voice: Listener, event: dict[str, Any]) -> None:
    """Say here what the driver has said there."""
    if "say" in event:
        voice.say(*event["say"])
    elif "warn" in event:
        voice.warn(event["warn"])
    elif "record" in event:
        voice.record(event["record"])
    elif "progress" in event:
        voice.progress(_record(event["progress"]), event.get("prefix", ""))
    elif "clear" in event:
        voice.clear()
    elif "missing" in event:
        for site, code in event["missing"].items():
            voice.warn(f"site {site!r} is missing from now on: {MISSING.get(code, code)}")


MISSING = {
    "absent": "it was not connected when the job began",
    "silent": "it gave no sign of life",
}
"""What the driver's words mean."""


def _record(fields: dict[str, Any]) -> Record:
    text = ("worst_client", "failures")
    return Record(**{key: v if key in text else from_json(v) for key, v in fields.items()})
