"""Tables and figures of the convergence experiment, from its records alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from drfl.arrays import Array
from experiments.figures import STYLES, finish, legend, new_figure, save
from experiments.records import Done
from experiments.report import Report
from experiments.statistics import markdown

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLES = {
    "algorithm_1": "Algorithm 1",
    "tight": "Algorithm 1, tight constants",
    "subsampled": "Algorithm 1, subsampled",
    "consensus": "consensus ADMM",
    "double_loop": "double loop",
    "bundle": "bundle (drfl)",
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "scaffold": "SCAFFOLD",
    "qffl": "q-FFL",
    "afl": "AFL",
    "drfa": "DRFA",
    "wafl": "WAFL",
    "fedadmm": "FedADMM",
    "scaff_pd": "SCAFF-PD",
}
ROBUST = tuple(TITLES)[:6]
ACROSS = {
    "round": "rounds",
    "kilobytes": "kB per client, both ways",
    "seconds": "seconds of computing",
}
LEVELS = (1e-2, 1e-3, 1e-4, 1e-6)


def report(settings: Any, done: Sequence[Done]) -> Report:
    """Rounds to each gap, and what holds."""
    tables = []
    for S in sorted(settings.clients):
        rows = []
        for name in TITLES:
            runs = _runs(done, S, name)
            cells = [_shown([_first(run, level) for run in runs]) for level in LEVELS]
            last = float(np.median([run["gap"][-1] for run in runs]))
            kb, sec = (float(np.median([r[k][-1] for r in runs])) for k in ("kilobytes", "seconds"))
            rows.append([TITLES[name], *cells, f"{last:.1e}", f"{kb:.0f}", f"{sec:.2f}"])
        head = ["algorithm", *(f"{level:g}" for level in LEVELS)]
        head += ["gap at the end", "kB at the end", "s at the end"]
        tables += ["", f"S = {S}, rounds to a gap of:", "", *markdown(head, rows)]
    seeds = 1 + max(int(one.task["seed"]) for one in done)
    intro = (
        f"Seeds: {seeds} (medians); at most {settings.rounds} rounds. A gap is relative to the "
        "objective of the zero model; native methods are compared with their own optimum."
    )
    return Report([intro], _sentences(settings, done), tables)


def _sentences(settings: Any, done: Sequence[Done]) -> list[str]:
    found = []
    for S in sorted(settings.clients):
        ends = {n: float(np.median([r["gap"][-1] for r in _runs(done, S, n)])) for n in ROBUST}
        slopes = [_power(run) for run in _runs(done, S, "algorithm_1")]
        steep = float(np.median(slopes))
        word = "consistent with" if steep >= 0.9 else "slower than"
        found.append(
            f"S = {S}: the gap of Algorithm 1 falls like k^-{steep:.2f} in the second half of its "
            f"rounds, {word} O(1/k); it ends at {ends['algorithm_1']:.1e}, with tight constants at "
            f"{ends['tight']:.1e}, subsampled at {ends['subsampled']:.1e}."
        )
        better = ends["algorithm_1"] < ends["double_loop"]
        found.append(
            f"S = {S}: that the double loop needs more rounds than Algorithm 1 "
            f"{'holds' if better else 'does not hold'} (it ends at {ends['double_loop']:.1e}); the "
            f"bundle method needs {_shown([_first(r, 1e-6) for r in _runs(done, S, 'bundle')])} "
            "rounds to 1e-6."
        )
    return found


def draw(settings: Any, done: Sequence[Done], folder: Path, name: str) -> list[Path]:
    """Two figures: the solvers of the robust problem, and the native methods."""
    native = tuple(TITLES)[6:]
    paths = _figure(settings, done, ROBUST, folder, name)
    return paths + _figure(settings, done, native, folder, f"{name}-native")


def _figure(
    settings: Any, done: Sequence[Done], names: Sequence[str], folder: Path, file: str
) -> list[Path]:
    sizes = sorted(settings.clients)
    figure = new_figure(len(sizes), len(ACROSS), width=3.7, height=2.8)
    panels = figure.subplots(len(sizes), len(ACROSS), squeeze=False, sharey="row")
    for row, S in enumerate(sizes):
        for column, (what, label) in enumerate(ACROSS.items()):
            axes = panels[row, column]
            for number, name in enumerate(names):
                _courses(axes, number, _runs(done, S, name), what, TITLES[name])
            if what == "round":
                k = np.geomspace(1.0, settings.rounds, 50)
                axes.plot(k, 0.5 / k, color="#555555", lw=0.9, ls=(0, (1, 2)), label="O(1/k)")
            axes.set_xscale("log")
            axes.set_yscale("log")
            finish(
                axes,
                x=label,
                y="(objective − optimum) / objective at 0" if column == 0 else "",
                title=f"S = {S} clients" if column == 0 else "",
            )
    legend(figure, panels[0, 0], 4)
    return save(figure, folder, file)


def _courses(axes: Axes, number: int, runs: Sequence[Any], what: str, label: str) -> None:
    """The median of the seeds, and the range between them as a band."""
    colour, dashes, marker = STYLES[number % len(STYLES)]
    x = np.unique(np.concatenate([run[what] for run in runs]))
    if len(x) > 200:
        x = np.geomspace(max(float(x[0]), 1e-5), float(x[-1]), 200)
    values = np.array([_at(run, what, x) for run in runs])
    some = np.isfinite(values).all(axis=0)
    x, values = x[some], values[:, some]
    marks = (0.1 * (number % 5) / 5, 0.15)
    axes.plot(x, np.median(values, axis=0), dashes, color=colour, marker=marker, markersize=3.5,
              markevery=marks, lw=1.4, label=label)  # fmt: skip
    axes.fill_between(x, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.15, lw=0)


def _at(run: Any, what: str, x: Array) -> Array:
    """The gap that was reached by then; after its end a run stays where it is."""
    at = np.searchsorted(np.asarray(run[what]), x, side="right") - 1
    return np.where(at >= 0, np.asarray(run["gap"])[np.maximum(at, 0)], np.nan)


def _runs(done: Sequence[Done], S: int, name: str) -> list[Any]:
    rows = [row for one in done for row in one.rows]
    return [row for row in rows if row["clients"] == S and row["algorithm"] == name]


def _first(run: Any, level: float) -> float:
    pairs = zip(run["round"], run["gap"], strict=True)
    return next((float(k) for k, gap in pairs if gap <= level), math.inf)


def _shown(rounds: Sequence[float]) -> str:
    middle = float(np.median(rounds))
    return f"{middle:g}" if math.isfinite(middle) else "-"


def _power(run: Any) -> float:
    """Minus the slope of log gap over log k, in the second half."""
    k, gap = np.asarray(run["round"], float), np.asarray(run["gap"])
    half = k >= k[-1] / 2.0
    if half.sum() < 3:
        return math.nan
    return float(-np.polyfit(np.log(k[half]), np.log(gap[half]), 1)[0])
