"""An engine that shows a method a part of the clients' rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from drfl.client import Handler, Party
from drfl.engines import Answers, Engine
from drfl.problem import Problem
from drfl.selection.parts import BALL, PART, Part
from drfl.wire import Message


class Window(Engine):
    """Adds to every message which part of the rows it is about, and with which ball.

    The clients are placed already, with all their rows and the handlers of `on_parts`; starting
    and closing a window moves nothing.

    Parameters
    ----------
    engine : Engine
        Where the clients are.
    parts : mapping of str to Part
        By client name.
    """

    name: ClassVar[str] = "window"

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
