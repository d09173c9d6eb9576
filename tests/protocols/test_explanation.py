"""Explanations that travel: what a client answers is what is read, or it is refused."""

from dataclasses import fields, replace

import numpy as np
import pytest

from drfl.models import read_model
from drfl.models.file_rows import read_rows
from drfl.protocols.explanation import answer, attack, explain_message, read_reply
from drfl.wire import Message, WireError, decode, encode, reply_kind


@pytest.fixture(scope="module")
def asked(trained):
    """A model, a client's file, and the answer that came by wire."""
    model = read_model(trained / "RUN" / "model.json")
    name = model.clients[0].name
    rows = read_rows(model, trained / f"{name}.csv", target=True)
    message = explain_message(model)
    reply = Message(reply_kind(message.kind), 0, answer(name, model, rows))
    return model, name, rows, decode(encode(reply))


def test_what_is_read_is_what_was_found(asked):
    model, name, rows, reply = asked
    found, (read,) = attack(model, 0, name, rows)[0], read_reply(model, reply)
    for field in fields(found):
        np.testing.assert_array_equal(getattr(read, field.name), getattr(found, field.name))
    assert read.worst_loss >= read.loss
    assert not any(len(rows.y) in array.shape for array in reply.arrays.values())


@pytest.mark.parametrize(
    "lie",
    [
        {"rows": np.array(0)},
        {"attained": np.array([2])},
        {"loss": np.array([np.nan])},
        {"loss": np.zeros(2)},
        {"carried": np.zeros((1, 1))},
    ],
    ids=str,
)
def test_an_answer_that_cannot_be_is_refused(asked, lie):
    model, _, _, reply = asked
    with pytest.raises(WireError):
        read_reply(model, replace(reply, arrays={**reply.arrays, **lie}))
