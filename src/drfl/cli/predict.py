"""``drfl predict``."""

from __future__ import annotations

import argparse
import csv
import sys
from pathlib import Path
from typing import Any, TextIO

BLOCK = 10_000
"""Rows that are written together."""

EXAMPLE = """\
example:
  drfl predict RUN/model.json new.csv --out predictions.csv

A line is written for every row of the file, in order: the prediction, and for classes the score
(positive for the second class), or a score per class; with the logistic loss also probabilities.
Rows that a model with missing = "drop" cannot use have empty fields.
"""


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.epilog = EXAMPLE
    parser.add_argument("model", metavar="MODEL", help="a model file, like RUN/model.json")
    parser.add_argument("file", metavar="FILE", type=Path, help="rows to predict")
    parser.add_argument("--out", metavar="CSV", type=Path, help="where to (standard output)")


def run(options: argparse.Namespace) -> int:
    """Predict."""
    from drfl.cli.main import OK, say
    from drfl.files import replacing
    from drfl.models import read_model
    from drfl.models.rows import read_rows

    model = read_model(options.model)
    rows = read_rows(model, options.file, target=False)
    if not rows.keep.all():
        say(f"warning: {int((~rows.keep).sum())} rows lack a value and are not predicted")
    if options.out is None:
        _write(sys.stdout, model, rows)
        return OK
    with replacing(options.out) as file:
        _write(file, model, rows)
    return OK


def _write(file: TextIO, model: Any, rows: Any) -> None:
    """A line per row, in blocks: scores of all rows are small, their text is not."""
    writer = csv.writer(file, lineterminator="\n")
    scores, start = model.scores(rows.X), 0
    writer.writerow(heads := _heads(model, scores.shape[1]))
    for first in range(0, len(rows.keep), BLOCK):
        usable = rows.keep[first : first + BLOCK]
        stop = start + int(usable.sum())
        found = zip(*_columns(model, scores[start:stop]), strict=True)
        writer.writerows(next(found) if good else [""] * len(heads) for good in usable)
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
