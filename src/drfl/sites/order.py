"""What a coordinator orders: one JSON text, read with every field checked."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, fields
from importlib.metadata import version
from typing import Any

from drfl.problem import from_json, to_json
from drfl.sites.setup.project import Project

SCHEMA = 1  # of orders, of what is told while they are carried out, and of outcomes
PROGRESS = "drfl.progress"  # the application command that tells what has happened

KINDS = ("train", "check", "inspect", "evaluate", "explain", "calibrate")
_RUN = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Order:
    """An order to the driver of a job, one of `KINDS`.

    ``run`` is 32 hexadecimal digits, the same for every attempt at one run. ``sites`` are in the
    order of all results; with fewer than the quorum it stops at once. ``deadline``, ``silence`` and
    ``patience`` are seconds for an answer, without a sign of life, and for a person's approval.
    ``settings`` are those of the training, ``model`` and ``options`` those of an evaluation, an
    explanation or a calibration.
    """

    kind: str
    run: str
    attempt: int
    sites: tuple[str, ...]
    quorum: int
    deadline: float
    silence: float
    patience: float
    settings: dict[str, Any]
    model: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


def read_order(text: str) -> Order:
    """Read an order; ValueError says what is wrong with it."""
    try:
        data = from_json(json.loads(text))
    except (ValueError, RecursionError):
        raise ValueError("the order is no JSON") from None
    if not isinstance(data, dict) or data.pop("schema", None) != SCHEMA:
        raise ValueError("the order is not of this version of drfl: update drfl at both ends")
    own, theirs = version("drfl"), data.pop("version", None)
    if theirs != own:
        raise ValueError(
            f"the order comes from drfl {theirs}, and this server has {own}: install the same"
        )
    known = {f.name for f in fields(Order)}
    if not set(data) <= known or not known - {"model", "options"} <= set(data):
        raise ValueError("the order lacks an entry, or has one that is not known")
    _check(data)
    return Order(**data | {"sites": tuple(data["sites"])})


def _check(data: dict[str, Any]) -> None:
    if data["kind"] not in KINDS:
        raise ValueError("the order names no known kind of work")
    if not (isinstance(data["run"], str) and _RUN.fullmatch(data["run"])):
        raise ValueError("the order names no run")
    sites = data["sites"]
    if not (isinstance(sites, list) and sites and all(isinstance(s, str) for s in sites)):
        raise ValueError("the order names no sites")
    counts = all(type(data[name]) is int and data[name] >= 0 for name in ("attempt", "quorum"))
    limits = (data[name] for name in ("deadline", "silence", "patience"))
    if not counts or not all(type(limit) in (int, float) and 0 < limit < 1e9 for limit in limits):
        raise ValueError("the order has a limit that is none")
    if not all(isinstance(data.get(name, {}), dict) for name in ("settings", "model", "options")):
        raise ValueError("the settings of the order are no table")


def make_order(project: Project, kind: str, run: str, attempt: int = 0, **more: Any) -> str:
    """What the driver is asked to do, as JSON text; see `Order`."""
    order = {
        "schema": SCHEMA,
        "version": version("drfl"),
        "kind": kind,
        "run": run,
        "attempt": attempt,
        "sites": list(project.sites),
        **{name: project[name] for name in ("quorum", "deadline", "silence", "patience")},
        "settings": project.settings.values,
        **more,
    }
    return json.dumps(to_json(order), allow_nan=False)
