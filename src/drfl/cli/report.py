"""``drfl report``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

EXAMPLE = """\
example:
  drfl report RUN

Where the clients' files are at hand, it also shows what needs rows: noise, other radii and methods,
the adversary's choice, intervals of coefficients. With --quick it is made of the records alone.
With --rows single rows are shown: use it only where the data lie. A run with a guard has its
report from the records alone.
"""


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("run", metavar="RUN", type=Path, help="the folder of a run")
    parser.add_argument("--quick", action="store_true", help="read no rows, fit nothing again")
    parser.add_argument("--rows", type=int, nargs="?", const=10, metavar="N", help="show N rows")


def run(options: argparse.Namespace) -> None:
    """Write the report."""
    from drfl.report import Plan, write

    if options.rows is not None and (options.rows < 1 or options.quick):
        raise ValueError("--rows must be at least 1, and needs the files: leave --quick out")
    data = {} if options.quick else _data(options.run)
    if options.rows is not None and not data:
        raise ValueError(
            "--rows needs the clients' files, and a run without a guard: run it where they lie"
        )
    print(f"written: {write(options.run, data=data, plan=Plan(rows=options.rows or 0))}")


def _data(folder: Path) -> dict[str, Any]:
    """The rows of every client, if all files are at hand."""
    import numpy as np

    from drfl.models import read_model
    from drfl.models.file_rows import read_rows
    from drfl.report import ClientSample
    from drfl.training.run_folder import RunFolder

    run = RunFolder(folder)
    if not (run.config.exists() and run.model.exists()):
        return {}
    settings = run.settings({})
    if settings["guard"] is not None:
        return {}  # what is computed from rows would pass the guard by
    files = settings.files()
    if files != settings.clients or not all(path.is_file() for path in files.values()):
        return {}
    model = read_model(run.model)
    data = {}
    readings = settings.readings()
    for name, path in files.items():
        rows = read_rows(model, path, target=True, reading=readings[name])
        assert rows.y is not None
        lines = rows.table.lines(np.flatnonzero(rows.keep).tolist())
        data[name] = ClientSample(rows.X, rows.y, lines=lines)
    return data
