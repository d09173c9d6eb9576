"""The carrier over Flower keeps every carrier's promises, and its doors keep theirs.

The two halves of the app are Flower's own objects; between them is a grid that starts a thread
where Flower starts a process. Real SuperNodes: the faults.
"""

import importlib.util
import json
import socket
import subprocess
import sys
import time
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

import psutil
import pytest
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from drfl.sites.carrier import WORKING, CallError, Question
from drfl.sites.flower import asked
from drfl.sites.flower.asked import LOST, AddressedQuestion, read_asked, who_is_there
from drfl.sites.flower.client import CLOSED, RUN, app, ask, bytes_of, records
from drfl.sites.flower.door import Door, Doorway
from drfl.sites.flower.server import FlowerCarrier, FlowerLog, Post, Roll
from drfl.sites.gate import HELLO
from drfl.sites.site_log import Refusals
from drfl.wire import Failure, decode, encode
from drfl.wire import Message as Wire

# What Flower sets in the processes of an app: a message is of a run.
TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 7, 1

SILENCE = 20.0  # a door holds a question for ten seconds
PLACE = Path(__file__).parents[1] / "sites" / "test_carrier_contract.py"
spec = importlib.util.spec_from_file_location("carrier_contract", PLACE)
contract = importlib.util.module_from_spec(spec)
spec.loader.exec_module(contract)
vars().update({name: test for name, test in vars(contract).items() if name.startswith("test_")})


class LocalGrid(Grid):
    """SuperNodes by number, each with the entry of its door; a call runs the client's half."""

    def __init__(self, doors):
        self.doors, self.names, self.off, self.replies = doors, {}, set(), {}

    def get_nodes(self):
        return [SimpleNamespace(node_id=node, name=self.names.get(node, "")) for node in self.doors]

    def push_messages(self, messages):
        (message,) = messages
        name = f"message-{time.monotonic_ns()}"
        message.metadata.__dict__["_message_id"] = name
        Thread(target=self._work, args=(name, message), daemon=True).start()
        return [name]

    def _work(self, name, message):
        node = message.metadata.dst_node_id
        if node not in self.off:
            context = SimpleNamespace(run_id=7, node_config={"drfl": str(self.doors[node])})
            self.replies[name] = app(message, context)

    def pull_messages(self, message_ids):
        return [self.replies.pop(name) for name in message_ids if name in self.replies]

    def get_node_ids(self):
        return list(self.doors)

    def set_run(self, run):
        raise NotImplementedError

    run = property(set_run)
    create_message = send_and_receive = set_run


class Flower:
    """The carrier of `drfl.sites.flower`, with doors in processes of their own."""

    def __init__(self, folder):
        self.folder, self.sites = folder, {}
        for name in contract.prepared(folder):
            command = [sys.executable, "-m", "drfl", "flower", "site", name, "--without-guard"]
            self.sites[name] = subprocess.Popen(
                command, cwd=folder, stdout=subprocess.PIPE, text=True
            )

    def open(self, folder):
        for site in self.sites.values():
            while "Ctrl-C" not in site.stdout.readline():
                assert site.poll() is None
        self.numbers = {name: 100 + k for k, name in enumerate(self.sites)}
        doors = {self.numbers[name]: folder / name / "door.json" for name in self.sites}
        self.grid = LocalGrid(doors)
        self.roll = rolled(self.grid, list(self.sites))
        settled(self.roll)
        assert self.roll.missing() == []
        self.carrier = FlowerCarrier(self.roll.post, self.roll, 0, SILENCE, 600.0)

    def child(self, name):
        family = psutil.Process(self.sites[name].pid).children(recursive=True)
        return next(child for child in family if "spawn_main" in " ".join(child.cmdline()))

    def cut(self, name):
        self.grid.off.add(self.numbers[name])

    def close(self):
        for site in self.sites.values():
            site.terminate()
            site.communicate()


def rolled(grid, sites, listener=None):
    found = Roll(grid, Post(grid), Wanted(sites), listener or FlowerLog())
    found.refresh()
    return settled(found)


def settled(roll):
    """Everybody has said who they are."""
    while roll.unknown:
        time.sleep(0.01)
    return roll


class Wanted(dict):
    """A project, as far as it is looked at."""

    def __init__(self, sites):
        super().__init__(silence=SILENCE)
        self.sites = sites


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flower")
    made = Flower(folder)
    try:
        made.open(folder)
        yield made
    finally:
        made.close()


# ---------------------------------------------------------------------------- who is who
class Heard(FlowerLog):
    def __init__(self):
        self.lines = []

    def say(self, *lines):
        self.lines += lines


class Introduced(LocalGrid):
    """SuperNodes that say these names."""

    def _work(self, name, message):
        said = self.doors[message.metadata.dst_node_id]
        self.replies[name] = Message(records(said), reply_to=message)


def test_two_supernodes_that_say_the_same_name_are_refused():
    roll = rolled(Introduced({1: b"north", 2: b"north"}), ["north"])
    with pytest.raises(RuntimeError, match="two SuperNodes say that they are site 'north'"):
        roll.missing()
    with pytest.raises(CallError):
        roll.node("north")


@pytest.mark.parametrize(
    ("says", "sentence"),
    [
        (b"south", "registered as 'north' and says that it is 'south'"),
        (b"elsewhere", "is no site of this project"),
        (b"\xff../..", "is no site of this project"),
        (CLOSED, "finds no door: run `drfl flower site` there"),
    ],
)
def test_a_supernode_is_the_site_that_it_is_registered_as_or_none(says, sentence, monkeypatch):
    monkeypatch.setattr("drfl.sites.flower.server.PAUSE", 0.0)
    grid, heard = Introduced({1: says}), Heard()
    grid.names[1] = "north"
    roll = rolled(grid, ["north", "south"], heard)
    assert roll.missing() == ["north", "south"]
    assert settled(roll).missing() == ["north", "south"]
    (line,) = heard.lines
    assert sentence in line


def test_a_supernode_that_comes_back_with_another_number_is_found():
    grid = Introduced({1: b"north"})
    roll = rolled(grid, ["north"])
    assert (roll.missing(), roll.node("north")) == ([], 1)
    grid.doors = {5: b"north"}
    roll.forget("north")
    roll.refresh()
    assert settled(roll).node("north") == 5


class HangingGrid(LocalGrid):
    """A SuperLink that takes a question and then, or before, says nothing any more."""

    def __init__(self):
        super().__init__({})
        self.looked, self.pushing, self.there = Event(), Event(), Event()
        self.takes = 2

    def push_messages(self, messages):
        self.takes -= 1
        if self.takes < 0:
            self.pushing.set()
            self.there.wait()
        return [f"message-{self.takes}"]

    def pull_messages(self, message_ids):
        self.looked.set()
        self.there.wait()
        return []


def sending(post, timeout):
    """What comes of a question, in a list once it is known."""
    told = []

    def work():
        with pytest.raises(CallError) as error:
            post.send(1, b"x", timeout)
        told.append(str(error.value))

    thread = Thread(target=work, daemon=True)
    thread.start()
    return thread, told


def test_who_waits_is_told_in_time_while_the_superlink_hangs():
    """Neither a look for replies nor a question on its way keeps the others waiting."""
    grid = HangingGrid()
    post = Post(grid)
    first, told_first = sending(post, 3.0)
    assert grid.looked.wait(60.0)
    first.join(60.0)
    assert told_first == ["no reply"]
    sending(post, 600.0)  # the second that is taken
    sending(post, 600.0)
    assert grid.pushing.wait(60.0)
    last, told_last = sending(post, 0.1)
    last.join(60.0)
    assert told_last == ["no way to the SuperLink"]
    grid.there.set()


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({"drfl": ConfigRecord()}),
        RecordDict({"drfl": ConfigRecord({"data": "text"})}),
        RecordDict({"drfl": MetricRecord({"data": 1.0})}),
        RecordDict({"other": ConfigRecord({"data": b"x"})}),
    ],
)
def test_records_without_our_bytes_are_no_answer(content):
    assert bytes_of(Message(content, 1, "query")) is None


# ---------------------------------------------------------------------------- the door
class Gates:
    """Counts the gates that are opened; each answers with its number."""

    def __init__(self):
        self.opened = []

    def open(self):
        gate = SimpleNamespace(ledger=SimpleNamespace(job=""), closed=False)
        gate.answer = lambda number, question, seconds: f"{len(self.opened)}/{number}".encode()
        gate.close = lambda: setattr(gate, "closed", True)
        self.opened.append(gate)
        return gate


@pytest.fixture
def gates():
    return Gates()


@pytest.fixture
def door(tmp_path, gates):
    return Door("north", gates.open, Refusals(tmp_path / "refused.jsonl"))


def question(run=7, attempt=0, number=1, site="north", message=b""):
    return (
        RUN.pack(run)
        + AddressedQuestion(attempt, number, Question(0, message), 5.0, site).to_bytes()
    )


def test_a_door_says_its_name(door, gates):
    assert door.answer(RUN.pack(7) + who_is_there()) == b"north"
    assert gates.opened == []


def test_a_question_to_another_site_is_refused_and_written_down(door, gates, tmp_path):
    reply = decode(door.answer(question(site="south")))
    assert Failure.of(reply) is Failure.REFUSED
    assert gates.opened == []
    assert "a question to site 'south'" in (tmp_path / "refused.jsonl").read_text("utf-8")


def test_one_job_at_a_time_and_the_newest_counts(door, gates):
    assert door.answer(question(number=1)) == b"1/1"
    assert door.answer(question(number=2)) == b"1/2"
    assert door.answer(question(attempt=1, number=1)) == b"2/1"
    assert [gate.closed for gate in gates.opened] == [True, False]
    # Of the first job nothing is known any more, and it cannot begin again.
    assert door.answer(question(number=3)) == door.answer(question(number=1)) == LOST
    assert [gate.ledger.job for gate in gates.opened] == ["7.0", "7.1"]


def test_a_job_whose_beginning_was_elsewhere_is_lost(door, gates):
    """The door was closed and opened again: what all had agreed upon is forgotten."""
    assert door.answer(question(number=4)) == LOST
    assert gates.opened == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 20,
        b"\xff" * 80,
        question(number=-1),
        question(attempt=-1),
        question(site="no name"),
        question(site=""),
        RUN.pack(7) + asked.HEAD.pack(0, 1, 0, float("nan"), b"north"),
        RUN.pack(7) + asked.HEAD.pack(0, 1, -5, 1.0, b"north"),
        RUN.pack(7) + asked.HEAD.pack(0, 1, 0, 1.0, b"n\xc3\xb6rd"),
    ],
)
def test_nonsense_is_a_bad_request(door, gates, data):
    assert Failure.of(decode(door.answer(data))) is Failure.BAD_REQUEST
    assert gates.opened == []


def test_a_question_comes_through_as_it_was(door):
    told = AddressedQuestion(3, 4, Question(2, bytes(range(256))), 1.5, "north")
    assert read_asked(told.to_bytes()) == told


def test_a_door_holds_a_question_that_is_being_computed(door, gates, monkeypatch):
    signs = [WORKING, WORKING, b"done"]
    monkeypatch.setattr("drfl.sites.flower.door.HOLD", 60.0)
    gate = gates.open()
    gate.answer = lambda *told: signs.pop(0)
    monkeypatch.setattr(door, "_open", lambda: gate)
    assert door.answer(question()) == b"done"


def test_settings_that_became_useless_are_told_as_such(door, gates, monkeypatch, capsys):
    """Not as a door that nobody opens, and with the reason at the site alone."""

    def refuse():
        raise ValueError("site.toml: guard must be a number")

    monkeypatch.setattr(door, "_open", refuse)
    reply = door.answer(question())
    assert Failure.of(decode(reply)) is Failure.FILE
    assert b"guard" not in reply
    assert capsys.readouterr().err == "drfl: site.toml: guard must be a number\n"
    # Once they are mended the job can begin.
    monkeypatch.setattr(door, "_open", gates.open)
    assert door.answer(question()) == b"1/1"


def test_who_knocks_and_says_nothing_is_left(door, tmp_path, monkeypatch):
    monkeypatch.setattr("drfl.sites.flower.door.SILENT", 0.1)
    way = Doorway(door, tmp_path / "door.json")
    told = json.loads((tmp_path / "door.json").read_text("utf-8"))
    try:
        with socket.create_connection(("localhost", told["port"]), 60.0) as line:
            while line.recv(1000):  # the challenge, and then the end
                pass
        # Also after the challenge.
        key = bytes.fromhex(told["key"])
        with Client(("localhost", told["port"]), authkey=key) as friend:
            assert friend.poll(60.0)
            with pytest.raises(EOFError):
                friend.recv_bytes()
    finally:
        way.close()


def test_whoever_has_not_the_key_is_not_answered(there):
    told = json.loads((there.folder / "south" / "door.json").read_text("utf-8"))
    with pytest.raises((AuthenticationError, OSError, EOFError)):
        Client(("localhost", told["port"]), authkey=b"another")
    # Who knocks and says nothing keeps nobody else out.
    with Client(("localhost", told["port"])):
        door = there.folder / "south" / "door.json"
        assert ask(door, RUN.pack(1) + who_is_there()) == b"south"
    assert (door.stat().st_mode & 0o077) == 0


def test_where_there_is_no_door_that_is_said(tmp_path):
    assert ask(tmp_path / "none.json", b"x") == CLOSED
    (tmp_path / "door.json").write_text('{"port": "x"}', "utf-8")
    assert ask(tmp_path / "door.json", b"x") == CLOSED


def test_a_site_keeps_its_settings_whatever_the_app_says(there):
    """The run's configuration reaches the client's half, and nothing of it the door."""
    question = AddressedQuestion(9, 1, Question(0, encode(Wire(HELLO, 0))), 5.0, "south").to_bytes()
    message = Message(records(question), 1, "query")
    message.metadata.__dict__["_message_id"] = "x"
    context = SimpleNamespace(
        run_id=8,
        node_config={"drfl": str(there.folder / "south" / "door.json")},
        run_config={"guard": 0, "data": "/etc/passwd"},
    )
    reply = decode(bytes_of(app(message, context)))
    assert reply.kind == "hello/reply"
