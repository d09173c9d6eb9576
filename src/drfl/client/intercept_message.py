"""A client's own intercept, told once at the end of a run: both halves of one message.

It is a number of the rows: with the hinge or the pinball loss it is a score of one of them. So it
never leaves in the rounds, and a client with a guard keeps it; `drfl calibrate` finds it again
where the rows are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client.site import Checked, Site
from drfl.wire import Field, Message, WireError, reply_kind, validate
from drfl.worst_case.own_intercept import middle_intercept

KIND = "own_intercept"
REQUEST = {"w": Field("float64", ("n",))}
REPLY = {"b": Field("float64")}


def answer(site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
    """The client's half."""
    return {"b": np.array(middle_intercept(site.oracle, message.arrays["w"]))}


HANDLER = Checked(answer, REQUEST, REPLY)


def request(w: Array) -> Message:
    """Ask for the best intercept of coefficients (n,)."""
    return Message(KIND, 0, {"w": np.array(w, dtype=np.float64)})


def read(replies: Mapping[str, Message], names: Sequence[str]) -> dict[str, float]:
    """What the clients told, by name; NaN for those who keep it, and for answers that are none."""
    found = dict.fromkeys(names, math.nan)
    for name, reply in replies.items():
        with suppress(WireError):
            validate(reply, reply_kind(KIND), 0, REPLY, {})
            found[name] = float(reply.arrays["b"])
    return found
