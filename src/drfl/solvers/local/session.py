"""A run of the local solver as everyone else sees a run: rounds, records, a result."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from drfl.arrays import Array
from drfl.problem import Problem
from drfl.solvers.base import Session, Status
from drfl.solvers.local.desk import Desk
from drfl.solvers.local.search import Search
from drfl.solvers.local.terms import make_terms
from drfl.wire import Message

TEN, FEW_ROWS = 10, 5000  # so many iterations make a round up to so many rows
# From so many rows on the bundle method is about as fast, and needs three numbers per row beside
# the data where this one needs 13, and a copy of the data if the loss is smooth.
MANY_ROWS = 3_000_000
# Where labels flip and the loss is smooth, rows that are about to flip make the path long: with so
# many rows at every client the bundle method takes half of the time.
MANY_SMOOTH_ROWS = 20_000


class LocalSession(Session):
    """In round 1 the clients hand their rows over; rounds are iterations without messages.

    With few rows ten iterations make a round.

    Parameters
    ----------
    problem, names, n_features, tol
        As `drfl.solvers.Solver.start` gets them.
    desk : Desk
        Where the rows arrive.
    other : callable
        Makes the session of a method that takes over if the rows are too many for this one, or if
        rounding keeps it from its tolerance.
    """

    def __init__(
        self,
        problem: Problem,
        names: Sequence[str],
        n_features: int,
        tol: float,
        desk: Desk,
        other: Callable[[], Session],
    ) -> None:
        self.problem, self.names, self.n, self.tol = problem, names, n_features, tol
        self.desk, self.number = desk, desk.open()
        self._make_other, self.handed_over = other, False
        self.round, self.replayed = 0, 0
        self.search: Search | None = None
        self.other: Session  # once it has taken over
        self._iterations: Iterator[None]
        self._status: Status | None = None

    def propose(self) -> dict[str, Message]:
        """Only the rows are asked for, unless the other method has taken over."""
        if self.handed_over:
            return self.other.propose()
        return self.recall() if self.round == 0 else {}

    def recall(self) -> dict[str, Message]:
        if self.handed_over:
            return self.other.recall()
        return {name: self.desk.message(self.number, self.round) for name in self.names}

    def absorb(self, replies: Mapping[str, Message], failures: Mapping[str, str]) -> None:
        """One iteration, and what a resumed run has to make up for."""
        self.round += 1
        if self.handed_over:
            self.other.absorb(replies, failures)
            return
        if failures:
            reasons = "; ".join(f"{name}: {why}" for name, why in failures.items())
            self._status = Status.failed(f"rows are missing ({reasons})")
            return
        if self.round == 1 and self._too_many([self.desk.count(r) for r in replies.values()]):
            self._hand_over()
            return
        if self.search is None and not self._begin():
            self.replayed += 1
            return
        for _ in range((1 + self.replayed) * self._at_once):
            self._iterate()
        self.replayed = 0

    @property
    def _at_once(self) -> int:
        """Iterations of a round: where they take a millisecond, a round should do more than one."""
        assert self.search is not None
        return TEN if self.search.whole.size <= FEW_ROWS else 1

    def _begin(self) -> bool:
        """Take the rows if they are all there; answers read from a checkpoint bring none."""
        met = self.desk.met(self.number)
        if any(name not in met for name in self.names):
            return False
        rows = [met[name] for name in self.names]
        self.desk.close(self.number)
        self.search = Search(self.problem, self.names, rows, self.tol)
        self._iterations = self.search.iterations()
        return True

    def _too_many(self, counts: Sequence[int]) -> bool:
        """Whether so many rows are better left to the other method."""
        terms = make_terms(self.problem, self.names, self.n, np.array(counts, dtype=float), 1.0)
        smooth_flips = terms.flips and not terms.loss.kinks
        least = MANY_SMOOTH_ROWS if smooth_flips else math.inf
        return min(counts) >= least or sum(counts) >= MANY_ROWS

    def _hand_over(self) -> None:
        self.desk.close(self.number)
        self.handed_over, self.other = True, self._make_other()

    def _iterate(self) -> None:
        assert self.search is not None
        if self.search.gap <= self.tol:
            self._status = Status.certified(self.search.gap)
        elif not self.handed_over:
            if next(self._iterations, self) is self:
                self._hand_over()
            if self.search.gap <= self.tol:
                self._status = Status.certified(self.search.gap)

    # ------------------------------------------------------------------ what everyone reads
    @property
    def _theirs(self) -> bool:
        """Whether the other method's model is the better one."""
        return self.handed_over and self.other.gap <= self.gap_here

    @property
    def gap_here(self) -> float:
        """What the interior-point method has proved."""
        return math.inf if self.search is None else self.search.gap

    @property
    def status(self) -> Status | None:
        return self.other.status if self.handed_over else self._status

    @property
    def coef(self) -> Array:
        if self._theirs:
            return self.other.coef
        return np.zeros(self.n) if self.search is None else self.search.best.w

    @property
    def intercept(self) -> float:
        if self._theirs:
            return self.other.intercept
        return 0.0 if self.search is None else self.search.best.b

    @property
    def objective(self) -> float:
        if self._theirs:
            return self.other.objective
        return math.inf if self.search is None else self.search.best.objective

    @property
    def lower_bound(self) -> float:
        if self._theirs:
            return self.other.lower_bound
        return -math.inf if self.search is None else self.search.lower

    @property
    def at_zero(self) -> float:
        if self._theirs:
            return self.other.at_zero
        return math.inf if self.search is None else self.search.at_zero

    @property
    def weights(self) -> Array:
        if self._theirs:
            return self.other.weights
        if self.search is None:
            return self._unknown
        return self.search.terms.mixture.worst_weights(self.search.best.losses)

    @property
    def client_losses(self) -> Array:
        if self._theirs:
            return self.other.client_losses
        return self._unknown if self.search is None else self.search.best.losses

    @property
    def client_multipliers(self) -> Array:
        if self._theirs:
            return self.other.client_multipliers
        return self._unknown if self.search is None else self.search.best.multipliers

    @property
    def _unknown(self) -> Array:
        return np.full(len(self.names), math.nan)

    @property
    def rejected(self) -> Mapping[str, str]:
        return self.other.rejected if self.handed_over else {}

    @property
    def info(self) -> Mapping[str, Any]:
        if self.handed_over:
            return {"method": "bundle", **self.other.info}
        expected = math.inf if self.search is None else self.search.promise
        return {"method": "interior point", "expected_gap": expected}
