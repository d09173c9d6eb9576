r"""Each client splits its own rows: an engine and a client half that train on a part of them.

Every request of a method carries two arrays more: which part of the rows it is about, and the
radius and label cost in force. So the clients are placed once, with all their rows, and every fold
and every grid point is a matter of messages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from drfl.client import Checked, Client, Handler, Party, RefusedError, Site
from drfl.engines import Answers, Engine
from drfl.problem import Problem
from drfl.rows import Rows
from drfl.uncertainty import Ball, Mixture
from drfl.wire import Field, Message, WireError, validate_arrays

PART, BALL = "select_part", "select_ball"
REQUEST = {
    PART: Field("int64", (3,)),
    BALL: Field("float64", (2,), finite=False),  # radius, label cost; the latter may be inf
}


@dataclass(frozen=True)
class Part:
    """One of the ways to divide a client's rows in two."""

    # fold, folds: the rows of this fold are held out, of so many; with one fold all rows are on
    # both sides
    fold: int
    folds: int
    seed: int  # which rows are in which fold

    @property
    def array(self) -> NDArray[np.int64]:
        """As it travels."""
        return np.array([self.fold, self.folds, self.seed], dtype=np.int64)

    @classmethod
    def read(cls, array: NDArray[Any]) -> Part:
        """What `array` wrote."""
        fold, folds, seed = (int(entry) for entry in array)
        if not (0 <= fold < folds and seed >= 0):
            raise WireError("there is no such part of the rows")
        return cls(fold, folds, seed)

    def held_out(self, n_rows: int) -> NDArray[np.intp]:
        """The rows of the fold."""
        return np.flatnonzero(self._in_fold(n_rows))

    def training(self, n_rows: int) -> NDArray[np.intp]:
        """The other rows, or all if there is one fold."""
        return np.flatnonzero(~self._in_fold(n_rows) if self.folds > 1 else np.ones(n_rows, bool))

    def _in_fold(self, n_rows: int) -> NDArray[np.bool_]:
        numbers = fold_numbers(n_rows, self.folds, np.random.default_rng(self.seed))
        return np.asarray(numbers == self.fold)


def fold_numbers(n_rows: int, folds: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """The fold of each row (N,): of any ``folds`` rows in a row, one is in each fold.

    Which of them is drawn. Rows that are sorted by their labels are thereby stratified.

    Examples
    --------
    >>> numbers = fold_numbers(7, 3, np.random.default_rng(0))
    >>> sorted(numbers[:3].tolist()), sorted(numbers[3:6].tolist())
    ([0, 1, 2], [0, 1, 2])
    """
    blocks = np.tile(np.arange(folds), (math.ceil(n_rows / folds), 1))
    return rng.permuted(blocks, axis=1).ravel()[:n_rows]


def some_rows(rows: Rows, at: NDArray[np.intp]) -> dict[str, Any]:
    """A few of a client's rows, as `Rows` and `Client` take them; without the weights."""
    return {"X": rows.X[at], "y": rows.y[at], "shift": rows.shift, "scale": rows.scale}


def weights_of(rows: Rows, at: NDArray[np.intp]) -> NDArray[np.float64] | None:
    """Their weights."""
    return None if rows.p is None else rows.p[at] * rows.total


def held_out_rows(site: Site, message: Message) -> Rows:
    """The rows that the part of a message holds out; a client without enough of them refuses."""
    at = Part.read(message.arrays[PART]).held_out(site.raw.n_rows)
    if len(at) == 0 or len(at) < site.policy.min_rows:
        raise RefusedError
    return Rows(**some_rows(site.raw, at), weights=weights_of(site.raw, at))


@dataclass(frozen=True)
class OnPart:
    """A handler that works on the training rows of the part that the message names."""

    handler: Handler

    def __call__(self, site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
        arrays = dict(message.arrays)
        validate_arrays({k: arrays[k] for k in REQUEST if k in arrays}, REQUEST, {})
        part, (radius, label_cost) = Part.read(arrays.pop(PART)), arrays.pop(BALL).tolist()
        if not (0.0 <= radius < math.inf and label_cost > 0.0):
            raise WireError("there is no ball of such a radius and label cost")
        norm = site.problem.balls[0].norm  # as stated: that of ramps may be another
        ball = replace(site.oracle.ball, norm=norm, radius=radius, label_cost=label_cost)
        return self.handler(_part_site(site, part, ball), replace(message, arrays=arrays))


def on_parts(handlers: Mapping[str, Handler]) -> dict[str, Handler]:
    """The client half of a method, able to work on parts."""
    return {kind: _on_parts(handler) for kind, handler in handlers.items()}


def _on_parts(handler: Handler) -> Handler:
    if not isinstance(handler, Checked):
        return OnPart(handler)
    return Checked(OnPart(handler.handler), {**handler.request, **REQUEST}, handler.reply)


def _part_site(site: Site, part: Part, ball: Ball) -> Site:
    """The client bound to its training rows; the last one is kept.

    What a method remembers of points is about the rows: it stays when only the ball changes.
    """
    known: tuple[Part, Client, Site] | None = site.memory.get("selection")
    if known is not None and known[0] == part and known[2].problem.ball == ball:
        return known[2]
    client = known[1] if known is not None and known[0] == part else _part_client(site, part)
    problem = replace(site.problem, ball=ball, mixture=Mixture())
    inner = Site(client, problem, debug=site.debug)
    if known is not None and known[0] == part:
        inner.memory = known[2].memory
    site.memory["selection"] = part, client, inner
    return inner


def _part_client(site: Site, part: Part) -> Client:
    at = part.training(site.raw.n_rows)
    if len(at) < site.policy.min_rows:
        raise RefusedError
    weight = weights_of(site.raw, at)
    return Client(site.name, **some_rows(site.raw, at), sample_weight=weight, policy=site.policy)


def copy_name(name: str, copy: int | None) -> str:
    """What a client is called in one of several models that are trained in turns."""
    return name if copy is None else f"{name}/{copy}"


class FoldEngine(Engine):
    """Adds to every message which part of the rows it is about, and with which ball.

    The clients are placed already in another engine, with all their rows and the handlers of
    `on_parts`; starting and closing this one moves nothing. ``parts`` are by client name.
    """

    name: ClassVar[str] = "folds"

    def __init__(self, engine: Engine, parts: Mapping[str, Part]) -> None:
        self.engine, self.parts = engine, parts
        self._balls: dict[str, tuple[float, float]] = {}

    def start(
        self, clients: Sequence[Party], problem: Problem, handlers: Mapping[str, Handler]
    ) -> None:
        balls = {client.name: problem.ball_of(client.name) for client in clients}
        self._balls = {name: (ball.radius, ball.label_cost) for name, ball in balls.items()}

    def map(self, messages: Mapping[str, Message], deadline: float | None) -> Answers:
        return self.engine.map({s: self._seen(s, m) for s, m in messages.items()}, deadline)

    def _seen(self, name: str, message: Message) -> Message:
        more = {PART: self.parts[name].array, BALL: np.array(self._balls[name])}
        return Message(message.kind, message.round, {**message.arrays, **more})

    def close(self) -> None:
        self._balls = {}
