"""Tables and figures of the heterogeneity experiment, from its records alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drfl.arrays import Array
from experiments.figures import LEAK, STYLES, finish, legend, new_figure, save
from experiments.methods import METHODS
from experiments.records import Done
from experiments.report import Report
from experiments.rules import ORACLE
from experiments.statistics import Tally, band, markdown, tally

MEASURES = {"clean": "mean of the clients", "worst": "worst client"}
RIVALS = tuple(name for name in METHODS if name != "drfl")
SHORT = {
    "mean": "mean CV",
    "one_se": "one SE",
    "worst_client": "worst client CV",
    "new_client": "client left out",
    "untuned_0.1": "untuned 0.1/√N",
    "untuned_0.3": "untuned 0.3/√N",
    ORACLE: "ORACLE (leakage)",
}


def report(settings: Any, done: Sequence[Done]) -> Report:
    """Wins and losses by scenario, rule and rival."""
    table = _table(done)
    seeds = 1 + max(int(one.task["seed"]) for one in done)
    intro = (
        f"Seeds: {seeds}, clients: {settings.clients}; accuracy, or mean squared error on abalone; "
        "no noise in the test rows. A win is a paired difference of more than two standard errors."
    )
    return Report([intro], _sentences(settings, table), _tables(settings, table))


def _sentences(settings: Any, table: dict[Any, Array]) -> list[str]:
    found = []
    for scenario in settings.scenarios:
        for measure, title in MEASURES.items():
            counts = {rule: _total(settings, table, scenario, rule, measure) for rule in SHORT}
            honest = [count for rule, count in counts.items() if rule != ORACLE]
            own = counts["mean"]
            wins, losses = ([getattr(c, n) for c in honest] for n in ("wins", "losses"))
            found.append(
                f"{scenario}, {title}: by the paper's rule DRFL {_verdict(own)}: it wins "
                f"{own.wins}, loses {own.losses} and ties {own.ties} of {own.total} comparisons. "
                f"Over the {len(honest)} honest rules it wins {min(wins)} to {max(wins)} and loses "
                f"{min(losses)} to {max(losses)}; with leakage it would win {counts[ORACLE].wins} "
                f"and lose {counts[ORACLE].losses}."
            )
    return found


def _verdict(count: Tally) -> str:
    """Some comparisons come out by chance: a quarter of them have to point one way."""
    net = count.wins - count.losses
    if abs(net) <= count.total / 4:
        return "makes no clear difference"
    return "pays" if net > 0 else "hurts"


def _tables(settings: Any, table: dict[Any, Array]) -> list[str]:
    lines = []
    for scenario in settings.scenarios:
        for dataset in settings.datasets:
            rows = []
            for rule, title in SHORT.items():
                cells = []
                for measure in MEASURES:
                    cells += [_shown(table[scenario, dataset, rule, m, measure], dataset)
                              for m in METHODS]  # fmt: skip
                rows.append([f"**{title}**" if rule == ORACLE else title, *cells])
            heads = [f"{m.upper()}, {word}" for word in ("mean", "worst") for m in METHODS]
            lines += [f"{scenario}, {dataset}:", "", *markdown(["rule", *heads], rows), ""]
    return lines


def draw(settings: Any, done: Sequence[Done], folder: Path, name: str) -> list[Path]:
    """One figure per measure: scenarios down, data sets across, rules along the axis."""
    table, paths = _table(done), []
    rows, columns = len(settings.scenarios), len(settings.datasets)
    for measure, title in MEASURES.items():
        figure = new_figure(rows, columns, width=4.2, height=2.6)
        panels = figure.subplots(rows, columns, squeeze=False, sharex=True)
        for i, scenario in enumerate(settings.scenarios):
            for j, dataset in enumerate(settings.datasets):
                axes = panels[i, j]
                for number, method in enumerate(METHODS):
                    colour, _, marker = STYLES[number]
                    factor = 1.0 if dataset == "abalone" else 100.0
                    values = [
                        factor * table[scenario, dataset, rule, method, measure] for rule in SHORT
                    ]
                    mean, wide = np.array([band(v) for v in values]).T
                    at = np.arange(len(SHORT)) + 0.14 * (number - 2)
                    axes.errorbar(at, mean, np.nan_to_num(wide), fmt=marker, color=colour,
                                  markersize=4, lw=1.2, label=method.upper())  # fmt: skip
                axes.axvspan(len(SHORT) - 1.5, len(SHORT) - 0.5, color=LEAK, zorder=0)
                axes.set_xticks(range(len(SHORT)), list(SHORT.values()), rotation=35, ha="right")
                what = "MSE (rings²)" if dataset == "abalone" else "accuracy (%)"
                finish(axes, y=f"{title}: {what}", title=f"{scenario.replace('_', ' ')}, {dataset}")
        legend(figure, panels[0, 0], len(METHODS))
        paths += save(figure, folder, f"{name}-{measure}")
    return paths


def _table(done: Sequence[Done]) -> dict[Any, Array]:
    """Measures (seeds,) by scenario, data set, rule, method and measure."""
    found: dict[Any, list[float]] = {}
    for one in sorted(done, key=lambda d: int(d.task["seed"])):
        for row in one.rows:
            for measure in MEASURES:
                place = (
                    one.task["scenario"],
                    one.task["dataset"],
                    row["rule"],
                    row["method"],
                    measure,
                )
                found.setdefault(place, []).append(row[measure])
    return {place: np.array(values) for place, values in found.items()}


def _total(settings: Any, table: dict[Any, Array], scenario: str, rule: str, measure: str) -> Tally:
    """DRFL against all rivals on all data sets."""
    pairs = [(dataset, rival) for dataset in settings.datasets for rival in RIVALS]
    found = [_tally(table, scenario, dataset, rule, rival, measure) for dataset, rival in pairs]
    return sum(found, Tally())


def _tally(
    table: dict[Any, Array], scenario: str, dataset: str, rule: str, rival: str, measure: str
) -> Tally:
    own, other = (table[scenario, dataset, rule, m, measure][:, None] for m in ("drfl", rival))
    return tally(own, other, smaller_is_better=dataset == "abalone")


def _shown(values: Array, dataset: str) -> str:
    mean, wide = (float(v) for v in band(values))
    if dataset == "abalone":
        return f"{mean:.2f} ± {wide:.2f}"
    return f"{100 * mean:.1f} ± {100 * wide:.1f}"
