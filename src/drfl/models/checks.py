"""One field of a model file at a time: what it may be, and the sentence if it is not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from drfl import checks
from drfl.models.errors import ModelError
from drfl.problem import from_json


def keys(what: str, data: Any, keys: Sequence[str]) -> None:
    """Refuse anything but an object with exactly these fields."""
    if not isinstance(data, dict):
        raise ModelError(f"{what} must be an object")
    for key in keys:
        if key not in data:
            raise ModelError(f"{what} lacks the field {key!r}")
    for key in data:
        if key not in keys:
            raise ModelError(f"{what} has an unknown field {key[:40]!r}")


def list_of(name: str, value: Any) -> list[Any]:
    """A list."""
    if not isinstance(value, list):
        raise ModelError(f"{name!r} must be a list")
    return value


def text(name: str, value: Any) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ModelError(f"{name!r} must be a text that is not empty")
    return value


def number(name: str, value: Any) -> float:
    """A number, also one that JSON lacks."""
    value = from_json(value) if isinstance(value, str) else value
    if not checks.is_number(value):  # what it is instead is not repeated: it may be anything
        raise ModelError(f"{name!r} must be a number")
    try:
        return float(value)
    except OverflowError:
        raise ModelError(f"{name!r} is too large a number") from None


def finite(name: str, value: Any) -> float:
    """A finite number."""
    found = number(name, value)
    if not math.isfinite(found):
        raise ModelError(f"{name!r} must be a finite number")
    return found


def positive(name: str, value: Any) -> float:
    """A finite number > 0."""
    found = finite(name, value)
    if not found > 0.0:
        raise ModelError(f"{name!r} must be a number > 0")
    return found


def whole(name: str, value: Any) -> int:
    """A whole number >= 0."""
    if not checks.is_whole(value) or value < 0:
        raise ModelError(f"{name!r} must be a whole number >= 0")
    return int(value)


def one_of(name: str, value: Any, known: Sequence[str]) -> str:
    """One of these texts."""
    if value not in known:
        raise ModelError(f"{name!r} must be one of {', '.join(known)}")
    return str(value)


def distinct(name: str, values: Sequence[str]) -> None:
    """Refuse a list with an entry twice."""
    if len(set(values)) < len(values):
        raise ModelError(f"{name!r} has an entry twice")
