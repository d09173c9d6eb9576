"""Single numbers and sums that pass through the ledger: scaling, metrics, bounds."""

from __future__ import annotations

import hashlib

import numpy as np

from drfl.losses import Array
from drfl.privacy.errors import SpentError
from drfl.privacy.ledger import Ledger
from drfl.privacy.rounding import dither, grid_above, grid_below

SCALAR, SUMS, REFUSED = "scalar", "sums", "refused"
STEP = 100.0  # over N^2: the grid of a scalar


def release_scalar(
    ledger: Ledger, name: str, question: bytes, value: float, most: int, *, up: bool
) -> float:
    """A number rounded outward to a dithered grid of :math:`100/N^2`, counted and stored.

    Parameters
    ----------
    ledger : Ledger
        Where it is written down before anyone hears of it.
    name, question : str, bytes
        What is told, and of what; the same question has the same answer.
    value : float
        The number itself, which is not stored.
    most : int
        How many scalars the ledger gives in all.
    up : bool
        Whether a larger or a smaller number is the safe side.
    """
    key = hashlib.sha256(name.encode() + b"\0" + question).digest()
    with ledger.journal.locked():
        ledger.refresh()
        entry = ledger.stored(key)
        if entry is None and ledger.count(SCALAR) < most:
            step, shift = STEP / ledger.rows.n_rows**2, dither(ledger.secret, key, name)
            told = (grid_above if up else grid_below)(value, step, shift)
            entry = ledger.write(SCALAR, key, {"told": np.array([told])})
        if entry is None:
            ledger.write(REFUSED, key, {})
    if entry is None or entry.kind == REFUSED:
        raise SpentError(f"the ledger has given its {most} scalars")
    return float(entry.arrays["told"][0])


def release_moments(ledger: Ledger) -> tuple[Array, Array]:
    """Mean and mean square of every column, for scaling: sums over all rows with equal weights.

    These weights count as released from the start, so that the sums cost no rank; least and
    largest entries are single rows' and are never told: take public ranges instead.
    """
    key = hashlib.sha256(b"moments").digest()
    with ledger.journal.locked():
        ledger.refresh()
        entry = ledger.stored(key)
        if entry is None:
            moments = np.array(ledger.rows.moments())
            entry = ledger.write(SUMS, key, {"moments": moments})
    mean, square = entry.arrays["moments"]
    return mean, square


def release_metric(ledger: Ledger, name: str, question: bytes, per_row: Array, most: int) -> float:
    """The mean of a number per row, such as 'is classified rightly', as a counted scalar."""
    return release_scalar(ledger, name, question, float(np.mean(per_row)), most, up=False)
