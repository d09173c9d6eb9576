"""``drfl curves``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from drfl.cli.main import show

EXAMPLE = """\
example:
  drfl curves RUN
after
  drfl train a.csv b.csv --target disease --additive age,chol --out RUN

What every column with a curve adds to the score, piece by piece, in the units of the files. Bars
of all columns have one scale.
"""
WIDTH = 30


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "run", metavar="RUN", type=Path, help="the folder of a run, or a model file"
    )


def run(options: argparse.Namespace) -> None:
    """Print the curves."""
    from drfl.models import read_model

    path = options.run / "model.json" if options.run.is_dir() else options.run
    show(lines_of(read_model(path)))


def lines_of(model: Any) -> Iterator[str]:
    """The curves of a model, line by line."""
    import numpy as np

    curves = model.problem.curves
    if curves is None or not any(curves.knots):
        raise ValueError("the model has no curves: train one with --additive")
    if model.scale == "per-client":
        raise ValueError("every client scaled its rows by itself: a curve has no units to show")
    shift, scale = model.scaling(np.zeros((1, len(model.features))))
    for k, slopes in enumerate(model.coef):
        if len(model.coef) > 1:
            rest = "in the score of its class" if model.joint else "against the rest"
            yield f"model {k + 1}: {model.target.classes[k]} {rest}"
        at_knots = [curves.value(j, slopes, np.array(curves.knots[j])) for j in range(curves.n)]
        largest = max(float(np.abs(values).max(initial=0.0)) for values in at_knots)
        for j, name in enumerate(model.features):
            if curves.knots[j]:
                units = float(shift[j]), float(scale[j])
                yield from _curve(name, curves, j, slopes, *units, largest)
                yield ""


def _curve(
    name: str, curves: Any, j: int, slopes: Any, shift: float, scale: float, largest: float
) -> Iterator[str]:
    """A curve; bars are as long as those of other curves whose values are as ``largest``."""
    import numpy as np

    knots, own = np.array(curves.knots[j]), slopes[curves.of(j)] / scale
    places, rules = knots * scale + shift, ", ".join(curves.shapes[j])
    values = curves.value(j, slopes, knots)
    yield f"{name}{': ' + rules if rules else ''}"
    yield f"  {'up to':>10}  {own[0]:+.4g} per unit"
    for place, value, slope in zip(places, values, own[1:], strict=True):
        bar = "#" * round(WIDTH * abs(float(value)) / max(largest, 1e-300))
        yield f"  {place:>10.4g}  {value:+.4f}  {bar}"
        yield f"  {'':>10}  {slope:+.4g} per unit"
