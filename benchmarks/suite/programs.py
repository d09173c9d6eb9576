"""One client, 50,000 x 50: convex solvers that a user would call instead.

python -m benchmarks.suite.programs WHO LOSS LABEL_COST NORM ROWS COLUMNS SUPPORT TOL

does one job in a process of its own and prints its processor seconds, the growth of its memory
beyond the data, the share of the solver in its time, and how far the model is above the optimum.
Both sides of a ratio are measured so. Processor time, as a slow rival runs once: the best of many
short runs beside it finds a quiet moment, and on a busy machine the clock would flatter drfl. It is
that of the whole call, from arrays to a model, after a first call on few rows that imports all.

On the whole space the paper's formulation is the compact one with the data written out once or
twice. Its size shows in a box, where it has 4n multipliers per row; there it is run on few rows.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace

import numpy as np

import drfl
from benchmarks.suite import formulations
from benchmarks.suite.memory import Peak, in_process
from benchmarks.suite.problems import EXACT, RADIUS, TALL, TOL, excess, solved, two_classes
from benchmarks.suite.row import Line, Row, Skipped

FEW = (5_000, 50)
BOXED = (1_000, 10)
MEGABYTE = 1e6
ENOUGH = 2.0  # seconds: a job is repeated until it has had them, and the best counts
SAYS = {
    "compact": "cvxpy + Clarabel, compact",
    "paper": "cvxpy + Clarabel, the paper's formulation",
    "simplex": "HiGHS, simplex",
    "interior": "HiGHS, interior points",
    "dro": "dro",
}


@dataclass(frozen=True)
class Case:
    """A problem, its size, and the gap that drfl has to prove."""

    loss: str
    label_cost: float
    norm: str
    shape: tuple[int, int] = TALL
    support: str = "space"
    tol: float = TOL

    def words(self) -> list[str]:
        values = (self.loss, self.label_cost, self.norm, *self.shape, self.support, self.tol)
        return [str(value) for value in values]

    def problem(self, X: np.ndarray) -> drfl.Problem:
        box = drfl.Box(X.min(axis=0), X.max(axis=0)) if self.support == "box" else None
        return drfl.Problem(self.loss, drfl.Ball(RADIUS, self.norm, self.label_cost, box))

    def __str__(self) -> str:
        kappa = "∞" if math.isinf(self.label_cost) else f"{self.label_cost:g}"
        box = ", box" if self.support == "box" else ""
        return f"{self.loss} κ={kappa} {self.norm}{box}, {self.shape[0]:,} x {self.shape[1]}"


@dataclass(frozen=True)
class Measured:
    """What a job prints."""

    seconds: float  # of the processor
    growth: float  # bytes
    solver: float  # its share of the time, if it tells
    excess: float

    def __str__(self) -> str:
        inside = "" if math.isnan(self.solver) else f" ({self.solver:.0%} in the solver)"
        memory = f"{self.growth / MEGABYTE:,.0f} MB"
        return f"{self.seconds:.3g} s{inside}, {memory}, excess {self.excess:.0e}"


CASES = [
    Case(loss, label_cost, norm)
    for loss in ("hinge", "logistic")
    for label_cost in (math.inf, 1.0)
    for norm in ("l1", "l2")
]
TWINS = [CASES[0], CASES[3], CASES[4], CASES[7]]  # every loss, label cost and norm


def rows(options: argparse.Namespace) -> Iterator[Line]:
    for case in TWINS if options.check else CASES:
        yield from against(["compact"], replace(case, shape=FEW))
    yield from against(["simplex"], replace(CASES[0], shape=FEW))
    yield from against(["paper"], Case("hinge", 1.0, "l1", BOXED, "box"))
    if options.check:
        return
    for case in CASES:
        linear = case.loss == "hinge" and case.norm == "l1"
        more = ["paper", "simplex", "interior"] if linear else []
        yield from against(["compact", *more], case)
        if case.norm == "l1":
            # dro has no tolerance to loosen, so drfl proves as much beside it.
            yield from against(["dro"], replace(case, shape=FEW, tol=EXACT))
        if case.norm == "l1" and not linear:
            yield from against(["paper"], replace(case, shape=FEW))
    yield from against(["dro"], replace(CASES[0], tol=EXACT))


def against(rivals: list[str], case: Case) -> Iterator[Line]:
    """The ratios, theirs over ours."""
    ours = measured("drfl", case)
    for who in rivals:
        name = f"{SAYS[who]}: {case}"
        try:
            theirs = measured(who, case)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            yield Skipped("programs", name, str(error))
            continue
        if theirs.excess > TOL:
            yield Skipped("programs", name, f"its model is {theirs.excess:.0e} above the optimum")
            continue
        tall = case.shape == TALL
        settings = {
            "guarded": not tall,  # a check does not wait for these
            "detail": f"{theirs}; drfl {ours}, proved {case.tol:g}",
            "facts": {"theirs": asdict(theirs), "drfl": asdict(ours)},
        }
        fast, lean = (100.0, 10.0) if tall and who == "compact" else (None, None)
        yield Row("programs", name, theirs.seconds / ours.seconds, fast, **settings)
        if tall:  # on few rows the memory of the first call is used again
            yield Row("programs", f"{name}, memory", theirs.growth / ours.growth, lean, **settings)


def measured(who: str, case: Case) -> Measured:
    """Do the job in a process of its own."""
    return Measured(*map(float, in_process("benchmarks.suite.programs", who, *case.words())))


def main(who: str, *words: str) -> None:
    loss, label_cost, norm, height, width, support, tol = words
    case = Case(loss, float(label_cost), norm, (int(height), int(width)), support, float(tol))
    solver_name = "local" if support == "space" else "bundle"  # local knows no box

    def job(problem: drfl.Problem, X: np.ndarray, y: np.ndarray) -> formulations.Model:
        if who != "drfl":
            return formulations.WAYS[who](problem, X, y)
        result = solved(problem, X, y, tol=case.tol, solver=solver_name)
        return formulations.Model(result.coef, result.intercept)

    small = two_classes(200, int(width))
    job(case.problem(small[0]), *small)
    X, y = two_classes(*case.shape)
    problem = case.problem(X)
    with Peak() as peak:
        seconds, solver, model = timed(lambda: job(problem, X, y))
    repeats = int(ENOUGH / seconds)
    again = [timed(lambda: job(problem, X, y)) for _ in range(repeats)]
    seconds, solver, model = min([(seconds, solver, model), *again], key=lambda run: run[0])
    above = excess(problem, X, y, model.w, model.b, solver_name)
    print(seconds, peak.growth, solver, above)


def timed(job: Callable[[], formulations.Model]) -> tuple[float, float, formulations.Model]:
    """Processor seconds, the solver's share of the time, and the model."""
    clock, processor = time.perf_counter(), time.process_time()
    model = job()
    share = model.solver_seconds / (time.perf_counter() - clock)
    return time.process_time() - processor, share, model


if __name__ == "__main__":
    main(*sys.argv[1:])
