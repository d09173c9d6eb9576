"""One experiment from settings to files: records, figures, a table, and what it comes to."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from drfl.files import write_text
from experiments.pool import run_tasks
from experiments.records import Records, key
from experiments.registry import find
from experiments.report import Report
from experiments.settings import Settings

Told = Callable[[int, int, float], object]
"""Told the tasks done, all tasks, and the seconds of the last one."""


@dataclass(frozen=True)
class Run:
    """What an experiment has left in its folder.

    Attributes
    ----------
    records, text : Path
        One JSON line per task; the table and the findings, in Markdown.
    figures : list of Path
        Each as SVG and as PNG.
    report : Report
        What the text says.
    fresh : int
        How many tasks were computed now; the others were in the records already.
    """

    records: Path
    text: Path
    figures: list[Path]
    report: Report
    fresh: int


def reproduce(
    name: str,
    settings: Settings,
    folder: Path,
    *,
    seeds: int,
    jobs: int | None = None,
    figures: bool = True,
    command: str = "",
    told: Told = lambda done, total, seconds: None,
) -> Run:
    """Run an experiment, or what is missing of it, and write its files.

    Parameters
    ----------
    name : str
        One of `experiments.NAMES`.
    settings : Settings
        Those of `find(name).settings`, changed or not.
    folder : Path
        Where the files go; records that are there already are not computed again.
    seeds : int
        How many.
    jobs : int, optional
        Processes; by default one for every core.
    figures : bool
        Whether they are drawn, which needs matplotlib.
    command : str
        To be quoted in the text.
    told : callable
        Told of progress.
    """
    experiment = find(name)
    if figures:
        from experiments.figures import new_figure

        new_figure(1, 1)  # says what is missing before any work
    tasks = experiment.tasks(settings, seeds)
    records = Records(folder / "records.jsonl", name, settings.facts())
    missing = [task for task in tasks if key(task) not in records.done]
    told(len(tasks) - len(missing), len(tasks), 0.0)
    for count, done in enumerate(run_tasks(name, settings, missing, jobs or cores()), start=1):
        records.add(done)
        told(len(tasks) - len(missing) + count, len(tasks), done.seconds)
    wanted = [records.done[key(task)] for task in tasks]
    report = experiment.report(settings, wanted)
    text = folder / "table.md"
    _write(text, [f"# {name}", "", *([f"    {command}", ""] if command else []), *report.lines])
    drawn = experiment.draw(settings, wanted, folder, name) if figures else []
    return Run(records.path, text, drawn, report, len(missing))


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _write(path: Path, lines: Sequence[str]) -> None:
    write_text(path, "\n".join(lines) + "\n")
