r"""One path over the grid on one part of the rows: every problem once, each from the last.

Where a common radius costs every client the same, :math:`\rho\,\mathrm{Lip}(L)\max(\|w\|_*,
1/\kappa)`, a model with :math:`\|w\|_*\le1/\kappa` that is optimal stays so when the radius grows:
both bounds rise by :math:`\Delta\rho\,\mathrm{Lip}(L)/\kappa`. It is then not solved again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from drfl.ball import Ball
from drfl.client import Client
from drfl.engines import Engine
from drfl.estimators.path import find_model
from drfl.estimators.shared import solvable
from drfl.problem import Problem
from drfl.result import Result
from drfl.selection.grid import Candidate
from drfl.selection.parts import replace_ball
from drfl.solvers import Solver, StatusKind, relative_gap
from drfl.supports import WholeSpace


@dataclass(frozen=True)
class Fit:
    """The model of a grid point on a part of the rows.

    Attributes
    ----------
    result : Result
        The model and its proof.
    rounds : int
        What it cost; 0 if it was known already.
    source : int
        The grid point that it was computed for.
    unmoved : bool
        Whether it is the model of a smaller radius, which this one does not change.
    """

    result: Result
    rounds: int
    source: int
    unmoved: bool = False

    @property
    def short(self) -> bool:
        """Whether it stopped before its tolerance."""
        return self.result.status.kind not in (StatusKind.CERTIFIED, StatusKind.LOCAL)


def follow(
    candidates: Sequence[tuple[int, Candidate, Problem]],
    clients: Sequence[Client],
    solver: Solver,
    engine: Engine,
    solved: Callable[[int], object],
) -> dict[int, Fit]:
    """Solve the problems of these candidates, one after the other.

    Parameters
    ----------
    candidates : sequence of tuples
        Numbers, candidates and the problems to solve, in the order of the path; those of one key
        state the same problem.
    clients : sequence of Client
        Who takes part.
    solver : Solver
        What solves them; it may remember one problem for the next.
    engine : Engine
        How messages reach them.
    solved : callable
        Told the rounds of every run.
    """
    fits: dict[int, Fit] = {}
    by_key: dict[str, Fit] = {}
    last: tuple[Problem, Fit] | None = None
    for number, candidate, stated in candidates:
        known = by_key.get(candidate.key)
        if known is not None:
            fits[number] = replace(known, rounds=0, unmoved=False)
            continue
        choices = replace(candidate.choices, engine=engine, verbose=0)
        problem = solvable(stated, len(clients), solver)
        carried = None if last is None else unmoved(*last, problem, choices.tol)
        if carried is None:
            result = find_model(problem, clients, choices, solver)
            carried = Fit(result, result.rounds, number)
            solved(result.rounds)
        last = problem, carried
        fits[number] = by_key[candidate.key] = carried
    return fits


def unmoved(before: Problem, fit: Fit, problem: Problem, tol: float) -> Fit | None:
    """The same model for a larger radius, if it is proved to be as good there; None if not."""
    old, new = before.ball, problem.ball
    if not (isinstance(old, Ball) and isinstance(new, Ball) and old.radius <= new.radius):
        return None
    if (
        not (_same_price(before) and _same_price(problem))
        or replace_ball(old, new.radius, old.label_cost) != new
    ):
        return None
    same = (before.loss, before.mixture, before.fit_intercept)
    if same != (problem.loss, problem.mixture, problem.fit_intercept):
        return None
    result, floor = fit.result, 1.0 / new.label_cost
    step = (new.radius - old.radius) * problem.loss.lipschitz
    upper = result.objective + step * max(new.norm.dual(result.coef), floor)
    lower = result.lower_bound + step * floor
    gap = relative_gap(upper, lower, math.nan)
    if fit.short or gap > tol:
        return None
    better = replace(result, objective=upper, lower_bound=lower, gap=gap)
    return Fit(better, 0, fit.source, unmoved=True)


def _same_price(problem: Problem) -> bool:
    """Whether a common radius costs every client the same, whatever its rows."""
    assert isinstance(problem.ball, Ball)
    fixed = problem.loss.task == "regression" or math.isinf(problem.ball.label_cost)
    whole = isinstance(problem.ball.support, WholeSpace)
    return whole and fixed and not problem.shared_ball
