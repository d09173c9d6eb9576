"""The coordinator's settings file: server, sites, time limits, and what is learned."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drfl.sites.config import at_least, seconds
from drfl.training import fields as read
from drfl.training.fields import Setting
from drfl.training.problems import check_before_reading
from drfl.training.settings import Settings, from_values, read_toml

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
PART = "[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
HOST = re.compile(rf"(?=.{{1,63}}$){PART}(\.{PART})*")
TAKEN = ("server", "all", "client", "clients", "coordinator")
"""Names that mean something to the server."""


PROJECT: dict[str, Setting] = {
    "project": Setting("drfl", read.text, "a name for all of it"),
    "host": Setting("localhost", read.text, "the server's name, by which the sites reach it"),
    "port": Setting(8002, at_least(1, most=65535), "the only port that the sites need to reach"),
    "sites": Setting((), read.texts, "the names of the sites"),
    "quorum": Setting(None, at_least(1), "go on while so many sites answer; all of them"),
    "deadline": Setting(300.0, seconds, "seconds that a site has for one answer"),
    "silence": Setting(13.0, seconds, "seconds without a sign of life after which a site is gone"),
    "patience": Setting(600.0, seconds, "seconds that a site has to approve a kind of message"),
    "attempts": Setting(5, at_least(1), "how often the job is submitted at most"),
    "rejoin": Setting(60.0, seconds, "seconds to wait for a missing site before going without"),
    "least_rows": Setting(20, at_least(1), "a site with fewer rows is named by `drfl sites check`"),
}
"""Every setting of a project but those of the training."""


@dataclass(frozen=True)
class Project:
    """What a coordinator has decided: values by the names of `PROJECT`, and the training.

    The clients of its settings are the sites, without files.
    """

    folder: Path
    values: dict[str, Any]
    settings: Settings

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def sites(self) -> tuple[str, ...]:
        """The names, in order."""
        found: tuple[str, ...] = self.values["sites"]
        return found


def read_project(path: Path) -> Project:
    """Read a coordinator's file; everything that is wrong with it is said in a sentence."""
    data = read_toml(path, "write one, see docs/sites.md")
    training = data.pop("training", None)
    if not isinstance(training, dict):
        raise ValueError(f"{path} has no table [training]: give it the settings of `drfl train`")
    given = read.read_values("setting of a project", PROJECT, data)
    values = {name: given.get(name, setting.default) for name, setting in PROJECT.items()}
    sites = values["sites"]
    values["quorum"] = values["quorum"] or len(sites)
    _check(path, values)
    settings = _training(path, training, sites)
    return Project(path.resolve().parent / values["project"], values, settings)


def _check(path: Path, values: Mapping[str, Any]) -> None:
    if not values["sites"]:
        raise ValueError(f'{path} names no site: give sites = ["north", "south"]')
    for name in (values["project"], *values["sites"]):
        if not NAME.fullmatch(name) or name.lower() in TAKEN:
            raise ValueError(
                f"{path}: {name!r} cannot be a name: take up to 40 letters, digits, - and _, and "
                f"none of {', '.join(TAKEN)}"
            )
    for name in values["sites"]:
        if [other.lower() for other in values["sites"]].count(name.lower()) > 1:
            raise ValueError(f"{path}: two sites are called {name!r}: give them different names")
    if not HOST.fullmatch(values["host"]):
        raise ValueError(f"{path}: host must be a name or an address, got {values['host']!r}")
    if values["quorum"] > len(values["sites"]):
        raise ValueError(
            f"{path}: quorum = {values['quorum']} is more than the {len(values['sites'])} sites"
        )


def _training(path: Path, table: Mapping[str, Any], sites: tuple[str, ...]) -> Settings:
    for name, why in ELSEWHERE.items():
        if name in table:
            raise ValueError(f"{path}: [training] takes no {name}: {why}")
    if "target" not in table:
        raise ValueError(f"{path}: [training] has no target: give target = COLUMN")
    settings = from_values(table, dict.fromkeys(sites))
    check_before_reading(settings)
    return settings


ELSEWHERE = {
    "engine": "the sites are the engine",
    "guard": "each site sets its own, in its own settings",
    "client_column": "each site has its own file",
    "rename": "each site says in its own settings what its columns are called, under [columns]",
}
"""Settings of a training that are not the coordinator's."""
