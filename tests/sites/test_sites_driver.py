"""What the server does with an order: read it, carry it out, tell of it, and say how it ended."""

import json
from dataclasses import replace

import numpy as np
import pytest

import drfl
from drfl.cli.sites.model import untold
from drfl.engines import Answers
from drfl.models import read_model
from drfl.models.plain import to_plain
from drfl.privacy import Guard
from drfl.protocols.data_request import text_array
from drfl.protocols.federation import BIND
from drfl.protocols.station import PREFLIGHT, Station
from drfl.run import Record
from drfl.run.checkpoint import Checkpoint, cut_back
from drfl.sites.carrier import CallError, Carrier, Outcome, PollingCarrier
from drfl.sites.child import KEPT
from drfl.sites.driver import PROGRESS, STATE, drive
from drfl.sites.gate import HELLO
from drfl.sites.order import Order, read_order
from drfl.sites.progress import AT_ONCE, ProgressLog
from drfl.wire import Failure, Message, decode, encode

ORDER = {
    "schema": 1,
    "version": drfl.__version__,
    "kind": "train",
    "run": "0123456789abcdef" * 2,
    "attempt": 0,
    "sites": ["north", "south"],
    "quorum": 2,
    "deadline": 5.0,
    "silence": 0.2,
    "patience": 5.0,
    "settings": {"target": "y", "label_cost": "inf"},
}


# ---------------------------------------------------------------------------- orders
def test_an_order_is_read_with_its_infinities():
    order = read_order(json.dumps(ORDER))
    assert isinstance(order, Order)
    assert (order.sites, order.settings["label_cost"]) == (("north", "south"), float("inf"))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"schema": 2}, "not of this version"),
        ({"version": "0.0.1"}, "comes from drfl 0.0.1"),
        ({"run": "../../etc"}, "no run"),
        ({"run": "0123456789ABCDEF" * 2}, "no run"),
        ({"kind": "shell"}, "no known kind"),
        ({"path": "/etc"}, "not known"),
        ({"sites": None}, "names no sites"),
        ({"sites": [1]}, "names no sites"),
        ({"quorum": "1"}, "limit"),
        ({"quorum": True}, "limit"),
        ({"silence": float("inf")}, "limit"),
        ({"deadline": -1.0}, "limit"),
        ({"settings": []}, "settings"),
    ],
)
def test_an_order_that_is_not_of_the_form_is_refused(changes, why):
    with pytest.raises(ValueError, match=why):
        read_order(json.dumps({**ORDER, **changes}).replace("Infinity", '"inf"'))


def test_an_order_that_is_no_json_is_refused():
    with pytest.raises(ValueError, match="no JSON"):
        read_order("{")
    short = {key: value for key, value in ORDER.items() if key != "quorum"}
    with pytest.raises(ValueError, match="lacks an entry"):
        read_order(json.dumps(short))


# ---------------------------------------------------------------------------- the log
def test_events_are_told_once_and_in_plain_types():
    log = ProgressLog()
    log.say("one", "two")
    record = Record(1, np.inf, -np.inf, np.nan, None, {}, {}, 0.0, 0.0, {}, {})
    log.progress(replace(record, failures={"west": Failure.DEADLINE}), "class 1 of 2: ")
    log.missing("west", "silent")
    first = log.since({"since": 0})
    assert (first["phase"], first["next"]) == ("starting", 3)
    assert first["events"][0] == {"say": ["one", "two"]}
    told = first["events"][1]["progress"]
    assert type(told["failures"]["west"]) is str
    assert (told["objective"], first["events"][1]["prefix"]) == ("inf", "class 1 of 2: ")
    assert log.since({"since": 3})["events"] == []
    assert log.since({"since": "x"})["next"] == 3


def test_the_end_is_told_when_everything_else_has_been():
    log = ProgressLog()
    for k in range(AT_ONCE + 1):
        log.say(str(k))
    log.end("done", 0.0)
    assert log.since({})["phase"] == "working"
    last = log.since({"since": AT_ONCE})
    assert (last["phase"], len(last["events"])) == ("done", 1)


# ---------------------------------------------------------------------------- the outcome
def driven(tmp_path, monkeypatch, present, carrier, **changes):
    monkeypatch.setenv(STATE, str(tmp_path / "state"))
    monkeypatch.setattr("drfl.sites.driver.LAST_WORDS", 0.0)
    published = {}
    drive(
        json.dumps({**ORDER, **changes}),
        present,
        carrier,
        tmp_path,
        lambda name, answer: published.update({name: answer}),
    )
    outcome = json.loads((tmp_path / "RUN" / "outcome.json").read_text("utf-8"))
    return outcome, published[PROGRESS]({"since": 0})


class Gone(PollingCarrier):
    """Nobody is there."""

    def call(self, *question):
        raise CallError


def test_fewer_sites_than_the_quorum_are_said_at_once(tmp_path, monkeypatch):
    outcome, told = driven(tmp_path, monkeypatch, ["north"], Gone)
    assert (outcome["status"], outcome["exit"], outcome["resubmit"]) == ("quorum", 5, True)
    assert outcome["missing"] == {"south": "absent"}
    assert (
        "1 of 2 sites are left, fewer than the quorum of 2: south (absent)" in (outcome["sentence"])
    )
    assert {"warn": outcome["sentence"]} in told["events"]
    assert told["phase"] == "failed"


def test_a_site_that_falls_silent_is_kept_for_the_next_attempt(tmp_path, monkeypatch):
    outcome, told = driven(tmp_path, monkeypatch, ["north", "south"], Gone)
    assert outcome["missing"] == {"north": "silent", "south": "silent"}
    assert {"missing": {"north": "silent"}} in told["events"]
    kept = tmp_path / "state" / ORDER["run"] / "silent.json"
    assert json.loads(kept.read_text("utf-8")) == ["north", "south"]


class Nearby(Carrier):
    """Stations in this process that say hello as sites do."""

    def __init__(self, stations):
        self.stations = stations

    def carry(self, questions, deadline):
        return {
            site: Outcome(encode(self._answer(site, decode(question.message))), False, 0.0)
            for site, question in questions.items()
        }

    def _answer(self, site, message):
        if message.kind == HELLO:
            about = {"drfl": drfl.__version__, "guard": 5, "schema": 1, "python": "3.11"}
            return message.reply({"about": text_array(about)})
        return self.stations[site].answer(message)


def test_table_one_of_sites_with_guards_and_gaps(tmp_path, monkeypatch):
    """`drfl sites inspect` looks at files with gaps, and tells what guards let it."""
    rng = np.random.default_rng(0)
    stations = {}
    for name, factor in (("north", 1.0), ("south", 12.0)):
        age = (factor * rng.normal(50.0, 9.0, 80)).round(2).astype(str)
        age[:20], ill = "", np.where(np.arange(80) % 2, "yes", "no")
        path = tmp_path / f"{name}.csv"
        path.write_text("age,y\n" + "".join(f"{a},{y}\n" for a, y in zip(age, ill, strict=True)))
        stations[name] = Station(name, path, Guard(5))
    outcome, _ = driven(
        tmp_path,
        monkeypatch,
        list(stations),
        lambda silence, patience: Nearby(stations),
        kind="inspect",
    )
    assert (outcome["status"], outcome["exit"]) == ("done", 0)
    assert any("Table 1" in line for line in outcome["agreement"])
    assert "filled at north: age 25%" in outcome["agreement"]
    (warning,) = outcome["warnings"]
    assert "years and months" in warning
    assert {cell["missing"] for cell in outcome["table"] if cell["column"] == "age"} == {0.25}


@pytest.mark.parametrize("kind", ["intercept", "slope"])
def test_a_calibration_over_guarded_sites_is_refused_with_the_reason(
    tmp_path, monkeypatch, trained, kind
):
    model = read_model(trained / "RUN" / "model.json")
    order = {"kind": "calibrate", "model": to_plain(model)}
    both = ["north", "south"]

    def outcome(present, sites):
        options = {"kind": kind, "sites": sites}
        quorum = {"quorum": len(present)}
        near = lambda silence, patience: Nearby({})  # noqa: E731  (asked nothing but hello)
        return driven(tmp_path, monkeypatch, present, near, **order, **quorum, options=options)[0]

    guarded = outcome(both, [])
    assert guarded["exit"] == 5
    assert "site 'north' has a guard" in guarded["sentence"]
    assert "drfl calibrate MODEL FILE" in guarded["sentence"]
    assert "'south' is not there" in outcome(["north"], ["south"])["sentence"]


def test_who_tells_nothing_of_a_model_is_named_with_the_reason(trained):
    model = read_model(trained / "RUN" / "model.json")
    told = {"metrics": {"north": [], "south": [], "west": []}, "probabilities": {}}
    told["guards"] = {"north": 0, "south": 0, "west": 0, "rome": 5, "oslo": 0}
    told["probabilities"] = {"north": {"rows": 90}, "west": {"rows": 0}}
    assert untold(told, [model]) == [
        "rome: its guard answers for the rows of a training alone, whose records have its accuracy",
        "oslo: its policy or its file does not allow it, as is said there",
        "south: nothing of probabilities: has its file the columns of --by, and may they be used?",
        "west: fewer than 5 rows of a class, so that nothing is told of them",
    ]


def test_a_bad_order_has_an_outcome_too(tmp_path, monkeypatch):
    outcome, _ = driven(tmp_path, monkeypatch, ["north"], Gone, version="0.0.1")
    assert (outcome["status"], outcome["resubmit"]) == ("failed", False)
    assert "comes from drfl 0.0.1" in outcome["sentence"]


def test_a_new_child_is_told_what_the_station_needs():
    assert set(KEPT) == {PREFLIGHT, BIND}


# ---------------------------------------------------------------------------- going back
def test_a_log_is_cut_back_to_where_a_client_was_lost(tmp_path):
    log = Checkpoint(tmp_path / "log", {"run": "one"})
    for round in range(5):
        names = ["north", "south"] if round in (0, 1, 3) else ["north"]
        replies = {name: Message("x/reply", round) for name in names}
        log.append({}, Answers(replies, {}, {}), 0.0)

    def left():
        return [r.answers.replies["north"].round for r in Checkpoint(log.path, {}).rounds()]

    cut_back(log.path, [])
    assert left() == [0, 1, 2, 3, 4]
    cut_back(log.path, ["north"])
    assert left() == [0, 1, 2, 3, 4]
    cut_back(log.path, ["south", "north"])
    assert left() == [0, 1, 2, 3]
    cut_back(log.path, ["west"])
    assert left() == []
