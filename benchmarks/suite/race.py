"""Contenders side by side: the best time of each, in turns.

Processor time: with one thread that is the time on an idle machine, and comes close on a busy one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

REPEATS = 5
LONG = 20.0  # seconds: who takes longer runs once, and once more if it is not yet a minute
MINUTE = 60.0


@dataclass
class Lane:
    """One contender: its best seconds, how often it ran, and its last answer."""

    run: Callable[[], Any]
    clock: Callable[[], float] = time.process_time
    seconds: float = math.inf
    runs: int = 0
    answer: Any = None

    def go(self) -> None:
        start = self.clock()
        self.answer = self.run()
        self.seconds = min(self.seconds, self.clock() - start)
        self.runs += 1

    def has_enough(self, repeats: int) -> bool:
        spent = self.seconds * self.runs
        return self.runs >= (2 if self.seconds > LONG else repeats) or spent > MINUTE


def race(
    contenders: Mapping[str, Callable[[], Any]],
    repeats: int = REPEATS,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, Lane]:
    """Run everybody in turns, up to so many times each; the best counts.

    Parameters
    ----------
    contenders : mapping
        Functions by name. What they return is kept, to be checked for its quality.
    repeats : int
        How often; slow ones (20 s and more) run once or twice.
    clock : callable
        Another clock, for contenders that do their work in other processes.
    """
    lanes = {name: Lane(run, clock) for name, run in contenders.items()}
    for _ in range(repeats):
        for lane in lanes.values():
            if not (lane.runs and lane.has_enough(repeats)):
                lane.go()
    return lanes
