"""``drfl evaluate``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drfl.aligned import aligned
from drfl.cli.main import say, show, show_json

if TYPE_CHECKING:
    from drfl.tables import Reading

EXAMPLE = """\
example:
  drfl evaluate RUN/model.json a.csv b.csv --noise 0.25,0.5,1
  drfl evaluate RUN/model.json new.csv --threshold 0.2,0.5 --by sex --by age:50,65

Noise is Gaussian, added to every column of numbers; its deviation is in units of the scaled column
(for a model with scale = "none", in those of the file).
"""
NO_PROBABILITIES = (
    "--threshold and --by judge probabilities, which a model of classes with the logistic loss "
    "has, and any other of two classes after `drfl calibrate --kind slope`: leave them out"
)


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("model", metavar="MODEL", help="a model file, like RUN/model.json")
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="rows with the target")
    judging_options(parser)
    reading_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")


def judging_options(parser: argparse.ArgumentParser) -> None:
    """What is asked about a model on files, and at sites."""
    parser.add_argument("--noise", metavar="DEVIATIONS", help="like 0.1,0.5: also under noise")
    parser.add_argument("--repeats", type=int, default=10, help="draws of the noise (10)")
    parser.add_argument("--seed", type=int, default=0, help="of the noise (0)")
    parser.add_argument(
        "--threshold", metavar="P", help="count decisions where the probability is above: 0.2,0.5"
    )
    parser.add_argument(
        "--by",
        action="append",
        default=[],
        metavar="COLUMN[:CUTS]",
        help="judge probabilities in groups of rows: sex, or age:50,65",
    )


def run(options: argparse.Namespace) -> None:
    """Evaluate."""
    from drfl.models import read_model
    from drfl.models.file_rows import column_texts, read_rows
    from drfl.protocols.evaluation import scored

    levels, thresholds, by = judging(options)
    model = read_model(options.model)
    if model.scale == "per-client":
        say(
            "warning: every client of this model scaled its rows by itself, and so is every file "
            "here: give all rows of a client, not some"
        )
    found, parts = [], []
    for name, path, reading in sources(options, {str(p): p for p in options.files}):
        rows = read_rows(model, path, target=True, reading=reading)
        here = model.at(name if name in model.calibrations else path.stem)
        warn_of_unseen(rows, model, f"{name}: ")
        if here.judgeable:
            texts = {c: column_texts(path, c, reading, rows) for c, _ in by}
            parts.append(_Part(name, here, rows, texts))
        elif thresholds or by:
            raise ValueError(NO_PROBABILITIES)
        for level in levels:
            values = scored(here, rows, level, options.repeats, options.seed)
            found.append({"file": name, "rows": int(rows.keep.sum()), "noise": level} | values)
    if options.json:
        show_json(found)
    else:
        show(table(found))
    if parts:
        _judge(parts, dict(by), thresholds, as_json=options.json)


def warn_of_unseen(rows: Any, model: Any, whose: str = "") -> None:
    """Say that rows hold categories which were not trained."""
    for sentence in rows.unseen_sentences(model):
        say(f"warning: {whose}{sentence}")


class _Part:
    """The rows of a file: whose they are, scores, classes, and the columns that divide them."""

    def __init__(self, name: str, model: Any, rows: Any, texts: Mapping[str, list[str]]) -> None:
        self.name, self.columns, self.classes = name, texts, model.judged
        self.z = model.log_odds(model.scores(rows.X, rows.X))
        self.y = rows.y


def _judge(
    parts: list[_Part], by: dict[str, list[float]], thresholds: Sequence[float], *, as_json: bool
) -> None:
    """Print how good the probabilities are: of all files, of each, and of groups of rows."""
    import numpy as np

    from drfl.models.judgement import grouped, judged, lines, told
    from drfl.one_vs_rest import against_the_rest

    z, y = (np.concatenate([getattr(p, name) for p in parts]) for name in ("z", "y"))
    member = np.repeat(np.arange(len(parts)), [len(p.z) for p in parts])
    groups = {"all files": np.ones(len(z), dtype=bool)} if len(parts) > 1 else {}
    groups |= {p.name: member == s for s, p in enumerate(parts)}
    for column, cuts in by.items():
        labels = grouped(column, [text for p in parts for text in p.columns[column]], cuts)
        groups |= {str(label): labels == label for label in np.unique(labels)}
    large, small = told(groups)
    found, classes = {}, parts[0].classes
    for name, at in large.items():
        for seat, (k, label) in enumerate(classes.items()):
            of = name if len(classes) == 1 else against_the_rest(name, label)
            found[of] = judged(z[at][:, seat], y[at] == k, member[at], thresholds)
    if as_json:
        wanted = found.items() if thresholds or by else ()
        show_json({"rows_of": name} | facts for name, facts in wanted)
        return
    if found:
        show(["", "probabilities", *lines(found)])
    if small:
        show(["", f"fewer than 5 rows, not told: {', '.join(small)}"])


def reading_options(parser: argparse.ArgumentParser, *, several: bool = True) -> None:
    """How files are to be read."""
    parser.add_argument("--decimal", choices=[".", ","], default=".", help="decimals in the files")
    parser.add_argument(
        "--rename", metavar="OLD=NEW", default="", help="columns called otherwise in the files"
    )
    if several:
        parser.add_argument(
            "--client-column", metavar="COLUMN", help="a column that names the client of a row"
        )


def sources(
    options: argparse.Namespace, files: Mapping[str, Path]
) -> list[tuple[str, Path, Reading]]:
    """Name, file and reading of everything that the options name."""
    from drfl.training.settings import divided, from_values

    values = {"target": "-", "rename": options.rename, "decimal": options.decimal}
    if column := getattr(options, "client_column", None):
        files, values = divided(list(files.values()), column), {**values, "client_column": column}
    readings = from_values(values, files).readings()
    return [(name, path, readings[name]) for name, path in files.items()]


def judging(
    options: argparse.Namespace,
) -> tuple[list[float], tuple[float, ...], list[tuple[str, list[float]]]]:
    """The deviations that are asked for, and 0 before them; thresholds; columns with cuts."""
    from drfl import checks
    from drfl.models.judgement import read_by
    from drfl.training.fields import number, probabilities

    levels = [0.0]
    if options.noise is not None:
        parts = [number("--noise", part) for part in options.noise.split(",")]
        levels += [checks.number("--noise", level, least=0.0) for level in parts]
    checks.whole("--repeats", options.repeats, least=1)
    thresholds = probabilities("--threshold", options.threshold or ())
    return list(dict.fromkeys(levels)), thresholds, [read_by(text) for text in options.by]


def table(found: list[dict[str, Any]]) -> list[str]:
    """Metrics for a reader; the first entry says whose they are."""
    whose = next(iter(found[0]))
    names = [name for name in found[0] if name not in (whose, "rows", "noise")]
    sizes = ["rows"] if "rows" in found[0] else []
    heads = [whose, *sizes, "noise", *(name.replace("_", " ") for name in names)]
    rows = [
        [
            entry[whose],
            *(str(entry[size]) for size in sizes),
            f"{entry['noise']:g}",
            *(f"{entry[name]:.4g}" for name in names),
        ]
        for entry in found
    ]
    return aligned([heads, *rows], [0, *(8 for _ in sizes), 6, *(17 for _ in names)])
