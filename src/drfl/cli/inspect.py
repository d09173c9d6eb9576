"""``drfl inspect``."""

from __future__ import annotations

import argparse
from pathlib import Path

from drfl.cli.train import add_setting

ASKED = (
    *("target", "client_column", "rename", "task", "missing", "missing_columns", "categorical"),
    *("exclude", "decimal", "merge_labels"),
)
EXAMPLE = """\
example:
  drfl inspect a.csv b.csv c.csv --target disease

Table 1 of the files, and what looks wrong in them: units that differ, codes for missing values,
ids, copies of the target. Nothing is trained and nothing is written.
"""


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("config", nargs="*", metavar="[NAME=]FILE", help="one for each client")
    for name in ASKED:
        add_setting(parser, name)


def run(options: argparse.Namespace) -> None:
    """Inspect."""
    from drfl.cli.console import Console
    from drfl.protocols.agreement import preflight
    from drfl.training.local_files import files_here
    from drfl.training.run_folder import RunFolder
    from drfl.training.settings import read_settings

    flags = {name: getattr(options, f"set_{name}") for name in ASKED}
    # To look at files with gaps is what this is for.
    flags["missing"] = flags["missing"] or "mean"
    settings = read_settings(None, flags, options.config)
    federation = files_here(settings, RunFolder(Path()))
    agreement = preflight(settings.data_request(), federation.names, federation.ask)
    console = Console()
    console.say(*agreement.describe())
    for sentence in agreement.warnings:
        console.warn(sentence)
