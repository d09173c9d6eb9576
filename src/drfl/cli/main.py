"""From the command line to a command, and from what happens to an exit code."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from drfl._registry import load_extensions

OK, BUG, USAGE, INPUT, SHORT, FAILED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
"""Exit codes; see ``docs/command-line.md``."""

COMMANDS = {
    "init": "write a commented settings file by looking at data files",
    "inspect": "what is in the files of several clients, and what looks wrong",
    "train": "train a model over the files of several clients",
    "predict": "predict the rows of a file",
    "calibrate": "fit an intercept, or a slope as well, on rows of one place",
    "evaluate": "how good a model is on files, also under noise",
    "curves": "the curves of an additive model",
    "explain": "what the adversary would do to files",
    "summary": "coefficients with standard errors, intervals and tests of a run",
    "report": "write the report of a run",
    "audit": "what has left a client, by the ledger of its guard",
    "sites": "train over real sites, each with its own data on its own machine",
    "flower": "the same over sites that Flower connects",
    "list": "losses, norms, supports, solvers, methods, engines and rules",
}


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, and that takes no part of a word for an option.

    What is an abbreviation today may be of two options tomorrow, and a mistyped one would be heard.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **settings})

    def error(self, message: str) -> NoReturn:
        say(f"{message}: see `{self.prog} --help`")
        raise SystemExit(USAGE)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program."""
    raise SystemExit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run a command; the exit code is returned."""

    def command() -> int:
        options = _options(arguments)
        if options.command is None:
            return OK
        load_extensions()
        code: int | None = _module(options.command).run(options)
        return code or OK

    return exit_code(command, debug="--debug" in arguments)


def exit_code(command: Callable[[], int], *, debug: bool = False) -> int:
    """Run something; what goes wrong is said in a sentence, and becomes an exit code."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        code = command()
        sys.stdout.flush()
        return code
    except KeyboardInterrupt as stop:
        say(str(stop) or "interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output is gone: nothing more can be said to anybody.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except Exception as error:
        if debug:
            traceback.print_exc()
        say(_sentence(error))
        return INPUT if isinstance(error, ValueError | TypeError | OSError | ImportError) else BUG


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser, commands = _parsers()
    # Only the command that is asked for is imported: its own help may need more than this one.
    wanted = next((word for word in arguments if not word.startswith("-")), None)
    if wanted in COMMANDS:
        module = _module(wanted)
        commands[wanted].epilog = module.EXAMPLE
        module.fill(commands[wanted])
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
    return options


def _module(command: str) -> Any:
    return import_module(f"drfl.cli.{'sites.flower' if command == 'flower' else command}")


def say(sentence: str) -> None:
    """One sentence on the standard error stream."""
    print(f"drfl: {printable(' '.join(sentence.split()))}", file=sys.stderr, flush=True)


def printable(line: str) -> str:
    r"""A line without characters that could command a terminal: names come from files.

    Examples
    --------
    >>> printable("a\x1b[2J")
    'a?[2J'
    """
    return "".join(c if c.isprintable() else "?" for c in line)


def show(lines: Iterable[str]) -> None:
    """Lines on the standard output."""
    for line in lines:
        print(printable(line))


def show_json(entries: Iterable[Mapping[str, Any]]) -> None:
    """One JSON object per line on the standard output."""
    from drfl.problem import to_json

    for entry in entries:
        print(json.dumps(to_json(entry), allow_nan=False))


def require_new(path: Path | None, options: argparse.Namespace, other: str = "") -> None:
    """Refuse to write over a file unasked."""
    if path is not None and path.exists() and not options.force:
        raise ValueError(f"{path} exists: choose another name{other}, or --force to overwrite it")


def _parsers() -> tuple[Parser, dict[str, Parser]]:
    parser = Parser(
        prog="drfl",
        description="Distributionally robust federated learning of linear models: the data stay "
        "where they are, and the answer comes with a proof of how good it is.",
        epilog="example:  drfl train a.csv b.csv --target disease --out RUN",
    )
    parser.add_argument("--version", action="version", version=_version())
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    shared = Parser(add_help=False)
    shared.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.set_defaults(debug=False)
    commands = {
        name: subparsers.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            parents=[shared],
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for name, text in COMMANDS.items()
    }
    return parser, commands


def _version() -> str:
    from drfl import __version__

    return f"drfl {__version__}"


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'the file'}: {error.strerror.lower()}"
    if isinstance(error, ValueError | TypeError | ImportError):
        return str(error)
    return (
        f"unexpected {type(error).__name__}: {error}; run it with --debug to see where, and report "
        "it"
    )


def _terminate(number: int, frame: FrameType | None) -> Any:
    raise KeyboardInterrupt
