r"""What the client halves share: requests and replies, and a walk of local steps.

Clients keep nothing between rounds: whatever a method remembers of a client travels through the
server. So a run can be resumed, and a site restarted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.arrays import Array
from drfl.client import Checked, Handler, Site
from drfl.differentiable import ClientLoss, Gradient
from drfl.native.facts import FACTS, spread
from drfl.wire import Field, Message, Schema, WireError

Arrays = Mapping[str, NDArray[Any]]
Step = Callable[[ClientLoss, Message], Arrays]

MODEL = Field("float64", ("d",))
NUMBER = Field("float64")
VALUE = {"value": NUMBER}

REQUEST: Schema = {
    "plan": Field("uint8", (3,)),  # wanted: facts, the loss, and which of the method's steps
    "x": replace(MODEL, optional=True),  # where steps start
    "point": replace(MODEL, optional=True),  # where the loss is wanted; without it, at x
    "local": Field("int64", (3,), optional=True),  # local steps, rows of a batch (0: all), seed
    "step": replace(NUMBER, optional=True),  # size of a local step
}


def optional(*schemas: Schema) -> dict[str, Field]:
    """The fields of all these schemas, none of them required."""
    merged = {name: field for schema in schemas for name, field in schema.items()}
    return {name: replace(field, optional=True) for name, field in merged.items()}


def checked(answer: Handler, request: Schema, replies: Mapping[int, Schema]) -> Checked:
    """The client half of a method: its handler, and what may come in and go out."""
    return Checked(answer, request, optional(FACTS, VALUE, *replies.values()))


def respond(site: Site, message: Message, loss: ClientLoss, steps: Mapping[int, Step]) -> Arrays:
    """What a plan asks for: facts about the rows, the loss at a point, a step of the method."""
    reply: dict[str, NDArray[Any]] = {}
    facts, value, step = (int(entry) for entry in message.arrays["plan"])
    if facts:
        reply["facts"] = spread(site)
    if value:
        point = needed(message, "point" if "point" in message.arrays else "x")
        reply["value"] = np.array(loss.value(point))
    if step and step not in steps:
        raise WireError(f"step {step} is unknown: there are {sorted(steps)}")
    if step:
        reply.update(steps[step](loss, message))
    return reply


def needed(message: Message, name: str) -> NDArray[Any]:
    """An array that this step cannot do without, though others can."""
    if name not in message.arrays:
        raise WireError(f"array {name!r} is missing")
    return message.arrays[name]


@dataclass(frozen=True)
class Local:
    """How a client walks: how many steps, how long they are, and on which rows.

    Attributes
    ----------
    steps : int
        E.
    step : float
        Their size.
    batch : int
        Rows of a step, drawn anew for every one; 0: all rows.
    seed : int
        Of the draws; they differ by round and by client, and are the same on every engine.
    """

    steps: int
    step: float
    batch: int = 0
    seed: int = 0

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a request says of it."""
        whole = np.array([self.steps, self.batch, self.seed], dtype=np.int64)
        return {"local": whole, "step": np.array(self.step)}

    @classmethod
    def read(cls, message: Message) -> Local:
        """What `arrays` wrote."""
        steps, batch, seed = (int(entry) for entry in needed(message, "local"))
        size = float(needed(message, "step"))
        if steps < 1 or batch < 0 or seed < 0 or not size > 0.0:
            raise WireError("the local steps are impossible")
        return cls(steps, size, batch, seed)


def gradients(loss: ClientLoss, message: Message) -> Gradient:
    """The gradients that the request's local steps use: of all rows, or of batches."""
    local = Local.read(message)
    return loss.sampled(local.batch, local.seed, message.round)


def walk(start: Array, local: Local, direction: Gradient) -> Iterator[Array]:
    """The models after each of the local steps."""
    v = start
    for _ in range(local.steps):
        v = v - local.step * direction(v)
        yield v


def end(start: Array, local: Local, direction: Gradient) -> Array:
    """The last of them."""
    v = start
    for v in walk(start, local, direction):  # noqa: B007  (the last one is wanted)
        pass
    return v
