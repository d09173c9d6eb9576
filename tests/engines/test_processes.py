"""Worker processes: the numbers of the serial engine, and what can go wrong at the start."""

import math
import multiprocessing
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from scipy import sparse

from drfl.client import Client
from drfl.engines import ProcessesEngine, SerialEngine
from drfl.engines.blas import VARIABLES, one_blas_thread
from drfl.engines.processes import _groups
from drfl.problem import Problem
from drfl.run import solve
from drfl.solvers import StatusKind
from drfl.supports import Box
from drfl.uncertainty import Ball, Mixture
from drfl.wire import Message
from kit.handlers import HANDLERS, threads

NAMES = ("north", "south", "east")
PROBLEM = Problem("hinge", Ball(0.1, "l1", 1.0))
N, n = 120, 4


def make_data():
    rng = np.random.default_rng(5)
    X = {name: rng.normal(size=(N, n)) for name in NAMES}
    return X, {name: X[name] @ np.ones(n) + rng.normal(size=N) for name in NAMES}


X, TARGETS = make_data()
LABELS = {name: np.sign(y) for name, y in TARGETS.items()}


def clients(data=X, y=LABELS, **options):
    return [Client(name, data[name], y[name], **options) for name in NAMES]


@pytest.fixture(autouse=True)
def _nothing_is_left():
    before = threading.active_count()
    yield
    assert multiprocessing.active_children() == []
    assert threading.active_count() == before


# ---------------------------------------------------------------------------- the same numbers
def sparse_rows(folder):
    return clients({name: sparse.csr_array(x * (x > 0)) for name, x in X.items()})


def a_file_and_gaps(folder):
    X["south"].tofile(folder / "X.bin")
    mapped = np.memmap(folder / "X.bin", np.float64, "r", shape=(N, n))
    gaps = np.asfortranarray(np.vstack([X["east"], X["east"]]))[:N]
    return clients(X | {"south": mapped, "east": gaps})


def small_and_weighted(folder):
    single = {name: x.clip(-3.0, 3.0).astype(np.float32) for name, x in X.items()}
    return clients(single, TARGETS, sample_weight=np.linspace(1.0, 2.0, N))


CASES = {
    "hinge": (Problem("hinge", Ball(0.05, "l1", 1.0), Mixture(radius=0.3)), sparse_rows),
    "logistic": (Problem("logistic", Ball(0.05, "l2"), Mixture(radius=math.inf)), a_file_and_gaps),
    "huber": (
        Problem("huber", Ball(0.05, support=Box(-3.0, 3.0)), Mixture(radius=0.3), epsilon=1.0),
        small_and_weighted,
    ),
}


@pytest.mark.parametrize(("problem", "make"), CASES.values(), ids=CASES)
def test_a_run_gives_the_same_bits_as_on_the_serial_engine(problem, make, tmp_path):
    serial = solve(problem, make(tmp_path))
    result = solve(problem, make(tmp_path), engine=ProcessesEngine(workers=2))
    assert result.status.kind is StatusKind.CERTIFIED
    assert result.coef.tobytes() == serial.coef.tobytes()
    assert [(r.objective, r.gap, r.bytes_up, r.bytes_down) for r in result.history] == [
        (r.objective, r.gap, r.bytes_up, r.bytes_down) for r in serial.history
    ]
    assert result.client_multipliers == serial.client_multipliers


MANY_THREADS = """
import numpy as np
from threadpoolctl import threadpool_info
from drfl import Ball, Client, Mixture, Problem, solve
from drfl.engines import ProcessesEngine, SerialEngine
from drfl.wire import Message
from kit.handlers import HANDLERS

def blas():
    return {p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"}

if __name__ == "__main__":
    rng = np.random.default_rng(0)
    # Weighted means of so many rows are the sums that several threads would split.
    p = np.linspace(1.0, 2.0, 20_000)
    X = rng.normal(size=(20_000, 20))
    client = Client("a", X, np.sign(X[:, 0] + rng.normal(size=20_000)), sample_weight=p)
    print(len(blas()), max(blas()))
    runs = [
        solve(Problem("hinge", Ball(0.05)), [client], engine=engine, max_rounds=3)
        for engine in ("serial", "processes")
    ]
    one, other = ([r.coef.tolist(), [x.objective for x in r.history]] for r in runs)
    print(max(blas()), one == other, runs[0].rounds)
    with ProcessesEngine() as engine:
        engine.start([client], Problem(), HANDLERS)
        reply = engine.map({"a": Message("threads", 0)}, None).replies["a"]
        print(reply.arrays["threads"].max())
"""


def run_script(folder, text, **environment):
    """A process of its own, as a user would start it; with the threads of BLAS that it likes."""
    (folder / "script.py").write_text(text, encoding="utf-8")
    kept = {k: v for k, v in os.environ.items() if k not in VARIABLES}
    path = os.pathsep.join(sys.path)
    return subprocess.run(
        [sys.executable, str(folder / "script.py")],
        env=kept | {"PYTHONPATH": path} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_bits_do_not_depend_on_how_many_threads_blas_would_take(tmp_path):
    done = run_script(tmp_path, MANY_THREADS, OPENBLAS_NUM_THREADS="2")
    assert done.stderr == ""
    (_, most), (after, same, rounds), (child,) = map(str.split, done.stdout.splitlines())
    assert (same, child) == ("True", "1")
    assert after == most  # the caller has its threads back
    assert int(rounds) >= 2


def test_the_limit_of_threads_lasts_as_long_as_anyone_wants_it():
    counts = []
    with one_blas_thread():
        with one_blas_thread():
            pass
        counts.append(threads(None, None)["threads"].max())
    assert counts == [1]


def test_the_environment_is_as_before():
    before = dict(os.environ)
    with ProcessesEngine(workers=1) as engine:
        engine.start(clients(), PROBLEM, HANDLERS)
    assert dict(os.environ) == before


# ---------------------------------------------------------------------------- workers
def test_rows_are_spread_evenly_over_the_workers():
    sizes = {"a": 100, "b": 10, "c": 60, "d": 50, "e": 5}
    group = [Client(name, np.ones((size, 1)), np.ones(size)) for name, size in sizes.items()]
    assert [[c.name for c in g] for g in _groups(group, 2)] == [["a", "b", "e"], ["c", "d"]]
    assert [[c.name for c in g] for g in _groups(group[:2], 7)] == [["a"], ["b"]]


@pytest.mark.parametrize(("workers", "count"), [(1, 1), (8, 3)])
@pytest.mark.sampled(2)
def test_workers_are_processes_that_stay(workers, count):
    with ProcessesEngine(workers=workers) as engine:
        engine.start(clients(), PROBLEM, HANDLERS)
        ask = {name: Message("count", 0) for name in NAMES}
        first, second = engine.map(ask, None).replies, engine.map(ask, None).replies
        pids = {name: int(reply.arrays["pid"]) for name, reply in second.items()}
        assert {int(reply.arrays["count"]) for reply in second.values()} == {2}
        assert pids == {name: int(reply.arrays["pid"]) for name, reply in first.items()}
        assert set(pids.values()) == {p.pid for p in multiprocessing.active_children()}
        assert len(set(pids.values())) == count
    with pytest.raises(ProcessLookupError):
        os.kill(pids["north"], 0)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"workers": 0}, "workers must be None or a whole number >= 1, got 0"),
        ({"workers": 2.0}, "workers must be"),
        ({"restarts": -1}, "restarts must be a whole number >= 0, got -1"),
        ({"restarts": True}, "restarts must be"),
    ],
)
def test_bad_settings_are_refused(settings, why):
    with pytest.raises((TypeError, ValueError), match=why):
        ProcessesEngine(**settings)


# ---------------------------------------------------------------------------- bad starts
def test_a_client_that_does_not_fit_is_refused_in_the_same_words():
    odd = [Client("odd", np.ones((9, 2)), np.full(9, 3.0)), Client("too", [[1.0, 2.0]], [3.0])]
    sentences = []
    for engine in (SerialEngine(), ProcessesEngine(workers=2)):
        with pytest.raises(ValueError, match="client 'odd'") as caught:
            solve(PROBLEM, odd, engine=engine)
        sentences.append(str(caught.value))
    assert sentences[0] == sentences[1]


def test_what_other_processes_cannot_find_is_refused():
    engine = ProcessesEngine(workers=1)
    with pytest.raises(ValueError, match=r"lambda.*top level of a module"):
        engine.start(clients(), PROBLEM, {"leak": lambda site, message: {}})


def vanishing(site, message):
    return {}


def test_a_handler_that_the_worker_does_not_find_is_refused(monkeypatch):
    module = type(sys)("here_only")
    module.vanishing = vanishing
    monkeypatch.setitem(sys.modules, "here_only", module)
    monkeypatch.setattr(vanishing, "__module__", "here_only")
    with pytest.raises(ValueError, match=r"ModuleNotFoundError.*here_only.*that it can import"):
        ProcessesEngine(workers=2).start(clients(), PROBLEM, {"vanish": vanishing})


UNGUARDED = """
from drfl import Ball, Client, Problem, solve
clients = [Client("a", [[0.0], [1.0]], [-1, 1])]
solve(Problem("hinge", Ball(0.1)), clients, engine="processes")
"""


def test_a_script_without_a_guard_is_told_so(tmp_path):
    done = run_script(tmp_path, UNGUARDED)
    assert done.returncode == 1
    *_, last = done.stderr.splitlines()
    assert last.startswith("RuntimeError: a worker process ended (exit code 1) before it was ready")
    assert last.endswith('under `if __name__ == "__main__":`')
