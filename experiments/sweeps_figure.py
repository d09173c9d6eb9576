"""The paper's figures, a row of panels for every selection rule."""

from __future__ import annotations

from pathlib import Path

from experiments.figures import LEAK, finish, legend, line, new_figure, save
from experiments.findings import SWEEPS, Findings
from experiments.methods import METHODS
from experiments.rules import ORACLE, TITLES
from experiments.statistics import band


def draw(findings: Findings, folder: Path, name: str) -> list[Path]:
    """Write the figure: levels of noise across, accuracy or error up; bands are two errors wide."""
    protocol = findings.protocol
    levels = {"mean": protocol.means, "sd": protocol.sds, "ratio": protocol.ratio_sds}
    across = {
        "mean": f"mean of the noise (SD {protocol.fixed_sd:g})",
        "sd": f"SD of the noise (mean {protocol.fixed_mean:g})",
        "ratio": f"SD of the noise (mean = {protocol.ratio:g} × SD)",
    }
    what = "mean squared error (rings²)" if protocol.is_regression else "accuracy (%)"
    factor = 1.0 if protocol.is_regression else 100.0
    rules = protocol.rules
    figure = new_figure(len(rules), len(SWEEPS))
    panels = figure.subplots(len(rules), len(SWEEPS), sharex="col", squeeze=False)
    for row, rule in enumerate(rules):
        for column, sweep in enumerate(SWEEPS):
            axes = panels[row, column]
            for number, method in enumerate(METHODS):
                mean, wide = band(factor * findings.sweep(rule, method, sweep))
                line(axes, number, list(levels[sweep]), mean, wide, method.upper())
            last = row == len(rules) - 1
            finish(
                axes,
                x=across[sweep] if last else "",
                y=what if column == 0 else "",
                title=TITLES[rule] if column == 0 else "",
            )
            if rule == ORACLE:
                axes.set_facecolor(LEAK)
    legend(figure, panels[0, 0], len(METHODS))
    return save(figure, folder, name)
