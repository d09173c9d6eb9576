"""Whether rows of a client are in the level `other` of a column: both halves of one message.

A value that few rows of a client hold is `other` there, unless another client named it. Only after
the preflight a client can tell whether any of its rows are left in `other`. Where nobody has one
the level is dropped: its coefficient would be trained on nothing, and a value that was not trained
would count as the reference. A client with a guard is not asked: what it calls rare stays `other`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.models.plain import encoding_from_plain, encoding_to_plain
from drfl.protocols.data_request import DataReply, array_text, text_array
from drfl.tables.encoding import Category, Column, Encoding
from drfl.wire import Field, Message, WireError, reply_kind, validate

OTHERS = "others"
REQUEST = {"encoding": Field("uint8", (None,))}
REPLY = {"held": Field("int64", ("c",))}  # 1: a row is in `other`, of the columns that have it


def with_other(columns: Iterable[Column]) -> list[Category]:
    """The columns that have the level."""
    return [column for column in columns if isinstance(column, Category) and column.other]


# ---------------------------------------------------------------------- the client's half
def asked_others(message: Message) -> Encoding:
    """Of which columns a message asks; WireError says what is wrong with it."""
    validate(message, OTHERS, None, REQUEST, {})
    try:
        return encoding_from_plain(array_text(message.arrays["encoding"]))
    except (ValueError, TypeError, RecursionError):
        raise WireError("the encoding of a question cannot be read") from None


def told_others(held: Collection[str], encoding: Encoding) -> dict[str, NDArray[Any]]:
    """The client's answer: in which columns it has rows of the level."""
    found = [column.name in held for column in with_other(encoding.columns)]
    return {"held": np.array(found, dtype=np.int64)}


# ---------------------------------------------------------------------- the server's half
def question(encoding: Encoding, answers: Mapping[str, DataReply]) -> dict[str, Message]:
    """What is asked of clients that may have such rows; nothing where a guarded one surely has."""
    names = {column.name for column in with_other(encoding.columns)}
    rare = {
        client: {name for name in names if answer.facts["texts"][name]["other"]}
        for client, answer in answers.items()
    }
    guarded = [rare[client] for client, answer in answers.items() if answer.facts["guard"]]
    open_ones = names.difference(*guarded)
    message = Message(OTHERS, 0, {"encoding": text_array(encoding_to_plain(encoding))})
    return {
        client: message
        for client, answer in answers.items()
        if not answer.facts["guard"] and rare[client] & open_ones
    }


def empty_others(
    encoding: Encoding, answers: Mapping[str, DataReply], replies: Mapping[str, Message]
) -> set[str]:
    """The columns whose level `other` has no row at any client."""
    columns = with_other(encoding.columns)
    held = {
        column.name
        for column in columns
        for answer in answers.values()
        if answer.facts["guard"] and answer.facts["texts"][column.name]["other"]
    }
    for reply in replies.values():
        validate(reply, reply_kind(OTHERS), 0, REPLY, {"c": len(columns)})
        told = reply.arrays["held"].tolist()
        held |= {column.name for column, one in zip(columns, told, strict=True) if one}
    return {column.name for column in columns} - held
