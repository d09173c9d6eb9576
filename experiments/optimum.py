"""The least value of the problem that an algorithm minimises, and its value at the zero model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize

from drfl.arrays import Array
from drfl.client import Client, Site
from drfl.differentiable import ClientLoss
from drfl.native.client import LinearLoss
from drfl.native.methods.qffl import QFFL
from drfl.native.methods.wafl import WAFL, PenalisedLoss
from drfl.problem import Problem
from drfl.run import solve
from drfl.solvers import Solver


def optimum(problem: Problem, clients: Sequence[Client], solver: Solver) -> tuple[float, float]:
    """Optimum and value at zero, of the solver's own objective.

    Parameters
    ----------
    problem : Problem
        Stated to the solver.
    clients : sequence of Client
        Who holds the data.
    solver : Solver
        q-FFL and WAFL minimise something else than the problem says: smooth losses only.
    """
    if isinstance(solver, QFFL | WAFL):
        return _smooth(problem, clients, solver)
    # Without a radius the last digits of the bound may never come; those of the value are there.
    result = solve(problem, clients, tol=1e-9, max_rounds=60)
    return result.objective, result.history[0].objective


def _smooth(
    problem: Problem, clients: Sequence[Client], solver: QFFL | WAFL
) -> tuple[float, float]:
    if problem.loss.kinks:
        raise ValueError(
            f"the optimum of {solver.name} is computed for smooth losses: take "
            "native_loss=smooth_hinge"
        )
    sites = [Site(client, problem) for client in clients]
    if isinstance(solver, WAFL):
        losses: list[ClientLoss] = [PenalisedLoss(site, solver.gamma) for site in sites]
        power = 1.0
    else:
        losses = [LinearLoss(site) for site in sites]
        power = solver.q + 1.0

    def value(x: Array) -> tuple[float, Array]:
        pairs = [loss.value_and_gradient(x) for loss in losses]
        F = np.array([pair[0] for pair in pairs])
        slopes = F ** (power - 1.0) @ np.array([pair[1] for pair in pairs])
        return float((F**power).mean() / power), np.asarray(slopes / len(F))

    zero = np.zeros(sites[0].dimension)
    found = minimize(value, zero, jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 3000})
    return float(found.fun), value(zero)[0]
