"""The experiments by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from drfl._registry import lookup
from experiments.names import NAMES, NETWORKS
from experiments.records import Done, Row, Task
from experiments.report import Report
from experiments.settings import Settings


@dataclass(frozen=True)
class Experiment:
    """An experiment: settings go in, records come out, and both make tables and figures.

    Attributes
    ----------
    settings : Settings
        The default ones.
    tasks : callable
        From settings and a number of seeds to what can be done independently.
    run : callable
        From settings and a task to rows of the records.
    report : callable
        From settings and finished tasks to findings and tables.
    draw : callable
        From settings, finished tasks, a folder and a name to the figures' files.
    """

    settings: Settings
    tasks: Callable[[Any, int], list[Task]]
    run: Callable[[Any, Task], list[Row]]
    report: Callable[[Any, Sequence[Done]], Report]
    draw: Callable[[Any, Sequence[Done], Path, str], list[Path]]


def find(name: str) -> Experiment:
    """The experiment of a name."""
    lookup("experiment", name, {**NAMES, **NETWORKS})
    from experiments.protocol import PROTOCOLS

    if name in PROTOCOLS:
        return _comparison(PROTOCOLS[name])
    module = import_module(f"experiments.{name}")
    found: Experiment = module.EXPERIMENT
    return found


def _comparison(protocol: Settings) -> Experiment:
    return Experiment(
        protocol,
        tasks=lambda settings, seeds: [{"seed": seed} for seed in range(seeds)],
        run=_run,
        report=_report,
        draw=_draw,
    )


def _run(settings: Any, task: Task) -> list[Row]:
    from experiments.comparison import run_seed

    return run_seed(settings, task["seed"])


def _report(settings: Any, done: Sequence[Done]) -> Report:
    from experiments.findings import Findings

    return Findings(settings, done).report()


def _draw(settings: Any, done: Sequence[Done], folder: Path, name: str) -> list[Path]:
    from experiments.findings import Findings
    from experiments.sweeps_figure import draw

    return draw(Findings(settings, done), folder, name)
