"""osbdo, the nearest algorithm: rounds and seconds to a gap of 1e-4 and of 1e-6.

Ten clients, random divisions of the rows, l1 norm, radius 0.01, mixture radius 0. A round of osbdo
is one query of every agent, its first evaluation included; a round of drfl is one message to every
client and back. Both call the same oracle; drfl's clients also send curvature and cuts of groups of
rows, which osbdo's agents have no words for. osbdo is run in two ways (see `osbdo_agents`), and the
one that needs fewer rounds counts. Its gap is its own, up to the tolerance of its conic solver;
drfl's is proved. Seconds are those of the processor: osbdo runs once, and the clock would charge it
for the other work of the machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial

import numpy as np

import drfl
from benchmarks.suite.osbdo_agents import Data, Run, Step, run_osbdo
from benchmarks.suite.problems import RADIUS, two_classes
from benchmarks.suite.race import Lane, race
from benchmarks.suite.row import Line, Row, Skipped
from drfl.datasets import load_heart, partition

CLIENTS = 10
LEVELS = (1e-4, 1e-6)
SAYS = {False: "plain", True: "norm as structure"}


def rows(options: argparse.Namespace) -> Iterator[Line]:
    heart = load_heart()
    sets = {"heart": (heart.data, heart.target), "5,000 x 20": two_classes(5_000, 20)}
    for name, (X, y) in sets.items():
        data = divided(X, y)
        for loss in ("hinge", "logistic"):
            if options.check and (name, loss) != ("heart", "hinge"):
                continue
            problem = drfl.Problem(loss, drfl.Ball(RADIUS, "l1"))
            try:
                runs = {way: run_osbdo(problem, data, LEVELS[-1], structured=way) for way in SAYS}
            except ImportError as error:
                yield Skipped("bundles", f"{name} {loss}", str(error))
                continue
            ours = race({str(tol): partial(proved, problem, data, tol) for tol in LEVELS})
            for tol in LEVELS:
                yield from compared(f"osbdo: {name} {loss}, gap {tol:g}", runs, ours[str(tol)], tol)


def divided(X: np.ndarray, y: np.ndarray) -> Data:
    parts = partition.random(len(y), CLIENTS, np.random.default_rng(0))
    return [(X[part], y[part]) for part in parts]


def proved(problem: drfl.Problem, data: Data, tol: float) -> drfl.Result:
    """The default solver, from arrays to a proved gap; refuses anything less."""
    clients = [drfl.Client(f"c{s}", X, y) for s, (X, y) in enumerate(data)]
    result = drfl.solve(problem, clients, tol=tol)
    if result.gap > tol:
        raise RuntimeError(f"drfl proved {result.gap:.1e} only: {result.status}")
    return result


def compared(name: str, runs: dict[bool, Run], ours: Lane, tol: float) -> Iterator[Row]:
    """Their rounds and seconds over ours."""
    ends = {way: run.first(tol) or run.steps[-1] for way, run in runs.items()}
    reached = [way for way, step in ends.items() if step.gap <= tol]
    best = min(reached or ends, key=lambda way: ends[way].rounds)
    theirs, result, seconds = ends[best], ours.answer, ours.seconds
    said = "; ".join(f"{SAYS[way]} {told(step, tol)}" for way, step in ends.items())
    mine = f"drfl {result.rounds} rounds, {seconds:.3g} s, proved {result.gap:.0e}"
    limit = "" if reached else " A lower limit."
    facts = {"lower": runs[best].lower, "upper": runs[best].upper, "drfl": result.objective}
    for what, ratio in (
        ("rounds", theirs.rounds / result.rounds),
        ("seconds", theirs.seconds / seconds),
    ):
        yield Row(
            "bundles",
            f"{name}, {what}",
            ratio,
            guarded=bool(reached),
            detail=f"{said}; {mine}.{limit}",
            facts=facts | {"theirs": vars(theirs), "seconds": seconds},
        )


def told(step: Step, tol: float) -> str:
    cost = f"{step.rounds} rounds, {step.seconds:.3g} s"
    return cost if step.gap <= tol else f"not reached in {cost}: gap {step.gap:.0e}"
