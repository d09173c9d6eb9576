"""The local solver: descent and interior points for data that sit in one process."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, cast

from drfl.client import Handler
from drfl.solvers.base import Assignment, Session, Solver
from drfl.solvers.bundle import Bundle
from drfl.solvers.first_order import FirstOrder, objection, takes_over
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

# From so many columns on gradients are quicker than the linear systems, where the tolerance is not
# very small: for losses that are made of parabolas; for the logistic loss, where there are also so
# many entries in all rows.
ROUND, SOFT, SOFT_ENTRIES, COARSE = 10, 80, 500_000, 1e-7
TRIED = 20, 0.25  # rounds that are given to gradients: so many, or this share of the columns


@dataclass(frozen=True)
class Local(Solver):
    """Losses that are made of lines, norms, label costs and mixtures on the whole space.

    The result is that of any solver, with a lower bound that holds for every model. ``rounds``
    counts tens of steps of descent, and iterations of the interior-point method, up to 5000 rows
    tens of them. In the first the clients hand over their rows, which needs the engine of this
    process; after that no message is sent, and a policy about what may leave a client has nothing
    to refuse.

    With the l2 norm, labels that never move and certain weights of the clients descent comes first,
    for losses with two corners if there are four rows per coefficient. With the linf norm it is the
    first-order method, in this process, where it knows the problem, ``tol`` is at least 1e-7 and
    there are 10 columns or more, for the logistic loss 80 columns and 500,000 entries.

    Some problems go to the bundle method, in this process as well: those without any radius, where
    equally good models have to be told apart by their norm; losses that do not state the lines they
    are made of (`pieces`, `rounded`, or those of the logistic loss as `soft`, and `flipped` where
    labels move); those with more than 2000 columns
    that the first-order method knows; those with three million rows or more; and
    smooth losses with labels that flip and 20,000 rows or more at every client. It also takes over
    should rounding keep the interior-point method from ``tol``; rounds and bytes are then those of
    both.
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
        if not (known and any(ball.radius for ball in balls) and n > 0) or takes_over(task):
            return Bundle().start(task)
        collector = cast(RowCollector, self.handlers[KIND])

        def interior(most: float = math.inf) -> Session:
            return GatheredSession(task, collector, INTERIOR, most)

        stages: list[Stage] = [
            ("interior point", interior),
            ("bundle", lambda: Bundle().start(task)),
        ]
        if suits(problem, task.names):
            stages.insert(0, (DESCENT, lambda: GatheredSession(task, collector, DESCENT)))
            return LocalSession(stages)
        certain = len(task.names) == 1 or problem.mixture.radius == 0.0
        if certain and task.tol >= COARSE and objection(task) is None:
            rounds = min(task.max_rounds, max(TRIED[0], int(TRIED[1] * n)))
            tried = replace(task, max_rounds=rounds)
            if n >= (SOFT if problem.loss.soft else ROUND):
                stages.insert(0, ("first order", lambda: FirstOrder().start(tried)))
            if n >= SOFT and problem.loss.soft:
                stages.insert(0, ("interior point", lambda: interior(SOFT_ENTRIES / n)))
        return LocalSession(stages)
