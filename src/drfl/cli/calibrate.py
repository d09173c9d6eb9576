"""``drfl calibrate``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from drfl.cli.evaluate import reading_options, sources, warn_of_unseen
from drfl.cli.main import require_new, show

if TYPE_CHECKING:  # help must not wait for SciPy
    from drfl.models import Model

EXAMPLE = """\
example:
  drfl calibrate RUN/model.json rome.csv
  drfl calibrate RUN/model.json rome.csv --kind slope --out rome.json
  drfl calibrate RUN/model.json rome=unlabelled.csv --prevalence 0.2

One file gives its client an intercept of its own, fitted where the rows are. Several files fit one
calibration together, each telling two numbers in a round, for everyone who has none. What is
written is the model with the calibration in it; `drfl predict --client NAME` uses it.
"""


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("model", metavar="MODEL", help="a model file, like RUN/model.json")
    parser.add_argument(
        "files", metavar="[NAME=]FILE", nargs="+", help="rows with the target, by client"
    )
    fitted_options(parser)
    parser.add_argument(
        "--prevalence",
        type=float,
        metavar="P",
        help="a known share of the second class, instead of a target in the file",
    )
    reading_options(parser)


def fitted_options(parser: argparse.ArgumentParser) -> None:
    """What is fitted, and where it is written to."""
    parser.add_argument(
        "--kind",
        choices=["intercept", "slope"],
        default="intercept",
        help="what is fitted: an intercept, or a slope as well, which gives any model "
        "probabilities (intercept)",
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help="where to (model-NAME.json)")
    parser.add_argument("--force", action="store_true", help="overwrite the file that is there")


def new_file(options: argparse.Namespace, clients: Sequence[str]) -> Path:
    """Where the model with a calibration of these clients goes; never over a file unasked."""
    name = clients[0] if len(clients) == 1 else "all"
    out: Path = options.out or Path(options.model).with_name(f"model-{name}.json")
    require_new(out, options, " with --out")
    return out


def lines(model: Model, clients: Sequence[str], rest: str, out: Path) -> list[str]:
    """What was fitted, and where it is."""
    from drfl.models.document import EVERYONE

    name = clients[0] if len(clients) == 1 else EVERYONE
    found = model.calibrations[name]
    whose = "everyone without one of its own" if name == EVERYONE else name
    labels = [f", class {label}" for label in model.target.classes or ()]
    told = [
        f"{whose}{label}: score x {slope:.4g} {intercept:+.4g}, from {rest}"
        for label, slope, intercept in zip(
            labels if len(found.slope) > 1 else [""], found.slope, found.intercept, strict=True
        )
    ]
    return [*told, f"the calibrated model: {out}"]


def run(options: argparse.Namespace) -> None:
    """Calibrate."""
    from drfl.models import read_model, write_model
    from drfl.models.calibration import Labelled, calibrated_model, from_prevalence
    from drfl.models.file_rows import read_rows
    from drfl.training.settings import named_files

    model = read_model(options.model)
    files = sources(options, named_files(options.files))
    labelled = options.prevalence is None
    if not labelled and (len(files) > 1 or options.kind != "intercept"):
        raise ValueError("--prevalence is for one file and sets its intercept: leave out the rest")
    names = [name for name, _, _ in files]
    out = new_file(options, names)
    read = {who: read_rows(model, path, target=labelled, reading=how) for who, path, how in files}
    for who, file in read.items():
        warn_of_unseen(file, model, f"{who}: ")
    if labelled:
        rows = {who: Labelled(file.X, file.y) for who, file in read.items()}
        model = calibrated_model(model, rows, kind=options.kind)
    else:
        model = from_prevalence(model, names[0], read[names[0]].X, options.prevalence)
    write_model(model, out)
    count = sum(int(file.keep.sum()) for file in read.values())
    show(lines(model, names, f"{count} rows", out))
