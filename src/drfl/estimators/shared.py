r"""One ball around the mixture of all clients (WAFL's problem), in terms of one per client.

.. math:: \min_{w,b}\ \sup\{E_PL : W(P,\textstyle\sum_s\hat q_s\hat P_s)\le\rho\}

It has one multiplier :math:`\lambda` for all clients. Where the worst case costs the same at every
client, :math:`\rho\,\mathrm{Lip}(L)\max(\|w\|_*,1/\kappa)` whatever the data, balls of the same
radius around every client make the same function of (w, b). That holds on the whole space for
regression, and for classification if labels never move. Where all rows are at hand, the mixture is
simply one client.
"""

from __future__ import annotations

import math
from dataclasses import replace

from drfl.estimators.table import Table
from drfl.problem import Problem
from drfl.supports import WholeSpace


def arrange(problem: Problem, table: Table, *, local: bool) -> tuple[Problem, Table]:
    """A problem with a ball per client, and rows for it, with the same objective.

    Parameters
    ----------
    problem : Problem
        With a shared ball.
    table : Table
        The rows.
    local : bool
        Whether the rows of the clients may be put together.
    """
    mixture = problem.mixture
    if len(table.names) > 1 and not _same_price(problem):
        if not local:
            raise ValueError(
                "one ball around several clients shares its multiplier between them when labels "
                "move or a support binds, which no federated solver does yet: use solver='local', "
                "or label_cost=math.inf without a support"
            )
        table = table.pooled(mixture.resolve(table.totals).weights)
        mixture = replace(mixture, center="uniform")
    return Problem(problem.loss, problem.ball, mixture, fit_intercept=problem.fit_intercept), table


def _same_price(problem: Problem) -> bool:
    """Whether transport costs every client the same, whatever its rows."""
    ball = problem.ball_of("")  # the one for all names
    fixed = problem.loss.task == "regression" or math.isinf(ball.label_cost)
    return ball.radius == 0.0 or (isinstance(ball.support, WholeSpace) and fixed)
