"""A run of the local solver as everyone else sees a run: rounds, records, a result.

Clients of this process hand their rows over in round 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from drfl.client import Site
from drfl.rows import Rows
from drfl.solvers.base import Assignment, Session, Standing, Status, StatusKind, crossed
from drfl.solvers.local.descent import descent
from drfl.solvers.local.program import ExactModel, LocalSearch, make_program
from drfl.solvers.local.stages import StagedSearch
from drfl.wire import Message

KIND = "local_meet"
INTERIOR, DESCENT = "interior point", "descent"


class RowCollector:
    """The handler of the first message: it keeps a reference to the rows, and copies nothing.

    It cannot leave the process, so that an engine with other processes refuses it at its start.
    """

    def __init__(self) -> None:
        self._numbers = count()
        self._met: dict[int, dict[str, Rows]] = {}

    def open(self) -> int:
        """The number of a new run; a solver may have several at once."""
        number = next(self._numbers)
        self._met[number] = {}
        return number

    def message(self, number: int, round: int) -> Message:
        """What asks a client to come."""
        return Message(KIND, round, {"run": np.array(number, dtype=np.int64)})

    def __call__(self, site: Site, message: Message) -> Mapping[str, NDArray[Any]]:
        self._met[int(message.arrays["run"])][site.name] = site.rows
        return {"rows": np.array(site.rows.n_rows, dtype=np.int64)}

    def count(self, reply: Message) -> int:
        """How many rows a client has: a resumed run reads its answer before its rows are here."""
        return int(reply.arrays["rows"])

    def met(self, number: int) -> Mapping[str, Rows]:
        """Who has come so far."""
        return self._met.get(number, {})

    def close(self, number: int) -> None:
        """Let the rows go."""
        self._met.pop(number, None)

    def __reduce__(self) -> NoReturn:
        raise ValueError(
            "solver='local' needs the rows in this process: use engine='serial', or solver='bundle'"
        )


TEN, FEW_ROWS = 10, 5000  # so many iterations make a round up to so many rows
# From so many rows on the bundle method is about as fast, and needs three numbers per row beside
# the data where this one needs 13, and a copy of the data if the loss is smooth.
MANY_ROWS = 3_000_000
# Where labels flip and the loss is smooth, rows that are about to flip make the path long: with so
# many rows at every client the bundle method takes half of the time.
MANY_SMOOTH_ROWS = 20_000


class GatheredSession(Session):
    """In round 1 the clients hand their rows over; rounds are iterations without messages.

    Attributes
    ----------
    gave_up : bool
        Whether another method has to go on: the rows are too many for this one, or rounding keeps
        it from its tolerance.
    """

    def __init__(self, task: Assignment, collector: RowCollector, method: str = INTERIOR) -> None:
        self.task, self.method = task, method
        self.collector, self.number = collector, collector.open()
        self.round, self.replayed, self.gave_up = 0, 0, False
        self.best, self.lower = ExactModel.unknown(task.n, len(task.names)), -math.inf
        self.search: LocalSearch | None = None
        self._iterations: Iterator[None] = iter(())
        self.at_zero = self.expected = math.inf
        self.status: Status | None = None

    def propose(self) -> dict[str, Message]:
        return self.recall() if self.round == 0 else {}

    def recall(self) -> dict[str, Message]:
        return {name: self.collector.message(self.number, self.round) for name in self.task.names}

    def absorb(self, replies: Mapping[str, Message], failures: Mapping[str, str]) -> None:
        """One iteration, or ten with few rows, and what a resumed run has to make up for."""
        self.round += 1
        if failures:
            reasons = "; ".join(f"{name}: {why}" for name, why in failures.items())
            self.status = Status.failed(f"rows are missing ({reasons})")
        elif self.round == 1 and self._too_many(replies):
            self._give_up()
        elif self.search is None and not self._begin():
            self.replayed += 1
        else:
            self._iterate(1 + self.replayed)
            self.replayed = 0

    def _too_many(self, replies: Mapping[str, Message]) -> bool:
        """Whether so many rows are better left to another method."""
        counts = [self.collector.count(reply) for reply in replies.values()]
        if self.method == DESCENT:
            return sum(counts) >= MANY_ROWS
        sizes = np.array(counts, dtype=float)
        program = make_program(self.task.problem, self.task.names, self.task.n, sizes, 1.0)
        smooth_flips = program.flips and not program.loss.kinks
        least = MANY_SMOOTH_ROWS if smooth_flips else math.inf
        return min(counts) >= least or sum(counts) >= MANY_ROWS

    def _give_up(self) -> None:
        self.collector.close(self.number)
        self.gave_up = True

    def _begin(self) -> bool:
        """Take the rows if they are all there; answers read from a checkpoint bring none."""
        met = self.collector.met(self.number)
        if any(name not in met for name in self.task.names):
            return False
        rows = [met[name] for name in self.task.names]
        self.collector.close(self.number)
        begin = descent if self.method == DESCENT else StagedSearch
        self.search = begin(self.task.problem, self.task.names, rows, self.task.tol)
        self._iterations = self.search.iterations()
        return True

    def _iterate(self, rounds: int) -> None:
        assert self.search is not None
        search = self.search
        # Where an iteration takes milliseconds, a round should do more than one.
        quick = self.method == DESCENT or search.whole.size <= FEW_ROWS
        for _ in range(rounds * (TEN if quick else 1)):
            if search.gap > self.task.tol and next(self._iterations, self) is self:
                self.gave_up = search.gap > self.task.tol
                break
        if search.gap <= self.task.tol:
            self.status = Status.certified(search.gap)
        self.best, self.lower, self.at_zero = search.best, search.lower, search.at_zero
        self.expected = search.promise

    @property
    def standing(self) -> Standing:
        best = self.best
        return Standing(
            self.status,
            best.w,
            best.b,
            best.objective,
            self.lower,
            self.at_zero,
            best.weights,
            best.losses,
            best.multipliers,
            info={"method": self.method, "expected_gap": self.expected},
        )


Stage = tuple[str, Callable[[], Session]]
"""The name of a method, and what begins it."""


class LocalSession(Session):
    """One method after the other: the next one takes over where one gives up.

    Attributes
    ----------
    method, running : str, Session
        Whose rounds they are.
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = list(stages)
        self.method, begin = self._stages.pop(0)
        self.running = begin()
        self._before: Standing | None = None  # what the methods that gave up have found

    def propose(self) -> dict[str, Message]:
        return self.running.propose()

    def recall(self) -> dict[str, Message]:
        return self.running.recall()

    def absorb(self, replies: Mapping[str, Message], failures: Mapping[str, str]) -> None:
        self.running.absorb(replies, failures)
        if self._stages and gives_up(self.running):
            self._before = self.standing
            self.method, begin = self._stages.pop(0)
            self.running = begin()

    @property
    def standing(self) -> Standing:
        """The better model, and what the method at work says of this round."""
        now = self.running.standing
        info = {"method": self.method, **now.info}
        before = now if self._before is None else self._before
        best = min(now, before, key=lambda standing: standing.gap)
        # What one method found and another denies is for the run to see, whoever comes next.
        upper = min(now.objective, before.objective)
        lower = max(now.lower_bound, before.lower_bound)
        if crossed(upper, lower, best.at_zero):
            best = replace(best, objective=upper, lower_bound=lower)
        return replace(best, status=now.status, rejected=now.rejected, info=info)


def gives_up(session: Session) -> bool:
    """Whether another method has to go on."""
    if isinstance(session, GatheredSession):
        return session.gave_up
    status = session.standing.status
    return status is not None and status.kind is not StatusKind.CERTIFIED
