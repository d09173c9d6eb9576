"""``drfl audit``."""

from __future__ import annotations

import argparse
from pathlib import Path

from drfl.cli.main import show

EXAMPLE = """\
example:
  drfl audit RUN/ledger/a.ledger
"""


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("ledger", metavar="LEDGER", type=Path, help="the file of a guard's ledger")


def run(options: argparse.Namespace) -> None:
    """Print the statement of a ledger."""
    from drfl.privacy import audit

    if options.ledger.is_dir():
        raise ValueError(f"{options.ledger} is a folder: name one ledger, a file")
    show(audit(options.ledger).splitlines())
