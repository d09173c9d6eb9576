"""``drfl train``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from drfl.cli.main import FAILED, OK, SHORT, say
from drfl.training.settings import FIELDS, flag_of

EXAMPLE = """\
example:
  drfl train a.csv b.csv c.csv --target disease --out RUN
  drfl train settings.toml --radius 0.05 --compare erm,afl
  drfl train settings.toml --guard 5 --tol 0.01
  drfl train --resume RUN
"""


UNLESS = {"validation": "do not judge the model on rows and clients it has not seen (saves time)"}
"""Settings that are true unless a flag says no."""


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "given",
        nargs="*",
        metavar="[NAME=]FILE",
        help="one for each client; or a settings file, FILE.toml, see `drfl init`",
    )
    parser.add_argument(
        "--client", action="append", default=[], metavar="[NAME=]FILE", help="one more client"
    )
    parser.add_argument("--out", metavar="RUN", help="the folder to write to (runs/<time>)")
    parser.add_argument("--resume", metavar="RUN", help="continue a run that was interrupted")
    parser.add_argument("--quiet", action="store_true", help="say nothing unless it is an error")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    group = parser.add_argument_group("settings, as in a settings file")
    for name in FIELDS:
        add_setting(group, name)


def add_setting(group: Any, name: str) -> None:
    """The option of a setting; one that is false unless it is given needs no value."""
    field = FIELDS[name]
    if name in UNLESS:
        no = f"--no-{name}"
        group.add_argument(
            no, dest=f"set_{name}", action="store_const", const="false", help=UNLESS[name]
        )
        return
    alone: dict[str, Any] = {"nargs": "?", "const": "true"} if field.default is False else {}
    alone |= {"action": "append"} if name == "by" else {}
    group.add_argument(
        flag_of(name), dest=f"set_{name}", metavar=name.upper(), help=field.help, **alone
    )


def run(options: argparse.Namespace) -> int:
    """Train."""
    from drfl.cli.console import Console
    from drfl.training.problems import check_before_reading
    from drfl.training.run_folder import RunFolder
    from drfl.training.settings import read_settings

    console = Console(quiet=options.quiet, as_json=options.json)
    flags = {name: getattr(options, f"set_{name}") for name in FIELDS}
    if options.resume is not None:
        if options.given or options.client or options.out:
            raise ValueError("--resume takes the files and the folder of the run: give it alone")
        folder = RunFolder.find(options.resume)
        settings = folder.settings(flags)
    else:
        config, files = _given(options.given)
        settings = read_settings(config, flags, [*files, *options.client])
        folder = RunFolder.new(options.out)
    check_before_reading(settings)
    return _train(settings, folder, console, fresh=options.resume is None)


def _given(arguments: list[str]) -> tuple[Path | None, list[str]]:
    """The settings file, if there is one, and the files of clients."""
    tables = [text for text in arguments if not text.endswith(".toml")]
    settings = [Path(text) for text in arguments if text.endswith(".toml")]
    if len(settings) > 1:
        raise ValueError(f"{settings[0]} and {settings[1]} are settings files: give one of them")
    return (settings[0] if settings else None), tables


def _train(settings: Any, folder: Any, console: Any, *, fresh: bool) -> int:
    from drfl.cli.summary import summary
    from drfl.training.local_files import files_here
    from drfl.training.train import train

    try:
        federation = files_here(settings, folder)
        outcome = train(settings, folder, federation, console, fresh=fresh)
    except KeyboardInterrupt:
        console.clear()
        done = f"the rounds done are kept in {folder.checkpoint}"
        if not folder.config.exists():
            folder.close_to_others()
            folder.create(settings)
            done = "no round was done yet"
        raise KeyboardInterrupt(
            f"interrupted; {done}: continue with `drfl train --resume {folder.path}`"
        ) from None
    if outcome.model is None:
        say(outcome.failure)
        return FAILED
    lines = summary(outcome.model, outcome.records.all)
    console.say("", *lines, "", f"written: {folder.model}")
    return OK if outcome.complete else SHORT
