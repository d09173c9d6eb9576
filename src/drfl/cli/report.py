"""``drfl report``."""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLE = """\
example:
  drfl report RUN
"""


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.epilog = EXAMPLE
    parser.add_argument("run", metavar="RUN", type=Path, help="the folder of a run")


def run(options: argparse.Namespace) -> int:
    """Write the report."""
    from drfl import report
    from drfl.cli.main import OK

    print(f"written: {report.write(options.run)}")
    return OK
