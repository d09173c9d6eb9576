r"""What the client halves share: mean loss, its gradient, batches of rows, a walk of local steps.

A model is one vector x: (w, b) with an intercept, otherwise w. Clients keep nothing between
rounds: whatever a method remembers of a client travels through the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfl.client import Checked, Handler, Site
from drfl.losses import Array
from drfl.rows import Rows
from drfl.wire import Field, Message, Schema

Arrays = Mapping[str, NDArray[Any]]
Gradient = Callable[[Array], Array]
Step = Callable[["ClientLoss", Message], Arrays]

MODEL = Field("float64", ("d",))
NUMBER = Field("float64")
FACTS = {"facts": Field("float64", (3,))}  # weight of the rows, largest eigenvalue, trace
VALUE = {"value": NUMBER}

REQUEST: Schema = {
    "plan": Field("uint8", (3,)),  # wanted: facts, the loss, and which of the method's steps
    "x": replace(MODEL, optional=True),  # where steps start
    "point": replace(MODEL, optional=True),  # where the loss is wanted; without it, at x
    "local": Field("int64", (3,), optional=True),  # local steps, rows of a batch (0: all), seed
    "step": replace(NUMBER, optional=True),  # size of a local step
}

# Enough for a step size, which may be wrong by a factor of two.
POWER_STEPS = 20


def optional(*schemas: Schema) -> dict[str, Field]:
    """The fields of all these replies, none of them required."""
    merged = {name: field for schema in schemas for name, field in schema.items()}
    return {name: replace(field, optional=True) for name, field in merged.items()}


def checked(answer: Handler, request: Schema, replies: Mapping[int, Schema]) -> Checked:
    """The client half of a method: its handler, and what may come in and go out."""
    return Checked(answer, request, optional(FACTS, VALUE, *replies.values()))


def respond(site: Site, message: Message, loss: ClientLoss, steps: Mapping[int, Step]) -> Arrays:
    """What a plan asks for: facts about the rows, the loss at a point, a step of the method."""
    reply: dict[str, NDArray[Any]] = {}
    facts, value, step = message.arrays["plan"]
    if facts:
        reply["facts"] = spread(site)
    if value:
        at = "point" if "point" in message.arrays else "x"
        reply["value"] = np.array(loss.value(message.arrays[at]))
    if step:
        reply.update(steps[int(step)](loss, message))
    return reply


def spread(site: Site) -> Array:
    r"""Total weight of the rows, and largest eigenvalue and trace of their second moments.

    With an intercept every row has one more entry, 1. The eigenvalue, by which a step size is
    chosen, is second-order information: where the policy keeps that back, the trace stands for it.
    """
    rows = site.rows
    trace = float(rows.moments()[1].sum()) + site.fit_intercept
    largest = _largest_eigenvalue(rows, site.fit_intercept) if site.policy.curvature else trace
    return np.array([rows.total, min(largest, trace), trace])


def _largest_eigenvalue(rows: Rows, fit_intercept: bool) -> float:
    """By the power method from a fixed start."""
    v = np.random.default_rng(0).normal(size=rows.n_features)
    b = float(fit_intercept)
    size = 0.0
    for _ in range(POWER_STEPS):
        length = float(np.sqrt(v @ v + b * b))
        if length == 0.0:
            return 0.0
        v, b = rows.combine(rows.mass() * rows.scores(v / length, b / length))
        b *= fit_intercept
        size = float(np.sqrt(v @ v + b * b))
    return size


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
        steps, batch, seed = (int(entry) for entry in message.arrays["local"])
        return cls(steps, float(message.arrays["step"]), batch, seed)


class ClientLoss:
    r"""The mean loss of one client, :math:`F_s(x) = \sum_i p_i L_i(x)`, and its gradient.

    Where the loss has a kink, "gradient" means one of its subgradients.
    """

    def __init__(self, site: Site) -> None:
        self.name, self.rows, self.loss = site.name, site.rows, site.oracle.loss
        self.fit_intercept, self.is_margin = site.fit_intercept, site.oracle.is_margin

    def value(self, x: Array) -> float:
        """F(x)."""
        w, b = self.split(x)
        values, _ = self.pointwise(self._arguments(self.rows.scores(w, b), self.rows.y), w)
        return self.rows.mean(values)

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        """F(x) and a gradient, in one pass over the rows."""
        w, b = self.split(x)
        value = square = 0.0

        def visit(block: slice, z: Array) -> Array:
            nonlocal value, square
            y = self.rows.y[block]
            values, slopes = self.pointwise(self._arguments(z, y), w)
            value += self.rows.mean(values, block)
            square += self.rows.mean(slopes**2, block)
            weights = self.rows.mass(block) * slopes
            return np.asarray(weights * y if self.is_margin else weights)

        g, total = self.rows.sweep(w, b, visit)
        return value, self._joined(g + self.shrinkage(w, square), total)

    def gradient(self, x: Array) -> Array:
        """A gradient of F at x."""
        return self.value_and_gradient(x)[1]

    def batch_gradient(self, x: Array, chosen: NDArray[np.intp]) -> Array:
        """The gradient of the chosen rows: right on average if all are equally likely."""
        w, b = self.split(x)
        X, y = self.rows.take(chosen), self.rows.y[chosen]
        _, slopes = self.pointwise(self._arguments(X @ w + b, y), w)
        masses = self.rows.masses(chosen) * (self.rows.n_rows / len(chosen))
        weights = masses * slopes * y if self.is_margin else masses * slopes
        g = weights @ X + self.shrinkage(w, float(masses @ slopes**2))
        return self._joined(g, float(weights.sum()))

    def sampled(self, local: Local, round: int) -> Gradient:
        """Gradients of one walk: on all rows, or every time on a fresh batch."""
        n_rows = self.rows.n_rows
        if not 0 < local.batch < n_rows:
            return self.gradient
        rng = np.random.default_rng([local.seed, round, *self.name.encode()])

        def gradient(x: Array) -> Array:
            chosen = rng.choice(n_rows, local.batch, replace=False)
            return self.batch_gradient(x, chosen)

        return gradient

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
        return (x[:-1], float(x[-1])) if self.fit_intercept else (x, 0.0)

    def _joined(self, g: Array, b: float) -> Array:
        return np.append(g, b) if self.fit_intercept else g

    def _arguments(self, z: Array, y: Array) -> Array:
        return y * z if self.is_margin else z - y


def walk(start: Array, local: Local, direction: Gradient) -> Iterator[Array]:
    """The models after each of the local steps."""
    v = start
    for _ in range(local.steps):
        v = v - local.step * direction(v)
        yield v


def end(start: Array, local: Local, direction: Gradient) -> Array:
    """The last of them."""
    *_, v = walk(start, local, direction)
    return v
