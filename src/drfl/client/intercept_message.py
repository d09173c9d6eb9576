"""A client's own intercepts, told once at the end of a run: both halves of one message.

One, or one for each of several classes at once. They are numbers of the rows: with the hinge or the
pinball loss one is a score of one of them. So they never leave in the rounds, and a client with a
guard keeps them; `drfl calibrate` finds them again where the rows are.
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
from drfl.worst_case.joint_intercepts import own_intercepts

KIND = "own_intercept"
REQUEST = {"w": Field("float64", ("C", "n"))}
REPLY = {"b": Field("float64", ("C",))}


def answer(site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
    """The client's half."""
    return {"b": own_intercepts(site.oracle, message.arrays["w"])}


HANDLER = Checked(answer, REQUEST, REPLY)


def request(w: Array) -> Message:
    """Ask for the best intercept of coefficients (n,), or intercepts of (K, n)."""
    return Message(KIND, 0, {"w": np.array(np.atleast_2d(w), dtype=np.float64)})


def read(
    replies: Mapping[str, Message], names: Sequence[str], classes: int | None
) -> dict[str, float | Array]:
    """What the clients told, by name; NaN for those who keep it, and for answers that are none."""
    found = {name: np.full(classes or 1, math.nan) for name in names}
    for name, reply in replies.items():
        with suppress(WireError):
            validate(reply, reply_kind(KIND), 0, REPLY, {"C": classes or 1})
            found[name] = reply.arrays["b"]
    return {name: float(b[0]) if classes is None else b for name, b in found.items()}
