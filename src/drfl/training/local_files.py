"""The clients of a training whose files are here, with their guards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from drfl.client import Party
from drfl.engines import Engine
from drfl.privacy import Guard, guard_line
from drfl.problem import Problem
from drfl.protocols.federation import Federation
from drfl.protocols.station import Station
from drfl.selection.client_half.folds import copy_name
from drfl.tables.encoding import Encoding
from drfl.training.problems import privacy_of
from drfl.training.run_folder import RunFolder
from drfl.training.settings import Settings
from drfl.wire import Message, decode, encode


class Files(Federation):
    """Clients whose files are here, one station for each; an engine carries the rounds."""

    def __init__(self, stations: Sequence[Station], engine: str | Engine = "serial") -> None:
        self.stations = {station.name: station for station in stations}
        self.names, self.engine = tuple(self.stations), engine

    def ask(self, messages: Mapping[str, Message], *, partial: bool = False) -> dict[str, Message]:
        replies = _all(messages, lambda name: self.stations[name].handle(messages[name]))
        return {name: decode(encode(reply)) for name, reply in replies.items()}

    def place(
        self,
        encoding: Encoding,
        positive: int | None,
        *,
        folds: bool = False,
        copy: int | None = None,
    ) -> Sequence[Party]:
        found = []
        for name, station in self.stations.items():
            client = station.client(encoding, positive, folds=folds)
            client.name = copy_name(name, copy)
            found.append(client)
        return found

    def check(self, encoding: Encoding, positive: int | None, problem: Problem) -> None:
        _all(
            self.stations, lambda name: self.stations[name].check_guard(encoding, positive, problem)
        )


T = TypeVar("T")


def _all(names: Iterable[str], do: Callable[[str], T]) -> dict[str, T]:
    """Do something at every client; what is wrong at several is said at once."""
    done, wrong = {}, list[ValueError]()
    for name in names:
        try:
            done[name] = do(name)
        except ValueError as error:
            wrong.append(error)
    if len(wrong) > 1:
        raise ValueError(_together(map(str, wrong))) from wrong[0]
    if wrong:
        raise wrong[0]
    return done


def _together(sentences: Iterable[str]) -> str:
    """Sentences about several files in one; what several have in common is said once.

    Examples
    --------
    >>> _together(["a.csv: too few rows", "b.csv: it is empty", "c.csv: too few rows"])
    'a.csv, c.csv: too few rows; b.csv: it is empty'
    """
    places: dict[str, list[str]] = {}
    for sentence in dict.fromkeys(sentences):
        where, _, what = sentence.partition(": ")
        places.setdefault(what, []).append(where)
    return "; ".join(
        f"{', '.join(where)}: {what}" if what else "; ".join(where)
        for what, where in places.items()
    )


def files_here(settings: Settings, folder: RunFolder) -> Files:
    """The clients of settings that name their files."""
    for name, path in settings.clients.items():
        if path is None:
            raise ValueError(f"client {name!r} is at a site: run it with `drfl sites run`")
        if not path.is_file():
            raise ValueError(f"the file of client {name!r}, {path}, does not exist: check the path")
    readings = settings.readings()
    stations = [
        Station(name, path, reading=readings[name], **_protection(name, settings, folder))
        for name, path in settings.files().items()
    ]
    return Files(stations, settings["engine"])


def _protection(name: str, settings: Settings, folder: RunFolder) -> dict[str, Any]:
    """The guard of a client, or its promise of noise, with its ledger in the folder of the run."""
    if settings["guard"] is None:
        return {}
    if settings["guard"] == "dp":
        return {"privacy": replace(privacy_of(settings), ledger=_ledger(name, folder))}
    return {"guard": Guard(k=settings["guard"], ledger=_ledger(name, folder))}


def _ledger(name: str, folder: RunFolder) -> Path:
    ledger = folder.ledgers / f"{quote(name, safe=' ')}.ledger"
    # All ledgers are begun before a run is written down, and none may be without.
    if folder.begun and not ledger.exists():
        raise ValueError(
            f"the ledger {ledger} of client {name!r} is gone: put it back, a run cannot go on "
            "with a new one"
        )
    return ledger


def guards_line(found: Mapping[str, int], settings: Settings, folder: RunFolder) -> str:
    """Which guards the clients have, in one line for the records.

    ``found`` is k by client, as the clients say, 0 for none; for clients here the folder of the run
    stands for their ledgers.
    """
    if settings["guard"] == "dp":
        return replace(privacy_of(settings), ledger=folder.ledgers).line
    if settings.private:
        return "guard: differential privacy as every client sets it; ledgers at the clients"
    if settings["guard"] is not None:
        return guard_line(Guard(k=settings["guard"], ledger=folder.ledgers))
    if not any(found.values()):
        return guard_line(None)
    said = [f"{name} k = {k}" if k else f"{name} none" for name, k in found.items()]
    return f"guard: {', '.join(said)}; ledgers at the clients"
