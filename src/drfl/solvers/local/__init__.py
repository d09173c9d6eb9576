"""The local solver: an interior-point method for data that sit in one process."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, cast

from drfl.client import Handler
from drfl.problem import Problem
from drfl.solvers.base import Session, Solver
from drfl.solvers.bundle import Bundle
from drfl.solvers.local.gauge_cones import has_cone
from drfl.solvers.local.pieces import has_kernel
from drfl.solvers.local.session import KIND, InteriorSession, LocalSession, RowCollector
from drfl.supports import WholeSpace

LARGEST = 2000  # more coefficients make the linear systems too dear


@dataclass(frozen=True)
class Local(Solver):
    """Losses that are made of lines, norms, label costs and mixtures on the whole space.

    The result is that of any solver, with a lower bound that holds for every model. ``rounds``
    counts iterations of the interior-point method, up to 5000 rows tens of them. In the first the
    clients hand over their rows, which needs the engine of this process; after that no message is
    sent, and a policy about what may leave a client has nothing to refuse.

    Some problems go to the bundle method, in this process: those without any radius, where equally
    good models have to be told apart by their norm; losses that do not state the lines they are
    made of (`pieces`, `rounded`, or those of the logistic loss as `soft`, and `flipped` where
    labels move); those with more than 2000 coefficients; those with three million rows or more; and
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

    def start(
        self,
        problem: Problem,
        names: Sequence[str],
        n_features: int,
        *,
        tol: float,
        max_rounds: int,
    ) -> Session:
        if problem.support_kind is not WholeSpace:
            raise ValueError(
                "solver='local' knows the whole space only: use solver='bundle' with a support"
            )

        def bundle() -> Session:
            return Bundle().start(problem, names, n_features, tol=tol, max_rounds=max_rounds)

        balls = [problem.ball_of(name) for name in names]
        flips = problem.loss.task == "classification" and any(
            ball.radius > 0.0 and math.isfinite(ball.label_cost) for ball in balls
        )
        known = has_kernel(problem.loss, flips=flips) and has_cone(problem.norm)
        known = known and problem.curves is None
        if not (known and any(ball.radius for ball in balls) and 0 < n_features <= LARGEST):
            return bundle()
        collector = cast(RowCollector, self.handlers[KIND])
        interior = InteriorSession(problem, names, n_features, tol, collector)
        return LocalSession(interior, bundle)
