"""``drfl sites``: real sites, each with its own data on its own machine."""

from __future__ import annotations

import argparse
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

EXAMPLE = """\
example:
  drfl sites init sites.toml
  drfl sites approve north.request
  drfl sites serve
  drfl sites check
  drfl sites inspect
  drfl sites run --out RUN
  drfl sites stop

at a site:
  drfl sites request north
  drfl sites join north.zip --data patients.csv
  drfl sites audit north
"""

CONFIG = Path("sites.toml")


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.epilog = EXAMPLE
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text in ACTIONS.items():
        action = actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        action.add_argument("--debug", action="store_true", help="show the traceback of an error")
        if name not in APART:
            action.add_argument(
                "--config", type=Path, default=CONFIG, help="the project's file (sites.toml)"
            )
        _FILL[name](action)


def run(options: argparse.Namespace) -> int:
    """Do what is asked for."""
    if find_spec("nvflare") is None:
        raise ImportError("`drfl sites` needs NVIDIA FLARE: pip install 'drfl[sites]'")
    module = next(name for name, actions in MODULES.items() if options.action in actions)
    code: int = getattr(import_module(f"drfl.cli.sites.{module}"), options.action)(options)
    return code


MODULES = {
    "coordinator": ("init", "approve", "serve", "check", "inspect", "run", "stop"),
    "model": ("evaluate", "explain", "calibrate"),
    "site": ("request", "join", "audit"),
}
"""Where the actions are."""


ACTIONS = {
    "init": "write everything that a project needs, from one file",
    "approve": "sign the request of a site, and write its kit",
    "serve": "run the server",
    "check": "whether every site is there, of the same version, with the same columns",
    "inspect": "what the columns of the sites look like, and what looks wrong in them",
    "run": "train over the sites",
    "evaluate": "how good a model is at the sites",
    "explain": "what the adversary would do at the sites",
    "calibrate": "fit an intercept, or a slope as well, to the scores of a model at the sites",
    "stop": "end server and sites",
    "request": "at a site: make a key, and a request for a certificate",
    "join": "at a site: take part",
    "audit": "at a site: what has left it",
}

APART = ("init", "request", "join", "audit")
"""Actions that need no project that exists."""


def _init(action: argparse.ArgumentParser) -> None:
    action.add_argument("config", type=Path, metavar="CONFIG", help="the project's file")
    action.add_argument(
        "--kits", action="store_true", help="also make the sites' keys here, for trying it out"
    )


def _approve(action: argparse.ArgumentParser) -> None:
    action.add_argument("request", type=Path, metavar="REQUEST", help="the file of the site")


def _shown(action: argparse.ArgumentParser) -> None:
    action.add_argument("--quiet", action="store_true", help="say nothing unless it is an error")
    action.add_argument("--json", action="store_true", help="one JSON object per line")


def _run(action: argparse.ArgumentParser) -> None:
    _shown(action)
    action.add_argument("--out", metavar="RUN", help="the folder to write to (runs/<time>)")
    action.add_argument("--resume", metavar="ID", help="continue a run that was interrupted")


def _explain(action: argparse.ArgumentParser) -> None:
    _shown(action)
    action.add_argument("model", type=Path, metavar="MODEL", help="a model file")


def _evaluate(action: argparse.ArgumentParser) -> None:
    from drfl.cli.evaluate import judging_options

    _explain(action)
    judging_options(action)


def _calibrate(action: argparse.ArgumentParser) -> None:
    from drfl.cli.calibrate import fitted_options

    _explain(action)
    fitted_options(action)
    action.add_argument(
        "--site",
        action="append",
        default=[],
        metavar="NAME",
        help="whose rows are taken: one site gets a calibration of its own, several fit one for "
        "everyone (all sites)",
    )


def _request(action: argparse.ArgumentParser) -> None:
    action.add_argument("name", metavar="NAME", help="of the site, as in the project")


def _join(action: argparse.ArgumentParser) -> None:
    action.add_argument("kit", type=Path, metavar="KIT", help="the ZIP file, or its folder")
    action.add_argument("--data", type=Path, metavar="FILE", help="the file with the rows")
    action.add_argument(
        "--without-guard", action="store_true", help="where site.toml says guard = 0: it is meant"
    )
    action.add_argument(
        "--wait", type=float, default=60.0, help="seconds to wait for the server (60)"
    )


def _audit(action: argparse.ArgumentParser) -> None:
    action.add_argument("kit", type=Path, metavar="KIT", help="the folder of the kit")
    action.add_argument("--all", action="store_true", help="every message, not a summary")


_FILL = {
    "init": _init,
    "approve": _approve,
    "serve": lambda action: None,
    "check": _shown,
    "inspect": _shown,
    "run": _run,
    "evaluate": _evaluate,
    "explain": _explain,
    "calibrate": _calibrate,
    "stop": lambda action: None,
    "request": _request,
    "join": _join,
    "audit": _audit,
}
