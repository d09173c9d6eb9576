"""Training from a file that is larger than the memory, beside reading that file.

A child process may allocate half as much as the file has. What is mapped from a file is not
limited by that, but before every pass the pages of the file are dropped from the cache, as a system
with less memory would have done. Reading is measured in the same process, in the same state,
before, between and after; a disk is not as steady as a processor, so medians count.
"""

from __future__ import annotations

import argparse
import mmap
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import drfl
from benchmarks.suite.memory import in_process
from benchmarks.suite.problems import RADIUS, TOL, two_classes
from benchmarks.suite.race import race
from benchmarks.suite.row import Row, Skipped
from drfl.rows import Rows
from drfl.tables import read_table
from drfl.tables.table import mapped
from drfl.worst_case import make_oracle

SECTION = "files"
FILE_BYTES, COLUMNS = 2_000_000_000, 50
BLOCK = 50_000  # rows that are written together
BUFFER = 4_000_000  # bytes that are read together
REPEATS = 3
TABLE = (40_000, 50)  # rows and columns of the CSV file
PASSES = ("sweep", "sweep_many", "scores", "combine", "group_sums", "gram", "moments")


def rows(options: argparse.Namespace) -> Iterator[Row | Skipped]:
    name = "passes over a file of twice the memory limit / reading it"
    if options.check:
        yield Skipped(SECTION, name, "a check leaves it out: a disk is not steady enough")
        return
    yield _table_row()
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if not hasattr(os, "posix_fadvise"):
        yield Skipped(SECTION, name, "this system cannot drop a file from its cache")
    elif free < 3 * FILE_BYTES:
        yield Skipped(SECTION, name, f"it needs {3 * FILE_BYTES / 1e9:.0f} GB of free disk")
    else:
        yield from _large_rows(name)


def _large_rows(name: str) -> Iterator[Row]:
    limit = FILE_BYTES // 2
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows"
        _write(path)
        words = in_process("benchmarks.suite.files", str(path), str(limit))
    read, oracle, solve, passes, rounds, gap = (float(word) for word in words)
    facts = {"read": read, "oracle": oracle, "solve": solve, "passes": passes, "gap": gap}
    told = f"; {FILE_BYTES / 1e9:g} GB of rows, {limit / 1e9:g} GB of memory, nothing in the cache"
    yield Row(
        SECTION,
        f"worst-case loss: {name}",
        oracle / read,
        at_least=0.5,
        guarded=False,
        detail=f"{_speed(oracle)} / {_speed(read)}{told}",
        facts=facts,
    )
    yield Row(
        SECTION,
        f"training, curvature included: {name}",
        solve / read,
        at_least=0.5,
        guarded=False,
        detail=f"{_speed(solve)} / {_speed(read)}, {passes:.0f} passes in {rounds:.0f} rounds "
        f"to a proved gap of {gap:.0e}{told}",
        facts=facts,
    )


def _table_row() -> Row | Skipped:
    name = "reading a CSV file of numbers: pandas / drfl"
    try:
        import pandas
    except ImportError:
        return Skipped(SECTION, name, "pandas is not installed")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        X, _ = two_classes(*TABLE)
        names = ",".join(f"u{j}" for j in range(TABLE[1]))
        np.savetxt(path, X, delimiter=",", header=names, comments="")
        size = path.stat().st_size
        lanes = race(
            {"pandas": lambda: pandas.read_csv(path), "drfl": lambda: read_table(path)}, REPEATS
        )
    speeds = {who: size / lane.seconds for who, lane in lanes.items()}
    return Row(
        SECTION,
        name,
        lanes["pandas"].seconds / lanes["drfl"].seconds,
        guarded=False,
        detail=f"{_speed(speeds['drfl'])}, {_speed(speeds['pandas'])} by pandas; "
        f"{size / 1e6:.0f} MB, in the cache",
        facts=speeds,
    )


def _speed(bytes_per_second: float) -> str:
    return f"{bytes_per_second / 1e6:,.0f} MB/s"


# ---------------------------------------------------------------------------- the file
def _write(path: Path) -> None:
    """Labels go beside the rows; both are told by the seed of a block."""
    n_rows = FILE_BYTES // (8 * COLUMNS)
    with path.open("wb") as file, path.with_suffix(".y").open("wb") as labels:
        for seed, start in enumerate(range(0, n_rows, BLOCK)):
            X, _ = two_classes(min(BLOCK, n_rows - start), COLUMNS, seed)
            X.tofile(file)
            noise = np.random.default_rng(seed).normal(size=len(X))
            np.where(X[:, :5].sum(axis=1) + noise > 0.0, 1.0, -1.0).tofile(labels)
        file.flush()
        os.fsync(file.fileno())  # what is not yet written cannot be dropped


class Cold:
    """A file that no pass finds in the cache; dropping it is not on the clock."""

    def __init__(self, path: Path) -> None:
        self.path, self.size = path, path.stat().st_size
        with path.open("rb") as file:
            self.X = mapped(file, np.dtype(np.float64)).reshape(-1, COLUMNS)
        self.passes, self.dropping = 0.0, 0.0

    def drop(self) -> None:
        start = time.perf_counter()
        pages: Any = self.X._mmap  # type: ignore[attr-defined]
        pages.madvise(mmap.MADV_DONTNEED)
        with self.path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        self.dropping += time.perf_counter() - start

    def read(self) -> None:
        """Read the file, and do nothing with it."""
        self.drop()
        self.passes += 1.0
        buffer = bytearray(BUFFER)
        with self.path.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which reads the file or every so many blocks, after it was dropped."""

        def dropped(*args: Any, **kwargs: Any) -> Any:
            self.drop()
            self.passes += 1.0 / kwargs.get("every", 1)
            return function(*args, **kwargs)

        return dropped

    def speed(self, run: Callable[[], Any]) -> float:
        """Bytes per second of the passes of a run."""
        self.passes, self.dropping, start = 0.0, 0.0, time.perf_counter()
        run()
        return self.passes * self.size / (time.perf_counter() - start - self.dropping)


def child(path: Path, limit: int) -> None:
    """Print the speeds of reading, of a worst-case loss and of a training, passes, rounds, gap."""
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    file, y = Cold(path), np.fromfile(path.with_suffix(".y"))
    client = drfl.Client("one", file.X, y)  # this checks the rows: a pass that does not count
    for name in PASSES:
        setattr(Rows, name, file.before(getattr(Rows, name)))
    oracle = make_oracle(client.rows, drfl.Problem("hinge").loss, drfl.Ball(RADIUS))
    w = np.random.default_rng(0).normal(size=COLUMNS) / COLUMNS
    reads = [file.speed(file.read) for _ in range(REPEATS)]
    evaluations = [file.speed(lambda: oracle.evaluate(w, 0.0)) for _ in range(REPEATS)]
    reads += [file.speed(file.read) for _ in range(REPEATS)]
    results = []
    problem = drfl.Problem("hinge", drfl.Ball(RADIUS))
    solve = file.speed(lambda: results.append(drfl.solve(problem, [client], tol=TOL)))
    passes = file.passes
    reads += [file.speed(file.read) for _ in range(REPEATS)]
    read, evaluate = statistics.median(reads), statistics.median(evaluations)
    print(read, evaluate, solve, passes, results[0].rounds, results[0].gap)


if __name__ == "__main__":
    child(Path(sys.argv[1]), int(sys.argv[2]))
