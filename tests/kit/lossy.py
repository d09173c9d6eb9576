"""Engines that lose answers or change them on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from drfl.engines import SerialEngine
from drfl.engines.base import Answers
from drfl.wire import Failure, Message

Change = Callable[[str, Message], Message | None]


class ChangingEngine(SerialEngine):
    """Every answer goes through ``change``; None: it is lost."""

    def __init__(self, change: Change) -> None:
        super().__init__()
        self.change = change

    def map(self, messages: Mapping[str, Message], deadline: float | None) -> Answers:
        answers = super().map(messages, deadline)
        kept = Answers({}, dict(answers.failures), answers.seconds)
        for name, reply in answers.replies.items():
            changed = self.change(name, reply)
            if changed is None:
                kept.failures[name] = Failure.DEADLINE
            else:
                kept.replies[name] = changed
        return kept


def losing(share: float, seed: int) -> ChangingEngine:
    """Each answer is lost with this probability."""
    rng = np.random.default_rng(seed)
    return ChangingEngine(lambda name, reply: None if rng.random() < share else reply)


def with_arrays(reply: Message, **arrays: Any) -> Message:
    """The same reply with other arrays; None removes one."""
    merged = {**reply.arrays, **arrays}
    return replace(reply, arrays={k: v for k, v in merged.items() if v is not None})
