"""The settings of a training, one entry each: default, how it is read, and what it means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from drfl import checks
from drfl._registry import lookup

Read = Callable[[str, Any], Any]


@dataclass(frozen=True)
class Setting:
    """One setting: what it is by default, how it is read, and what it means, in a line.

    It is read from its name and a value out of a TOML file, or the text of a flag. Without a
    default, None, it may be left out.
    """

    default: Any
    read: Read
    help: str


def read_values(
    what: str,
    known: Mapping[str, Setting],
    given: Mapping[str, Any],
    called: Callable[[str], str] = str,
) -> dict[str, Any]:
    """The given settings as they are read; ``called`` is how the user calls one of them."""
    for name in given:
        lookup(what, name, known)
    return {name: known[name].read(called(name), value) for name, value in given.items()}


def text(name: str, value: Any) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} must be a text, got {value!r}")
    return value


def one_of(*known: str) -> Read:
    """One of these texts."""

    def read(name: str, value: Any) -> str:
        return lookup(name, value, {word: word for word in known})

    return read


def intercept(name: str, value: Any) -> str:
    """Whose intercept; per-client as users of other settings write it."""
    words = {"shared": "shared", "per-client": "per_client", "none": "none"}
    word = value.replace("_", "-") if isinstance(value, str) else value
    return lookup(name, word, words)


def number(name: str, value: Any) -> float:
    """A number; inf is one."""
    return float(_read(float, lambda found: checks.number(name, found, infinite=True), value))


def whole(name: str, value: Any) -> int:
    """A whole number."""
    return int(_read(int, lambda found: checks.whole(name, found), value))


def flag(name: str, value: Any) -> bool:
    """True or false."""
    if value in ("true", "false"):
        return bool(value == "true")
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false, got {value!r}")
    return value


def texts(name: str, value: Any) -> tuple[str, ...]:
    """A list of texts; on the command line with commas between them."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
        raise ValueError(f"{name} must be a list of texts, got {value!r}")
    return tuple(value)


def pairs(name: str, value: Any) -> dict[str, str]:
    """Texts by column; CA=indicator,DOSE=drop on the command line."""
    if isinstance(value, str):
        value = _by_name(value)
        if "" in value:
            raise ValueError(f"{name}: write COLUMN=HOW, with commas between several")
    if not isinstance(value, dict) or not all(k and isinstance(v, str) for k, v in value.items()):
        raise ValueError(f"{name} must give a text for each column, got {value!r}")
    return value


def _by_name(text: str) -> dict[str, str]:
    """What a text says of each of several names, A=1,B=2."""
    found = [part.rpartition("=") for part in text.split(",") if part.strip()]
    return {key.strip(): value.strip() for key, _, value in found}


def probabilities(name: str, value: Any) -> tuple[float, ...]:
    """A list of probabilities; 0.2,0.5 on the command line."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = [value]
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple):
        raise ValueError(f"{name} must be a list of probabilities, got {value!r}")
    found = tuple(sorted({number(name, part) for part in parts}))
    if not all(0.0 < p < 1.0 for p in found):
        raise ValueError(f"{name} must be probabilities between 0 and 1, like 0.2,0.5")
    return found


def groups(name: str, value: Any) -> tuple[str, ...]:
    """Columns with their cuts; sex,age:50,65 on the command line, where numbers are cuts."""
    found: list[str] = []
    for text in [value] if isinstance(value, str) else value:
        for part in texts(name, text):
            if found and ":" in found[-1] and _is_number(part):
                found[-1] += f",{part}"
            else:
                found.append(part)
    return tuple(found)


def _is_number(text: str) -> bool:
    with suppress(ValueError):
        return bool(float(text) == float(text))
    return False


def word_or(word: str, otherwise: Read) -> Read:
    """Either this word, or something else."""

    def read(name: str, value: Any) -> Any:
        return value if value == word else otherwise(name, value)

    return read


def knots(name: str, value: Any) -> Any:
    """How many knots, or a list of them; -1,0,1 on the command line."""
    if isinstance(value, str) and "," in value:
        value = [part for part in value.split(",") if part.strip()]
    if isinstance(value, list | tuple):
        return tuple(number(name, entry) for entry in value)
    return whole(name, value)


def radius(name: str, value: Any) -> Any:
    """A word, a number, or numbers by client (NORTH=0.1,SOUTH=0.2 on the command line)."""
    if isinstance(value, str) and "=" in value:
        value = _by_name(value)
    if isinstance(value, dict):
        return {key: number(f"{name} of {key!r}", entry) for key, entry in value.items()}
    return value if value in ("auto", "confidence") else number(name, value)


def center(name: str, value: Any) -> Any:
    """Return "uniform", "proportional", or a list of weights."""
    if value in ("uniform", "proportional"):
        return value
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} must be uniform, proportional or a list of weights: {value!r}")
    return tuple(number(name, entry) for entry in value)


def bounds(name: str, value: Any) -> dict[str, tuple[float, float]]:
    """Bounds by column; AGE=0:120,BMI=10:80 on the command line."""
    if isinstance(value, str):
        value = {column: pair.split(":") for column, pair in _by_name(value).items()}
    if not isinstance(value, dict):
        raise ValueError(f"{name} must give two bounds for each column, got {value!r}")
    found = {}
    for column, pair in value.items():
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise ValueError(f"{name} of {column!r} must be two bounds, got {pair!r}")
        low, high = (number(f"{name} of {column!r}", bound) for bound in pair)
        if not low <= high:
            raise ValueError(f"{name} of {column!r}: the bound {low:g} is above {high:g}")
        found[column] = (low, high)
    return found


def _read(kind: type[float] | type[int], check: Callable[[Any], Any], value: Any) -> Any:
    """A text of the command line, or a value of a file, as a number that passes a check."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = kind(value)
    elif kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        return check(value)
    except TypeError as error:
        raise ValueError(str(error)) from None
