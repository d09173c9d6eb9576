"""Which messages a process of FLARE lets in: what a job of drfl needs, from who may send it.

In FLARE a message goes to whoever has registered for its channel and topic, the sender says
whether a request needs a right, and a server passes on what one site sends to another. Here the
receiver decides, by the envelope alone and before anything in it is unpacked: who sent it, over
which connection, to whom, and what about. Everything else is dropped and written down.

A *cell* is FLARE's end of a connection. That of a site is called like the site, that of its
process for a job ``SITE.JOB``; at the server they are ``server`` and ``server.JOB``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SERVER = "server"
_JOB = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

GOODBYE = "cellnet.channel:bye"
REPLY = "reply"  # what is said in answer to a question of this cell; FLARE itself matches the two
RECEIPT = "receipt"  # that a piece of a stream has come, or has not

TO_SITE = frozenset({"admin:admin", GOODBYE, REPLY})
"""What a server may send to a site; `request_refused` looks at what is in ``admin:admin``."""

FROM_OWN_JOB = frozenset({"admin:train.notify_job_status", GOODBYE, REPLY})
"""What the process for a job may send to its site."""

TO_JOB = frozenset(
    {
        "collab:call",
        "aux_communication:__end_run__",
        "return_only:aux_communication:__sync_runner__",
        "return_only:aux_communication:__task_check__",
        "return_only:server_command:get_task",
        "return_only:server_command:submit_update",
        RECEIPT,
        REPLY,
    }
)
"""What the server's process for a job may send to a site's."""

TO_OWN_JOB = frozenset({"client_command:abort", GOODBYE, REPLY})
"""What a site may send to its process for a job."""

FROM_SITE = frozenset(
    {
        "task:challenge",
        "task:register",
        "task:heart_beat",
        "task:quit",
        "task:report_job_failure",
        GOODBYE,
        REPLY,
    }
)
"""What a site may send to the server."""

FROM_JOB = frozenset(
    {
        "aux_communication:__job_heartbeat__",
        "aux_communication:__sync_runner__",
        "aux_communication:__task_check__",
        "server_command:get_task",
        "server_command:submit_update",
        "return_only:aux_communication:__end_run__",
        "return_only:collab:call",
        RECEIPT,
        REPLY,
    }
)
"""What a site's process for a job may send to the server's."""

ABOUT_A_JOB = frozenset(
    {"train.deploy", "train.start_job", "train.abort", "scheduler.check_resource"}
)
"""Requests of the server to a site that name a job."""

REQUESTS = ABOUT_A_JOB | {"train.shutdown", "train.check_status", "scheduler.cancel_resource"}
"""All that a server may ask of a site."""


@dataclass(frozen=True)
class Envelope:
    """What is written on a message, and where it came in."""

    # names of cells: this one, the neighbour who handed it over, who claims to have sent it,
    # and who is to get it
    me: str
    via: str
    origin: str
    destination: str
    # channel and topic, those inside where it is a piece of a stream; or `REPLY`, `RECEIPT`
    what: str
    # whether this end has called the neighbour, and whether both have shown certificates
    called: bool
    secure: bool

    @property
    def forwarded(self) -> bool:
        """Whether somebody else is to get it."""
        return self.destination != self.me


Rule = Callable[[Envelope], bool]


def at_site(seen: Envelope) -> bool:
    """Whether the process of a site lets a message in, or through to its process for a job."""
    if seen.called:
        from_server = seen.via == SERVER and seen.secure
        if seen.forwarded:
            job = _job(seen.destination, seen.me)
            return from_server and bool(job) and _between_jobs(seen, f"{SERVER}.{job}")
        return from_server and seen.origin == SERVER and seen.what in TO_SITE
    # Nobody but its own processes calls a site, on the loopback interface.
    job = _job(seen.via, seen.me)
    if not job or seen.origin != seen.via:
        return False
    if seen.forwarded:
        return seen.destination in (SERVER, f"{SERVER}.{job}")
    return seen.what in FROM_OWN_JOB


def at_job(seen: Envelope) -> bool:
    """Whether the process of a site for a job lets a message in."""
    site, _, job = seen.me.partition(".")
    if seen.forwarded or not seen.called or seen.via not in (SERVER, site):
        return False
    if seen.via == SERVER and not seen.secure:
        return False
    if seen.origin == site:
        return seen.via == site and seen.what in TO_OWN_JOB
    if seen.origin == SERVER:
        return seen.what in (GOODBYE, REPLY)
    return _between_jobs(seen, f"{SERVER}.{job}")


def at_server(seen: Envelope) -> bool:
    """Whether the server lets a message in, or through; between sites it is a wall."""
    from nvflare.fuel.utils.admin_name_utils import is_valid_admin_client_name

    if _job(seen.via, SERVER):
        return seen.origin == seen.via and not seen.secure
    if not seen.secure:
        return False
    if is_valid_admin_client_name(seen.via):
        return seen.origin == seen.via and not seen.forwarded
    site, _, job = seen.origin.partition(".")
    if seen.via not in (site, seen.origin) or site == SERVER:
        return False
    if not job and seen.forwarded:
        # That its process for a job is not there, so that nobody waits for it.
        return seen.what == RECEIPT and bool(_job(seen.destination, SERVER))
    if not job:
        return seen.what in FROM_SITE
    if not seen.forwarded:
        return seen.what in (GOODBYE, REPLY)
    return seen.destination == f"{SERVER}.{job}" and seen.what in FROM_JOB


def _between_jobs(seen: Envelope, other: str) -> bool:
    return seen.origin == other and seen.what in TO_JOB


def _job(cell: str, parent: str) -> str:
    """The job whose process this is; nothing if it is none of the parent's."""
    before, _, job = cell.rpartition(".")
    return job if before == parent and _JOB.fullmatch(job) else ""


def request_refused(topic: Any, job: Any, origin: str) -> bool:
    """Whether a site refuses a request of the server's, or the news of its process for a job.

    FLARE makes paths and a command line of the job. That the origin is true the doors have seen to.
    """
    named = isinstance(job, str) and _JOB.fullmatch(job) is not None
    if origin != SERVER:
        return topic != "train.notify_job_status" or not named or not origin.endswith(f".{job}")
    if not isinstance(topic, str) or topic not in REQUESTS:
        return True
    return not named and (topic in ABOUT_A_JOB or job is not None)


# ---------------------------------------------------------------------- in FLARE's classes
def keep_doors(rule: Rule, refuse: Callable[[str, str], None]) -> None:
    """Let the cells of this process judge every message by `at_site`, `at_job` or `at_server`.

    ``refuse`` is told who sent what was dropped, and what it was.
    """
    from nvflare.fuel.f3.cellnet.core_cell import CoreCell

    usual = CoreCell._process_received_msg

    def process(self: Any, endpoint: Any, connection: Any, message: Any) -> Any:
        seen = read_envelope(self.my_info.fqcn, endpoint, connection, message)
        if seen is None:
            return refuse(str(endpoint.name), "a message without an envelope")
        if not rule(seen):
            return refuse(seen.origin, seen.what)
        return usual(self, endpoint, connection, message)

    CoreCell._process_received_msg = process


def keep_requests(refuse: Callable[[str, str], None]) -> None:
    """Let a site decide itself what it is asked to do, whatever the sender says about rights."""
    from nvflare.private.admin_defs import Message, error_reply
    from nvflare.private.defs import new_cell_message
    from nvflare.private.fed.client.admin import FedAdminAgent

    usual = FedAdminAgent._dispatch_request

    def dispatch(self: Any, request: Any) -> Any:
        asked, origin = request.payload, str(request.get_header("cn__origin"))
        known = type(asked) is Message
        topic, job = (asked.topic, asked.get_header("job_id")) if known else ("", "")
        if request_refused(topic, job, origin):
            refuse(origin, str(topic))
            return new_cell_message({}, error_reply("not authorized: this site refuses it"))
        return usual(self, request)

    FedAdminAgent._dispatch_request = dispatch


def read_envelope(me: str, endpoint: Any, connection: Any, message: Any) -> Envelope | None:
    """What is written on a message of FLARE's; None if it cannot be read."""
    from nvflare.fuel.f3.cellnet.identity import is_mtls_connection
    from nvflare.fuel.f3.drivers.connector_info import Mode

    via, what = endpoint.name, _what(message.get_header)
    origin, destination = (message.get_header(f"cn__{key}") for key in ("origin", "destination"))
    names = via, origin, destination
    if connection is None or what is None or not all(type(name) is str for name in names):
        return None
    if message.get_header("cn__conn_url") is not None:
        return None  # FLARE would call whatever address it names, without certificates
    connector = connection.connector
    called, secure = connector.mode == Mode.ACTIVE, is_mtls_connection(connector.params)
    return Envelope(me, via, origin, destination, what, called, secure)


def _what(header: Callable[[str], Any]) -> str | None:
    kind, channel, topic = (header(f"cn__{key}") for key in ("msg_type", "channel", "topic"))
    if kind in ("reply", "return"):
        return REPLY
    if channel == "sm__STREAM":
        if topic != "sm__DATA":
            return RECEIPT
        channel, topic = header("sm__ch"), header("sm__tp")
    if kind != "req" or type(channel) is not str or type(topic) is not str:
        return None
    return f"{channel}:{topic}"
