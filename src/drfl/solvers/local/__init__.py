"""The local solver: descent and interior points for data that sit in one process."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, cast

from drfl.client import Handler
from drfl.solvers.base import Assignment, Session, Solver
from drfl.solvers.bundle import Bundle
from drfl.solvers.first_order import takes_over
from drfl.solvers.local.descent import suits
from drfl.solvers.local.gauge_cones import has_cone
from drfl.solvers.local.pieces import has_kernel
from drfl.solvers.local.session import (
    DESCENT,
    INTERIOR,
    KIND,
    GatheredSession,
    LocalSession,
    RowCollector,
    Stage,
)
from drfl.supports import WholeSpace


@dataclass(frozen=True)
class Local(Solver):
    """Losses that are made of lines, norms, label costs and mixtures on the whole space.

    The result is that of any solver, with a lower bound that holds for every model. ``rounds``
    counts tens of steps of descent, and iterations of the interior-point method, up to 5000 rows
    tens of them. In the first the clients hand over their rows, which needs the engine of this
    process; after that no message is sent, and a policy about what may leave a client has nothing
    to refuse.

    With the l2 or the linf norm, labels that never move and certain weights of the clients descent
    comes first, for any number of columns: with linf for smooth losses, with l2 for losses with two
    corners if there are four rows per coefficient.

    Some problems go to the bundle method, in this process as well: those without any radius, where
    equally good models have to be told apart by their norm; losses that do not state the lines they
    are made of (`pieces`, `rounded`, or those of the logistic loss as `soft`, and `flipped` where
    labels move); those with more than 2000 columns that the first-order method knows, if they are
    none for descent; those with three million rows or more; and smooth losses with labels that flip
    and 20,000 rows or more at every client. It also takes over should rounding keep the
    interior-point method from ``tol``; rounds and bytes are then those of both.
    """

    name: ClassVar[str] = "local"
    handlers: ClassVar[Mapping[str, Handler]] = Bundle.handlers
    curves: ClassVar[bool] = True

    def __post_init__(self) -> None:
        # Each solver has a collector of its own: what a handler keeps is not for others to find.
        object.__setattr__(self, "handlers", {**Bundle.handlers, KIND: RowCollector()})

    def start(self, task: Assignment) -> Session:
        problem, n = task.problem, task.n
        if problem.support_kind is not WholeSpace:
            raise ValueError(
                "solver='local' knows the whole space only: use solver='bundle' with a support"
            )
        balls = [problem.ball_of(name) for name in task.names]
        flips = problem.loss.task == "classification" and any(
            ball.radius > 0.0 and math.isfinite(ball.label_cost) for ball in balls
        )
        known = has_kernel(problem.loss, flips=flips) and has_cone(problem.norm)
        known = known and problem.curves is None
        many = takes_over(task)
        steps = suits(problem, task.names)
        if not (known and any(ball.radius for ball in balls) and n > 0) or (many and not steps):
            return Bundle().start(task)
        collector = cast(RowCollector, self.handlers[KIND])
        stages: list[Stage] = []
        if steps:
            stages.append((DESCENT, lambda: GatheredSession(task, collector, DESCENT)))
        if not many:  # interior points make matrices of the columns
            stages.append((INTERIOR, lambda: GatheredSession(task, collector, INTERIOR)))
        stages.append(("first order" if many else "bundle", lambda: Bundle().start(task)))
        return LocalSession(stages)
