"""Which problems descent is for, and by which steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from drfl.losses import Loss
from drfl.norms import L2, LInf
from drfl.problem import Problem
from drfl.rows import Rows
from drfl.solvers.local.descent.active_columns import ActiveColumns
from drfl.solvers.local.descent.proof import ProvenDescent
from drfl.solvers.local.descent.search import DescentSearch


def suits(problem: Problem, names: Sequence[str]) -> bool:
    """Whether it is for a problem: one multiplier, which is the l2 or the l1 norm of w."""
    balls, loss = [problem.ball_of(name) for name in names], problem.loss
    smooth = not loss.kinks and type(loss).curvature is not Loss.curvature
    lines = type(problem.norm) is L2 and bool(loss.pieces)
    return (
        type(problem.norm) in (L2, LInf)
        and (smooth or lines)
        and (len(names) == 1 or problem.mixture.radius == 0.0)
        and any(ball.radius > 0.0 for ball in balls)
        and all(math.isinf(ball.label_cost) or ball.radius == 0.0 for ball in balls)
        and not (problem.shared_ball or problem.own_intercepts)
        and problem.curves is None
        and problem.classes is None
    )


def descent(
    problem: Problem, names: Sequence[str], clients: Sequence[Rows], tol: float
) -> ProvenDescent:
    """The steps for a norm."""
    kind = DescentSearch if type(problem.norm) is L2 else ActiveColumns
    return kind(problem, names, clients, tol)
