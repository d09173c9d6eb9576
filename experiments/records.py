"""The records of an experiment: one JSON line per finished task, after one that says of what.

A task is written with one flush and counts only as a whole line, so a run that was killed goes on
after its last whole task. Records of other settings are refused, never mixed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from drfl.files import write_json
from drfl.problem import from_json, to_json

Row = dict[str, Any]
Task = dict[str, Any]
FORMAT = 1
PACKAGES = ("numpy", "scipy", "scikit-learn", "piqp")


@dataclass(frozen=True)
class Done:
    """A finished task: what it was, what came out, and how long it took, of which computing."""

    task: Task
    rows: list[Row]
    seconds: float
    processor: float


class Records:
    """A file of finished tasks.

    Parameters
    ----------
    path : Path
        It is made if it does not exist.
    experiment : str
        The name of the experiment.
    settings : mapping
        Everything that the rows depend on beside the task.
    """

    def __init__(self, path: Path, experiment: str, settings: Mapping[str, Any]) -> None:
        self.path, self.done = path, dict[str, Done]()
        self.identity = to_json(
            {
                "format": FORMAT,
                "drfl": version("drfl"),
                "experiment": experiment,
                "settings": dict(settings),
            }
        )
        if path.exists():
            self._read()
        else:
            self._begin()

    def add(self, done: Done) -> None:
        """Write a task down, wholly or not at all."""
        self.done[key(done.task)] = done
        cost = {"seconds": round(done.seconds, 3), "processor": round(done.processor, 3)}
        line = json.dumps(to_json({"task": done.task, **cost, "rows": done.rows}), allow_nan=False)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _begin(self) -> None:
        header = {**self.identity, "packages": {name: version(name) for name in PACKAGES}}
        write_json(self.path, header, indent=None)

    def _read(self) -> None:
        text = self.path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        try:
            header, *lines = [json.loads(line) for line in whole.splitlines()]
        except ValueError:
            header, lines = None, []
        self._compare(header)
        if len(whole) < len(text):  # the last task was being written when the run was killed
            os.truncate(self.path, len(whole))
        for line in lines:
            rows, cost = from_json(line["rows"]), (line["seconds"], line["processor"])
            done = Done(line["task"], rows, *cost)
            self.done[key(done.task)] = done

    def _compare(self, header: Any) -> None:
        if not isinstance(header, dict) or "settings" not in header:
            raise ValueError(f"{self.path} holds no records: remove it or choose another --out")
        mine, theirs = self.identity, {name: header.get(name) for name in self.identity}
        if mine == theirs:
            return
        old, new = header["settings"], mine["settings"]
        names = [name for name in new if new[name] != old.get(name)] or ["its version"]
        raise ValueError(
            f"{self.path} holds records of other settings ({', '.join(names)}): choose another "
            "--out, or remove it"
        )


def key(task: Task) -> str:
    """What tells tasks apart."""
    return json.dumps(to_json(task), sort_keys=True)
