"""A run that is killed and resumed ends where it would have ended, to the bit."""

import os
import random
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import drfl
from drfl.datasets import load_heart, partition
from drfl.run.checkpoint import CheckpointError

HEART = load_heart()


def clients(n=4, columns=slice(None), names="abcdefgh"):
    parts = partition.random(270, n, np.random.default_rng(0))
    return [
        drfl.Client(name, HEART.data[rows][:, columns], HEART.target[rows])
        for name, rows in zip(names, parts, strict=False)
    ]


def problem(loss="hinge", radius=0.02, support=None, **settings):
    ball = drfl.Ball(radius, "l1", 5.0, support)
    return drfl.Problem(loss, ball, drfl.Mixture(radius=0.2), **settings)


def stop_at(number):
    return lambda record: record.round >= number


PROBLEMS = {
    "flips": problem(),
    "ties": problem(radius=0.0),
    "dual cuts": problem("logistic"),
    "box": problem(support=drfl.Box(-1, 1)),
    "shared multiplier": problem(shared_ball=True),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.sampled(5)
def test_resuming_repeats_the_run_to_the_bit(name, tmp_path):
    whole = drfl.solve(PROBLEMS[name], clients())
    for stop in {1, 2, 3, whole.rounds // 2, whole.rounds - 1} - {0}:
        path = tmp_path / f"{stop}"
        part = drfl.solve(PROBLEMS[name], clients(), checkpoint=path, callbacks=[stop_at(stop)])
        assert part.rounds == stop
        resumed = drfl.solve(PROBLEMS[name], clients(), checkpoint=path)
        assert resumed.coef.tobytes() == whole.coef.tobytes()
        assert resumed.intercept == whole.intercept
        assert resumed.rounds == whole.rounds
        assert resumed.bytes_up == whole.bytes_up
        assert [r.gap for r in resumed.history] == [r.gap for r in whole.history]


def test_a_finished_run_asks_nobody(tmp_path):
    path = tmp_path / "checkpoint"
    first = drfl.solve(problem(), clients(), checkpoint=path)
    size = path.stat().st_size
    again = drfl.solve(problem(), clients(), checkpoint=path)
    assert again.coef.tobytes() == first.coef.tobytes()
    assert path.stat().st_size == size


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        (lambda path: drfl.solve(problem(radius=0.03), clients(), checkpoint=path), "problem"),
        (lambda path: drfl.solve(problem(), clients(3), checkpoint=path), "clients"),
        (lambda path: drfl.solve(problem(), clients(names="wxyz"), checkpoint=path), "clients"),
        (
            lambda path: drfl.solve(problem(), clients(columns=slice(5)), checkpoint=path),
            "columns",
        ),
        (lambda path: drfl.solve(problem(), clients(), tol=1e-3, checkpoint=path), "tol"),
    ],
)
@pytest.mark.sampled(2)
def test_another_run_is_refused(changed, word, tmp_path):
    path = tmp_path / "checkpoint"
    drfl.solve(problem(), clients(), checkpoint=path, callbacks=[stop_at(2)])
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match=f"another {word}"):
        changed(path)
    assert path.read_bytes() == before


def test_other_data_are_noticed(tmp_path):
    path = tmp_path / "checkpoint"
    drfl.solve(problem(), clients(), checkpoint=path, callbacks=[stop_at(3)])
    data = path.read_bytes()
    # A client whose first answer had been another one leads to other requests.
    other = clients()
    other[0] = drfl.Client("a", 1.5 * other[0].rows.X, other[0].rows.y)
    second = tmp_path / "other"
    drfl.solve(problem(), other, checkpoint=second, callbacks=[stop_at(3)])
    head = data.index(b"\n", data.index(b"\n") + 1) + 1
    other_data = second.read_bytes()
    first_record = 40 + int.from_bytes(data[head : head + 8], "little")
    other_record = 40 + int.from_bytes(other_data[head : head + 8], "little")
    path.write_bytes(other_data[: head + other_record] + data[head + first_record :])
    with pytest.raises(CheckpointError, match="cannot be repeated"):
        drfl.solve(problem(), clients(), checkpoint=path)


@pytest.mark.parametrize("cut", [1, 17, 200])
def test_a_record_that_was_cut_off_is_dropped(cut, tmp_path):
    path, whole = tmp_path / "checkpoint", drfl.solve(problem(), clients())
    drfl.solve(problem(), clients(), checkpoint=path, callbacks=[stop_at(4)])
    path.write_bytes(path.read_bytes()[:-cut])
    resumed = drfl.solve(problem(), clients(), checkpoint=path)
    assert resumed.coef.tobytes() == whole.coef.tobytes()


def test_something_else_is_not_overwritten(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("my notes")
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        drfl.solve(problem(), clients(), checkpoint=path)
    assert path.read_text() == "my notes"


SCRIPT = """
    import sys, time
    import numpy as np
    import drfl
    from drfl.datasets import load_heart, partition

    heart = load_heart()
    parts = partition.random(270, 4, np.random.default_rng(0))
    clients = [
        drfl.Client(name, heart.data[rows], heart.target[rows])
        for name, rows in zip("abcd", parts, strict=True)
    ]
    problem = drfl.Problem("hinge", drfl.Ball(0.02, "l1", 5.0), drfl.Mixture(radius=0.2))
    print("ready", flush=True)
    result = drfl.solve(
        problem, clients, checkpoint=sys.argv[1], callbacks=[lambda r: time.sleep(0.01)]
    )
    np.save(sys.argv[2], result.coef)
"""


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_moments(kills, tmp_path):
    script, path, out = tmp_path / "run.py", tmp_path / "checkpoint", tmp_path / "coef.npy"
    script.write_text(textwrap.dedent(SCRIPT))
    command = [sys.executable, str(script), str(path), str(out)]
    rng = random.Random(0)
    for _ in range(kills):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        process.stdout.readline()  # it has been imported; now it computes
        try:
            process.wait(timeout=0.3 * rng.random())
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    whole = drfl.solve(problem(), clients())
    assert np.load(out).tobytes() == whole.coef.tobytes()
