"""The way from a problem and its clients to a model: which solver runs, and where."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Sequence

from sklearn.exceptions import ConvergenceWarning

from drfl._registry import lookup
from drfl.client import Party
from drfl.estimators.choices import Choices
from drfl.problem import Problem
from drfl.run import Record, Result, solve
from drfl.solvers import SOLVERS, Solver, StatusKind, configured, settings_of, solver_class
from drfl.supports import WholeSpace

logger = logging.getLogger("drfl")

LOCAL = "local"


def solver_name(choices: Choices, *, named: bool, joint: bool = False) -> str:
    """The solver that runs: "auto" is local if no clients, engine, support or cap are named.

    Parameters
    ----------
    choices : Choices
        What the user chose.
    named : bool
        Whether the rows have clients.
    joint : bool
        Whether one problem has several classes, for which there is one solver.
    """
    name = lookup("solver", choices.solver, {s: s for s in ("auto", *SOLVERS)})
    if name == LOCAL and choices.engine is not None:
        raise ValueError("solver='local' takes no engine: leave engine=None, or name a solver")
    if name != "auto":
        return name
    alone = not named and choices.engine is None and choices.intercept != "per_client"
    alone &= not joint
    alone &= isinstance(choices.ball.support, WholeSpace) and not choices.mixture.is_capped
    return LOCAL if alone else "bundle"


def make_solver(name: str, choices: Choices) -> Solver:
    """The solver of a name, with the curvature and the seed if it knows such settings."""
    kind = solver_class(name)
    if "curvature" not in settings_of(kind) and "auto" not in (choices.curvature, choices.solver):
        raise ValueError(f"the solver {name!r} uses no curvature: leave curvature='auto'")
    return configured(kind, curvature=choices.curvature, seed=choices.seed)


class NoModelError(RuntimeError):
    """A run that ended without a model, and why."""


def find_model(
    problem: Problem, clients: Sequence[Party], choices: Choices, solver: Solver
) -> Result:
    """Solve the problem; a run that ended without a model raises."""
    result = solve(
        problem,
        clients,
        solver=solver,
        engine="serial" if choices.engine is None else choices.engine,
        tol=choices.tol,
        max_rounds=choices.max_rounds,
        callbacks=[_log] if choices.verbose else [],
    )
    if result.status.kind is StatusKind.FAILED:
        raise NoModelError(result.status.message)
    if result.objective == math.inf:  # the zeros that stand for a model are none
        raise NoModelError(f"no model was evaluated by all clients: {result.status.message}")
    if choices.verbose:
        logger.info("%s", result.status)
    return result


def warn_unless_optimal(result: Result) -> None:
    """Issue scikit-learn's ConvergenceWarning for a result that is short of its tolerance."""
    if result.status.kind not in (StatusKind.CERTIFIED, StatusKind.LOCAL):
        warnings.warn(
            f"the fit stopped before it reached tol: {result.status.message}",
            ConvergenceWarning,
            stacklevel=4,  # the line that calls fit
        )


def _log(record: Record) -> None:
    logger.info(
        "round %d: objective %.8g, proved gap %.1e, worst client %s",
        record.round,
        record.objective,
        record.gap,
        record.worst_client,
    )
