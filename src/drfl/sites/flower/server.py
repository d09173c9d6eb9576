"""The server's half of the Flower app: the training of `drfl.sites.driver`, carried by Flower."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Condition, Lock, Thread
from time import monotonic, sleep
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid, ServerApp

from drfl._registry import listed
from drfl.run import Record
from drfl.sites.carrier import CallError, PollingCarrier, Question
from drfl.sites.driver import FAILED, STATE, drive
from drfl.sites.flower.app import read_app_project
from drfl.sites.flower.asked import LOST, AddressedQuestion, who_is_there
from drfl.sites.flower.client import CLOSED, bytes_of, records
from drfl.sites.order import KINDS, make_order
from drfl.sites.os_processes import wait_until
from drfl.sites.progress import ENDS, tell
from drfl.sites.setup.project import NAME, Project
from drfl.training.progress import Listener

LOOK = 0.2  # seconds between two looks for replies, all of them at once

REPEAT = 20.0
"""Seconds after which a question is sent again: a SuperNode that was killed has taken it along."""

INTRODUCTION = 30.0
"""Seconds to wait, once all sites are there, for SuperNodes that have not said yet who they are."""

PAUSE = 5.0
"""Seconds until a SuperNode that has not said who it is, is asked again: each time is a process."""

app = ServerApp()


@app.main()  # type: ignore[untyped-decorator]
def main(grid: Grid, context: Any) -> None:
    """Carry out what the app's own table says; a sentence is raised if it fails."""
    error: list[BaseException] = []

    def work() -> None:
        try:
            Job(grid, context.run_id, context.run_config).done()
        except BaseException as found:
            error.append(found)

    # Without its SuperLink Flower tries every call again for ever, and ends this process by a
    # signal that only the main thread can act upon: so that one makes no calls, and looks.
    worker = Thread(target=work, daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(LOOK)
    if error:
        raise error[0]


class Job:
    """One run of the app, in as many attempts as it needs.

    ``number`` is Flower's of the run, ``config`` the table ``[tool.flwr.app.config]`` of the app.
    """

    def __init__(self, grid: Grid, number: int, config: Mapping[str, Any]) -> None:
        self.kind, resumed = str(config["kind"]), str(config["resume"])
        if self.kind not in KINDS[:2]:
            raise ValueError(f"kind must be one of {listed(KINDS[:2])}, got {self.kind!r}")
        if resumed and not resumed.isdecimal():
            raise ValueError(f"resume must be the number of a run, got {resumed!r}")
        folder = Path(str(config["folder"])).resolve()
        self.results, self.number = folder / str(number), number
        self.run = f"{int(resumed or number):032x}"
        self.project = read_app_project(str(config["project"]), self.results / "project.toml")
        os.environ[STATE] = str(folder / "checkpoints")
        self.listener, self.post = FlowerLog(), Post(grid)
        self.roll = Roll(grid, self.post, self.project, self.listener)

    def done(self) -> None:
        """Do it, again from the checkpoint if a site that fell silent is back."""
        self.listener.say(f"run {self.number}: what comes of it is written to {self.results}")
        for attempt in range(self.project["attempts"]):
            outcome = self._attempt(attempt, self._assembled())
            if not outcome["resubmit"] or not self._back(list(outcome["missing"])):
                break
            if attempt + 1 < self.project["attempts"]:
                self.listener.warn(f"attempt {attempt + 2}, from the checkpoint")
        self._tell(outcome)

    def _assembled(self) -> list[str]:
        """The sites that are there, after a while: all of them, or enough."""
        if wait_until(lambda: not self.roll.missing(), self.project["rejoin"], 1.0):
            wait_until(lambda: not self.roll.unknown, INTRODUCTION)
        missing = self.roll.missing()
        here, quorum = len(self.project.sites) - len(missing), self.project["quorum"]
        if here < quorum:
            raise RuntimeError(
                f"{here} sites are connected, the quorum is {quorum}: {listed(missing)} did not "
                f"come; {self._resumable}"
            )
        return [site for site in self.project.sites if site not in missing]

    def _attempt(self, attempt: int, present: list[str]) -> dict[str, Any]:
        shutil.rmtree(self.results / "RUN", ignore_errors=True)

        def carrier(silence: float, patience: float) -> FlowerCarrier:
            return FlowerCarrier(self.post, self.roll, attempt, silence, patience)

        drive(
            make_order(self.project, self.kind, self.run, attempt),
            present=present,
            carrier=carrier,
            results=self.results,
            publish=lambda name, since: Thread(
                target=_follow, args=(since, self.listener), daemon=True
            ).start(),
        )
        text = (self.results / "RUN" / "outcome.json").read_text(encoding="utf-8")
        outcome: dict[str, Any] = json.loads(text)
        return outcome

    def _back(self, missing: list[str]) -> bool:
        """Whether another attempt could do better."""
        for site in missing:
            self.roll.forget(site)
        self.listener.warn(
            f"waiting {self.project['rejoin']:g} s for {listed(missing)} to come back"
        )
        return wait_until(
            lambda: not set(missing) & set(self.roll.missing()), self.project["rejoin"], 1.0
        )

    def _tell(self, outcome: dict[str, Any]) -> None:
        self.listener.say(*outcome.get("agreement", []))
        for site, found in outcome.get("sites", {}).items():
            self.listener.say(f"{site}: {found['sentence'] or 'ready'}")
        if outcome["exit"] == FAILED:
            raise RuntimeError(f"{outcome.get('sentence') or 'it failed'}; {self._resumable}")
        self.listener.say(
            f"{outcome['status']}: {outcome['sentence']}"
            if outcome["sentence"]
            else outcome["status"],
            f"written: {self.results / 'RUN'}",
        )

    @property
    def _resumable(self) -> str:
        number = int(self.run, 16)
        return f"continue with `flwr run . --run-config 'resume=\"{number}\"'`"


def _follow(since: Callable[[dict[str, Any]], dict[str, Any]], listener: Listener) -> None:
    """Say what the driver tells, until it has told all."""
    first, phase = 0, ""
    while phase not in ENDS:
        told = since({"since": first})
        first, phase = told["next"], told["phase"]
        for event in told["events"]:
            tell(listener, event)
        sleep(LOOK)


class FlowerLog:
    """Says what happens in Flower's log of the run; a `drfl.training.progress.Listener`."""

    live = True

    def say(self, *lines: str) -> None:
        for line in lines:
            print(f"drfl: {line}", flush=True)

    def warn(self, sentence: str) -> None:
        self.say(f"warning: {sentence}")

    def record(self, record: dict[str, Any]) -> None:
        pass  # it is in the run folder

    def progress(self, record: Record, prefix: str = "") -> None:
        self.say(f"{prefix}round {record.round}  gap {record.gap:.1e}  {record.failures or ''}")

    def clear(self) -> None:
        pass


class Post:
    """Sends bytes to SuperNodes from any thread, and looks for all replies at once."""

    def __init__(self, grid: Grid) -> None:
        self.grid, self._there = grid, Condition()
        self._way = Lock()  # of questions; a look has none: a call of Flower's may last for ever
        self._replies: dict[str, Message | None] = {}
        Thread(target=self._look, daemon=True).start()

    def send(self, node: int, data: bytes, timeout: float) -> bytes:
        """What a SuperNode replies; `CallError` if it does not in time, or not properly."""
        # What nobody waits for any more is not handed to a SuperNode that comes back.
        message = Message(records(data), node, "query", ttl=timeout)
        until = monotonic() + timeout
        if not self._way.acquire(timeout=timeout):
            raise CallError("no way to the SuperLink")
        try:
            (identifier,) = self.grid.push_messages([message])
        except Exception as error:
            raise CallError(type(error).__name__) from None
        finally:
            self._way.release()
        reply = self._wait(identifier, until) if identifier else None
        found = None if reply is None else bytes_of(reply)
        if found is None:
            raise CallError("no reply")
        return found

    def _wait(self, identifier: str, until: float) -> Message | None:
        with self._there:
            self._replies[identifier] = None
            while self._replies[identifier] is None and (left := until - monotonic()) > 0.0:
                self._there.wait(left)
            return self._replies.pop(identifier)

    def _look(self) -> None:
        while True:
            sleep(LOOK)
            with self._there:
                waiting = [name for name, reply in self._replies.items() if reply is None]
            try:
                found = list(self.grid.pull_messages(waiting)) if waiting else []
            except Exception:
                continue  # who waits is told when the time is over
            with self._there:
                for reply in found:
                    if reply.metadata.reply_to_message_id in self._replies:
                        self._replies[reply.metadata.reply_to_message_id] = reply
                if found:
                    self._there.notify_all()


class Roll:
    """Which SuperNode is which site.

    With node authentication on, the coordinator gave every SuperNode a name when registering its
    key, and only that name counts; without it, each says who it is, and two that say the same are
    refused. ``unknown`` are the SuperNodes that have not said yet who they are.
    """

    def __init__(self, grid: Grid, post: Post, project: Project, listener: Listener) -> None:
        self.grid, self.post, self.project, self.listener = grid, post, project, listener
        self.unknown = set[int]()
        self._lock, self._names, self._said = Lock(), dict[int, str](), set[str]()

    def node(self, site: str) -> int:
        """The SuperNode of a site; `CallError` if there is none."""
        with self._lock:
            found = [node for node, name in self._names.items() if name == site]
        if len(found) != 1:
            raise CallError(f"{len(found)} SuperNodes")
        return found[0]

    def forget(self, site: str) -> None:
        """Ask again who is there."""
        with self._lock:
            self._names = {node: name for node, name in self._names.items() if name != site}

    def missing(self) -> list[str]:
        """The sites that are not there; who is new is asked."""
        self.refresh()
        with self._lock:
            names = list(self._names.values())
        doubled = [site for site in self.project.sites if names.count(site) > 1]
        if doubled:
            raise RuntimeError(
                f"two SuperNodes say that they are site {doubled[0]!r}: end one of them, and turn "
                "node authentication on"
            )
        return [site for site in self.project.sites if site not in names]

    def refresh(self) -> None:
        """Ask those who are new; what they say is known later."""
        try:
            here = {node.node_id: node.name for node in self.grid.get_nodes()}
        except Exception:
            return
        with self._lock:
            self._names = {node: name for node, name in self._names.items() if node in here}
            new = here.keys() - self._names.keys() - self.unknown
            self.unknown |= new
        for node in new:
            Thread(target=self._ask, args=(node, here[node]), daemon=True).start()

    def _ask(self, node: int, registered: str) -> None:
        try:
            told = self.post.send(node, who_is_there(), self.project["silence"])
            name = self._name(node, registered, told)
        except CallError:
            name = None
        if name is None:
            sleep(PAUSE)
        with self._lock:
            self.unknown.discard(node)
            if name is not None:
                self._names[node] = name

    def _name(self, node: int, registered: str, told: bytes) -> str | None:
        """The site that it is; empty: none; None: it has to be asked again."""
        name = told.decode("ascii", "replace")
        if told == CLOSED:
            whose = f" of {registered!r}" if registered else ""
            self._warn(f"SuperNode {node}{whose} finds no door: run `drfl flower site` there")
            return None
        if not NAME.fullmatch(name) or name not in self.project.sites:
            self._warn(f"SuperNode {node} is no site of this project: it is not asked")
            return ""
        if registered not in ("", name):
            self._warn(
                f"SuperNode {node} is registered as {registered!r} and says that it is {name!r}: "
                "it is not asked"
            )
            return ""
        return name

    def _warn(self, sentence: str) -> None:
        """Once."""
        with self._lock:
            if sentence in self._said:
                return
            self._said.add(sentence)
        self.listener.warn(sentence)


class FlowerCarrier(PollingCarrier):
    """Messages of Flower's, each answered by one process of the client's half."""

    def __init__(
        self, post: Post, roll: Roll, attempt: int, silence: float, patience: float
    ) -> None:
        super().__init__(silence, patience)
        self.post, self.roll, self.attempt = post, roll, attempt
        self._sent: dict[str, int] = {}  # the last question to every site

    def call(
        self, site: str, number: int, question: Question, seconds: float, timeout: float
    ) -> bytes:
        asked = AddressedQuestion(self.attempt, number, question, seconds, site)
        try:
            node = self.roll.node(site)
            # The second time it is the machine that is slow: it gets all the time there is.
            timeout = timeout if self._sent.get(site) == number else min(timeout, REPEAT)
            self._sent[site] = number
            found = self.post.send(node, asked.to_bytes(), timeout)
        except CallError:
            # Without node authentication a SuperNode that comes back has another number.
            self.roll.forget(site)
            self.roll.refresh()
            raise
        if found in (CLOSED, LOST):
            raise CallError("nobody is there who knows of the job")
        return found
