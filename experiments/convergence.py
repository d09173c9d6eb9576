r"""How fast the algorithms are: objective gap against rounds, kilobytes and seconds.

The solvers of the robust problem are compared with its optimum; the native methods of the field
minimise other problems, without a radius, and each is compared with the optimum of its own. The
gap is that of the best model so far, relative to the objective of the zero model, so that rows
show how much of the way is left. Kilobytes are those of one client, both ways; seconds are of
computing, all clients added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from drfl.client import Client
from drfl.datasets import partition
from drfl.named_problems import restated
from drfl.native import METHODS
from drfl.problem import Problem
from drfl.run import Record, Result, solve
from drfl.solvers import Solver
from drfl.solvers.admm import AdLpmm, Admm
from drfl.solvers.bundle import Bundle
from drfl.uncertainty import Ball, Mixture
from experiments.convergence_figure import draw, report
from experiments.data import load
from experiments.double_loop import DoubleLoop
from experiments.optimum import optimum
from experiments.records import Row, Task
from experiments.registry import Experiment
from experiments.settings import Settings, at_least, increasing

ROBUST = ("algorithm_1", "tight", "subsampled", "consensus", "double_loop", "bundle")
NATIVE = tuple(METHODS)


@dataclass(frozen=True)
class Convergence(Settings):
    """What is solved, and how long.

    Attributes
    ----------
    clients : tuple of int
        Numbers of clients into which the heart data are divided at random.
    loss, native_loss : str
        Of the robust problem, and of the native methods' problems.
    radius, label_cost, mixture_radius : float
        The robust problem; the native methods that know a mixture have this one too.
    rounds : int
        The most that a method may use.
    step_sizes : tuple of float
        Of Algorithm 1: the one that ends nearest to the optimum is shown, which flatters it.
    batch_size : int
        Rows of a client's step in the subsampled version.
    """

    clients: tuple[int, ...] = (3, 10, 50)
    loss: str = "hinge"
    native_loss: str = "smooth_hinge"
    radius: float = 0.01
    label_cost: float = 1.0
    mixture_radius: float = 0.1
    rounds: int = 300
    step_sizes: tuple[float, ...] = (0.001, 0.01, 0.1)
    batch_size: int = 5

    def __post_init__(self) -> None:
        increasing("clients", self.clients, 1)
        increasing("step_sizes", self.step_sizes, 1e-9)
        at_least("rounds", self.rounds, 1)

    @property
    def full_seeds(self) -> int:
        return 3

    @property
    def quick_seeds(self) -> int:
        return 1

    def quick(self) -> Self:
        return replace(self, clients=self.clients[:1], rounds=60, step_sizes=self.step_sizes[1:2])


def tasks(settings: Convergence, seeds: int) -> list[Task]:
    """Every algorithm on every division of the rows."""
    return [
        {"clients": S, "algorithm": name, "seed": seed}
        for S in sorted(settings.clients, reverse=True)  # the longest first
        for seed in range(seeds)
        for name in (*ROBUST, *NATIVE)
    ]


def run(settings: Convergence, task: Task) -> list[Row]:
    """The course of one algorithm."""
    name, S = task["algorithm"], task["clients"]
    clients = divided(S, task["seed"])
    runs = [
        _course(problem, clients, solver, settings.rounds)
        for problem, solver in _stated(settings, name, task["seed"])
    ]
    return [{"clients": S, "algorithm": name, **min(runs, key=lambda r: float(r["gap"][-1]))}]


def divided(S: int, seed: int) -> list[Client]:
    """The heart data, divided at random."""
    X, y = load("heart")
    parts = partition.random(len(y), S, np.random.default_rng([seed, 2]))
    return [Client(f"client{s:02d}", X[rows], y[rows]) for s, rows in enumerate(parts)]


def _stated(settings: Convergence, name: str, seed: int) -> list[tuple[Problem, Solver]]:
    """The problem of an algorithm, with the settings to try."""
    mixture = Mixture(radius=settings.mixture_radius)
    if name in NATIVE:
        kind = METHODS[name]
        own = restated(Problem(settings.native_loss, mixture=mixture), kind.problem, [])
        return [(own, kind(seed=seed))]
    ball = Ball(settings.radius, "l1", settings.label_cost)
    problem = Problem(settings.loss, ball, mixture)
    batch = {"subsampled": settings.batch_size}.get(name)
    found: list[Solver] = [
        AdLpmm(c=c, tight=name != "algorithm_1", batch_size=batch, seed=seed)
        for c in settings.step_sizes
    ]
    others: dict[str, Solver] = {
        "consensus": Admm(),
        "double_loop": DoubleLoop(seed=seed),
        "bundle": Bundle(),
    }
    return [(problem, s) for s in ([others[name]] if name in others else found)]


def _course(problem: Problem, clients: Sequence[Client], solver: Solver, rounds: int) -> Row:
    best, at_zero = optimum(problem, clients, solver)
    result = solve(problem, clients, solver=solver, tol=1e-8, max_rounds=rounds)
    gaps = [(record.objective - best) / at_zero for record in result.history]
    return {
        "round": [record.round for record in result.history],
        "gap": np.maximum(np.minimum.accumulate(gaps), 1e-10).tolist(),
        "kilobytes": [_kilobytes(record) for record in result.history],
        "seconds": _seconds(result),
        "settings": repr(solver),
        "status": str(result.status.kind),
    }


def _kilobytes(record: Record) -> float:
    total = sum(record.bytes_up.values()) + sum(record.bytes_down.values())
    return total / len(record.bytes_up) / 1000.0


def _seconds(result: Result) -> list[float]:
    return [round(r.seconds_clients + r.seconds_server, 5) for r in result.history]


EXPERIMENT = Experiment(Convergence(), tasks, run, report, draw)
