"""``drfl flower``: the same training over sites that Flower connects."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path

EXAMPLE = """\
example:
  drfl flower init sites.toml
  flwr run sites-app

at a site, beside its SuperNode:
  drfl flower site north --data patients.csv
  drfl flower audit north
"""

ACTIONS = {
    "init": "write the Flower app of a project, from one file",
    "site": "at a site: open a door that its SuperNode can knock at",
    "audit": "at a site: what has left it",
}


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text in ACTIONS.items():
        action = actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        action.add_argument("--debug", action="store_true", help="show the traceback of an error")
        if name == "init":
            action.add_argument("config", type=Path, metavar="CONFIG", help="the project's file")
            action.add_argument("--out", type=Path, help="the folder of the app (CONFIG-app)")
            continue
        action.add_argument("folder", type=Path, metavar="FOLDER", help="called like the site")
        if name == "site":
            action.add_argument("--data", type=Path, help="the file with the rows")
            action.add_argument(
                "--without-guard", action="store_true", help="say that guard = 0 is meant"
            )
        else:
            action.add_argument("--all", action="store_true", help="every message")


def run(options: argparse.Namespace) -> None:
    """Do what is asked for."""
    if find_spec("flwr") is None:
        raise ImportError("`drfl flower` needs Flower: pip install 'drfl[flower]'")
    from drfl.cli.console import Console
    from drfl.cli.sites.site import ask, audit
    from drfl.sites.flower.app import write_app
    from drfl.sites.flower.door import attend

    if options.action == "audit":
        return audit(argparse.Namespace(kit=options.folder, all=options.all))
    if options.action == "site":
        how = {"without_guard": options.without_guard}
        return attend(options.folder, options.data, Console(), ask, **how)
    folder = options.out or options.config.with_name(f"{options.config.stem}-app")
    if (folder / "pyproject.toml").exists():
        raise ValueError(f"{folder} holds an app already: remove it, or give --out FOLDER")
    project = write_app(options.config, folder)
    Console().say(
        f"written: {folder / 'pyproject.toml'}; read it, then `flwr run {folder}`",
        *(f"at {site}: drfl flower site {site} --data FILE" for site in project.sites),
    )
    return None
