"""How many rows of every client are in the pieces of curves: both halves of one message.

Knots are in the units that the preflight agreed on, so that this is asked after it. A piece with 1
to 4 rows of a client counts as one with 1; under a guard counts are rounded down to multiples of k,
and a piece that its audit would refuse has none. Knots that leave some piece too few rows go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.curves import Curves, enough_rows
from drfl.defaults import FEW_ROWS
from drfl.models.plain import encoding_from_plain, encoding_to_plain
from drfl.privacy.ramps import heavy_pieces
from drfl.protocols.agreement import Agreement
from drfl.protocols.data_request import array_text, text_array
from drfl.protocols.federation import Federation
from drfl.rows import Rows
from drfl.tables.encoding import Encoding
from drfl.wire import Field, Message, WireError, reply_kind, validate

PIECES = "pieces"
MANY = 100  # values of a column that are counted: one with more has several in a piece
REQUEST = {"encoding": Field("uint8", (None,)), "curves": Field("uint8", (None,))}
REPLY = {
    "counts": Field("int64", ("p",)),  # of the pieces of all columns
    "single": Field("int64", ("n",)),  # 1: every piece of the column holds one value at most
}


# ---------------------------------------------------------------------- the client's half
def asked_pieces(message: Message) -> tuple[Encoding, Curves]:
    """Of which columns and knots a message asks; WireError says what is wrong with it."""
    validate(message, PIECES, None, REQUEST, {})
    try:
        encoding = encoding_from_plain(array_text(message.arrays["encoding"]))
        curves = Curves.from_dict(array_text(message.arrays["curves"]))
    except (ValueError, TypeError, RecursionError):
        raise WireError("the encoding or the curves of a question cannot be read") from None
    if curves.n != len(encoding.features):
        raise WireError("the curves are of other columns than the encoding")
    return encoding, curves


def told_pieces(rows: Rows, curves: Curves, k: int) -> dict[str, NDArray[Any]]:
    """The client's answer about knots of its columns; k of its guard is 0 if it has none."""
    counts, values = np.zeros(curves.n_slopes, dtype=np.int64), [_Values() for _ in curves.knots]
    for _, X in rows.dense_blocks():
        for j, seen in enumerate(values):
            counts[curves.of(j)] += curves.counts(j, X[:, j])
            seen.add(X[:, j])
    if k:
        heavy = np.concatenate([heavy_pieces(rows, curves, j, k) for j in range(curves.n)])
        counts = np.where(heavy, 0, k * (counts // k))
    few = (counts > 0) & (counts < FEW_ROWS)
    single = [seen.are_single(curves, j, max(k, 1)) for j, seen in enumerate(values)]
    return {"counts": np.where(few, 1, counts), "single": np.array(single, dtype=np.int64)}


class _Values:
    """The first values that a column is seen to hold, with their counts, and all other rows."""

    def __init__(self) -> None:
        self.counts: Counter[float] = Counter()
        self.others = 0

    def add(self, column: Array) -> None:
        found, counts = np.unique(column, return_counts=True)
        for value, count in zip(found[:MANY].tolist(), counts[:MANY].tolist(), strict=True):
            if value in self.counts or len(self.counts) < MANY:
                self.counts[value] += count
            else:
                self.others += count
        self.others += int(counts[MANY:].sum())

    def are_single(self, curves: Curves, j: int, k: int) -> bool:
        """Whether fewer than k rows hold anything but the commonest value of their piece."""
        most = Counter[int]()
        for value, count in self.counts.items():
            piece = int(np.argmax(curves.counts(j, np.array([value]))))
            most[piece] = max(most[piece], count)
        return self.counts.total() - most.total() + self.others < k


# ---------------------------------------------------------------------- the server's half
def agreed_pieces(
    federation: Federation, agreement: Agreement, wanted: Curves
) -> tuple[Curves, dict[str, list[int]]]:
    """The curves with those knots that leave every piece rows enough, and its rows by client.

    Under a guard a piece that is merged with another is audited anew, so that this is asked again
    until every knot is kept.
    """
    curves = wanted
    while True:
        counts, single = _ask(federation, agreement, curves)
        # What a guarded client does not tell is fewer than k rows, and perhaps some.
        least = [int(bool(agreement.guards[name])) for name in counts]
        told = np.array(list(counts.values()))
        table, rows = np.maximum(told, np.array(least)[:, None]), told.sum(axis=0)
        filled = [int(np.count_nonzero(rows[curves.of(j)])) for j in range(curves.n)]
        values = [count if one else None for count, one in zip(filled, single, strict=True)]
        kept = [enough_rows(table[:, curves.of(j)], values[j]) for j in range(curves.n)]
        left = curves.with_knots(kept)
        if left == curves or not any(agreement.guards.values()):
            break
        curves = left
    merged = {
        name: np.concatenate([_merged(own[curves.of(j)], kept[j]) for j in range(curves.n)])
        for name, own in counts.items()
    }
    return left, {name: own.tolist() for name, own in merged.items()}


def _ask(
    federation: Federation, agreement: Agreement, curves: Curves
) -> tuple[dict[str, NDArray[np.int64]], NDArray[np.bool_]]:
    """Rows in the pieces by client, and which columns have one value in each at all of them."""
    arrays: Mapping[str, NDArray[Any]] = {
        "encoding": text_array(encoding_to_plain(agreement)),
        "curves": text_array(curves.free().to_dict()),
    }
    message = Message(PIECES, 0, arrays)
    replies = federation.ask(dict.fromkeys(federation.names, message))
    found, single = {}, np.ones(curves.n, dtype=np.bool_)
    for name in federation.names:
        sizes = {"p": curves.n_slopes, "n": curves.n}
        validate(replies[name], reply_kind(PIECES), 0, REPLY, sizes)
        counts = replies[name].arrays["counts"]
        single &= replies[name].arrays["single"] == 1
        rows = [int(counts[curves.of(j)].sum()) for j in range(curves.n)]
        if (counts < 0).any() or max(rows, default=0) > agreement.rows[name]:
            raise WireError(f"client {name!r} has more rows in the pieces of a curve than in all")
        found[name] = counts
    return found, single


def _merged(counts: NDArray[np.int64], kept: list[int]) -> NDArray[np.int64]:
    """Counts of the pieces that are left between the kept knots."""
    starts = [0, *(p + 1 for p in kept)]
    return np.add.reduceat(counts, starts)
