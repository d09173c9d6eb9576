"""The guard: what a site decides before anyone asks."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from drfl import checks
from drfl.privacy.columns import require_many
from drfl.privacy.keys import meaning_of, row_prints, rows_key
from drfl.privacy.ledger import BINDING, Ledger
from drfl.privacy.refusals import class_counts, require_enough
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
    preflights, bindings : int
        How many different preflights it answers, and to how many different readings of the rows
        (columns, targets, units) it can be bound.
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
    preflights: int = 20
    bindings: int = 40
    secret: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        checks.whole("k of a guard", self.k, least=LEAST)
        checks.whole("answers of a guard", self.answers, least=1)
        checks.whole("scalars of a guard", self.scalars, least=0)
        if not isinstance(self.ledger, str | os.PathLike | None):
            raise TypeError(f"ledger of a guard must be a path, got {self.ledger!r}")
        if not isinstance(self.secret, bytes | None):
            raise TypeError("secret of a guard must be bytes or None")

    def begin(self, key: bytes, n_rows: int, prints: NDArray[np.uint8] | None = None) -> Ledger:
        """The ledger of N rows with this fingerprint; refused if it is that of others.

        Parameters
        ----------
        key, n_rows
            A fingerprint of the data, and N.
        prints : (N, 32), optional
            Fingerprints of the rows, so that data that differ in few rows are recognised.
        """
        path = None if self.ledger is None else Path(self.ledger)
        return Ledger(key, n_rows, self.k, path, self.secret, prints)

    def open(self, rows: Rows, ledger: Ledger | None = None) -> Ledger:
        """The ledger that these rows answer under; refused if they are too few for it.

        Parameters
        ----------
        rows : Rows
            The data.
        ledger : Ledger, optional
            One that was begun with the file that the rows come from.
        """
        if ledger is not None:
            ledger.require_left(BINDING, meaning_of(rows), self.bindings)
        try:
            require_enough(rows, self.k)
            smallest = require_many(rows.take(slice(None)), rows.y, self.k, rows.names)
        except ValueError:
            if ledger is not None:  # that it is refused tells of the rows, too
                self.count_reading(ledger, rows)
            raise
        if ledger is None:
            ledger = self.begin(rows_key(rows), rows.n_rows, row_prints(rows))
        self.count_reading(ledger, rows, smallest)
        if class_counts(rows):
            # The sums of the classes count as known. Where that is too late, because of what
            # another target has told, they do not leave: every cut is audited.
            with suppress(ValueError):
                ledger.declare(rows.y, "the sums of the classes")
        return ledger

    def count_reading(self, ledger: Ledger, rows: Rows, smallest: int = 0) -> None:
        """Write down another reading of the rows, and its smallest cell; refused beyond 40."""
        ledger.note(BINDING, meaning_of(rows), self.bindings, {"smallest": np.array([smallest])})

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
