"""What real sites cost: processes of NVIDIA FLARE on this machine, over mutual TLS, and of Flower.

    python benchmarks/sites.py [--cases a b c] [--check] [--flower .venv-flower/bin]

Every case starts a server and its sites, trains twice, and ends them. The overhead of a round is
the time until its last answer has come, minus the time that the slowest client computes in the
serial engine for the same answer; medians over the rounds. ``same`` says whether the model is
that of the serial engine, to the last bit. The start is from nothing to the answer of the first
round; in the first case a site is then killed with all its processes, and the time counts until
the coordinator is told its name. With ``--flower``, the folder of the programs of an environment
with Flower, the first case is repeated over SuperNodes, without TLS.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy is loaded

import numpy as np
import psutil

from drfl.client import Policy
from drfl.protocols.station import Station
from drfl.run.checkpoint import Checkpoint
from drfl.sites.progress import ProgressLog
from drfl.training.local_files import Files
from drfl.training.run_folder import RunFolder
from drfl.training.settings import from_values
from drfl.training.train import train

CASES = {  # sites, features, curvature, the overhead that is aimed at
    "a": (3, 100, False, 0.05),
    "b": (3, 100, True, 0.15),
    "c": (10, 1000, False, 0.4),
}
ROWS, START, NAMED = 400, 20.0, 15.0
TRAINING = {
    "keep_cuts": True,
    "target": "y",
    "loss": "logistic",
    "radius": 0.01,
    "scale": "none",
    "max_rounds": 12,  # the rounds count here, not the optimum, nor what follows a training
    "validation": False,
    "inference": False,
    "leave_out": False,
}
DRFL = [sys.executable, "-m", "drfl"]


class Programs:
    """Commands in a folder, by default of drfl, and all their processes."""

    def __init__(self, folder, **environment):
        self.folder, self.running = folder, []
        self.environment = {**os.environ, **environment}

    def do(self, *arguments, program=DRFL):
        subprocess.run(
            [*program, *arguments],
            cwd=self.folder,
            check=True,
            stdout=subprocess.DEVNULL,
            env=self.environment,
        )

    def begin(self, *arguments, program=DRFL):
        out = self.folder / f"said-{len(self.running)}.txt"
        with out.open("wb") as file:
            process = subprocess.Popen(
                [*program, *arguments],
                cwd=self.folder,
                stdout=file,
                stderr=file,
                env=self.environment,
            )
        self.running.append(process)
        return process, out

    def end(self):
        for process in reversed(self.running):
            if process.poll() is None:
                process.terminate()
        for process in self.running:
            process.wait(60)


def wait_for(condition, seconds=1200.0):
    last = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > last:
            raise TimeoutError
        time.sleep(0.02)


def free_port():
    with socket.socket() as trial:
        trial.bind(("localhost", 0))
        return str(trial.getsockname()[1])


def prepare(folder, names, n, curvature, kits, rejoin):
    rng, direction = np.random.default_rng(0), np.random.default_rng(1).normal(size=n)
    header = ",".join([*(f"x{k}" for k in range(n)), "y"])
    for name in names:
        X = rng.normal(size=(ROWS, n)) / np.sqrt(n)
        y = (X @ direction + 0.3 * rng.normal(size=ROWS) > 0.0).astype(float)
        np.savetxt(
            folder / f"{name}.csv",
            np.column_stack([X, y]),
            "%.17g",
            ",",
            header=header,
            comments="",
        )
    lines = [f"port = {free_port()}", f"sites = {json.dumps(names)}", "quorum = 2"]
    lines.append(f"rejoin = {rejoin}")
    lines += [
        "",
        "[training]",
        *(f"{key} = {json.dumps(value)}" for key, value in TRAINING.items()),
    ]
    (folder / "sites.toml").write_text("\n".join(lines) + "\n", "utf-8")
    for name in names:
        kit = kits / name
        kit.mkdir(parents=True)
        own = f"guard = 0\ncurvature = {json.dumps(curvature)}\n"
        (kit / "site.toml").write_text(own, "utf-8")


def seconds_of(log):
    """The slowest client of every round of a checkpoint."""
    return [max(r.answers.seconds.values()) for r in Checkpoint(log, {}).rounds()]


def result_of(folder):
    lines = (folder / "records.jsonl").read_text("utf-8").splitlines()
    return next(r["models"] for r in map(json.loads, lines) if r["kind"] == "result")


def ledger_of(kits, name):
    path = kits / name / "state" / "messages.jsonl"
    return path.read_text("utf-8").splitlines() if path.exists() else []


def over_flare(folder, S, n, curvature, *, kill):
    names, kits = [f"site{k}" for k in range(S)], folder / "drfl" / "kits"
    prepare(folder, names, n, curvature, kits, rejoin=1.0)  # the one that is killed stays away
    programs = Programs(folder)
    try:
        programs.do("sites", "init", "sites.toml", "--kits")
        begun = time.monotonic()
        programs.begin("sites", "serve")
        joined = [
            programs.begin(
                "sites", "join", f"drfl/kits/{s}.zip", "--data", f"{s}.csv", "--without-guard"
            )
            for s in names
        ]
        wait_for(lambda: all("has joined" in out.read_text("utf-8") for _, out in joined))
        run, _ = programs.begin("sites", "run", "--quiet", "--out", "RUN")
        wait_for(lambda: '"bundle/reply"' in "".join(ledger_of(kits, names[0])))
        start = time.monotonic() - begun
        run.wait(600)
        (log,) = folder.glob("drfl/state/checkpoints/*/*/model-0")
        named = killed(programs, kits, names, joined) if kill else None
    finally:
        programs.end()
    return start, *beside_serial(folder, names, curvature, log, folder / "RUN"), named


def over_flower(folder, S, n, curvature, where):
    names = [f"site{k}" for k in range(S)]
    prepare(folder, names, n, curvature, folder, rejoin=600.0)
    port, local = free_port(), ["--host", "127.0.0.1", "--port"]
    home = folder / "flwr"
    home.mkdir()
    address = f'address = "localhost:{port}"\ninsecure = true\n'
    (home / "config.toml").write_text(f'[superlink]\ndefault = "here"\n[superlink.here]\n{address}')
    programs = Programs(
        folder,
        FLWR_HOME=str(home),
        FLWR_TELEMETRY_ENABLED="0",
        FLWR_DISABLE_UPDATE_CHECK="1",
        FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION="1",
        FLWR_SUPEREXEC_TASK_POLL_INTERVAL="0.1",
        PATH=f"{where}{os.pathsep}{os.environ['PATH']}",
    )
    drfl, superlink, supernode, flwr = (
        [str(where / name)] for name in ("drfl", "flower-superlink", "flower-supernode", "flwr")
    )
    try:
        programs.do("flower", "init", "sites.toml", program=drfl)
        begun = time.monotonic()
        _, out = programs.begin("--insecure", *local, port, program=superlink)
        for s in names:
            programs.begin(
                "flower", "site", s, "--data", f"{s}.csv", "--without-guard", program=drfl
            )
        wait_for(lambda: "startup complete" in out.read_text("utf-8"))
        for s in names:
            wait_for((folder / s / "door.json").exists)
            door = ["--node-config", f'drfl="{folder / s / "door.json"}"']
            link = ["--insecure", "--superlink", f"localhost:{port}", *local, free_port()]
            programs.begin(*link, *door, program=supernode)
        run, _ = programs.begin("run", "sites-app", "--stream", program=flwr)
        wait_for(lambda: '"bundle/reply"' in "".join(ledger_of(folder, names[0])))
        start = time.monotonic() - begun
        run.wait(1200)
        (log,) = folder.glob("runs/checkpoints/*/*/model-0")
        (found,) = folder.glob("runs/*/RUN")
    finally:
        programs.end()
    return start, *beside_serial(folder, names, curvature, log, found), None


def beside_serial(folder, names, curvature, log, run):
    """Seconds of a round and what the carrier adds, how many rounds, whether the bits are equal."""
    here = RunFolder(folder / "SERIAL")
    stations = [Station(s, folder / f"{s}.csv", policy=Policy(curvature=curvature)) for s in names]
    settings = from_values(TRAINING, {s: folder / f"{s}.csv" for s in names})
    train(settings, here, Files(stations), ProgressLog(), fresh=True)
    serial, there = seconds_of(here.checkpoint / "model-0"), seconds_of(log)
    overhead = [a - b for a, b in zip(there, serial, strict=False)]
    same = result_of(run) == result_of(folder / "SERIAL")
    return statistics.median(there), statistics.median(overhead), len(there), same


def killed(programs, kits, names, joined):
    """Seconds until the coordinator is told that a site is dead."""
    before = len(ledger_of(kits, names[0]))
    process, out = programs.begin("sites", "run", "--out", "KILLED")
    wait_for(lambda: len(ledger_of(kits, names[0])) > before + 3)
    site = psutil.Process(joined[-1][0].pid)
    struck = time.monotonic()
    for each in [*site.children(recursive=True), site]:
        each.kill()
    wait_for(lambda: "is missing from now on" in out.read_text("utf-8"))
    named = time.monotonic() - struck
    process.wait(300)
    return named


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=CASES)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument("--flower", type=Path, metavar="BIN", help="the programs of Flower")
    options = parser.parse_args()
    print(
        "| carrier | sites |   n | curvature | rounds | a round, s | overhead, s (target) "
        "| start, s | named, s | same |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    missed = False
    for case in options.cases:
        S, n, curvature, target = CASES[case]
        with tempfile.TemporaryDirectory() as folder:
            found = over_flare(Path(folder), S, n, curvature, kill=case == "a")
        start, _, overhead, _, same, named = found
        show("FLARE", case, found, f" ({target})")
        missed |= overhead > target or not same or (named or 0.0) > NAMED
        missed |= S == 3 and start > START
    if options.flower is not None:
        with tempfile.TemporaryDirectory() as folder:
            found = over_flower(Path(folder), *CASES["a"][:3], options.flower.resolve())
        show("Flower", "a", found)
        missed |= not found[4]
    return int(missed and options.check)


def show(carrier, case, found, target=""):
    S, n, curvature, _ = CASES[case]
    start, seconds, overhead, rounds, same, named = found
    told = "" if named is None else f"{named:.1f} ({NAMED:g})"
    begun = f"{start:.1f}" + (f" ({START:g})" if S == 3 and target else "")
    print(
        f"| {carrier} | {S} | {n} | {'yes' if curvature else 'no'} | {rounds} "
        f"| {seconds:.3f} | {overhead:.3f}{target} | {begun} | {told} "
        f"| {'yes' if same else 'no'} |",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
