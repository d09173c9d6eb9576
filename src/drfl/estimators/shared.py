r"""One ball around the mixture of all clients: WAFL's problem.

.. math:: \min_{w,b}\ \sup\{E_PL : W(P,{\textstyle\sum_s\hat q_s\hat P_s})\le\rho\}

It has one multiplier :math:`\lambda` for all clients, which not every solver knows. Where the worst
case costs the same at every client, :math:`\rho\,\mathrm{Lip}(L)\max(\|w\|_*,1/\kappa)` whatever
the rows, balls of the same radius around every client make the same function of (w, b). That holds
on the whole space for regression, and for classification if labels never move.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from drfl.problem import Problem
from drfl.run import Result
from drfl.solvers import Solver
from drfl.supports import WholeSpace
from drfl.uncertainty import Ball


def solvable(problem: Problem, n_clients: int, solver: Solver) -> Problem:
    """A problem with the same objective that the solver takes; a ball per client where it can."""
    if not problem.shared_ball:
        return problem
    if n_clients == 1 or _same_price(problem):
        return replace(problem, shared_ball=False)
    if not solver.shared_ball:
        raise ValueError(
            f"the solver {solver.name!r} knows no ball around several clients where labels move or "
            "a support binds: use solver='bundle', or label_cost=math.inf without a support"
        )
    return problem


def client_losses(problem: Problem, result: Result) -> NDArray[np.float64]:
    """The clients' losses (S,), whose mixture is the objective.

    With a shared ball they are counted at the shared multiplier, its price included.
    """
    losses = np.array(list(result.client_losses.values()))
    if not problem.shared_ball:
        return losses
    assert isinstance(problem.ball, Ball)
    return losses + problem.ball.radius * np.array(list(result.client_multipliers.values()))


def _same_price(problem: Problem) -> bool:
    """Whether transport costs every client the same, whatever its rows."""
    assert isinstance(problem.ball, Ball)
    fixed = problem.loss.task == "regression" or math.isinf(problem.ball.label_cost)
    return problem.ball.radius == 0.0 or (isinstance(problem.ball.support, WholeSpace) and fixed)
