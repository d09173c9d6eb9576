"""``drfl predict``."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from drfl.cli.evaluate import reading_options, sources, warn_of_unseen
from drfl.cli.main import require_new, say

BLOCK = 10_000  # rows that are written together

EXAMPLE = """\
example:
  drfl predict RUN/model.json new.csv --out predictions.csv --id patient

A line is written for every row of the file, in order: the prediction, and for classes the score
(positive for the second class), or a score per class; with the logistic loss also probabilities.
Rows that lack a value, or hold a category, which the model cannot use have empty fields.
"""


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("model", metavar="MODEL", help="a model file, like RUN/model.json")
    parser.add_argument("file", metavar="FILE", type=Path, help="rows to predict")
    parser.add_argument("--out", metavar="CSV", type=Path, help="where to (standard output)")
    parser.add_argument("--force", action="store_true", help="overwrite the file that is there")
    parser.add_argument(
        "--client", metavar="NAME", help="whose rows these are, if clients have own intercepts"
    )
    parser.add_argument("--id", metavar="COLUMN", help="a column of the file to write beside")
    parser.add_argument(
        "--scale-from",
        metavar="FILE",
        type=Path,
        help="for a model with scale per-client: all rows of the client",
    )
    reading_options(parser, several=False)


def run(options: argparse.Namespace) -> None:
    """Predict."""
    from drfl.files import replacing
    from drfl.models import read_model
    from drfl.models.file_rows import read_rows
    from drfl.tables.encoding import strange_rows
    from drfl.tables.read import read_column

    require_new(options.out, options)
    model = read_model(options.model)
    if options.client is not None and not model.calibrations:
        raise ValueError(
            f"{options.model} is one model for all clients, with nothing of {options.client!r} "
            "alone: leave out --client"
        )
    model = model.at(options.client)
    ((_, _, reading),) = sources(options, {str(options.file): options.file})
    rows = read_rows(model, options.file, target=False, reading=reading, strange=True)
    by = None
    if options.scale_from is not None:
        by = read_rows(model, options.scale_from, target=False, reading=reading, strange=True).X
    scores = model.scores(rows.X, by)
    strange = strange_rows(rows.table, model.columns)
    if lacking := int((~rows.keep & ~strange).sum()):
        say(f"warning: {lacking} rows lack a value and are not predicted")
    if strange.any():
        say(
            f"warning: {int(strange.sum())} rows hold a category that was not trained, in a column "
            "for which the model has no 'other', and are not predicted"
        )
    warn_of_unseen(rows, model)
    beside = None if options.id is None else (options.id, read_column(options.file, options.id))
    if options.out is None:
        _write(sys.stdout, model, rows.keep, scores, beside)
        return
    with replacing(options.out) as file:
        _write(file, model, rows.keep, scores, beside)


def _write(
    file: TextIO, model: Any, keep: Any, scores: Any, beside: tuple[str, Sequence[str]] | None
) -> None:
    """A line per row, in blocks: scores of all rows are small, their text is not."""
    writer = csv.writer(file, lineterminator="\n")
    heads, start = _heads(model, scores.shape[1]), 0
    writer.writerow(heads if beside is None else [beside[0], *heads])
    for first in range(0, len(keep), BLOCK):
        usable = keep[first : first + BLOCK]
        stop = start + int(usable.sum())
        found = zip(*_columns(model, scores[start:stop]), strict=True)
        for k, good in enumerate(usable, start=first):
            line = next(found) if good else [""] * len(heads)
            writer.writerow(line if beside is None else [beside[1][k], *line])
        start = stop


def _heads(model: Any, models: int) -> list[str]:
    classes = model.target.classes
    if classes is None:
        return ["prediction"]
    heads = ["score"] if models == 1 else [f"score {label}" for label in classes]
    if model.probabilistic:
        heads += [f"probability {label}" for label in classes]
    return ["prediction", *heads]


def _columns(model: Any, scores: Any) -> list[list[Any]]:
    classes = model.target.classes
    if classes is None:
        return [scores[:, 0].tolist()]
    columns = [[classes[k] for k in model.positions(scores)], *scores.T.tolist()]
    if model.probabilistic:
        columns += model.probabilities(scores).T.tolist()
    return columns
