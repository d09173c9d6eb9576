"""The engine, the carrier, the gate and the child of a site, without a network between them."""

import json
import os
import signal
import threading
import time

import pytest
from sites_stand_in import KEPT, NAMES, PROBLEM, clients, opening

from drfl.client import RemoteClient
from drfl.protocols.data_request import array_text
from drfl.run import solve
from drfl.sites.carrier import HOLD, WAITING, WORKING, CallError, PollingCarrier, Question
from drfl.sites.child import Child
from drfl.sites.config import SiteSettings
from drfl.sites.engine import QuorumError, SitesEngine
from drfl.sites.gate import Gate
from drfl.wire import Failure, Message, decode, encode

SILENCE, DEADLINE = 2.5, 20.0


class Calls(PollingCarrier):
    """A carrier by a function."""

    def __init__(self, call, silence, patience):
        super().__init__(silence, patience)
        self.calls = call

    def call(self, *question):
        return self.calls(*question)


class Network:
    """Gates in this process, called from the threads of a carrier; a site can be cut off."""

    def __init__(self, folder, **settings):
        self.folder, self.off, self.calls = folder, set(), []
        self.settings = {
            s: SiteSettings(s, folder / s, state=folder / s, **settings) for s in NAMES
        }
        self.gates = {
            s: Gate(own, Child(opening, s.encode(), KEPT, 10.0)) for s, own in self.settings.items()
        }
        self.carrier = Calls(self.call, SILENCE, patience=5.0)
        self.lost = []

    def call(self, site, number, question, seconds, timeout):
        self.calls.append((site, number))
        if site in self.off:
            raise CallError
        return self.gates[site].answer(number, question, seconds)

    def engine(self, quorum=1, present=NAMES):
        return SitesEngine(
            self.carrier,
            NAMES,
            present,
            quorum=quorum,
            deadline=DEADLINE,
            lose=lambda *why: self.lost.append(why),
        )

    def pid(self, site):
        return self.gates[site].child._place.worker.process.pid

    def ledger(self, site):
        path = self.settings[site].ledger
        return [json.loads(line) for line in path.read_text("utf-8").splitlines()]

    def close(self):
        for gate in self.gates.values():
            gate.close()


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """Every test leaves all three sites well."""
    network = Network(tmp_path_factory.mktemp("sites"))
    yield network
    network.close()


@pytest.fixture
def engine(network):
    network.off, network.lost, network.calls = set(), [], []
    network.carrier.calls, network.carrier.silence = network.call, SILENCE
    return network.engine()


def remote():
    return [RemoteClient(s, ("a", "b", "c"), s) for s in NAMES]


def ask(kind, names=NAMES, round=0, **arrays):
    return {name: Message(kind, round, arrays) for name in names}


# ---------------------------------------------------------------------------- the same numbers
def test_the_result_is_that_of_the_serial_engine_bit_for_bit(engine):
    serial = solve(PROBLEM, clients())
    result = solve(PROBLEM, remote(), engine=engine)
    assert result.coef.tobytes() == serial.coef.tobytes()
    assert (result.intercept, result.objective, result.lower_bound) == (
        serial.intercept,
        serial.objective,
        serial.lower_bound,
    )
    assert (result.bytes_up, result.bytes_down) == (serial.bytes_up, serial.bytes_down)
    assert set(result.history[-1].failures) == set()


def test_a_child_that_is_killed_between_rounds_costs_nothing(network, engine):
    undisturbed = solve(PROBLEM, clients())

    def strike(record):
        if record.round == 2:
            os.kill(network.pid("south"), signal.SIGKILL)

    result = solve(PROBLEM, remote(), engine=engine, callbacks=[strike])
    assert [r.failures for r in result.history if r.failures] == []
    assert result.coef.tobytes() == undisturbed.coef.tobytes()


def test_answers_are_in_the_order_of_the_clients(engine):
    answers = engine.map(ask("count", reversed(NAMES)), None)
    assert tuple(answers.replies) == NAMES
    assert tuple(answers.seconds) == NAMES


def test_seats_of_one_site_are_asked_one_after_the_other(engine):
    seats = [RemoteClient(f"{s}/{k}", ("a", "b", "c"), s, k) for k in range(2) for s in NAMES]
    engine.start(seats, PROBLEM, {})
    names = [party.name for party in seats]
    answers = engine.map(ask("seat", names), None)
    assert {name: int(r.arrays["seat"]) for name, r in answers.replies.items()} == {
        party.name: party.seat for party in seats
    }
    assert list(answers.replies) == names


def test_a_client_that_does_not_fit_is_named(engine):
    odd = RemoteClient("odd", ("a", "b", "c"), "north", seat=9)
    with pytest.raises(ValueError, match="client 'odd' cannot take part: the problem does not fit"):
        engine.start([odd], PROBLEM, {})
    with pytest.raises(TypeError, match="sites keep their own rows"):
        engine.start(clients(), PROBLEM, {})


# ---------------------------------------------------------------------------- faults of a site
@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("raises", Failure.ERROR),
        ("dies", Failure.BAD_REPLY),
        ("exhausts", Failure.MEMORY),
    ],
)
def test_a_fault_is_a_code_and_the_others_go_on(network, engine, kind, code):
    answers = engine.map(ask(kind), None)
    assert answers.failures == {"south": code}
    assert list(answers.replies) == ["north", "west"]
    assert engine.map(ask("count"), None).failures == {}
    assert engine.missing == {}
    last = [entry for entry in network.ledger("south") if entry["kind"] == "failure"][-1]
    assert (last["code"], last["arrays"]) == (code, {})


def test_not_a_word_of_an_error_leaves(network):
    question = Question(0, encode(Message("raises", 3)))
    network.gates["south"].answer(number := _next(network, "south"), question, 10.0)
    reply = network.gates["south"].answer(number, question, 10.0)
    assert reply == encode(Failure.ERROR.message(3))


def _next(network, site):
    """The number of a question that none of the carrier's will meet."""
    network.carrier._number += 1
    return network.carrier._number


def test_a_computation_that_hangs_ends_at_the_limit_of_the_site(network, engine):
    start = time.monotonic()
    answers = engine.map(ask("hangs"), 2.0)
    assert answers.failures == {"south": Failure.DEADLINE}
    assert time.monotonic() - start < 2.0 + HOLD + 1.0
    assert engine.missing == {}
    assert engine.map(ask("count"), None).failures == {}


def test_a_new_child_knows_what_the_old_one_was_told(network, engine):
    engine.start(remote(), PROBLEM, {})
    before = engine.map(ask("told"), None).replies["south"]
    os.kill(network.pid("south"), signal.SIGKILL)
    assert engine.map(ask("told"), None).replies["south"] == before


# ---------------------------------------------------------------------------- silence
def test_a_dead_site_is_named_once_and_not_asked_again(network, engine):
    network.off = {"west"}
    start = time.monotonic()
    answers = engine.map(ask("count"), None)
    assert SILENCE <= time.monotonic() - start < SILENCE + 2.0
    assert answers.failures == {"west": Failure.DEADLINE}
    assert network.lost == [("west", "silent")]
    network.off, network.calls = set(), []
    assert engine.map(ask("count"), None).failures == {"west": Failure.DEADLINE}
    assert {site for site, _ in network.calls} == {"north", "south"}
    assert network.lost == [("west", "silent")]


def test_a_site_that_comes_back_in_time_has_missed_nothing(network, engine):
    before = engine.map(ask("count"), None).replies["west"]
    network.off = {"west"}
    threading.Timer(SILENCE / 2, network.off.clear).start()
    answers = engine.map(ask("count"), None)
    assert (answers.failures, engine.missing) == ({}, {})
    assert answers.replies["west"].arrays["count"] == before.arrays["count"] + 1


def test_an_answer_that_is_lost_on_its_way_is_not_computed_again(network, engine):
    gate, lost = network.gates["north"], []

    def lossy(site, number, question, seconds, timeout):
        answer = gate.answer(number, question, seconds)
        if len(lost) < 2:
            lost.append(answer)
            raise CallError
        return answer

    before = int(engine.map(ask("count", ["north"]), None).replies["north"].arrays["count"])
    engine.carrier.calls = lossy
    after = engine.map(ask("count", ["north"]), None).replies["north"]
    assert int(after.arrays["count"]) == before + 1


def test_a_long_computation_is_no_silence(network, engine):
    engine.carrier.silence = HOLD + 0.5
    assert engine.map(ask("dozes"), None).failures == {}
    assert engine.missing == {}


def test_below_the_quorum_it_stops_at_once(network, engine):
    engine.quorum, network.off = 3, {"west"}
    with pytest.raises(QuorumError, match=r"2 of 3 sites .* quorum of 3: west \(silent\)"):
        engine.map(ask("count"), None)
    with pytest.raises(QuorumError, match=r"north \(absent\), south \(absent\)"):
        network.engine(quorum=2, present=["west"])
    assert network.engine(quorum=2, present=["west", "north"]).missing == {"south": "absent"}


def test_a_question_that_was_overtaken_is_refused(network):
    gate = network.gates["north"]
    number = _next(network, "north")
    question = Question(0, encode(Message("count", 5)))
    gate.answer(number, question, 10.0)
    assert Failure.of(decode(gate.answer(number - 1, question, 10.0))) is Failure.BAD_REQUEST


@pytest.mark.parametrize("garbage", [b"", b"drfl1", b"\x80\x04pickle", WORKING + b"!"])
def test_garbage_is_a_code_at_both_ends(network, engine, garbage):
    gate = network.gates["north"]
    number = _next(network, "north")
    gate.answer(number, Question(0, garbage), 10.0)
    assert Failure.of(decode(gate.answer(number, Question(0, garbage), 10.0))) is (
        Failure.BAD_REQUEST
    )
    engine.carrier.calls = lambda *call: garbage
    assert engine.map(ask("count"), None).failures == dict.fromkeys(NAMES, Failure.BAD_REPLY)


# ---------------------------------------------------------------------------- what leaves
def test_whoever_is_there_says_what_runs_there(engine):
    about = array_text(engine.map(ask("hello"), None).replies["north"].arrays["about"])
    assert set(about) == {"drfl", "guard", "schema", "python"}


def test_the_ledger_has_every_message_before_it_leaves(network, engine):
    network.gates["north"].ledger.job = "4711"
    before = len(network.ledger("north"))
    reply = engine.map(ask("count", ["north"], round=7), None).replies["north"]
    (entry,) = network.ledger("north")[before:]
    assert (entry["kind"], entry["round"], entry["bytes"]) == ("count/reply", 7, reply.nbytes)
    assert entry["arrays"]["count"] == {
        "dtype": "int64",
        "shape": [],
        "values": [int(reply.arrays["count"])],
    }
    assert entry["job"] == "4711"


def test_a_reply_that_cannot_be_written_down_does_not_leave(network, engine):
    path = network.settings["north"].ledger
    path.rename(path.with_suffix(".away"))
    path.mkdir()
    try:
        assert engine.map(ask("count", ["north"]), None).failures == {"north": Failure.ERROR}
    finally:
        path.rmdir()
        path.with_suffix(".away").rename(path)


@pytest.mark.parametrize("said", ["yes", "no"])
def test_a_person_sees_each_kind_before_the_first_one_leaves(tmp_path, said):
    settings = SiteSettings("north", tmp_path, state=tmp_path, approve=True)
    gate = Gate(settings, Child(opening, b"north", KEPT, 10.0))
    question = Question(0, encode(Message("count", 2)))
    while (sign := gate.answer(1, question, 20.0)) == WORKING:
        pass
    assert sign == WAITING
    assert not settings.ledger.exists()
    shown = json.loads((settings.approvals / "count.reply.asked.json").read_text("utf-8"))
    assert shown["arrays"]["count"]["values"] == [1]
    (settings.approvals / "count.reply.answer").write_text(f"{said}\n", "utf-8")
    reply = decode(gate.answer(1, question, 20.0))
    assert Failure.of(reply) == (None if said == "yes" else Failure.REFUSED)
    # The next one of the kind leaves, or stays, without a question.
    later = gate.answer(2, Question(0, encode(Message("count", 3))), 20.0)
    assert Failure.of(decode(later)) == (None if said == "yes" else Failure.REFUSED)
    gate.close()


def test_an_approval_has_a_time_of_its_own(tmp_path):
    settings = SiteSettings("north", tmp_path, state=tmp_path, approve=True)
    gate = Gate(settings, Child(opening, b"north", KEPT, 10.0))
    carrier = Calls(lambda site, *question: gate.answer(*question[:3]), SILENCE, patience=0.5)
    outcome = carrier.carry({"north": Question(0, encode(Message("count", 0)))}, 30.0)["north"]
    gate.close()
    assert (outcome.answer, outcome.dead) == (None, False)
    assert outcome.seconds < 20.0
    assert not settings.ledger.exists()
