"""Clients at sites, reached over a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

from drfl.client import Handler, Party, RemoteClient
from drfl.engines import Answers, Engine, require_known
from drfl.problem import Problem
from drfl.protocols.federation import bind_message
from drfl.sites.carrier import Carrier, Outcome, Question
from drfl.wire import Failure, Message, WireError, decode, encode

ABSENT, SILENT = "absent", "silent"
"""Why a site is not asked: it was not there when the job began; it gave no sign of life."""

UNASKED = Outcome(None, dead=False, seconds=0.0)


class QuorumError(RuntimeError):
    """Fewer sites than the quorum are left, in one sentence that names the missing ones."""


class SitesEngine(Engine):
    """Carries messages to sites; one that gives no sign of life is not asked again.

    Before it is started, and after it was closed, messages go to the sites by their own names. Of
    the wanted ``sites``, in order, ``present`` are there, by default all; with fewer than the
    quorum, by default all, it stops at once: `QuorumError`. An answer has ``deadline`` seconds
    where the caller gives none. ``missing`` says who is not asked, and why: "absent" or "silent";
    ``lose`` is told of each.
    """

    name: ClassVar[str] = "sites"

    def __init__(
        self,
        carrier: Carrier,
        sites: Sequence[str],
        present: Iterable[str] | None = None,
        *,
        quorum: int | None = None,
        deadline: float = 300.0,
        lose: Callable[[str, str], object] | None = None,
    ) -> None:
        self.carrier, self.sites, self.deadline = carrier, tuple(sites), deadline
        self.quorum = len(self.sites) if quorum is None else quorum
        self.missing: dict[str, str] = {}
        self._lose = lose
        self.close()
        there = set(sites if present is None else present)
        for site in sites:
            if site not in there:
                self._miss(site, ABSENT)
        self._require_quorum()

    def start(
        self, clients: Sequence[Party], problem: Problem, handlers: Mapping[str, Handler]
    ) -> None:
        # The handlers are those of the drfl that is installed at the site, found by kind.
        remote = [client for client in clients if isinstance(client, RemoteClient)]
        if len(remote) < len(clients):
            raise TypeError("sites keep their own rows: give RemoteClients, no Client")
        self._seats = {client.name: (client.site, client.seat) for client in remote}
        answers = self.map({client.name: bind_message(client, problem) for client in remote}, None)
        for name, failure in answers.failures.items():
            if self._seats[name][0] not in self.missing:
                why = Failure(failure).sentence
                raise ValueError(f"client {name!r} cannot take part: {why}")

    def map(self, messages: Mapping[str, Message], deadline: float | None) -> Answers:
        require_known(messages, list(self._seats))
        deadline = self.deadline if deadline is None else deadline
        outcomes: dict[str, Outcome] = {}
        waiting = [name for name in self._seats if name in messages]
        while waiting:  # one seat of every site at a time: a site computes one answer at a time
            turn: dict[str, str] = {}
            for name in waiting:
                turn.setdefault(self._seats[name][0], name)
            outcomes |= self._carry({name: messages[name] for name in turn.values()}, deadline)
            waiting = [name for name in waiting if name not in outcomes]
        return self._answers(messages, outcomes)

    def _carry(self, messages: Mapping[str, Message], deadline: float) -> dict[str, Outcome]:
        """One message at most to every site."""
        asked = {self._seats[name][0]: name for name in messages}
        questions = {
            site: Question(self._seats[name][1], encode(messages[name]))
            for site, name in asked.items()
            if site not in self.missing
        }
        carried = self.carrier.carry(questions, deadline)
        for site, outcome in carried.items():
            if outcome.dead:
                self._miss(site, SILENT)
        self._require_quorum()
        return {name: carried.get(site, UNASKED) for site, name in asked.items()}

    def _answers(self, messages: Mapping[str, Message], outcomes: Mapping[str, Outcome]) -> Answers:
        """In the order of the clients."""
        answers = Answers({}, {}, {})
        for name in self._seats:
            if name not in outcomes:
                continue
            answers.add(name, _read(outcomes[name], messages[name].round))
            if name in answers.replies:
                answers.seconds[name] = outcomes[name].seconds
        return answers

    def _miss(self, site: str, why: str) -> None:
        self.missing[site] = why
        if self._lose is not None:
            self._lose(site, why)

    def _require_quorum(self) -> None:
        left = len(self.sites) - len(self.missing)
        if left < self.quorum:
            gone = ", ".join(f"{site} ({why})" for site, why in self.missing.items())
            raise QuorumError(
                f"{left} of {len(self.sites)} sites are left, fewer than the quorum of "
                f"{self.quorum}: {gone}; the rounds done are kept"
            )

    def close(self) -> None:
        """Forget the clients; the sites stay."""
        self._seats = {site: (site, 0) for site in self.sites}


def _read(outcome: Outcome, round: int) -> Message:
    if outcome.answer is None:
        return Failure.DEADLINE.message(round)
    try:
        return decode(outcome.answer)
    except WireError:
        return Failure.BAD_REPLY.message(round)
