"""Model files on the disk."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from drfl.models.document import Model
from drfl.models.errors import ModelError
from drfl.models.plain import from_plain, to_plain

LARGEST = 1_000_000_000
"""A larger file is not read."""


def write_model(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a model file; whoever reads it sees the old one or the whole new one."""
    write_text(Path(path), json.dumps(to_plain(model), indent=1, allow_nan=False) + "\n")


def read_model(path: str | os.PathLike[str]) -> Model:
    """Read a model file and check every field; nothing in it is ever executed."""
    path = Path(path)
    try:
        if path.stat().st_size > LARGEST:
            raise ModelError("it is too large for a model")
        data = json.loads(
            path.read_text(encoding="utf-8"),
            object_pairs_hook=_once,
            parse_constant=_no_constant,
        )
        return from_plain(data)
    except FileNotFoundError:
        raise ModelError(f"{path} does not exist: name a model file, like RUN/model.json") from None
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}") from None
    except ModelError as error:
        raise ModelError(f"{path} cannot be used: {error}") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise ModelError(f"{path} is no JSON, or was cut off or edited ({where})") from None
    except (ValueError, RecursionError):  # not UTF-8; a number or a nesting beyond all limits
        raise ModelError(f"{path} is not a model file of drfl, or a damaged one") from None


def write_text(path: Path, text: str) -> None:
    """Replace a file by a text, at once or not at all."""
    with replacing(path) as file:
        file.write(text)


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """A file to write to; it takes the place of another when all is written, or never."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ModelError(f"the field {key[:40]!r} is there twice")
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise ModelError(f"{name} is not JSON")
