"""The folder of a run: settings, records, checkpoint, model; see ``docs/run-folder.md``."""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from drfl.files import PRIVATE, write_bytes, write_json, write_text
from drfl.models import Model
from drfl.problem import to_json
from drfl.protocols.agreement import Agreement
from drfl.run import Record, Result
from drfl.training.settings import FREE, Settings, read_settings, to_toml
from drfl.wire import Sent, Tally

FOLDER = 0o700  # the mode of a folder that only its owner enters


class RunFolder:
    """Where a run keeps what it knows; only its owner reads it.

    What a resumed run needs is kept in ``checkpoint``, by default within the folder.
    """

    def __init__(self, path: Path, checkpoint: Path | None = None) -> None:
        self.path = path
        self.config, self.model = path / "config.toml", path / "model.json"
        self.records, self.checkpoint = path / "records.jsonl", checkpoint or path / "checkpoint"
        self.ledgers, self.table = path / "ledger", path / "table-1.txt"

    @classmethod
    def new(cls, out: str | None, name: str = "") -> RunFolder:
        """A folder for a new run, by default named after the time; nothing is written yet."""
        now = f"{name}{datetime.now():%Y-%m-%dT%H-%M-%S}"
        folder = cls(Path("runs") / now if out is None else Path(out))
        if folder.config.exists():
            raise ValueError(
                f"{folder.path} holds a run already: continue it with `drfl train --resume "
                f"{folder.path}`, or choose another folder with --out"
            )
        if folder.path.exists() and not folder.path.is_dir():
            raise ValueError(f"{folder.path} is a file: choose another folder with --out")
        return folder

    def create(self, settings: Settings) -> None:
        """Write the settings down; the paths of the files are made absolute."""
        files = settings.clients.items()
        absolute = {name: None if file is None else file.resolve() for name, file in files}
        write_text(self.config, to_toml(Settings(absolute, settings.values)), mode=PRIVATE)

    def close_to_others(self) -> None:
        """Let nobody but the owner in: what clients answered, and what follows from it, is here.

        A folder that holds other things than a run is left as it is; the files of the run in it
        are closed all the same.
        """
        self._close()
        self.checkpoint.mkdir(parents=True, exist_ok=True)
        self.checkpoint.chmod(FOLDER)

    @contextmanager
    def as_found_if_refused(self) -> Iterator[None]:
        """Leave no ledgers behind where what is done in it is refused, unless they were there.

        A run that did not begin has told nobody but the owner of the files and of the ledgers.
        """
        new = [path for path in (self.ledgers, *self.ledgers.parents) if not path.exists()]
        try:
            yield
        except Exception:
            if self.ledgers in new:
                shutil.rmtree(self.ledgers, ignore_errors=True)
            for folder in new[1:]:
                with suppress(OSError):  # it is not empty, or was never made
                    folder.rmdir()
            raise

    def take_over(self, found: Path) -> None:
        """Copy the files of a run that was written elsewhere, for the owner alone."""
        self._close()
        for path in found.iterdir():
            if path.is_file():
                write_bytes(self.path / path.name, path.read_bytes(), mode=PRIVATE)

    def _close(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        known = {self.config, self.model, self.records, self.checkpoint, self.ledgers}
        known |= {self.table, self.path / "report.html"}
        if set(self.path.iterdir()) <= known:
            self.path.chmod(FOLDER)

    def write_table(self, lines: Sequence[str]) -> None:
        """Write Table 1 down."""
        write_text(self.table, "\n".join(lines) + "\n", mode=PRIVATE)

    def cuts(self, k: int) -> Path:
        """The answers of every round of the k-th linear model: where a resumed run begins."""
        return self.checkpoint / f"model-{k}"

    def forget_cuts(self) -> bool:
        """Delete the answers of all rounds; whether there were any."""
        found = list(self.checkpoint.glob("model-*"))
        for path in found:
            path.unlink()
        return bool(found)

    @classmethod
    def find(cls, path: str) -> RunFolder:
        """An existing folder."""
        folder = cls(Path(path))
        if not folder.config.exists():
            raise ValueError(f"{path} holds no run, there is no {folder.config}: check the path")
        return folder

    def settings(self, flags: Mapping[str, Any]) -> Settings:
        """The settings of the run, overridden by flags."""
        return read_settings(self.config, flags, [])

    @property
    def _identity(self) -> Path:
        return self.checkpoint / "identity.json"

    @property
    def begun(self) -> bool:
        """Whether a preflight has succeeded; a run that was interrupted before begins again."""
        return self._identity.exists()

    def check_identity(self, settings: Settings) -> None:
        """Write down what the run depends on; refuse if that has changed since."""
        path = self._identity
        now = json.loads(json.dumps(to_json(_identity(settings))))
        if not path.exists():
            write_json(path, now, mode=PRIVATE)
            return
        try:
            then = json.loads(path.read_text(encoding="utf-8"))
            data, values = then["data"], then["settings"]
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path} is damaged: start the run again in another folder") from None
        # Also what is not set any more: a guard that is left out would not guard.
        for name in {**now["settings"], **values}:
            value = now["settings"].get(name)
            if values.get(name) != value:
                raise ValueError(
                    f"the run in {self.path} had {name} = {values.get(name)!r}, not {value!r}: "
                    "resume it with the same settings, or start a new run"
                )
        for client, fingerprint in now["data"].items():
            if data.get(client) != fingerprint:
                raise ValueError(
                    f"{settings.clients[client]} has changed since the run in {self.path} "
                    "started: put the old file back, or start a new run"
                )

    def remembered(self, name: str) -> Any:
        """Something that an earlier part of the run has found out, or None."""
        path = self.checkpoint / f"{name}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def remember(self, name: str, value: Any) -> None:
        """Keep something for a resumed run."""
        write_json(self.checkpoint / f"{name}.json", to_json(value), indent=None, mode=PRIVATE)


def _identity(settings: Settings) -> dict[str, Any]:
    values = {name: value for name, value in settings.all().items() if name not in FREE}
    return {
        "settings": {**values, "clients": list(settings.clients)},
        # A client elsewhere looks after its own file.
        "data": {name: _fingerprint(path) for name, path in settings.files().items()},
    }


def _fingerprint(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Records:
    """What happened in a run, one JSON object per line; from `open` on written as it happens."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []
        self.path: Path | None = None

    def open(self, path: Path) -> None:
        """Write what there is to a file, and everything that follows."""
        self.path = path
        self.rewrite(self.all)

    def add(self, kind: str, **data: Any) -> dict[str, Any]:
        """Add an object of this kind."""
        record = to_json({"kind": kind, **data})
        self.all.append(record)
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record, allow_nan=False) + "\n")
        return dict(record)

    def rewrite(self, records: list[dict[str, Any]]) -> None:
        """Replace all of them at once."""
        self.all = records
        assert self.path is not None
        text = "".join(json.dumps(to_json(r), allow_nan=False) + "\n" for r in records)
        write_text(self.path, text, mode=PRIVATE)


def preflight_facts(agreement: Agreement) -> dict[str, Any]:
    """What the preflight found, for the records."""
    classes = agreement.target.classes
    return {
        "target": agreement.target.name,
        "task": agreement.target.task,
        "classes": None if classes is None else list(classes),
        **{name: getattr(agreement, name) for name in AGREED},
        "table": agreement.table.facts(),
        "bytes_up": agreement.bytes_up,
        "bytes_down": agreement.bytes_down,
    }


AGREED = ("features", "scale", "missing", "rows", "dropped", "class_counts", "warnings")


def versions(*more: str) -> dict[str, str]:
    """What a run was made with, for the records: Python, and packages by name."""
    packages = ("drfl", "numpy", "scipy", "scikit-learn", "piqp", *more)
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def round_facts(record: Record) -> dict[str, Any]:
    """A round, for the records."""
    return {name: value for name, value in to_json(record).items() if name != "info"}


def result_facts(model: Model, results: Sequence[Result]) -> dict[str, Any]:
    """The end, for the records."""
    return {
        "features": model.coefficients,
        "models": [
            {
                # The parameters of a network are in the model file alone.
                "coef": result.coef if model.problem.network is None else [],
                "intercept": result.intercept,
                **({"intercepts": result.intercepts} if result.intercepts else {}),
                "objective": result.objective,
                "lower_bound": result.lower_bound,
                "gap": result.gap,
                "status": result.status,
                "weights": result.weights,
                "losses": result.client_losses,
                "multipliers": result.client_multipliers,
            }
            for result in results
        ],
    }


def message_facts(results: Sequence[Result], asked: Sequence[Sent] = ()) -> list[dict[str, Any]]:
    """What the clients sent, by client and kind of message, over all linear models and after."""
    tally = Tally()
    for result in results:
        tally.extend(result.sent)
    tally.extend(asked)
    return [asdict(sent) for sent in tally.sent]


def costs(results: Sequence[Result]) -> dict[str, Any]:
    """What a method proved, and what it cost, over all linear models."""
    worst = max(results, key=lambda result: result.gap)
    sent = [sum(r.bytes_up.values()) + sum(r.bytes_down.values()) for r in results]
    return {
        "gap": worst.gap,
        "status": str(worst.status.kind),
        "rounds": sum(result.rounds for result in results),
        "kilobytes": sum(sent) / 1000,
        "seconds": sum(result.seconds_clients + result.seconds_server for result in results),
    }
