"""What a section yields: a number with its target, or why there is none."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes
    ----------
    section, name : str
        Together the key by which a stored row is found again.
    value : float
        A ratio, a slope or a number of rounds.
    at_least, at_most : float, optional
        The target; at most one of them. Without one the row is there to be seen.
    more_is_better : bool
        Which way is a loss, for rows without a target.
    guarded : bool
        Whether ``--check`` compares it with the stored value.
    detail : str
        What was measured on both sides, and the quality that was reached.
    facts : dict
        The numbers behind it, for the records.
    """

    section: str
    name: str
    value: float
    at_least: float | None = None
    at_most: float | None = None
    more_is_better: bool = True
    guarded: bool = True
    detail: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.at_least is not None and self.at_most is not None:
            raise ValueError(f"{self.name}: a row has one target")
        if self.at_most is not None:
            object.__setattr__(self, "more_is_better", False)

    @property
    def key(self) -> str:
        return f"{self.section}: {self.name}"

    @property
    def target(self) -> str:
        if self.at_least is not None:
            return f"≥ {self.at_least:g}"
        return "" if self.at_most is None else f"≤ {self.at_most:g}"

    @property
    def met(self) -> bool:
        if self.at_least is not None:
            return self.value >= self.at_least
        return self.at_most is None or self.value <= self.at_most

    def loss(self, stored: float) -> float:
        """By which share this row is worse than the stored one; negative: it is better."""
        worse = stored / self.value if self.more_is_better else self.value / stored
        return worse - 1.0

    def record(self) -> dict[str, Any]:
        return {"kind": "row", **asdict(self), "met": self.met}


@dataclass(frozen=True)
class Skipped:
    """What could not be run, and why."""

    section: str
    name: str
    why: str

    def record(self) -> dict[str, Any]:
        return {"kind": "skipped", **asdict(self)}


Line = Row | Skipped
Section = Callable[[argparse.Namespace], Iterator[Line]]
