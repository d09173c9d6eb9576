r"""What the client halves share: a client's mean loss, what it tells of its rows, local steps.

A model is one vector x: (w, b) with an intercept, otherwise w. Clients keep nothing between rounds:
whatever a method remembers of a client travels through the server. So a run can be resumed, and a
site restarted.
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
from drfl.rows import Rows
from drfl.wire import Field, Message, Schema, WireError


def loss_of(site: Site) -> ClientLoss:
    """What a site's clients lose: under a linear model, or under a network."""
    return LinearLoss(site) if site.network is None else site.network


class LinearLoss(ClientLoss):
    r"""The mean loss of a linear model, :math:`F_s(x) = \sum_i p_i L_i(x)`."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.name, site.rows.n_rows)
        self.rows, self.loss, self.arguments = site.rows, site.oracle.loss, site.oracle.arguments
        self.shared_intercept, self.is_margin = site.shared_intercept, site.oracle.is_margin

    def value(self, x: Array) -> float:
        w, b = self.split(x)
        values, _ = self.pointwise(self.arguments(self.rows.scores(w, b), self.rows.y), w)
        return self.rows.mean(values)

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        """F(x) and a gradient, in one pass over the rows."""
        w, b = self.split(x)
        value = square = 0.0

        def visit(block: slice, z: Array) -> Array:
            nonlocal value, square
            y = self.rows.y[block]
            values, slopes = self.pointwise(self.arguments(z, y), w)
            value += self.rows.mean(values, block)
            square += self.rows.mean(slopes**2, block)
            weights = self.rows.mass(block) * slopes
            return np.asarray(weights * y if self.is_margin else weights)

        g, total = self.rows.sweep(w, b, visit)
        return value, self._joined(g + self.shrinkage(w, square), total)

    def batch_gradient(self, x: Array, chosen: NDArray[np.intp]) -> Array:
        w, b = self.split(x)
        X, y = self.rows.take(chosen), self.rows.y[chosen]
        _, slopes = self.pointwise(self.arguments(X @ w + b, y), w)
        masses = self.rows.masses(chosen) * (self.rows.n_rows / len(chosen))
        weights = masses * slopes * y if self.is_margin else masses * slopes
        g = weights @ X + self.shrinkage(w, float(masses @ slopes**2))
        return self._joined(g, float(weights.sum()))

    # ------------------------------------------------------------------ what WAFL changes
    def pointwise(self, z: Array, w: Array) -> tuple[Array, Array]:
        """Loss and slope of every row, from the margins or residuals z."""
        return self.loss.value_and_slope(z)

    def shrinkage(self, w: Array, mean_square: float) -> Array | float:
        """What the gradient has beside the rows; ``mean_square`` is that of the slopes."""
        return 0.0

    # ------------------------------------------------------------------ internals
    def split(self, x: Array) -> tuple[Array, float]:
        """W and b of a model."""
        return (x[:-1], float(x[-1])) if self.shared_intercept else (x, 0.0)

    def _joined(self, g: Array, b: float) -> Array:
        return np.append(g, b) if self.shared_intercept else g


FACTS = {"facts": Field("float64", (3,))}  # weight of the rows, largest eigenvalue, trace

# Enough for a step size, which may be wrong by a factor of two.
POWER_STEPS = 20


def spread(site: Site) -> Array:
    """The three numbers.

    The eigenvalue, by which a step size is chosen, is second-order information: where the policy
    keeps that back, the trace stands for it.
    """
    rows = site.rows
    if site.network is not None:  # its curvature is not known by moments
        return np.array([rows.total, 0.0, 0.0])
    trace = float(rows.moments()[1].sum()) + site.shared_intercept
    largest = _largest_eigenvalue(rows, site.shared_intercept) if site.policy.curvature else trace
    return np.array([rows.total, min(largest, trace), trace])


def _largest_eigenvalue(rows: Rows, intercept: bool) -> float:
    """By the power method from a fixed start."""
    v = np.random.default_rng(0).normal(size=rows.n_features)
    b = float(intercept)
    size = 0.0
    for _ in range(POWER_STEPS):
        length = float(np.sqrt(v @ v + b * b))
        if length == 0.0:
            return 0.0
        v, b = rows.combine(rows.mass() * rows.scores(v / length, b / length))
        b *= intercept
        size = float(np.sqrt(v @ v + b * b))
    return size


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


@dataclass(frozen=True)
class Answer:
    """The handler of a method that is made of its steps."""

    steps: Mapping[int, Step]

    def __call__(self, site: Site, message: Message) -> Arrays:
        return respond(site, message, loss_of(site), self.steps)


def needed(message: Message, name: str) -> NDArray[Any]:
    """An array that this step cannot do without, though others can."""
    if name not in message.arrays:
        raise WireError(f"array {name!r} is missing")
    return message.arrays[name]


@dataclass(frozen=True)
class LocalSteps:
    """How a client walks: how many steps, how long they are, and on which rows."""

    steps: int  # E
    step: float  # their size
    batch: int = 0  # rows of a step, drawn anew for every one; 0: all rows
    # Of the draws; they differ by round and by client, and are the same on every engine
    seed: int = 0

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What a request says of it."""
        whole = np.array([self.steps, self.batch, self.seed], dtype=np.int64)
        return {"local": whole, "step": np.array(self.step)}

    @classmethod
    def read(cls, message: Message) -> LocalSteps:
        """What `arrays` wrote."""
        steps, batch, seed = (int(entry) for entry in needed(message, "local"))
        size = float(needed(message, "step"))
        if steps < 1 or batch < 0 or seed < 0 or not size > 0.0:
            raise WireError("the local steps are impossible")
        return cls(steps, size, batch, seed)


def gradients(loss: ClientLoss, message: Message) -> Gradient:
    """The gradients that the request's local steps use: of all rows, or of batches."""
    local = LocalSteps.read(message)
    return loss.sampled(local.batch, local.seed, message.round)


def walk(start: Array, local: LocalSteps, direction: Gradient) -> Iterator[Array]:
    """The models after each of the local steps."""
    v = start
    for _ in range(local.steps):
        v = v - local.step * direction(v)
        yield v


def end(start: Array, local: LocalSteps, direction: Gradient) -> Array:
    """The last of them."""
    v = start
    for v in walk(start, local, direction):  # noqa: B007  (the last one is wanted)
        pass
    return v
