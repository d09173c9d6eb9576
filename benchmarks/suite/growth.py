"""How time and memory grow with rows, features and clients.

The slope of log time against log size, by least squares over all sizes of a ladder, and from the
last size but one to the last: constant costs hide in the former, not in the latter.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import psutil

import drfl
from benchmarks.suite.memory import Peak, in_process
from benchmarks.suite.problems import RADIUS, TOL, solved, two_classes
from benchmarks.suite.race import race
from benchmarks.suite.row import Line, Row, Skipped

SECTION = "growth"
FEATURES, CLIENT_ROWS = 20, 50
HEIGHTS = (10**3, 10**4, 10**5, 10**6, 10**7)
WIDTHS = (10, 30, 100, 300, 1000, 2000)
CROWDS = (1, 10, 100, 1000, 10_000)
WIDE_ROWS = 5_000
LARGEST = 10**7
NEEDED = 4e9  # bytes of free memory for the largest
PROBLEM = drfl.Problem("hinge", drfl.Ball(RADIUS))


def rows(options: argparse.Namespace) -> Iterator[Line]:
    short = 1 if options.check else 0  # the check leaves out the largest size
    if psutil.virtual_memory().available < NEEDED:
        short = 1
        yield Skipped(SECTION, f"N = {LARGEST:.0e}", "this machine has less than 4 GB free")
    solved(PROBLEM, *two_classes(100, FEATURES))  # imports and first calls
    for solver in ("local", "bundle"):
        ladder = HEIGHTS[: len(HEIGHTS) - short]
        yield from _slopes(f"N, {solver}", ladder, lambda N, s=solver: _tall(N, s), 1.1)
    ladder = WIDTHS[: len(WIDTHS) - short]
    yield from _slopes("n", ladder, lambda n: _wide(n), None)
    ladder = CROWDS[: len(CROWDS) - short]
    yield from _slopes("S", ladder, lambda S: _many(S), 1.1)
    yield _server(ladder[-1])
    if not short:
        yield from _memory()


def _slopes(
    name: str, ladder: Sequence[int], job: Callable[[int], Callable[[], object]], most: float | None
) -> Iterator[Row]:
    """The two slopes of a ladder of sizes."""
    seconds = []
    for size in ladder:
        lane = race({"drfl": job(size)}, repeats=3)["drfl"]
        seconds.append(lane.seconds)
    x, y = np.log(ladder), np.log(seconds)
    times = ", ".join(f"{s:.2g}" for s in seconds)
    detail = f"{times} s at {', '.join(f'{v:,}' for v in ladder)}"
    facts = {"sizes": list(ladder), "seconds": seconds}
    every, last = float(np.polyfit(x, y, 1)[0]), float((y[-1] - y[-2]) / (x[-1] - x[-2]))
    yield Row(
        SECTION,
        f"time against {name}: slope",
        every,
        at_most=most,
        more_is_better=False,
        guarded=False,
        detail=detail,
        facts=facts,
    )
    yield Row(
        SECTION,
        f"time against {name}: slope at the end",
        last,
        at_most=most,
        more_is_better=False,
        guarded=False,
        detail=f"{seconds[-2]:.2g} to {seconds[-1]:.2g} s",
    )


def _tall(n_rows: int, solver: str) -> Callable[[], object]:
    X, y = two_classes(n_rows, FEATURES)
    return lambda: solved(PROBLEM, X, y, solver=solver)


def _wide(n_features: int) -> Callable[[], object]:
    X, y = two_classes(WIDE_ROWS, n_features)
    return lambda: solved(PROBLEM, X, y)


def _server(n_clients: int) -> Row:
    """What a round costs the server."""
    result = _many(n_clients)()
    return Row(
        SECTION,
        f"server's seconds per round, S = {n_clients:,}",
        result.seconds_server / result.rounds,
        at_most=1.0,
        more_is_better=False,
        guarded=False,
        detail=f"{result.rounds} rounds",
    )


def _many(n_clients: int) -> Callable[[], drfl.Result]:
    X, y = two_classes(n_clients * CLIENT_ROWS, FEATURES)
    clients = [drfl.Client(f"c{s}", X[s::n_clients], y[s::n_clients]) for s in range(n_clients)]
    problem = drfl.Problem("hinge", drfl.Ball(RADIUS), drfl.Mixture(radius=0.1))

    def run() -> drfl.Result:
        result = drfl.solve(problem, clients, tol=TOL)
        if result.gap > TOL:
            raise RuntimeError(f"{n_clients} clients: {result.status}")
        return result

    return run


def _memory() -> Iterator[Row]:
    """The peak of a whole process, data and interpreter included, as a multiple of the data."""
    for solver, loss in (("local", "hinge"), ("bundle", "hinge"), ("bundle", "logistic")):
        peak, data = map(float, in_process("benchmarks.suite.growth", solver, loss))
        yield Row(
            SECTION,
            f"memory at 10,000,000 x 20 / the data, {solver}, {loss}",
            peak / data,
            at_most=1.3,
            detail=f"{peak / 1e9:.2f} GB against {data / 1e9:.2f} GB, the whole process",
        )


def _worker(solver: str, loss: str) -> None:
    X, y = two_classes(LARGEST, FEATURES)
    with Peak() as peak:
        solved(drfl.Problem(loss, drfl.Ball(RADIUS)), X, y, solver=solver)
    print(peak.most, X.nbytes + y.nbytes)


if __name__ == "__main__":
    _worker(*sys.argv[1:])
