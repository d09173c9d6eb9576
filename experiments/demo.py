"""``python -m experiments demo``: seven methods on the same hospitals, and a report."""

from __future__ import annotations

import argparse

DESCRIPTION = "Train seven methods on bundled data and compare them."
EXAMPLE = """\
example:
  python -m experiments demo --out demo
"""


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.epilog = EXAMPLE
    parser.add_argument("--out", metavar="RUN", help="the folder to write to (runs/demo-<time>)")
    parser.add_argument("--splits", type=int, default=5, help="training and test splits (5)")
    parser.add_argument("--seed", type=int, default=0, help="of splits and noise (0)")


def run(options: argparse.Namespace) -> int:
    """Run the demo."""
    from drfl.cli.console import Console
    from drfl.cli.main import OK
    from drfl.report import write
    from drfl.training.local_files import files_here
    from drfl.training.problems import check_before_reading
    from drfl.training.run_folder import RunFolder
    from drfl.training.settings import read_settings
    from drfl.training.train import train
    from experiments.contest import contest, table
    from experiments.hospitals import hospitals, write_files

    if options.splits < 1:
        raise ValueError(f"--splits must be at least 1, got {options.splits}")
    folder = RunFolder.new(options.out, "demo-")
    console = Console()
    console.say(*INTRODUCTION.format(splits=options.splits).splitlines())
    outcomes = contest(options.splits, options.seed, console)
    spread = max(outcome.spread for outcome in outcomes)
    console.say("", *table(outcomes), "", *MEANING)
    console.say(f"Standard error of the mean accuracies over the splits: up to {spread:.1%}.")
    files = write_files(hospitals(options.seed), folder.path / "data")
    settings = read_settings(None, FLAGS, [f"{name}={file}" for name, file in files.items()])
    check_before_reading(settings)
    federation = files_here(settings, folder)
    trained = train(settings, folder, federation, Console(quiet=True), fresh=True)
    for outcome in outcomes:
        trained.records.add("demo", **outcome.facts())
    page = write(folder.path)
    north, *others = (str(file) for file in files.values())
    console.say(
        "",
        f"model:   {folder.model}",
        f"report:  {page}",
        "try:     " + f"drfl explain {folder.model} {north} {' '.join(others)}",
    )
    return OK


FLAGS = {"target": "disease", "radius": "0.05", "mixture_radius": "0.2"}

INTRODUCTION = """\
Heart patients of three hospitals; the features that `north` measures are noisy. Each method is
trained on 70 % of every hospital's patients and judged on the others, as they are and with noise
in all features. Radius 0.05 for wafl and drfl, as given, not tuned. Means over {splits} splits."""

MEANING = [
    "worst: the hospital with the lowest accuracy. proved gap: how far the loss that was minimised",
    "can be from its optimum, at most. kB: sent between hospitals and server in all; for `pooled`",
    "the rows themselves would have to be.",
]
