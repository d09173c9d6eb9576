"""Single numbers and sums that pass through the ledger: preflight, scaling, metrics, bounds."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.privacy.guard import Guard
from drfl.privacy.journal import Journal, SpentError
from drfl.privacy.ledger import REFUSED, Ledger
from drfl.privacy.release.rounding import Rounding, dither, grid_above
from drfl.wire import Message

SCALAR, METRIC, SUMS = "scalar", "metric", "sums"
METRICS = 3  # one in so many scalars may be a metric


def release_scalar(
    ledger: Ledger,
    name: str,
    question: bytes,
    value: Callable[[], float],
    rounding: Rounding,
    most: int,
) -> float:
    """A number rounded outward to a dithered grid, counted and stored.

    Parameters
    ----------
    ledger : Ledger
        Where it is written down before anyone hears of it.
    name, question : str, bytes
        What is told, and of what; the same question has the same answer.
    value : callable
        Computes the number itself, which is not stored; not called if there is nothing to tell.
    rounding : Rounding
        The grid.
    most : int
        How many scalars the ledger gives in all.
    """
    return _released(ledger, SCALAR, name, question, lambda t: rounding(value(), t), most)


def release_metric(
    ledger: Ledger,
    name: str,
    question: bytes,
    per_row: Callable[[], Array],
    most: int,
    largest: float = 1.0,
) -> float:
    """The mean of a number per row, such as 'is classified rightly', as a counted scalar.

    With c the largest that a row may add (more counts as c), within ck/N of the truth, on a
    dithered grid of 2ck/N, and not more than a third of the scalars: otherwise a server could see
    where a single row changes sides between two models.
    """
    step = 2.0 * largest * ledger.k / ledger.n_rows

    def rounded(shift: float) -> float:
        mean = float(np.mean(np.clip(per_row(), 0.0, largest)))
        return grid_above(mean - 0.5 * step, step, shift)

    return _released(ledger, METRIC, name, question, rounded, most)


def _released(
    ledger: Ledger,
    kind: str,
    name: str,
    question: bytes,
    rounded: Callable[[float], float],
    most: int,
) -> float:
    """A counted number, rounded with the dither of its question, or as it was told before."""
    key = _key(name, question)
    with ledger.journal.locked():
        ledger.refresh()
        entry, metrics = ledger.stored(key), ledger.count(METRIC)
        spent = metrics + ledger.count(SCALAR) >= most
        spent |= kind == METRIC and metrics >= most // METRICS
        if entry is None and not spent:
            told = rounded(dither(ledger.secret, key, name))
            entry = ledger.write(kind, key, {"told": np.array([told])})
        if entry is None:
            ledger.refuse(key)
            raise SpentError(f"the ledger has given its {most} scalars, or a third of it metrics")
    return float(entry.arrays["told"][0])


def release_sums(
    ledger: Ledger,
    name: str,
    question: bytes,
    sums: Mapping[str, NDArray[Any]],
    most: int,
) -> dict[str, NDArray[Any]]:
    """Sums over all rows with equal weights, which cost no rank; written down before they leave.

    Sums over some of the rows need `Ledger.declare` first. The same question has the stored
    arrays, whatever they would be now; only so many questions are answered.
    """
    key = _key(name, question)
    with ledger.journal.locked():
        ledger.refresh()
        entry = ledger.stored(key)
        if entry is None and ledger.count(SUMS) >= most:
            ledger.refuse(key)
            raise SpentError(f"the ledger has answered its {most} preflights")
        entry = entry or ledger.write(SUMS, key, sums)
    return {name: entry.arrays[name] for name in sums}


def require_sums_left(guard: Guard, name: str, question: bytes) -> None:
    """Refuse a preflight beyond the budget before any file is read; an old one may be repeated."""
    if guard.ledger is None:
        return
    told = [entry for entry in _peek(Path(guard.ledger)) if entry.kind == SUMS]
    asked = [*told, *refused_preflights(Path(guard.ledger))]
    known = {entry.arrays["question"].tobytes() for entry in asked}
    if len(asked) >= guard.preflights and _key(name, question) not in known:
        raise SpentError(f"the ledger has answered or refused its {guard.preflights} preflights")


def count_refused(guard: Guard, name: str, question: bytes) -> None:
    """Count a preflight that was refused for what is in the file: that tells of it, too.

    It is kept beside the ledger, which a file that is refused may not have. Where not even the
    folder of the ledger is there nobody asks from elsewhere: that is a run that does not begin.
    """
    if guard.ledger is None or not Path(guard.ledger).parent.is_dir():
        return
    key, journal = _key(name, question), Journal(_beside(Path(guard.ledger)))
    with journal.locked():
        before = refused_preflights(Path(guard.ledger))
        if key not in {entry.arrays["question"].tobytes() for entry in before}:
            asked = {"question": np.frombuffer(key, np.uint8)}
            journal.append(Message(REFUSED, len(before), asked))


def refused_preflights(ledger: Path) -> list[Message]:
    """What `count_refused` has written beside a ledger."""
    return _peek(_beside(ledger))


def _beside(ledger: Path) -> Path:
    return ledger.with_name(ledger.name + ".refused")


def _peek(path: Path) -> list[Message]:
    journal = Journal(path)
    return journal.peek() if journal.exists else []


def _key(name: str, question: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + question).digest()
