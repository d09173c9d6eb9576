"""Tables and figures of Example 4.1, from its records alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from drfl.arrays import Array
from experiments.figures import finish, legend, line, new_figure, save
from experiments.records import Done
from experiments.report import Report
from experiments.statistics import band, markdown

SETS = {"drfl": "DRFL: a ball around each client", "wafl": "WAFL: one ball around the mixture"}
CLAIMS = {
    "claim1": "claim 1: WAFL needs the larger radius",
    "claim2": "claim 2: WAFL's set has the larger volume",
}


def report(settings: Any, done: Sequence[Done]) -> Report:
    """Where each of the two claims holds."""
    examples, cells = _rows(done)
    seeds = len(examples[settings.shifts[0]])
    known = "known" if settings.known_q else "estimated"
    intro = (
        f"Seeds: {seeds}; {settings.samples} samples, {settings.repeats} repeats, {settings.draws} "
        f"draws, q = {settings.q:g} ({known}). A claim holds if it does at every level, volumes "
        "up to two standard errors of their counts."
    )
    findings = []
    for shift, rows in examples.items():
        one, two = (sum(bool(row[name]) for row in rows) for name in CLAIMS)
        findings.append(
            f"Second support shifted by {shift:g}: claim 1 (WAFL needs the larger radius) holds "
            f"with {one} of {seeds} seeds, claim 2 (its set has the larger volume) with {two}."
        )
    for name, title in CLAIMS.items():
        near, far = (
            [row[name] for row in cells if row["map"] == end]
            for end in (min(settings.map_shifts), max(settings.map_shifts))
        )
        findings.append(
            f"{title[0].upper()}{title[1:]} in {_range(near)} of random systems whose supports "
            f"overlap, and in {_range(far)} of those shifted by {max(settings.map_shifts):g}: "
            "it is a matter of how far apart the clients are and how the weights are divided."
        )
    tables = []
    for name, title in CLAIMS.items():
        values = _map(settings, cells, name)
        head = ["q \\ shift", *(f"{shift:g}" for shift in settings.map_shifts)]
        body = [
            [f"{q:g}", *(f"{100 * v:.0f} %" for v in row)]
            for q, row in zip(settings.map_q, values, strict=True)
        ]
        tables += [f"Share of {settings.systems} random systems, {title}:", "",
                   *markdown(head, body), ""]  # fmt: skip
    return Report([intro], findings, tables)


def draw(settings: Any, done: Sequence[Done], folder: Path, name: str) -> list[Path]:
    """The example for every shift, and the map."""
    examples, cells = _rows(done)
    return _curves(settings, examples, folder, name) + _maps(settings, cells, folder, f"{name}-map")


def _curves(settings: Any, examples: dict[float, list[Any]], folder: Path, name: str) -> list[Path]:
    figure = new_figure(len(examples), 3, width=3.8, height=2.7)
    panels = figure.subplots(len(examples), 3, squeeze=False)
    for row, (shift, found) in enumerate(examples.items()):
        for number, (key, title) in enumerate(SETS.items()):
            count = len(found[0]["coverage"][key])
            grid = np.linspace(settings.radius_step, settings.radius_max, count)
            mean, wide = band(100.0 * _stack(found, "coverage", key))
            line(panels[row, 0], 4 * number, grid, mean, wide, title)
            levels = (100.0 * settings.levels).tolist()
            line(panels[row, 1], 4 * number, levels, *band(_stack(found, "radii", key)), title)
            line(panels[row, 2], 4 * number, levels,
                 *band(100.0 * _stack(found, "volumes", key)), title)  # fmt: skip
        # Radii beyond full coverage of both sets show nothing.
        top = max(float(_stack(found, "radii", key).max()) for key in SETS)
        panels[row, 0].set_xlim(0.0, min(settings.radius_max, 1.1 * top))
        above = f"second support shifted by {shift:g}"
        finish(panels[row, 0], x="radius", y="samples whose set holds the truth (%)", title=above)
        finish(panels[row, 1], x="coverage (%)", y="smallest radius")
        finish(panels[row, 2], x="coverage (%)", y="volume (% of random distributions)")
    legend(figure, panels[0, 0], 2)
    return save(figure, folder, name)


def _maps(settings: Any, cells: Sequence[Any], folder: Path, name: str) -> list[Path]:
    figure = new_figure(1, 2, width=5.0, height=3.6)
    panels = figure.subplots(1, 2)
    for axes, (claim, title) in zip(panels, CLAIMS.items(), strict=True):
        values = 100.0 * _map(settings, cells, claim)
        image = axes.imshow(values, origin="lower", aspect="auto", cmap="cividis", vmin=0, vmax=100)
        for (i, j), value in np.ndenumerate(values):
            axes.text(j, i, f"{value:.0f}", ha="center", va="center", fontsize=7.5,
                      color="white" if value < 55 else "black")  # fmt: skip
        axes.set_xticks(range(len(settings.map_shifts)), [f"{s:g}" for s in settings.map_shifts])
        axes.set_yticks(range(len(settings.map_q)), [f"{q:g}" for q in settings.map_q])
        finish(axes, x="shift of the second support (supports are 1 wide)",
               y="weight q of the first client", title=title)  # fmt: skip
        axes.grid(visible=False)
    bar = figure.colorbar(image, ax=panels)
    bar.set_label("random systems in which the claim holds (%)", fontsize=8)
    bar.ax.tick_params(labelsize=7.5)
    return save(figure, folder, name)


def _rows(done: Sequence[Done]) -> tuple[dict[float, list[Any]], list[Any]]:
    """Rows of the examples by shift, and the cells of the map."""
    rows = [row for one in done for row in one.rows]
    examples: dict[float, list[Any]] = {}
    for row in rows:
        if "shift" in row:
            examples.setdefault(row["shift"], []).append(row)
    return examples, [row for row in rows if "map" in row]


def _stack(rows: Sequence[Any], name: str, key: str) -> Array:
    return np.array([row[name][key] for row in rows], dtype=np.float64)


def _map(settings: Any, cells: Sequence[Any], claim: str) -> Array:
    found = {(row["q"], row["map"]): row[claim] for row in cells}
    return np.array([[found[q, s] for s in settings.map_shifts] for q in settings.map_q])


def _range(shares: Sequence[float]) -> str:
    low, high = 100.0 * min(shares), 100.0 * max(shares)
    return f"{low:.0f} %" if round(low) == round(high) else f"{low:.0f} to {high:.0f} %"
