"""The coordinator's connection to the server: submit, ask, fetch, stop."""

from __future__ import annotations

import io
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from drfl.sites.flare.handshake import UnreachableError, check_own, shake_hands
from drfl.sites.flare.startup_files import COORDINATOR
from drfl.sites.order import PROGRESS
from drfl.sites.setup.provision import ProjectFolder

QUESTIONS = ("get_system_info", "get_job_meta", "do_app_command")
TRIES, PAUSE = 3, 2.0
"""A server that starts a job of many sites may be too busy to answer at once; what only asks is
repeated, so many times and after so many seconds."""


class LostError(UnreachableError):
    """The server does not answer any more."""


class FlareSession:
    """A connection that is open, around FLARE's own session; use `connect`."""

    def __init__(self, flare: Any) -> None:
        self._flare = flare

    def connected(self) -> list[str]:
        """The sites that are registered now."""
        return sorted(client.name for client in self._ask("get_system_info").client_info)

    def born(self) -> float:
        """When the server was started: a server that was restarted has forgotten its jobs."""
        return float(self._ask("get_system_info").server_info.start_time)

    def submit(self, folder: Path) -> str:
        """Send a job; its identifier is returned."""
        return str(self._ask("submit_job", str(folder.resolve())))

    def status(self, job: str) -> dict[str, Any]:
        """FLARE's facts about a job."""
        return dict(self._ask("get_job_meta", job))

    def progress(self, job: str, since: int) -> dict[str, Any] | None:
        """What has happened in a job since; None if it does not run, or not yet."""
        try:
            reply = self._ask("do_app_command", job, PROGRESS, {"since": since})
        except RuntimeError:
            return None
        return reply if isinstance(reply, dict) and "events" in reply else None

    def result(self, job: str, folder: Path) -> Path:
        """Fetch what a job has written."""
        folder.mkdir(parents=True, exist_ok=True)
        return Path(self._ask("download_job_result", job, str(folder.resolve())))

    def abort(self, job: str) -> None:
        """End a job that may still run."""
        try:
            self._ask("abort_job", job)
        except RuntimeError:
            return

    def shut_down(self) -> None:
        """End server and sites."""
        # Waiting for it would take FLARE half a minute.
        self._ask("shutdown", "all", None, False)

    def _ask(self, what: str, *arguments: Any) -> Any:
        """Call FLARE; a server that is gone raises `LostError`, all else RuntimeError."""
        from nvflare.fuel.flare_api import api_spec

        gone = (api_spec.NoConnection, api_spec.SessionClosed, api_spec.SessionExpired)
        for left in reversed(range(TRIES if what in QUESTIONS else 1)):
            try:
                with redirect_stdout(io.StringIO()):
                    return getattr(self._flare, what)(*arguments)
            except gone as error:
                if not left:
                    raise LostError(f"the server does not answer: {error}") from None
                time.sleep(PAUSE)
            except Exception as error:
                raise RuntimeError(str(error)) from error


@contextmanager
def connect(layout: ProjectFolder, timeout: float = 10.0) -> Iterator[FlareSession]:
    """Connect to the server of a project; `EntryError` says why it does not work."""
    startup, project = layout.coordinator / "startup", layout.project
    check_own(startup)
    shake_hands(startup, project["host"], project["port"], timeout)
    _quiet()
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    try:
        with redirect_stdout(io.StringIO()):
            flare = new_secure_session(
                COORDINATOR, str(layout.coordinator.resolve()), timeout=timeout
            )
    except Exception as error:
        raise LostError(f"the server does not let the coordinator in: {error}") from error
    try:
        yield FlareSession(flare)
    finally:
        # Threads of an open session would keep this process alive.
        with redirect_stdout(io.StringIO()):
            flare.close()


def _quiet() -> None:
    """FLARE speaks to whoever listens; what matters is said by drfl."""
    logging.getLogger().addHandler(logging.NullHandler())
    os.environ.setdefault("NVFLARE_SECURE_LOGGING", "true")
