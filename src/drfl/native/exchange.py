"""An exchange: messages are made, and answers are read that can be used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.native.client import Arrays, refuse_impossible
from drfl.wire import Message, Schema, WireError, validate


def messages(
    arrays: Mapping[str, Mapping[str, NDArray[Any]]],
    steps: Mapping[str, int],
    kind: str,
    round: int,
    *,
    facts: bool,
    value: bool,
) -> dict[str, Message]:
    """The messages of a round by client: arrays, and a plan of what is wanted.

    Parameters
    ----------
    arrays : mapping of str to arrays
        What each is told.
    steps : mapping of str to int
        Which of the method's steps it should make; 0: none.
    kind, round
        Those of the messages.
    facts, value : bool
        Whether facts about the rows, and the loss, are wanted of all.
    """
    made = {}
    for name, own in arrays.items():
        plan = np.array([facts, value, steps[name]], dtype=np.uint8)
        made[name] = Message(kind, round, {**own, "plan": plan})
    return made


def usable(
    replies: Mapping[str, Message],
    schemas: Mapping[str, Schema],
    kind: str,
    round: int,
    dimension: int,
) -> tuple[dict[str, Arrays], dict[str, str]]:
    """Those answers that are what was asked for; the others with the reason why not.

    Parameters
    ----------
    replies : mapping of str to Message
        What came, by client.
    schemas : mapping of str to Schema
        What was asked for, by client.
    kind, round, dimension
        Those of the replies, and the length d of a model.
    """
    good: dict[str, Arrays] = {}
    bad: dict[str, str] = {}
    for name, schema in schemas.items():
        if name in replies:
            try:
                validate(replies[name], kind, round, schema, {"d": dimension})
                _refuse_impossible(replies[name].arrays)
                good[name] = replies[name].arrays
            except WireError as error:
                bad[name] = str(error)
    return good, bad


def _refuse_impossible(arrays: Arrays) -> None:
    if any(arrays[name] < 0.0 for name in ("value", "loss") if name in arrays):
        raise WireError("its loss is negative, which no mean loss is")
    if "facts" in arrays:
        refuse_impossible(arrays["facts"])


def weighted_mean(vectors: Mapping[int, Array], weights: Array) -> Array:
    """Mean of the vectors of some clients, with their shares of the given weights (S,)."""
    chosen = list(vectors)
    share = weights[chosen]
    share = share / share.sum() if share.any() else np.full(len(chosen), 1.0 / len(chosen))
    return np.asarray(share @ np.array([vectors[s] for s in chosen]))
