"""Two cores: the processes engine beside two bare processes.

Bare processes do ``X @ w`` and ``X.T @ v`` over ten arrays of 100,000 x 50, once one process for
all of them, once two with five each, one BLAS thread each. The engine solves a problem with ten
clients that have these arrays, serially and in two processes; what counts is the time of the rounds
between the first and the last, because the rows are handed to the processes once.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Barrier

import numpy as np

import drfl
from benchmarks.suite.problems import two_classes
from benchmarks.suite.row import Line, Row, Skipped
from drfl.engines.base import SerialEngine
from drfl.engines.blas import one_blas_thread
from drfl.engines.processes import ProcessesEngine
from experiments.reproduce import cores

SECTION = "cores"
NAME = "processes, 10 clients of 100,000 x 50: share of the bare speed-up"
CLIENTS, ROWS, FEATURES = 10, 100_000, 50
PASSES, REPEATS = 12, 3


def rows(options: argparse.Namespace) -> Iterator[Line]:
    if cores() < 2:
        yield Skipped(SECTION, NAME, "this machine has one core")
        return
    parts = [two_classes(ROWS, FEATURES, seed) for seed in range(CLIENTS)]
    clients = [drfl.Client(f"c{s}", X, y) for s, (X, y) in enumerate(parts)]
    bare, engine = [], []
    for _ in range(REPEATS):  # in turns: other work is unfair to both
        bare.append((_bare(1), _bare(2)))
        engine.append((_rounds(clients, 1), _rounds(clients, 2)))
    free = min(one for one, _ in bare) / min(two for _, two in bare)
    ours = min(one for one, _ in engine) / min(two for _, two in engine)
    yield Row(
        SECTION,
        NAME,
        ours / free,
        at_least=0.9,
        detail=f"speed-up {ours:.2f} against {free:.2f} bare",
        facts={"engine": ours, "bare": free},
    )


def _rounds(clients: list[drfl.Client], workers: int) -> float:
    """The seconds of a solve from its first answer to its last."""
    engine = SerialEngine() if workers == 1 else ProcessesEngine(workers=workers)
    times: list[float] = []
    drfl.solve(
        drfl.Problem("hinge", drfl.Ball(0.01), drfl.Mixture(radius=0.1)),
        clients,
        engine=engine,
        tol=1e-6,
        callbacks=[lambda record: times.append(time.perf_counter())],
    )
    return times[-1] - times[0]


def _bare(workers: int) -> float:
    """The seconds of the passes, all processes together, without the making of the arrays."""
    context = multiprocessing.get_context("spawn")
    start, done = context.Barrier(workers + 1), context.Barrier(workers + 1)
    shares = np.array_split(np.arange(CLIENTS), workers)
    children = [context.Process(target=_passes, args=(s.tolist(), start, done)) for s in shares]
    for child in children:
        child.start()
    start.wait()
    began = time.perf_counter()
    done.wait()
    seconds = time.perf_counter() - began
    for child in children:
        child.join()
    return seconds


def _passes(seeds: list[int], start: Barrier, done: Barrier) -> None:
    arrays = [two_classes(ROWS, FEATURES, seed) for seed in seeds]
    w = np.ones(FEATURES)
    with one_blas_thread():
        start.wait()
        for _ in range(PASSES):
            for X, v in arrays:
                X @ w
                X.T @ v
    done.wait()
