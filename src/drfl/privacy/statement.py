"""What a ledger holds, for the person who answers for the site; never a row."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np

from drfl.privacy.dp.spending import HEAD as BUDGET
from drfl.privacy.dp.spending import RELEASE, epsilon_of
from drfl.privacy.journal import Journal
from drfl.privacy.keeper import ANSWER
from drfl.privacy.ledger import BINDING, HEAD, KNOTS, REFUSED, VERSION, Ledger
from drfl.privacy.leverage import Leverage
from drfl.privacy.release.lattice import bits_of
from drfl.privacy.scalars import METRIC, SCALAR, SUMS, refused_preflights
from drfl.wire import Message

DELTAS = (1e-9, 1e-6)


def audit(path: str | os.PathLike[str]) -> str:
    """A statement of the ledger at a path; the data are not needed and not touched.

    Parameters
    ----------
    path : path
        The file that a guard was given as its ledger.

    Returns
    -------
    str
        Answers by kind, the rank used of the rank allowed, the largest leverage, scalars.
    """
    journal = Journal(Path(path))
    if not journal.exists:
        raise ValueError(f"there is no ledger at {os.fspath(path)}: give the path of a guard's own")
    entries = journal.peek()
    if entries and entries[0].kind == BUDGET:
        return spent_statement(os.fspath(path), entries[1:])
    if not entries or entries[0].kind != HEAD:
        raise ValueError(f"{os.fspath(path)} is not a ledger: give the path of a guard's own")
    head, *entries = entries
    version, k, n_rows = head.arrays["sizes"].tolist()[:3]
    if version != VERSION:
        raise ValueError(f"{os.fspath(path)} is of another version of drfl: take that one")
    leverage = Leverage(n_rows, k)
    leverage.add(np.ones(n_rows))
    for entry in entries:
        if "weights" in entry.arrays:
            leverage.add(entry.arrays["weights"])
    title = f"{os.fspath(path)}: {n_rows} rows, k = {k}"
    refused = len(refused_preflights(Path(path)))
    return statement(title, entries, leverage, n_rows // k, refused)


def audit_ledger(ledger: Ledger) -> str:
    """The same of a ledger in memory."""
    title = f"ledger in memory: {ledger.n_rows} rows, k = {ledger.k}"
    path = ledger.journal.path
    refused = 0 if path is None else len(refused_preflights(path))
    return statement(title, ledger.entries, ledger.leverage, ledger.allowed, refused)


def statement(
    title: str, entries: list[Message], leverage: Leverage, allowed: int, refused: int
) -> str:
    """The lines of a statement."""
    counts = Counter(entry.kind for entry in entries)
    cuts = [entry for entry in entries if entry.kind == ANSWER and "weights" in entry.arrays]
    numbers = sum(len(entry.arrays["cut"]) - 2 for entry in cuts)
    cells = [int(entry.arrays["smallest"][0]) for entry in entries if entry.kind == BINDING]
    cells = [cell for cell in cells if cell]
    also = f", {refused} preflights refused" if refused else ""
    return "\n".join(
        [
            title,
            f"answers: {counts[ANSWER]} ({len(cuts)} new, {counts[ANSWER] - len(cuts)} told "
            f"before), {counts[REFUSED]} refused",
            f"independent answers: {leverage.rank} of {allowed} that are allowed",
            f"largest part of one row in them: {float(np.max(leverage.h)):.4f} of "
            f"{leverage.limit:.4f} allowed",
            f"bits: {numbers} coefficients of {bits_of(len(leverage.h))} bits each",
            "cells told: " + (f"the smallest of {min(cells)} rows" if cells else "none"),
            f"scalars: {counts[SCALAR] + counts[METRIC]} ({counts[METRIC]} metrics)",
            f"sums over all rows: {counts[SUMS]}{also}",
            f"readings of the rows: {counts[BINDING]}",
            *([f"columns with curves: {counts[KNOTS]}"] if counts[KNOTS] else []),
        ]
    )


def spent_statement(path: str, entries: list[Message]) -> str:
    """What the budget of a client with differential privacy has been spent on."""
    paid = [float(entry.arrays["rho"]) for entry in entries if entry.kind == RELEASE]
    spent = sum(paid)
    said = ", ".join(f"{epsilon_of(spent, delta):.3g} at delta {delta:g}" for delta in DELTAS)
    return "\n".join(
        [
            f"{path}: the ledger of a privacy budget",
            f"answers: {len(paid)}, {len(entries) - len(paid)} refused",
            f"spent: zCDP {spent:.4g}, that is epsilon {said}",
        ]
    )
