"""The guard: what a site decides before anyone asks."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from drfl.privacy.ledger import Ledger
from drfl.privacy.preflight import require_enough
from drfl.rows import Rows

LEAST = 2


@dataclass(frozen=True)
class Guard:
    """Disclosure control at a client, between its oracle and the wire.

    Whatever linear combination anyone forms of the cuts and class sums that a site sent under one
    ledger, it involves at least k rows, and no row carries more than 1/k of its squared weight.
    Further numbers are few, rounded outward and counted.

    Parameters
    ----------
    k : int
        At least so many rows in every combination: 5; 3 is weaker, 10 stronger.
    ledger : path, optional
        The file that remembers what has left. Without one the ledger is in memory and ends with
        the process: for simulations, to see what a guard costs.
    answers : int
        How many points the ledger answers in all.
    scalars : int
        How many further single numbers it gives in all: metrics, bounds.
    secret : bytes, optional
        Key of the dither, for repeatable simulations; by default a random one.

    Examples
    --------
    >>> Guard(3).line
    'guard: k = 3, ledger in memory'
    """

    k: int = 5
    ledger: str | os.PathLike[str] | None = None
    answers: int = 150
    scalars: int = 30
    secret: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("k", "answers", "scalars"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} of a guard must be a whole number, got {value!r}")
        if self.k < LEAST:
            raise ValueError(f"k of a guard must be at least {LEAST}, got {self.k}")
        if self.answers < 1 or self.scalars < 0:
            raise ValueError("a guard needs answers >= 1 and scalars >= 0")
        if not isinstance(self.ledger, str | os.PathLike | None):
            raise TypeError(f"ledger of a guard must be a path, got {self.ledger!r}")
        if not isinstance(self.secret, bytes | None):
            raise TypeError("secret of a guard must be bytes or None")

    def open(self, rows: Rows) -> Ledger:
        """The ledger of these rows; refused if they are too few or not those of the ledger."""
        require_enough(rows, self.k)
        path = None if self.ledger is None else Path(self.ledger)
        return Ledger(rows, self.k, path, self.secret)

    @property
    def line(self) -> str:
        """One line for a report."""
        where = "in memory" if self.ledger is None else f"at {os.fspath(self.ledger)}"
        return f"guard: k = {self.k}, ledger {where}"


def guard_line(guard: Guard | None) -> str:
    """Which guard a run had, in one line for its report.

    Examples
    --------
    >>> guard_line(None)
    'guard: none, cuts are exact and can give rows away'
    """
    return "guard: none, cuts are exact and can give rows away" if guard is None else guard.line
