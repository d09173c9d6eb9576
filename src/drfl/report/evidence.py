"""What a report is made of: records as they were written, read with suspicion.

A record may lack a field, hold another type than it should, or come from a file that someone has
edited. Whatever is not of the expected form counts as absent: a report then lacks a number, and
never shows something that was not meant as one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from drfl.problem import Json

LONGEST_NAME = 48
LONGEST_TEXT = 400


class Evidence:
    """The records of a run, each with its ``kind``; see ``docs/run-folder.md``.

    ``models`` are the linear models of the result, or the network; ``network`` says which.
    """

    def __init__(self, records: Iterable[Json]) -> None:
        self.records = list(records)
        self.models = objects(self.first("result").get("models"))
        self.network = objects_of(self.first("problem").get("loss")).get("name") == "network"

    def of(self, kind: str) -> list[Json]:
        """All records of a kind."""
        return [record for record in self.records if record.get("kind") == kind]

    def first(self, kind: str) -> Json:
        """The first record of a kind; empty if there is none."""
        return next(iter(self.of(kind)), {})


def read_records(path: Path) -> list[Json]:
    """The records in a file, of a run that has ended."""
    if not path.is_file():
        raise ValueError(f"there is no {path}: name the folder of a run")
    try:
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (ValueError, RecursionError):
        raise ValueError(f"{path} is damaged: continue the run with --resume") from None
    if not all(isinstance(record, dict) and "kind" in record for record in records):
        raise ValueError(f"{path} holds something else than the records of a run")
    if not any(record["kind"] == "result" for record in records):
        raise ValueError(
            f"the run in {path.parent} is not finished: continue it with --resume {path.parent}"
        )
    return records


def number(value: Any) -> float | None:
    """A finite number, or None.

    Examples
    --------
    >>> number(2), number("inf"), number(True), number(None)
    (2.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        value = float(value)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def whole(value: Any) -> int | None:
    """A whole number, or None."""
    found = number(value)
    return int(found) if found is not None and found == int(found) else None


def numbers(value: Any) -> dict[str, float]:
    """The entries of an object that are finite numbers."""
    pairs = ((str(key), number(entry)) for key, entry in objects_of(value).items())
    return {key: entry for key, entry in pairs if entry is not None}


def vector(value: Any) -> list[float]:
    """A list of finite numbers; empty if one of them is something else."""
    found = [number(entry) for entry in value] if isinstance(value, list) else []
    return [x for x in found if x is not None] if None not in found else []


def objects(value: Any) -> list[Json]:
    """The objects in a list."""
    entries = value if isinstance(value, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]


def objects_of(value: Any) -> Json:
    """An object; empty if it is something else."""
    return value if isinstance(value, dict) else {}


def names(value: Any) -> list[str]:
    """A list of names."""
    return [name(entry) for entry in value] if isinstance(value, list) else []


def name(value: Any) -> str:
    """A name, short enough for a table."""
    return clipped(str(value), LONGEST_NAME)


def sentence(value: Any) -> str:
    """A text, short enough for a page."""
    return clipped(str(value), LONGEST_TEXT) if isinstance(value, str) else ""


def clipped(text: str, longest: int) -> str:
    """A text on one line, without characters that control a terminal or the direction of text.

    Examples
    --------
    >>> clipped("one long line", 8)
    'one lon…'
    """
    plain = "".join(c if c.isprintable() else " " for c in text[: 2 * longest])
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def thinned(values: Sequence[Any], most: int) -> list[Any]:
    """At most so many of the values, the first and the last among them."""
    if len(values) <= most:
        return list(values)
    step = (len(values) - 1) / (most - 1)
    return [values[round(k * step)] for k in range(most)]
