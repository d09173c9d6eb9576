"""Settings of an experiment: a frozen record whose fields can be set by name from a command."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Self

from drfl import checks
from drfl._registry import lookup


@dataclass(frozen=True)
class Settings(ABC):
    """What an experiment depends on, apart from its seeds. Abstract: fields are added below."""

    @abstractmethod
    def quick(self) -> Self:
        """The same experiment, thinned out to seconds."""

    def literal(self) -> Self:
        """The paper's own choices wherever they are known to be mistaken or silent."""
        return self

    @property
    def quick_seeds(self) -> int:
        """How many seeds a quick run has."""
        return 2

    @property
    def full_seeds(self) -> int:
        """How many seeds a full run has."""
        return 20

    def changed(self, wishes: Iterable[str]) -> Self:
        """Put ``name=value`` in place of what was; lists are separated by commas.

        Parameters
        ----------
        wishes : iterable of str
            Say ``["folds=3", "radii=0.1,1"]``.
        """
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        found = {}
        for wish in wishes:
            name, separator, text = wish.partition("=")
            if not separator:
                raise ValueError(f"--set needs name=value, got {wish!r}")
            found[name] = _read(name, text, lookup("setting", name, known))
        return replace(self, **found)

    def facts(self) -> dict[str, Any]:
        """For the records."""
        return asdict(self)


def _read(name: str, text: str, old: Any) -> Any:
    """A text as a value of the kind of the old one."""
    if isinstance(old, tuple):
        kind = old[0] if old else 0.0
        return tuple(_read(name, part, kind) for part in text.split(",") if part)
    if isinstance(old, bool):
        return lookup(name, text, {"true": True, "false": False, "yes": True, "no": False})
    if isinstance(old, str):
        return text
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{name} must be a number, got {text!r}") from None
    if isinstance(old, int):
        if not number.is_integer():
            raise ValueError(f"{name} must be a whole number, got {text!r}")
        return int(number)
    return number


def one_of(name: str, value: str, *known: str) -> None:
    """Refuse a word that is not known."""
    lookup(name, value, {word: word for word in known})


def at_least(name: str, value: float, least: float) -> None:
    """Refuse a number that is too small, or none."""
    checks.number(name, value, least=least)


def increasing(name: str, values: Iterable[float], least: float) -> None:
    """Refuse an empty list, repeated values and values that are too small."""
    numbers = list(values)
    if not numbers or len(set(numbers)) < len(numbers) or not all(v >= least for v in numbers):
        raise ValueError(f"{name} must be different numbers >= {least:g}, separated by commas")
