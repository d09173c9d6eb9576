"""What probabilities are worth on the rows that a part holds out: counts, told by the client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Checked, Handler, RefusedError, Site
from drfl.metrics.counts import LEVELS, NUMBERS, Told, told
from drfl.rows import Rows
from drfl.selection.client_half.folds import PART, Part, some_rows, weights_of
from drfl.wire import Field, Message, WireError, validate

KIND = "select_probabilities"
REQUEST = {
    PART: Field("int64", (3,)),
    "coef": Field("float64", ("n",)),
    "intercept": Field("float64"),
}
REPLY = {
    "bins": Field("float64", (len(LEVELS) + 1, 3)),
    "numbers": Field("float64", (len(NUMBERS),), finite=False),
}


def request(part: Part, coef: Array, intercept: float) -> Message:
    """Ask what the log-odds of a model are worth on the rows that a part holds out."""
    arrays = {PART: part.array, "coef": coef, "intercept": np.array(intercept)}
    return Message(KIND, 0, arrays)


def count(site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
    """The client's half."""
    arrays = message.arrays
    at = Part.read(arrays[PART]).held_out(site.raw.n_rows)
    if len(at) == 0 or len(at) < site.policy.min_rows:
        raise RefusedError
    rows = Rows(**some_rows(site.raw, at), weights=weights_of(site.raw, at))
    z = site.problem.scores(rows, arrays["coef"], float(arrays["intercept"]))
    found = told(*_as_often(rows, z, rows.y > 0.0))
    return {"bins": found.bins, "numbers": found.numbers}


def _as_often(rows: Rows, z: Array, positive: NDArray[np.bool_]) -> tuple[Array, NDArray[np.bool_]]:
    """Rows that were merged count as often as they were there; other weights are not counted."""
    if rows.p is None:
        return z, positive
    times = rows.p * rows.total
    whole = np.rint(times)
    if not np.allclose(times, whole, atol=1e-6) or (whole < 1.0).any():
        return z, positive
    again = whole.astype(np.int64)
    return np.repeat(z, again), np.repeat(positive, again)


HANDLERS: Mapping[str, Handler] = {KIND: Checked(count, REQUEST, REPLY)}


def read(message: Message) -> Told:
    """What a client told."""
    validate(message, f"{KIND}/reply", 0, REPLY, {})
    bins = np.array(message.arrays["bins"])
    if (bins < 0.0).any() or not np.allclose(bins[:, :2], np.round(bins[:, :2])):
        raise WireError("its counts are none")
    return Told(bins, np.ones(len(LEVELS), dtype=bool), np.array(message.arrays["numbers"]))
