"""``drfl init``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

EXAMPLE = """\
example:
  drfl init a.csv b.csv c.csv --target disease --out drfl.toml
  drfl train drfl.toml
"""


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("files", metavar="[NAME=]FILE", nargs="+", help="the clients' files")
    parser.add_argument("--target", help="the column that is predicted (the last)")
    parser.add_argument("--out", type=Path, default=Path("drfl.toml"), help="where to (drfl.toml)")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")


def run(options: argparse.Namespace) -> None:
    """Write a settings file."""
    from drfl.files import write_text
    from drfl.tables import read_table
    from drfl.training.settings import named_files

    if options.out.exists() and not options.force:
        raise ValueError(f"{options.out} exists already: overwrite it with --force")
    files = named_files(options.files)
    tables = {name: read_table(path) for name, path in files.items()}
    first = next(iter(tables.values()))
    last = first.columns[0] if first.label is not None else first.columns[-1]
    target = options.target or last
    for table in tables.values():
        if target not in table.columns:
            raise ValueError(f"{table.path} has no column {target!r}: give --target COLUMN")
    write_text(options.out, _text(files, tables, target, options.out, guessed=not options.target))
    print(f"written: {options.out}")
    print(f"read it, then train with `drfl train {options.out}`")


def _text(files: Any, tables: Any, target: str, out: Path, *, guessed: bool) -> str:
    import os

    from drfl.training.settings import FIELDS, toml_value

    names = list(dict.fromkeys(name for table in tables.values() for name in table.columns))
    excluded = [name for name in names if name != target and _too_many(tables, name)]
    given = {"target": target, "exclude": excluded}
    lines = ["# Settings of `drfl train`. What is commented out has the value shown.", ""]
    for name, field in FIELDS.items():
        if name == "support":
            continue
        lines.append(f"# {field.help[0].upper()}{field.help[1:]}")
        if name == "target" and guessed:
            lines.append("# It is a guess, the last column: correct it if need be.")
        if name == "exclude" and excluded:
            lines.append("# Text with more than 50 different values cannot be used.")
        value = given.get(name, field.default)
        mark = "" if name in given else "# "
        shown = "(not set)" if value is None else toml_value(value)
        lines += [f"{mark}{name} = {shown}", ""]
    lines += ["# Bounds that columns keep for certain, in the units of the files.", "[support]"]
    numbers = [name for name in names if _numeric(tables, name) and name != target]
    lines += [f"# {toml_value(n)} = {toml_value(_extremes(tables, n))}" for n in numbers]
    lines += ["", "# What was found in the files:"]
    lines += [f"#   {_described(tables, name)}" for name in names]
    lines += ["", "[clients]"]
    folder = out.resolve().parent
    for name, path in files.items():
        relative = os.path.relpath(path.resolve(), folder)
        lines.append(f"{toml_value(name)} = {toml_value(relative)}")
    return "\n".join(lines) + "\n"


def _numeric(tables: Any, name: str) -> bool:
    holders = [table for table in tables.values() if name in table.columns]
    return not any(table.is_text(name) for table in holders)


def _too_many(tables: Any, name: str) -> bool:
    from drfl.tables.reading import LEVELS

    return any(len(table.levels.get(name, ())) > LEVELS for table in tables.values())


def _extremes(tables: Any, name: str) -> tuple[float, float]:
    import numpy as np

    columns = [t.number(name) for t in tables.values() if name in t.columns]
    low = min(float(np.fmin.reduce(column)) for column in columns)
    high = max(float(np.fmax.reduce(column)) for column in columns)
    return low, high


def _described(tables: Any, name: str) -> str:
    lacking = [client for client, table in tables.items() if name not in table.columns]
    missing = sum(int(t.missing(name).sum()) for t in tables.values() if name in t.columns)
    if _numeric(tables, name):
        low, high = _extremes(tables, name)
        what = f"numbers from {low:g} to {high:g}"
    else:
        values = {level for table in tables.values() for level in table.levels.get(name, ())}
        what = f"text, {len(values)} different values"
    notes = [f"{missing} missing"] if missing else []
    notes += [f"not in {', '.join(lacking)}"] if lacking else []
    return "; ".join([f"{name!a}: {what}", *notes])
