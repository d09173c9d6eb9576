"""``python -m experiments NAME``: repeat an experiment, or run the demo."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from drfl.cli.console import Console
from drfl.cli.main import OK, Parser, exit_code
from experiments import NAMES
from experiments.names import NETWORKS
from experiments.registry import find
from experiments.settings import Settings

ALL = "all"
APART = ("additive", "demo", "usefulness", "coverage")
"""What has options of its own."""
EXAMPLE = """\
example:
  python -m experiments heart --quick
  python -m experiments abalone --seeds 20 --out results
  python -m experiments heart --paper-literal --set folds=3
  python -m experiments volume --set q=0.3 --set support2=5,5.5,6

A run that was stopped goes on where it was if the same command is given again.
"""


def main(arguments: Sequence[str]) -> int:
    """Run what is asked for; the exit code is returned."""
    return exit_code(lambda: _main(arguments))


def _main(arguments: Sequence[str]) -> int:
    wanted = arguments[0] if arguments and arguments[0] in APART else ""
    module = import_module(f"experiments.{wanted}") if wanted else None
    parser = Parser(
        prog=f"python -m experiments {wanted}".rstrip(),
        description=module.DESCRIPTION if module else "Repeat the experiments of the paper.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if module:
        module.fill(parser)
        code: int = module.run(parser.parse_args(arguments[1:]))
        return code
    fill(parser)
    return run(parser.parse_args(arguments))


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    width = max(map(len, NAMES))
    every = {**NAMES, **NETWORKS}.items()
    names = "\n".join(f"  {name:{width}}  {text}" for name, text in every)
    parser.epilog = f"experiments:\n{names}\n\n{EXAMPLE}"
    parser.add_argument("name", metavar="NAME", help="an experiment, all, " + " or ".join(APART))
    parser.add_argument("--quick", action="store_true", help="two seeds and a thin grid")
    parser.add_argument("--out", metavar="DIR", type=Path, help="the folder to write to")
    parser.add_argument("--seeds", type=int, metavar="N", help="how many seeds (20)")
    parser.add_argument("--jobs", type=int, metavar="N", help="processes (one per core)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="change a setting"
    )
    parser.add_argument(
        "--paper-literal", action="store_true", help="the paper's choices also where mistaken"
    )
    parser.add_argument("--settings", action="store_true", help="show the settings and stop")
    parser.add_argument("--no-figures", action="store_true", help="draw nothing")
    parser.add_argument("--quiet", action="store_true", help="say nothing but errors")


def run(options: argparse.Namespace) -> int:
    """Run the experiments."""
    _check(options)
    names = list(NAMES) if options.name == ALL else [options.name]
    chosen = {name: _settings(find(name).settings, options) for name in names}
    console = Console(quiet=options.quiet)
    for name, settings in chosen.items():
        if options.settings:
            facts = settings.facts().items()
            console.say(f"{name}:", *(f"  {key}={_shown(value)}" for key, value in facts))
        else:
            _one(name, settings, options, console)
    return OK


def _check(options: argparse.Namespace) -> None:
    for name in ("seeds", "jobs"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise ValueError(f"--{name} must be at least 1, got {value}")
    if options.name == ALL and options.set:
        raise ValueError("--set belongs to one experiment: name it instead of all")


def _settings(settings: Settings, options: argparse.Namespace) -> Settings:
    if options.paper_literal:
        settings = settings.literal()
    if options.quick:
        settings = settings.quick()
    return settings.changed(options.set)


def _one(name: str, settings: Settings, options: argparse.Namespace, console: Console) -> None:
    from experiments.reproduce import reproduce

    seeds = options.seeds or (settings.quick_seeds if options.quick else settings.full_seeds)
    folder = options.out or Path("reproduction-quick" if options.quick else "reproduction")
    start = time.perf_counter()

    def told(done: int, total: int, seconds: float) -> None:
        passed = time.perf_counter() - start
        bar = ("#" * round(20 * done / total)).ljust(20, ".")
        console.note(f"{name} [{bar}] {done} of {total} tasks, {passed:.0f} s")

    found = reproduce(
        name,
        settings,
        folder / name,
        seeds=seeds,
        jobs=options.jobs,
        figures=not options.no_figures,
        command=_command(name, options),
        told=told,
    )
    console.clear()
    passed = time.perf_counter() - start
    files = [found.records, found.text, *found.figures]
    console.say(
        f"{name}: {found.fresh} tasks in {passed:.0f} s",
        "",
        *found.report.summary,
        "",
        *(f"written: {path}" for path in files),
        "",
    )


def _command(name: str, options: argparse.Namespace) -> str:
    words = ["python -m experiments", name]
    words += ["--quick"] if options.quick else []
    words += ["--paper-literal"] if options.paper_literal else []
    words += [f"--seeds {options.seeds}"] if options.seeds else []
    words += [f"--set {wish}" for wish in options.set]
    return " ".join(words)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(_shown(entry) for entry in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
