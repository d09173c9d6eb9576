"""How the local solver gets at the rows: clients of this process hand them over in round 1."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from drfl.client import Site
from drfl.rows import Rows
from drfl.wire import Message

KIND = "local_meet"


class RowCollector:
    """The handler of the first message: it keeps a reference to the rows, and copies nothing.

    It cannot leave the process, so that an engine with other processes refuses it at its start.
    """

    def __init__(self) -> None:
        self._numbers = count()
        self._met: dict[int, dict[str, Rows]] = {}

    def open(self) -> int:
        """The number of a new run; a solver may have several at once."""
        number = next(self._numbers)
        self._met[number] = {}
        return number

    def message(self, number: int, round: int) -> Message:
        """What asks a client to come."""
        return Message(KIND, round, {"run": np.array(number, dtype=np.int64)})

    def __call__(self, site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
        self._met[int(message.arrays["run"])][site.name] = site.rows
        return {"rows": np.array(site.rows.n_rows, dtype=np.int64)}

    def count(self, reply: Message) -> int:
        """How many rows a client has: a resumed run reads its answer before its rows are here."""
        return int(reply.arrays["rows"])

    def met(self, number: int) -> Mapping[str, Rows]:
        """Who has come so far."""
        return self._met.get(number, {})

    def close(self, number: int) -> None:
        """Let the rows go."""
        self._met.pop(number, None)

    def __reduce__(self) -> NoReturn:
        raise ValueError(
            "solver='local' needs the rows in this process: use engine='serial', or solver='bundle'"
        )
