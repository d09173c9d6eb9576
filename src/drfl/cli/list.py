"""``drfl list``."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

MOVES = {
    "l1": "the sum of the moves of a row's features counts",
    "l2": "their Euclidean length counts",
    "linf": "the largest move counts",
}
PROVE = {
    "bundle": "cutting planes with a proof, the default",
    "first_order": "gradients with a proof, for thousands of columns and more",
    "ad_lpmm": "Algorithm 1 of the paper",
    "admm": "consensus ADMM",
    "local": "all rows at hand, without a support",
    "private": "noisy slopes of clients with differential privacy",
}
LIVE = {
    "whole_space": "rows may be anywhere, the default",
    "box": "every column between two bounds (--support)",
    "polyhedron": "linear inequalities (Python only)",
}
CARRY = {
    "serial": "one client after the other, in this process",
    "processes": "each client in a process of its own",
}
WHAT = ("losses", "norms", "supports", "solvers", "methods", "engines", "rules")
EXAMPLE = """\
example:
  drfl list losses
"""


def fill(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"some of {', '.join(WHAT)}")


def run(options: argparse.Namespace) -> None:
    """List."""
    from drfl._registry import lookup

    tables = known()
    for what in options.what:
        lookup("list", what, tables)
    for what in options.what or WHAT:
        print(f"{what}:")
        width = max(len(name) for name in tables[what])
        for name, text in tables[what].items():
            print(f"  {name:{width}}  {text}")


def known() -> dict[str, dict[str, str]]:
    """Names with a line each, by what they are."""
    from drfl.engines import ENGINES
    from drfl.losses import LOSSES
    from drfl.norms import NORMS
    from drfl.problem import SUPPORTS
    from drfl.solvers import SOLVERS, solver_class
    from drfl.training.problems import EXACT, native_methods
    from drfl.training.settings import RULES

    tasks = {"classification": "for classes", "regression": "for numbers"}
    return {
        "losses": {name: tasks[loss.task] for name, loss in LOSSES.items()},
        "norms": _described(NORMS, MOVES),
        "supports": _described({name: kind for name, (kind, _) in SUPPORTS.items()}, LIVE),
        "solvers": _described({name: solver_class(name) for name in SOLVERS}, PROVE),
        "methods": {
            **{name: f"{text} (exact, with a proof)" for name, text in EXACT.items()},
            **{
                name: f"the iterations of {kind.name}, nothing proved"
                for name, kind in native_methods().items()
            },
        },
        "engines": _described(ENGINES, CARRY),
        "rules": RULES,
    }


def _described(known: Mapping[str, object], texts: Mapping[str, str]) -> dict[str, str]:
    """A line for each; an addition says of itself what it is."""
    own = {name: (kind.__doc__ or "").strip().split("\n")[0] for name, kind in known.items()}
    return {name: texts.get(name) or own[name].rstrip(".") for name in known}
