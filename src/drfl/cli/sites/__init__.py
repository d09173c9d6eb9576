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


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, (text, options) in ACTIONS.items():
        action = actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        action.add_argument("--debug", action="store_true", help="show the traceback of an error")
        options(action)


def run(options: argparse.Namespace) -> int | None:
    """Do what is asked for."""
    if find_spec("nvflare") is None:
        raise ImportError("`drfl sites` needs NVIDIA FLARE: pip install 'drfl[sites]'")
    module = ELSEWHERE.get(options.action, "coordinator")
    code: int | None = getattr(import_module(f"drfl.cli.sites.{module}"), options.action)(options)
    return code


ELSEWHERE = {
    **dict.fromkeys(("evaluate", "explain", "calibrate"), "model"),
    **dict.fromkeys(("request", "join", "audit"), "site"),
}
"""Which file an action is in, if not in that of the coordinator."""


def _init(action: argparse.ArgumentParser) -> None:
    action.add_argument("config", type=Path, metavar="CONFIG", help="the project's file")
    action.add_argument(
        "--kits", action="store_true", help="also make the sites' keys here, for trying it out"
    )


def _approve(action: argparse.ArgumentParser) -> None:
    _project(action)
    action.add_argument("request", type=Path, metavar="REQUEST", help="the file of the site")


def _project(action: argparse.ArgumentParser) -> None:
    action.add_argument(
        "--config", type=Path, default=Path("sites.toml"), help="the project's file (sites.toml)"
    )


def _shown(action: argparse.ArgumentParser) -> None:
    _project(action)
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


ACTIONS = {
    "init": ("write everything that a project needs, from one file", _init),
    "approve": ("sign the request of a site, and write its kit", _approve),
    "serve": ("run the server", _project),
    "check": ("whether every site is there, of the same version, with the same columns", _shown),
    "inspect": ("what the columns of the sites look like, and what looks wrong in them", _shown),
    "run": ("train over the sites", _run),
    "evaluate": ("how good a model is at the sites", _evaluate),
    "explain": ("what the adversary would do at the sites", _explain),
    "calibrate": (
        "fit an intercept, or a slope as well, to the scores of a model at the sites",
        _calibrate,
    ),
    "stop": ("end server and sites", _project),
    "request": ("at a site: make a key, and a request for a certificate", _request),
    "join": ("at a site: take part", _join),
    "audit": ("at a site: what has left it", _audit),
}
"""Every action, with what fills in its options."""
