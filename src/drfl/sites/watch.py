"""Submit a job, follow it, fetch what it wrote; if it dies, submit it again from the checkpoint."""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drfl._registry import listed
from drfl.problem import from_json
from drfl.result import Record
from drfl.sites.handshake import UnreachableError
from drfl.sites.processes import wait_until
from drfl.sites.provision import Layout
from drfl.sites.session import LostError, Session, connect
from drfl.sites.submission import make_order, write_job
from drfl.training.voice import Voice

PAUSE = 0.25
"""Seconds between two questions about the progress."""

ENDING, SILENT = 30.0, 90.0
"""Seconds that FLARE has to end a job whose work is done, and to say anything of one that runs."""


@dataclass(frozen=True)
class Ended:
    """How a job ended.

    Attributes
    ----------
    outcome : dict
        What the driver says of it; ``docs/sites.md``.
    folder : Path
        What it wrote.
    """

    outcome: dict[str, Any]
    folder: Path


class Watch:
    """One run, in as many attempts as it needs.

    Parameters
    ----------
    layout : Layout
        Of the project.
    kind : str
        Of the order.
    voice : Voice
        Who hears of it.
    run : str, optional
        The run that is continued; by default a new one.
    **more
        Further entries of the order.
    """

    def __init__(
        self, layout: Layout, kind: str, voice: Voice, run: str | None = None, **more: Any
    ) -> None:
        self.layout, self.project, self.kind, self.voice = layout, layout.project, kind, voice
        self.run, self.more = run or uuid.uuid4().hex, more
        self.results = layout.folder / "results" / self.run
        self._job: str | None = None

    def go(self) -> Ended:
        """Carry it out; ValueError if it cannot begin, RuntimeError if it never ends well."""
        last: Ended | None = None
        why = ""
        for attempt in range(self.project["attempts"]):
            if attempt:
                self.voice.warn(f"{why}: attempt {attempt + 1}, from the checkpoint")
            try:
                with connect(self.layout) as session:
                    self._abandon(session)
                    self._require_quorum(session)
                    ended, why = self._attempt(session, attempt)
                    if ended is None:
                        continue
                    last = ended
                    why = self._worth_another(session, ended.outcome)
                    if not why:
                        return ended
            except LostError as error:
                why = str(error)
                self._await_server(why)
        if last is not None:
            return last
        raise RuntimeError(f"{why}; {self.project['attempts']} attempts were made")

    def abort(self) -> None:
        """End what may be running."""
        with connect(self.layout) as session:
            self._abandon(session)

    def _abandon(self, session: Session) -> None:
        """A server that was restarted calls its old jobs running; nobody should believe it."""
        if self._job is not None:
            session.abort(self._job)
            self._job = None

    def _require_quorum(self, session: Session) -> None:
        quorum: int = self.project["quorum"]

        def enough() -> bool:
            return len(set(session.connected()) & set(self.project.sites)) >= quorum

        # Sites come back by themselves after a restart of the server.
        if not wait_until(enough, 1.0 if self._job is None else self.project["rejoin"]):
            here = session.connected()
            absent = [name for name in self.project.sites if name not in here]
            raise ValueError(
                f"{len(self.project.sites) - len(absent)} sites are connected, the quorum is "
                f"{quorum}: wait for {listed(absent)}, or set a smaller quorum"
            )

    def _attempt(self, session: Session, attempt: int) -> tuple[Ended | None, str]:
        """One job, and why there has to be another if it has no end."""
        order = make_order(self.project, self.kind, self.run, attempt, **self.more)
        folder = write_job(self.layout.job, f"{self.kind}-{self.run[:8]}", order)
        self._job = session.submit(folder)
        facts = self._follow(session, self._job)
        folder = session.result(self._job, self.results)
        self._job = None
        found = folder / "workspace" / "RUN"
        try:
            outcome = json.loads((found / "outcome.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None, f"the job ended without an outcome, {_reason(facts)}"
        return Ended(outcome, found), ""

    def _follow(self, session: Session, job: str) -> dict[str, Any]:
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
                    self._tell(event)
            if time.monotonic() > heard + (ENDING if done else SILENT):
                session.abort(job)
                heard = time.monotonic()
            # FLARE notes every question that nobody is there yet to answer.
            time.sleep(PAUSE if since else 4 * PAUSE)

    def _tell(self, event: dict[str, Any]) -> None:
        """Say here what the driver has said there."""
        if "say" in event:
            self.voice.say(*event["say"])
        elif "warn" in event:
            self.voice.warn(event["warn"])
        elif "record" in event:
            self.voice.record(event["record"])
        elif "progress" in event:
            self.voice.progress(_record(event["progress"]), event.get("prefix", ""))
        elif "clear" in event:
            self.voice.clear()
        elif "missing" in event:
            for site, code in event["missing"].items():
                self.voice.warn(f"site {site!r} is missing from now on: {MISSING.get(code, code)}")

    def _worth_another(self, session: Session, outcome: dict[str, Any]) -> str:
        """Why another attempt could do better; nothing if it could not."""
        if not outcome.get("resubmit"):
            return ""
        missing: Sequence[str] = list(outcome.get("missing", {}))

        def back() -> bool:
            return set(missing) <= set(session.connected())

        if not back():
            self.voice.warn(
                f"waiting {self.project['rejoin']:g} s for {listed(missing)} to come back"
            )
        if not wait_until(back, self.project["rejoin"], 1.0):
            return ""
        return f"{listed(missing)} came back" if missing else "the job could not be ended"

    def _await_server(self, why: str) -> None:
        self.voice.warn(f"{why}: waiting {self.project['rejoin']:g} s for it")

        def back() -> bool:
            try:
                with connect(self.layout):
                    return True
            except UnreachableError:
                return False

        if not wait_until(back, self.project["rejoin"], 1.0):
            raise RuntimeError(
                "the server did not come back; its checkpoints are kept: start it again, then "
                f"`drfl sites run --resume {self.run}`"
            )

    def clean(self) -> None:
        """Remove what was fetched."""
        shutil.rmtree(self.results, ignore_errors=True)


MISSING = {
    "absent": "it was not connected when the job began",
    "silent": "it gave no sign of life",
}
"""What the driver's words mean."""


def _record(fields: dict[str, Any]) -> Record:
    text = ("worst_client", "failures")
    return Record(**{key: v if key in text else from_json(v) for key, v in fields.items()})


def _reason(facts: dict[str, Any]) -> str:
    """FLARE's own words on how a job ended, and which participants refused it."""
    refused = [
        str(detail)
        for detail in facts.get("job_deploy_detail", [])
        if not str(detail).endswith("OK")
    ]
    return "; ".join([str(facts.get("status", "unknown")), *refused])
