"""What a client's step on a network costs beside a plain loop in PyTorch.

    python -m benchmarks.torch [--repeats 15]

A step on the digits of one client (a network with 32 hidden units), as a client of FedAvg makes it:
two moves of the rows and one gradient, or the gradient alone. The plain loop does the same
arithmetic with `torch.optim.SGD` and no federation. Processor time; the two take turns, and the
ratio is the median of the turns'. Then memory: by how much the peak of a process grows when the
gradient of many rows is computed, with rows in blocks, beside what displacements of all of them
would take (Linux). One thread.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

if __name__ == "torch":  # found in the place of PyTorch, by a script in this folder
    raise ImportError("this is a benchmark, not PyTorch")
sys.path[:] = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).parent]
for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[variable] = "1"  # before NumPy is loaded

import argparse
import math
import subprocess
from collections.abc import Callable
from time import process_time

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

import drfl
from drfl.native.client import LocalSteps, end
from drfl.rows import Rows
from drfl.torch import Model, NetworkLoss
from drfl.torch.client import BLOCK

STEPS, STEP, RADIUS, HELD = 50, 0.1, 0.2, 140
KINDS = {"no radius": 1.0, "order 2": 2.0, "order inf": math.inf}
Walk = Callable[[], object]


def build() -> nn.Module:
    """Two layers."""
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def ball_of(kind: str) -> drfl.Ball:
    """What moves the rows."""
    return drfl.Ball() if kind == "no radius" else drfl.Ball(RADIUS, "l2", order=KINDS[kind])


def ours(X: np.ndarray, y: np.ndarray, kind: str, batch: int) -> Walk:
    """The walk of a client."""
    model = Model(build)
    loss = NetworkLoss(Rows(X, y), model, ball_of(kind), "client")
    local, start = LocalSteps(STEPS, STEP, batch, 0), model.start(0)
    return lambda: end(start, local, loss.sampled(batch, 0, 1))


def plain(X: np.ndarray, y: np.ndarray, kind: str, batch: int) -> Walk:
    """The same arithmetic as users of PyTorch write it."""
    all_rows, labels = torch.as_tensor(X, dtype=torch.float32), torch.as_tensor(y).long()
    module, rng = build(), np.random.default_rng(0)
    optimiser = torch.optim.SGD(module.parameters(), STEP)

    def moved(rows: Tensor, target: Tensor) -> Tensor:
        at = rows
        for _ in range(2):
            at = at.detach().requires_grad_()
            losses = functional.cross_entropy(module(at), target, reduction="sum")
            (G,) = torch.autograd.grad(losses, at)
            if kind == "order 2":
                at = rows + RADIUS * G / G.square().sum(dim=1).mean().sqrt()
            else:
                length = G.norm(dim=1, keepdim=True)
                at = rows + RADIUS * G / torch.where(length > 0.0, length, 1.0)
        return at.detach()

    def walk() -> None:
        for _ in range(STEPS):
            rows, target = all_rows, labels
            if batch:
                chosen = torch.as_tensor(rng.choice(len(y), batch, replace=False))
                rows, target = rows[chosen], target[chosen]
            if kind != "no radius":
                rows = moved(rows, target)
            optimiser.zero_grad()
            functional.cross_entropy(module(rows), target).backward()
            optimiser.step()

    return walk


def seconds(walk: Walk) -> float:
    """Processor time of a walk."""
    start = process_time()
    walk()
    return process_time() - start


def race(repeats: int) -> None:
    """Print milliseconds of a step, and the ratio."""
    bunch = load_digits()
    X, y = bunch.data[:HELD] / 16.0, bunch.target[:HELD].astype(np.float64)
    print(f"{'':11} {'rows':>5} {'drfl ms':>8} {'plain ms':>8} {'ratio':>6}")
    for kind in KINDS:
        for batch in (0, 32):
            pair = ours(X, y, kind, batch), plain(X, y, kind, batch)
            for walk in pair:
                walk()
            turns = np.array([[seconds(walk) for walk in pair] for _ in range(repeats)])
            mine, theirs = 1000.0 * np.median(turns, axis=0) / STEPS
            ratio = float(np.median(turns[:, 0] / turns[:, 1]))
            print(f"{kind:11} {batch or HELD:5} {mine:8.3f} {theirs:8.3f} {ratio:6.2f}")


def resident(which: str) -> float:
    """Megabytes of this process now ("VmRSS"), or at most since they were forgotten ("VmHWM")."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(which)) / 1024.0


def growth(blocks: int) -> None:
    """Print by how many megabytes the peak grows with the gradient of so many blocks of rows."""
    rng = np.random.default_rng(0)
    X, y = rng.random((blocks * BLOCK, 64)), rng.integers(0, 10, blocks * BLOCK).astype(np.float64)
    model = Model(build)
    few = NetworkLoss(Rows(X[:64], y[:64]), model, ball_of("order 2"), "few")
    loss = NetworkLoss(Rows(X, y), model, ball_of("order 2"), "many")
    start = model.start(0)
    few.gradient(start)
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # forgets the peak
    before = resident("VmRSS")
    loss.gradient(start)
    print(f"{resident('VmHWM') - before:.1f}")


def memory() -> None:
    """The same for several numbers of blocks, each in a process of its own."""
    print(f"\n{'rows':>8} {'peak grows by MB':>17} {'displacements of all rows, MB':>30}")
    for blocks in (1, 4, 16):
        command = [sys.executable, "-m", "benchmarks.torch", "--growth", str(blocks)]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        everything = blocks * BLOCK * 64 * 4 / 2**20
        print(f"{blocks * BLOCK:8} {told:>17} {everything:30.1f}")


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--repeats", type=int, default=15, help="turns (15)")
    parser.add_argument("--growth", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.growth:
        growth(options.growth)
        return
    race(options.repeats)
    memory()


if __name__ == "__main__":
    main()
