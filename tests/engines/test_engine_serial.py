"""What every engine promises; a new engine gets these tests by being registered."""

import time

import numpy as np
import pytest

from drfl.client import Client, WithheldError
from drfl.engines import ENGINES, Engine, SerialEngine, make_engine
from drfl.problem import Problem
from drfl.uncertainty import Ball
from drfl.wire import Failure, Message
from kit.cutting_plane import CuttingPlane, evaluate

NAMES = ("north", "south", "east")
PROBLEM = Problem("hinge", Ball(0.1, "l1", 1.0))


def clients(names=NAMES):
    rng = np.random.default_rng(1)
    return [
        Client(s, rng.normal(size=(11, 2)), np.where(rng.random(11) < 0.5, -1, 1)) for s in names
    ]


def whoami(site, message):
    return {"first": site.rows.y[:1].copy(), "asked": message.arrays["x"]}


def fail(site, message):
    if site.name == "south":
        raise ValueError("patient 4711")
    return {}


def doze(site, message):
    if site.name == "south":
        time.sleep(1.1)
    return {}


def count(site, message):
    site.memory["count"] = site.memory.get("count", 0) + 1
    return {"count": np.array(site.memory["count"])}


HANDLERS = {"whoami": whoami, "fail": fail, "doze": doze, "count": count, "evaluate": evaluate}


def started(name):
    with make_engine(name) as engine:
        engine.start(clients(), PROBLEM, HANDLERS)
        yield engine


@pytest.fixture(scope="module", params=sorted(ENGINES))
def engine(request):
    """One for all tests that leave it as it was: starting processes takes long."""
    yield from started(request.param)


@pytest.fixture(params=sorted(ENGINES))
def fresh(request):
    yield from started(request.param)


def ask(kind, names=NAMES, round=0, **arrays):
    return {name: Message(kind, round, arrays) for name in names}


def test_every_client_gets_its_own_message(engine):
    messages = {s: Message("whoami", 4, {"x": np.array(float(k))}) for k, s in enumerate(NAMES)}
    answers = engine.map(messages, None)
    assert answers.failures == {}
    assert {s: r.kind for s, r in answers.replies.items()} == dict.fromkeys(NAMES, "whoami/reply")
    for k, (name, client) in enumerate(zip(NAMES, clients(), strict=True)):
        reply = answers.replies[name]
        assert (reply.round, float(reply.arrays["asked"])) == (4, k)
        assert reply.arrays["first"][0] == client.rows.y[0]
    assert set(answers.seconds) == set(NAMES)
    assert all(seconds >= 0.0 for seconds in answers.seconds.values())


def test_answers_are_in_client_order_whatever_the_order_of_messages(engine):
    answers = engine.map(ask("count", reversed(NAMES)), None)
    assert tuple(answers.replies) == NAMES


def test_only_those_asked_answer(fresh):
    assert list(fresh.map(ask("count", ["east"]), None).replies) == ["east"]
    answers = fresh.map(ask("count", ["east", "north"]), None)
    assert {s: int(r.arrays["count"]) for s, r in answers.replies.items()} == {
        "north": 1,
        "east": 2,
    }
    assert fresh.map({}, None).replies == {}


def test_a_failure_is_named_and_the_others_go_on(engine):
    answers = engine.map(ask("fail"), None)
    assert list(answers.replies) == ["north", "east"]
    assert answers.failures == {"south": Failure.ERROR}
    assert engine.map(ask("other"), None).failures == dict.fromkeys(NAMES, Failure.UNKNOWN_KIND)
    assert engine.map(ask("count"), None).failures == {}


def test_a_late_answer_counts_as_missing(fresh):
    answers = fresh.map(ask("doze"), 1.0)
    assert list(answers.replies) == ["north", "east"]
    assert answers.failures == {"south": Failure.DEADLINE}
    # A later round does not meet the late answer of an earlier one.
    answers = fresh.map(ask("count", round=1), 60.0)
    assert answers.failures == {}
    assert {reply.round for reply in answers.replies.values()} == {1}


def test_an_unknown_client_is_an_error(engine):
    with pytest.raises(ValueError, match="no client 'west'"):
        engine.map(ask("count", ["west"]), None)


def test_closed_engines_start_again_with_empty_memories(fresh):
    fresh.map(ask("count"), None)
    fresh.close()
    fresh.close()
    with pytest.raises(ValueError, match="no client 'north'"):
        fresh.map(ask("count"), None)
    fresh.start(clients(["south"]), PROBLEM, HANDLERS)
    assert int(fresh.map(ask("count", ["south"]), None).replies["south"].arrays["count"]) == 1


@pytest.mark.sampled(2)
def test_a_client_that_does_not_fit_is_named_at_the_start(fresh):
    with pytest.raises(ValueError, match="client 'north'"):
        fresh.start(clients(), Problem("hinge", {"east": Ball()}), HANDLERS)


def test_the_numbers_are_those_of_the_serial_engine_bit_for_bit(engine):
    with SerialEngine(debug=True) as serial:
        serial.start(clients(), PROBLEM, HANDLERS)
        messages = ask("evaluate", x=np.array([0.3, -0.7, 0.1]))
        assert engine.map(messages, None).replies == serial.map(messages, None).replies


def test_the_debug_mode_raises_what_goes_wrong():
    with SerialEngine(debug=True) as engine:
        handlers = HANDLERS | {"leak": lambda site, message: {"y": site.rows.y}}
        engine.start(clients(), PROBLEM, handlers)
        with pytest.raises(ValueError, match="patient 4711"):
            engine.map(ask("fail"), None)
        with pytest.raises(WithheldError, match="as long as the client has rows"):
            engine.map(ask("leak"), None)


def test_engines_by_name():
    assert isinstance(make_engine("serial"), SerialEngine)
    own = SerialEngine(debug=True)
    assert make_engine(own) is own
    with pytest.raises(ValueError, match="did you mean 'serial'"):
        make_engine("seriell")
    with pytest.raises(TypeError, match="engine must be a name"):
        make_engine(SerialEngine)
    assert all(issubclass(kind, Engine) and kind.name == s for s, kind in ENGINES.items())


def test_an_engine_takes_the_handlers_of_a_solver():
    with SerialEngine() as engine:
        engine.start(clients(), PROBLEM, CuttingPlane().handlers)
        assert engine.map(ask("evaluate", x=np.zeros(3)), None).failures == {}
        assert engine.map(ask("evaluate", x=np.zeros(4)), None).failures == dict.fromkeys(
            NAMES, Failure.BAD_REQUEST
        )
