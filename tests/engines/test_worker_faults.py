"""Workers that die, hang or are left alone: failures with a code, deadlines kept, nobody left."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from time import monotonic

import numpy as np
import pytest

from drfl.client import Client
from drfl.engines import ProcessesEngine
from drfl.problem import Problem
from drfl.run import solve
from drfl.solvers import StatusKind
from drfl.uncertainty import Ball, Mixture
from drfl.wire import Failure, Message
from kit.handlers import HANDLERS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")

NAMES = ("north", "south")
PROBLEM = Problem("hinge", Ball(0.05, "l1", 1.0), Mixture(radius=0.3))


def clients():
    rng = np.random.default_rng(2)
    made = []
    for name in NAMES:
        X = rng.normal(size=(60, 3))
        made.append(Client(name, X, np.sign(X @ np.ones(3) + rng.normal(size=60))))
    return made


@pytest.fixture(scope="module")
def engine():
    """One worker for each client; every test leaves both of them well."""
    before = threading.active_count()
    with ProcessesEngine(workers=2, restarts=1) as engine:
        engine.start(clients(), PROBLEM, HANDLERS)
        yield engine
    assert multiprocessing.active_children() == []
    assert threading.active_count() == before


@pytest.fixture
def _nobody_more():
    """Whoever is started is gone at the end."""
    before = set(multiprocessing.active_children())
    yield
    assert set(multiprocessing.active_children()) == before


def ask(kind, names=NAMES, round=0, **arrays):
    return {name: Message(kind, round, arrays) for name in names}


def counts(answers):
    return {name: int(reply.arrays["count"]) for name, reply in answers.replies.items()}


def pids(answers):
    return {name: int(reply.arrays["pid"]) for name, reply in answers.replies.items()}


def restarted(engine):
    """Ask all for their counts: who is new, has its rows again and remembers nothing."""
    answers = engine.map(ask("count"), None)
    assert answers.failures == {}
    return {name for name, count in counts(answers).items() if count == 1}


# ---------------------------------------------------------------------------- death
def test_a_dead_worker_is_a_failure_and_comes_back(engine):
    engine.map(ask("count"), None)
    answers = engine.map(ask("die"), None)
    assert list(answers.replies) == ["north"]
    assert answers.failures == {"south": Failure.BAD_REPLY}
    assert restarted(engine) == {"south"}
    assert restarted(engine) == set()


def test_a_worker_that_died_between_rounds_misses_none(engine):
    victim = pids(engine.map(ask("count"), None))["south"]
    process = next(p for p in multiprocessing.active_children() if p.pid == victim)
    os.kill(victim, signal.SIGKILL)
    process.join()
    assert restarted(engine) == {"south"}


@pytest.mark.usefixtures("_nobody_more")
def test_a_worker_that_never_answers_is_given_up():
    with ProcessesEngine(workers=2, restarts=1) as engine:
        engine.start(clients(), PROBLEM, HANDLERS)
        before = len(multiprocessing.active_children())
        for _ in range(3):
            answers = engine.map(ask("die"), None)
            assert answers.failures == {"south": Failure.BAD_REPLY}
            assert list(answers.replies) == ["north"]
        assert len(multiprocessing.active_children()) == before - 1


def test_an_answer_buys_new_restarts(engine):
    for _ in range(2):
        assert list(engine.map(ask("die"), None).failures) == ["south"]
        assert restarted(engine) == {"south"}


@pytest.mark.usefixtures("_nobody_more")
def test_who_takes_its_worker_down_is_asked_last():
    with ProcessesEngine(workers=1) as engine:
        engine.start(clients()[::-1], PROBLEM, HANDLERS)
        assert list(engine.map(ask("die"), None).failures) == ["south", "north"]
        answers = engine.map(ask("die"), None)
        assert list(answers.replies) == ["north"]
        assert list(answers.failures) == ["south"]


def test_ctrl_c_is_left_to_the_parent(engine):
    for pid in pids(engine.map(ask("count"), None)).values():
        os.kill(pid, signal.SIGINT)
    assert restarted(engine) == set()


# ---------------------------------------------------------------------------- the deadline
def test_a_worker_that_hangs_is_killed_at_the_deadline(engine):
    before = pids(engine.map(ask("count"), None))
    start = monotonic()
    answers = engine.map(ask("hang"), 1.0)
    assert 1.0 <= monotonic() - start < 2.0
    assert list(answers.replies) == ["north"]
    assert answers.failures == {"south": Failure.DEADLINE}
    assert restarted(engine) == {"south"}
    after = pids(engine.map(ask("count"), None))
    assert {name for name in NAMES if after[name] != before[name]} == {"south"}


def test_a_worker_that_does_not_even_read_is_killed_at_the_deadline(engine):
    os.kill(pids(engine.map(ask("count"), None))["south"], signal.SIGSTOP)
    start = monotonic()
    answers = engine.map(ask("count", x=np.zeros(10**6)), 1.0)
    assert 1.0 <= monotonic() - start < 2.0
    assert answers.failures == {"south": Failure.DEADLINE}
    assert restarted(engine) == {"south"}


def test_a_worker_that_is_still_starting_is_late_but_lives(engine):
    engine.map(ask("die"), None)
    # Far less than a process needs to start.
    late = engine.map(ask("count", ["south"], round=1), 0.01)
    assert late.failures == {"south": Failure.DEADLINE}
    # The question that came too early is not answered late.
    assert restarted(engine) == {"south"}


# ---------------------------------------------------------------------------- a whole run
@pytest.mark.usefixtures("_nobody_more")
def test_a_run_survives_a_kill_in_the_middle_of_a_round():
    undisturbed, before = solve(PROBLEM, clients()), set(multiprocessing.active_children())

    def strike(record):
        if record.round == 2:
            victim = (set(multiprocessing.active_children()) - before).pop().pid
            # Stopped, it cannot finish the next round: the kill comes in the middle of it.
            os.kill(victim, signal.SIGSTOP)
            threading.Timer(0.3, os.kill, (victim, signal.SIGKILL)).start()

    result = solve(PROBLEM, clients(), engine=ProcessesEngine(workers=2), callbacks=[strike])
    assert result.status.kind is StatusKind.CERTIFIED
    assert [list(r.failures.values()) for r in result.history if r.failures] == [["bad_reply"]]
    assert list(result.history[2].failures.values()) == ["bad_reply"]
    np.testing.assert_allclose(result.objective, undisturbed.objective, rtol=2e-6)


@pytest.mark.usefixtures("_nobody_more")
def test_nobody_is_left_after_an_exception():
    def interrupt(record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve(PROBLEM, clients(), engine=ProcessesEngine(workers=1), callbacks=[interrupt])


# ---------------------------------------------------------------------------- alone
ALONE = """
import multiprocessing
from drfl.engines import ProcessesEngine
from drfl.wire import Message
from test_worker_faults import HANDLERS, PROBLEM, clients

if __name__ == "__main__":
    try:
        with ProcessesEngine(workers=2) as engine:
            engine.start(clients(), PROBLEM, HANDLERS)
            engine.map({s: Message("hang", 0) for s in ("north", "south")}, None)
    except KeyboardInterrupt:
        print("closed", multiprocessing.active_children())
"""


@pytest.fixture
def alone(tmp_path):
    """A process of its own, of whose workers one is idle and one computes for hours."""
    (tmp_path / "script.py").write_text(ALONE, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        assert process.stdout.readline() == "south hangs\n"
        yield process
        process.kill()


def test_workers_end_with_their_parent(alone):
    alone.kill()
    # They hold the same output: it ends when the last of them has ended.
    assert alone.communicate(timeout=60) == ("", "")


def test_ctrl_c_ends_everything_with_one_word(alone):
    os.killpg(alone.pid, signal.SIGINT)
    assert alone.communicate(timeout=60) == ("closed []\n", "")
