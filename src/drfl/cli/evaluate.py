"""``drfl evaluate``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drfl.tables import Reading

EXAMPLE = """\
example:
  drfl evaluate RUN/model.json a.csv b.csv --noise 0.25,0.5,1

Noise is Gaussian, added to every column of numbers; its deviation is in units of the scaled column
(for a model with scale = "none", in those of the file).
"""


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.epilog = EXAMPLE
    parser.add_argument("model", metavar="MODEL", help="a model file, like RUN/model.json")
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="rows with the target")
    parser.add_argument("--noise", metavar="DEVIATIONS", help="like 0.1,0.5: also under noise")
    parser.add_argument("--repeats", type=int, default=10, help="draws of the noise (10)")
    parser.add_argument("--seed", type=int, default=0, help="of the noise (0)")
    reading_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")


def run(options: argparse.Namespace) -> int:
    """Evaluate."""
    from drfl.cli.main import OK
    from drfl.models import read_model
    from drfl.models.file_rows import read_rows
    from drfl.problem import to_json
    from drfl.training.evaluation import scored

    levels = noise_levels(options.noise, options.repeats)
    model = read_model(options.model)
    found = []
    for name, path, reading in sources(options, {str(p): p for p in options.files}):
        rows = read_rows(model, path, target=True, reading=reading)
        for level in levels:
            values = scored(model, rows, level, options.repeats, options.seed)
            found.append({"file": name, "rows": int(rows.keep.sum()), "noise": level} | values)
    if options.json:
        for entry in found:
            print(json.dumps(to_json(entry), allow_nan=False))
    else:
        print("\n".join(table(found)))
    return OK


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


def noise_levels(noise: str | None, repeats: int) -> list[float]:
    """The deviations that are asked for, and 0 before them."""
    from drfl.training.fields import number

    levels = [0.0]
    if noise is not None:
        levels += [number("--noise", part) for part in noise.split(",")]
    if not all(0.0 <= level < float("inf") for level in levels) or repeats < 1:
        raise ValueError("--noise must be finite deviations >= 0, and --repeats at least 1")
    return list(dict.fromkeys(levels))


def table(found: list[dict[str, Any]]) -> list[str]:
    """Metrics for a reader; the first entry says whose they are."""
    whose = next(iter(found[0]))
    width = max(len(whose), *(len(entry[whose]) for entry in found))
    names = [name for name in found[0] if name not in (whose, "rows", "noise")]
    sizes = "rows" in found[0]
    heads = "".join(f"  {name.replace('_', ' '):>17}" for name in names)
    lines = [f"{whose:{width}}{'  ' + 'rows'.rjust(8) if sizes else ''}  {'noise':>6}{heads}"]
    for entry in found:
        cells = "".join(f"  {entry[name]:>17.4g}" for name in names)
        rows = f"  {entry['rows']:>8}" if sizes else ""
        lines.append(f"{entry[whose]:{width}}{rows}  {entry['noise']:>6g}{cells}")
    return lines
