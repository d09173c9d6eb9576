"""The first-order method: many columns, no matrix of columns times columns, a certificate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from drfl import checks
from drfl.client import Checked, Handler
from drfl.gauges import DualNorm
from drfl.losses import Loss
from drfl.solvers.base import MOST_CURVED, Assignment, Session, Solver, require_few_columns
from drfl.solvers.first_order import questions
from drfl.solvers.first_order.gradients import answer
from drfl.solvers.first_order.penalized import PENALTIES
from drfl.solvers.first_order.rounds import FirstOrderSession
from drfl.supports import WholeSpace


@dataclass(frozen=True)
class FirstOrder(Solver):
    """Gradients and a few vectors, for thousands to millions of columns; smooth losses.

    Attributes
    ----------
    newton : int
        Up to so many columns at work (linf: those that are not 0, or about to be) clients are
        asked for the second derivatives of these, otherwise of the 300 heaviest; 0: never.
    memory : int
        How many steps are remembered, two vectors each.
    column_sizes : mapping of str to (n,) numbers, optional
        By client the root mean square of each of its columns, as for the bundle method.
    """

    newton: int = 1500
    memory: int = 20
    column_sizes: Mapping[str, Sequence[float]] | None = field(
        default=None, repr=False, compare=False
    )
    name: ClassVar[str] = "first_order"
    handlers: ClassVar[Mapping[str, Handler]] = {
        questions.KIND: Checked(answer, questions.REQUEST, questions.REPLY)
    }

    def __post_init__(self) -> None:
        checks.whole("newton", self.newton, least=0)
        checks.whole("memory", self.memory, least=1)

    def start(self, task: Assignment) -> Session:
        reason = objection(task)
        if reason is not None:
            raise ValueError(f"the solver 'first_order' {reason}")
        return FirstOrderSession(task, self.newton, self.memory, self.column_sizes or {})


MANY_COLUMNS = 2000  # of more, masters and curvature take longer than more rounds of gradients


def takes_over(task: Assignment) -> bool:
    """The one rule: whether a problem is left to this method by the bundle method.

    It is, with more than 2000 columns, if this method knows it. Where it does not, the bundle
    method goes as far as clients tell curvature, up to 2500; beyond, it would get nowhere, and that
    is said before any work.
    """
    if task.n <= MANY_COLUMNS:
        return False
    reason = objection(task)
    if reason is not None:
        advice = f"solver='first_order' {reason}, or "
        require_few_columns("bundle", task, advice, most=MOST_CURVED)
    return reason is None


def objection(task: Assignment) -> str | None:
    """Why this method does not solve a problem, and what to do; None if it does."""
    problem, loss = task.problem, task.problem.loss
    balls = [problem.ball_of(name) for name in task.names]
    if problem.classes is not None:
        return "knows one score: take one class against the rest"
    if problem.curves is None and not isinstance(problem.gauge(task.n), DualNorm):
        return "knows no gauge but the dual norm: take fewer columns"
    if problem.curves is not None:
        return "knows lines: take fewer curves"
    if problem.support_kind is not WholeSpace:
        return "knows the whole space only: leave out the support"
    if loss.kinks or type(loss).curvature is Loss.curvature:
        smooth = "huber" if loss.task == "regression" else "logistic or smooth_hinge"
        return f"knows smooth losses only: take {smooth} instead of {loss.name}"
    if type(problem.norm) not in PENALTIES:
        return f"knows the norms l2 and linf: take one of them instead of {problem.norm.name}"
    if any(math.isfinite(ball.label_cost) for ball in balls if ball.radius > 0.0):
        return "knows labels that never move: take label_cost=inf"
    if not any(ball.radius > 0.0 for ball in balls):
        return "needs a positive radius, without which nothing bounds the coefficients"
    if problem.shared_ball or problem.own_intercepts:
        return "knows a ball around each client and one intercept: leave out what differs"
    if problem.mixture.is_capped:
        return "knows no max_weight: leave it out"
    return None
