"""What goes wrong at real sites: processes of FLARE on this machine, killed, stopped, spoiled."""

import csv
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from drfl.datasets import load_heart
from kit.real_sites import Program, drfl_sites, real_sites

NAMES = ("north", "south", "west")
# A loss whose optimum is a vertex: close objectives have close models.
TRAINING = {
    "loss": "hinge",
    "norm": "l1",
    "mixture_radius": 0.2,
    "tol": 1e-9,
    "label_cost": 1.0,
    "leave_out": "false",  # rounds are counted
    "radius": 0.05,
}
LIMITS = {"deadline": 60.0, "rejoin": 40.0, "quorum": 2}
SLOW = 0.5  # seconds that the west takes for a round, where somebody strikes in the middle


def heart(name):
    """A third of the heart data as CSV."""
    found = load_heart()
    X, y = found.data, found.target
    k = NAMES.index(name)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*(f"x{j}" for j in range(X.shape[1])), "disease"])
    for row, label in zip(X[k::3].tolist(), y[k::3].tolist(), strict=True):
        writer.writerow([*map(repr, row), "yes" if label > 0 else "no"])
    return out.getvalue()


class Sites:
    """Three sites, of which the west can be told to misbehave, and the run that nobody disturbs."""

    def __init__(self, folder, started):
        self.folder, self.started = folder, started
        self.command, self.running = folder / "misbehave.json", None
        self.behave()

    def behave(self, slow=0.0, **faults):
        """Let the west be slow, or misbehave in certain rounds: ``r3="nan"``."""
        told = {"slow": slow, "faults": {key[1:]: fault for key, fault in faults.items()}}
        self.command.write_text(json.dumps(told), "utf-8")

    def undisturbed(self):
        """The same training on the same files by the serial engine."""
        out = self.folder / "serial"
        if not out.exists():
            options = [f"--client={name}.csv" for name in NAMES]
            options += [f"--{key.replace('_', '-')}={value}" for key, value in TRAINING.items()]
            options += ["--target=disease", "--quiet", f"--out={out}"]
            subprocess.run(
                [sys.executable, "-m", "drfl", "train", *options],
                cwd=self.folder,
                check=True,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            )
        return result_of(out)

    def run(self, out, code=0):
        """A training over the sites, to its end."""
        drfl_sites("run", "--out", out, cwd=self.folder, code=code, seconds=280)
        return result_of(self.folder / out)

    def begin(self, out):
        """A training over the sites, in the background, slow enough to be met in the middle."""
        self.behave(slow=SLOW)
        self.running = Program("run", "--out", out, cwd=self.folder)
        return self.running

    def answered(self, name="west"):
        """What a site has sent, by job, in the order of the jobs."""
        ledger = self.started.kit(name) / "state" / "messages.jsonl"
        jobs = {}
        for line in self.started.ledger(name) if ledger.exists() else ():
            jobs.setdefault(line["job"], []).append(line["kind"])
        return list(jobs.values())

    def rounds(self):
        """How many rounds the west has answered in the last job."""
        return self.answered()[-1].count("bundle/reply")

    def in_the_middle(self, jobs):
        """Wait until the job after so many is in its fourth round."""
        until(lambda: len(self.answered()) > jobs and self.rounds() >= 4)

    def rejoin(self, name):
        """Start a site again whose processes have ended."""
        self.started.sites[name].end()
        self.started.join(name).until("has joined", 120.0)

    # ------------------------------------------------------------------ processes of a site
    def parent(self, name):
        """FLARE's process at a site."""
        return descendants(self.started.sites[name].process.pid, "flare.start site")

    def job(self, name):
        """The process of the present job."""
        return descendants(self.started.sites[name].process.pid, "flare.start job")

    def child(self, name):
        """The process that computes."""
        return descendants(self.job(name).pid, "spawn_main")


def descendants(pid, words):
    found = [
        process
        for process in psutil.Process(pid).children(recursive=True)
        if words in " ".join(process.cmdline())
    ]
    assert found, words
    return found[0]


def until(condition, seconds=180.0):
    last = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < last
        time.sleep(0.05)


def result_of(folder):
    lines = (Path(folder) / "records.jsonl").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    result = next(r for r in records if r["kind"] == "result")
    result["failures"] = {
        r["round"]: r["failures"] for r in records if r["kind"] == "round" and r["failures"]
    }
    return result


def assert_same(result, other):
    """The same numbers, bit for bit: JSON tells every digit."""
    assert result["models"] == other["models"]
    assert result["rounds"] == other["rounds"]


def assert_close(result, other):
    (one,), (two,) = result["models"], other["models"]
    assert one["status"]["kind"] == two["status"]["kind"] == "certified"
    np.testing.assert_allclose(one["coef"], two["coef"], atol=1e-6)
    np.testing.assert_allclose(one["intercept"], two["intercept"], atol=1e-6)


@pytest.fixture
def sites(deployed):
    """Three sites that are well, and that nobody asks anything when the test is over."""
    yield deployed
    if deployed.running is not None:
        deployed.running.stop()
    deployed.behave()
    for name, program in deployed.started.sites.items():
        if program.process.poll() is not None:
            deployed.rejoin(name)


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    west = {
        "PYTHONPATH": str(Path(__file__).parent / "faulty"),
        "MISBEHAVE": str(folder / "misbehave.json"),
    }
    own = {name: {"guard": 0, "time_limit": 20.0} for name in NAMES}
    own["west"] |= {"memory_limit": 1000}
    data = {name: heart(name) for name in NAMES}
    with real_sites(
        folder, data, settings=own, environment={"west": west}, training=TRAINING, **LIMITS
    ) as started:
        yield Sites(folder, started)


# ---------------------------------------------------------------------------- CI
def test_the_job_process_is_killed_and_the_run_resumes(sites):
    """The result is that of the serial engine, bit for bit, although FLARE's job has died."""
    jobs = len(sites.answered())
    run = sites.begin("killed")
    sites.in_the_middle(jobs)
    answered = sites.rounds()
    sites.job("south").kill()
    sites.behave()
    assert run.end(240) == 0, run.text
    assert "attempt 2, from the checkpoint" in run.text
    assert_same(result_of(sites.folder / "killed"), sites.undisturbed())
    # The rounds before the death were not asked again.
    assert sites.rounds() <= sites.undisturbed()["rounds"] - answered + 1


@pytest.mark.slow
def test_bad_replies_are_refused_by_name_and_the_run_ends_at_the_same_model(sites):
    """NaN, a wrong shape, a stale round, an error; a child that dies, and one without memory."""
    sites.behave(r1="nan", r2="shape", r3="stale", r4="raises", r5="dies", r6="exhausts")
    result = sites.run("spoiled")
    failures = {round - 1: told["west"] for round, told in result["failures"].items()}
    assert "has NaN or infinite entries" in failures[1]
    assert "must have shape" in failures[2]
    assert "expected a message of round 3, got one of round 2" in failures[3]
    assert (failures[4], failures.get(5), failures[6]) == ("error", None, "memory")
    assert_close(result, sites.undisturbed())
    # What was wrong is said at the site, and nowhere else.
    errors = sites.started.kit("west") / "state" / "errors.log"
    assert "patient 4711" in errors.read_text("utf-8")
    for path in (sites.started.layout.folder / "server").rglob("*"):
        if path.is_file():
            assert b"patient 4711" not in path.read_bytes(), path
    assert "patient 4711" not in json.dumps(result)


# ---------------------------------------------------------------------------- the others
@pytest.mark.slow
def test_a_computation_that_is_killed_costs_no_round(sites):
    jobs = len(sites.answered())
    run = sites.begin("child")
    sites.in_the_middle(jobs)
    sites.child("south").kill()
    sites.child("west").kill()
    sites.behave()
    assert run.end(240) == 0, run.text
    assert "attempt" not in run.text
    assert result_of(sites.folder / "child")["failures"] == {}
    assert_same(result_of(sites.folder / "child"), sites.undisturbed())


@pytest.mark.slow
def test_a_computation_that_hangs_meets_the_time_limit_of_its_site(sites):
    sites.behave(r3="hangs")
    result = sites.run("hung")
    assert {round: told["west"] for round, told in result["failures"].items()} == {4: "deadline"}
    assert_close(result, sites.undisturbed())


@pytest.mark.slow
def test_a_site_that_is_stopped_for_ten_seconds_has_missed_nothing(sites):
    jobs = len(sites.answered())
    run = sites.begin("stopped")
    sites.in_the_middle(jobs)
    stopped = [sites.parent("west"), sites.job("west"), sites.child("west")]
    for process in stopped:
        process.suspend()
    time.sleep(10.0)
    for process in stopped:
        process.resume()
    sites.behave()
    assert run.end(240) == 0, run.text
    assert "attempt" not in run.text
    assert_same(result_of(sites.folder / "stopped"), sites.undisturbed())


@pytest.mark.slow
def test_a_site_whose_parent_is_killed_is_missed_and_invited_again(sites):
    jobs = len(sites.answered())
    run = sites.begin("parent")
    sites.in_the_middle(jobs)
    killed = time.monotonic()
    sites.parent("west").kill()
    run.until("site 'west' is missing from now on: it gave no sign of life", 40.0)
    # It answers on for some seconds, until its job process has noticed.
    assert time.monotonic() - killed < 30.0
    run.until("waiting 40 s for 'west' to come back", 120.0)
    sites.behave()
    sites.rejoin("west")
    assert run.end(240) == 0, run.text
    assert "'west' came back: attempt 2" in run.text
    assert_same(result_of(sites.folder / "parent"), sites.undisturbed())


@pytest.mark.slow
def test_a_site_that_stays_away_is_named(sites):
    jobs = len(sites.answered())
    run = sites.begin("away")
    sites.in_the_middle(jobs)
    sites.parent("west").kill()
    sites.behave()
    code = run.end(280)
    assert code == 4, run.text
    assert "the end is without site 'west': it gave no sign of life" in run.text
    (model,) = result_of(sites.folder / "away")["models"]
    assert model["status"]["kind"] == "partial"
    assert "west fell silent" in model["status"]["message"]


@pytest.mark.slow
def test_a_site_that_is_late_takes_part_at_the_next_attempt(sites):
    sites.started.sites["west"].stop()
    run = sites.begin("late")
    run.until("site 'west' is missing from now on: it was not connected", 90.0)
    sites.behave()
    sites.rejoin("west")
    assert run.end(240) == 0, run.text
    assert_same(result_of(sites.folder / "late"), sites.undisturbed())


@pytest.mark.slow
def test_the_server_is_killed_and_restarted(sites):
    jobs = len(sites.answered())
    run = sites.begin("server")
    sites.in_the_middle(jobs)
    descendants(sites.started.server.process.pid, "flare.start server").kill()
    sites.started.server.end()
    sites.behave()
    sites.started.serve()
    assert run.end(280) == 0, run.text
    assert_same(result_of(sites.folder / "server"), sites.undisturbed())


@pytest.mark.slow
def test_the_job_process_of_the_server_is_killed(sites):
    jobs = len(sites.answered())
    run = sites.begin("driver")
    sites.in_the_middle(jobs)
    descendants(sites.started.server.process.pid, "runner_process").kill()
    sites.behave()
    assert run.end(240) == 0, run.text
    assert_same(result_of(sites.folder / "driver"), sites.undisturbed())


@pytest.mark.slow
def test_everyone_is_killed_and_the_run_is_continued(sites):
    jobs = len(sites.answered())
    run = sites.begin("everyone")
    sites.in_the_middle(jobs)
    programs = [run, sites.started.server, *sites.started.sites.values()]
    everyone = [
        process
        for program in programs
        for process in (
            *psutil.Process(program.process.pid).children(recursive=True),
            psutil.Process(program.process.pid),
        )
    ]
    for process in everyone:
        if process.is_running():
            process.kill()
    for program in programs:
        program.end()
    psutil.wait_procs(everyone, timeout=20)
    sites.behave()
    sites.started.serve()
    for name in NAMES:
        sites.rejoin(name)
    runs = sites.started.layout.checkpoints.glob("*")
    last = max(runs, key=lambda path: path.stat().st_mtime).name
    drfl_sites("run", "--resume", last, "--out", "again", cwd=sites.folder, seconds=280)
    assert_same(result_of(sites.folder / "again"), sites.undisturbed())


@pytest.mark.slow
def test_below_the_quorum_it_stops_at_once_and_says_so(sites):
    jobs = len(sites.answered())
    run = sites.begin("quorum")
    sites.in_the_middle(jobs)
    for name in ("south", "west"):
        sites.parent(name).kill()
    run.until("fewer than the quorum of 2", 60.0)
    for name in ("south", "west"):
        sites.rejoin(name)
    sites.behave()
    assert run.end(280) == 0, run.text
    assert_same(result_of(sites.folder / "quorum"), sites.undisturbed())
