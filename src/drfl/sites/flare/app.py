"""The two classes that a job names, by FLARE's Collab API.

`ServerApp` runs in the server's job process and has the main function, `SiteApp` lives in the job
process of every site. Between them travel whole numbers, seconds and `bytes`; what is in the bytes
is checked by `drfl.wire` before anything else looks at it.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from nvflare.collab import CollabCallError, collab

from drfl.sites.carrier import CallError, PollingCarrier, Question
from drfl.sites.gate import Gate, open_gate
from drfl.wire import Failure, encode

SERVER = "server"
"""How FLARE calls the server among those who may call a site; sites may call each other, too."""

SETTINGS = "DRFL_SITE_SETTINGS"  # the environment variable with the path of a site's own settings


class SiteApp:
    """The object at a site: it takes nothing from the job but the job's identity."""

    def __init__(self) -> None:
        self._gate: Gate | None = None
        try:
            # The child starts while FLARE gathers the sites.
            self._gate = open_gate(Path(os.environ.get(SETTINGS, "none")))
        except ValueError as error:
            # Raised, it would end the job for everyone: this site alone refuses to take part.
            print(f"drfl: {error}", file=sys.stderr)

    @collab.init  # type: ignore[untyped-decorator]
    def open(self) -> None:
        """The job is known."""
        if self._gate is not None:
            self._gate.ledger.job = str(collab.fl_ctx.get_job_id())

    @collab.publish  # type: ignore[untyped-decorator]
    def answer(self, number: int, seat: int, message: bytes, seconds: float) -> bytes:
        """See `Gate.answer`."""
        proper = (
            collab.caller == SERVER
            and type(number) is int
            and type(seat) is int
            and seat >= 0
            and type(message) is bytes
            and type(seconds) is float
            and math.isfinite(seconds)
        )
        if not proper:
            return encode(Failure.BAD_REQUEST.message(0))
        if self._gate is None:
            return encode(Failure.REFUSED.message(0))
        return self._gate.answer(number, Question(seat, message), seconds)

    @collab.final  # type: ignore[untyped-decorator]
    def close(self) -> None:
        """End the child."""
        if self._gate is not None:
            self._gate.close()


class ServerApp:
    """The object at the server; the order is JSON that says what is to be done."""

    def __init__(self, order: str) -> None:
        # Here, where there is time, and not above: sites have no use for it.
        from drfl.sites.driver import drive

        self.order, self.drive = order, drive

    @collab.main  # type: ignore[untyped-decorator]
    def run(self) -> None:
        """Do it."""
        context = collab.fl_ctx
        results = Path(collab.workspace.get_result_root(context.get_job_id()))
        self.drive(
            self.order,
            present=[client.name for client in collab.clients],
            carrier=partial(FlareCarrier, {client.name: client for client in collab.clients}),
            results=results,
            publish=lambda name, answer: _publish(context, name, answer),
        )


class FlareCarrier(PollingCarrier):
    """Calls of FLARE's, of the method `SiteApp.answer`, to its clients of the job by name."""

    def __init__(self, sites: Mapping[str, Any], silence: float, patience: float) -> None:
        super().__init__(silence, patience)
        self.sites = sites

    def call(
        self, site: str, number: int, question: Question, seconds: float, timeout: float
    ) -> bytes:
        proxy = self.sites[site](timeout=timeout)
        try:
            found = proxy.answer(number, question.seat, question.message, seconds)
        except CollabCallError as error:
            raise CallError(error.cause_type) from None
        if type(found) is not bytes:
            raise CallError("no bytes")
        return found


def _publish(context: Any, name: str, answer: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Let the watcher of a job ask for something by an application command."""

    def reply(topic: str, data: Any, fl_ctx: Any) -> dict[str, Any]:
        return answer(data if isinstance(data, dict) else {})

    context.get_engine().register_app_command(name, reply)
