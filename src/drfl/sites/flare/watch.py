"""Submit a job, follow it, fetch what it wrote; if it dies, submit it again from the checkpoint."""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from drfl._registry import listed
from drfl.sites.flare.handshake import UnreachableError
from drfl.sites.flare.job import write_job
from drfl.sites.flare.session import FlareSession, LostError, connect
from drfl.sites.order import make_order
from drfl.sites.os_processes import wait_until
from drfl.sites.progress import ENDS, tell
from drfl.sites.setup.provision import ProjectFolder
from drfl.training.progress import Listener


class Ended(NamedTuple):
    """What the driver says of a job that has ended (``docs/sites.md``), and where it wrote."""

    outcome: dict[str, Any]
    folder: Path


class Watch:
    """One run, in as many attempts as it needs; by default a new one.

    ``more`` are further entries of the order.
    """

    def __init__(
        self,
        layout: ProjectFolder,
        kind: str,
        listener: Listener,
        run: str | None = None,
        **more: Any,
    ) -> None:
        self.layout, self.project, self.kind, self.listener = layout, layout.project, kind, listener
        self.run, self.more = run or uuid.uuid4().hex, more
        self.results = layout.folder / "results" / self.run
        self._job: str | None = None

    def go(self) -> Ended:
        """Carry it out; ValueError if it cannot begin, or never ends well."""
        last: Ended | None = None
        why = ""
        for attempt in range(self.project["attempts"]):
            if attempt:
                self.listener.warn(f"{why}: attempt {attempt + 1}, from the checkpoint")
            try:
                with connect(self.layout) as session:
                    self._abandon(session)
                    short = self._short_of(session, attempt)
                    if short and last is None:
                        raise ValueError(short + (self._resumable if attempt else ""))
                    if short:
                        break
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
        raise ValueError(f"{why}, {self.project['attempts']} times{self._resumable}")

    @property
    def _resumable(self) -> str:
        if self.kind != "train":
            return ""
        return f"; the rounds done are kept, continue with `drfl sites run --resume {self.run}`"

    def abort(self) -> None:
        """End what may be running."""
        with connect(self.layout) as session:
            self._abandon(session)

    def _abandon(self, session: FlareSession) -> None:
        """A server that was restarted calls its old jobs running; nobody should believe it."""
        if self._job is not None:
            session.abort(self._job)
            self._job = None

    def _short_of(self, session: FlareSession, attempt: int) -> str:
        """Which sites are missing for a quorum; nothing if there are enough."""
        sites, quorum = self.project.sites, self.project["quorum"]

        def absent() -> list[str]:
            here = session.connected()
            return [name for name in sites if name not in here]

        if attempt:
            # Sites come back by themselves after a restart of the server.
            wait_until(lambda: not absent(), self.project["rejoin"], 1.0)
        missing = absent()
        if len(sites) - len(missing) >= quorum:
            return ""
        return (
            f"{len(sites) - len(missing)} sites are connected, the quorum is {quorum}: wait for "
            f"{listed(missing)}, or set a smaller quorum"
        )

    def _attempt(self, session: FlareSession, attempt: int) -> tuple[Ended | None, str]:
        """One job, and why there has to be another if it has no end."""
        order = make_order(self.project, self.kind, self.run, attempt, **self.more)
        folder = write_job(self.layout.job, f"{self.kind}-{self.run[:8]}", order)
        self._job = session.submit(folder)
        facts = follow(session, self._job, self.listener)
        folder = session.result(self._job, self.results)
        self._job = None
        found = folder / "workspace" / "RUN"
        try:
            outcome = json.loads((found / "outcome.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None, f"the job ended without an outcome, {_reason(facts)}"
        return Ended(outcome, found), ""

    def _worth_another(self, session: FlareSession, outcome: dict[str, Any]) -> str:
        """Why another attempt could do better; nothing if it could not."""
        if not outcome.get("resubmit"):
            return ""
        missing: Sequence[str] = list(outcome.get("missing", {}))

        def back() -> bool:
            return set(missing) <= set(session.connected())

        if not back():
            self.listener.warn(
                f"waiting {self.project['rejoin']:g} s for {listed(missing)} to come back"
            )
        if not wait_until(back, self.project["rejoin"], 1.0):
            return ""
        return f"{listed(missing)} came back" if missing else "the job could not be ended"

    def _await_server(self, why: str) -> None:
        self.listener.warn(f"{why}: waiting {self.project['rejoin']:g} s for it")

        def back() -> bool:
            try:
                with connect(self.layout):
                    return True
            except UnreachableError:
                return False

        if not wait_until(back, self.project["rejoin"], 1.0):
            raise ValueError(f"the server did not come back: start it again{self._resumable}")

    def clean(self) -> None:
        """Remove what was fetched."""
        shutil.rmtree(self.results, ignore_errors=True)


def _reason(facts: dict[str, Any]) -> str:
    """The server's own words on how a job ended, and which participants refused it."""
    refused = [
        str(detail)
        for detail in facts.get("job_deploy_detail", [])
        if not str(detail).endswith("OK")
    ]
    return "; ".join([str(facts.get("status", "unknown")), *refused])


PAUSE = 0.25  # seconds between two questions about the progress

ENDING, SILENT = 30.0, 90.0
"""Seconds for the server to end a job whose work is done, and to say anything of one that runs."""


def follow(session: FlareSession, job: str, listener: Listener) -> dict[str, Any]:
    """Tell what happens until the job has ended; the server's facts about it."""
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
            done = reply["phase"] in ENDS
            for event in reply["events"]:
                tell(listener, event)
        if time.monotonic() > heard + (ENDING if done else SILENT):
            session.abort(job)
            heard = time.monotonic()
        # The server notes every question that nobody is there yet to answer.
        time.sleep(PAUSE if since else 4 * PAUSE)
