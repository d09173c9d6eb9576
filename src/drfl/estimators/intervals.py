"""Standard errors of fitted estimators, and a radius that is a statement of confidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from drfl.arrays import Array
from drfl.estimators.choices import Choices
from drfl.estimators.client_table import ClientTable
from drfl.estimators.fitting import find_model
from drfl.inference import Estimate, Inquiry, confidence_radius, require_curved
from drfl.problem import Problem
from drfl.problem.multiclass import AT_ONCE
from drfl.run import Result
from drfl.solvers import Solver

CONFIDENCE = "confidence"
ONE_SCORE = (
    "radius='confidence' is for one score at a time: take multiclass='ovr', or give a number"
)


def estimate_of(
    problem: Problem,
    table: ClientTable,
    target: Array,
    result: Result,
    choices: Choices,
    names: list[str] | None = None,
) -> Estimate:
    """The unpenalised estimate of one model, asked of the clients of a table.

    Parameters
    ----------
    problem : Problem
        What was solved.
    table : ClientTable
        The rows as they were given: merged rows would count as one.
    target : array of shape (N,)
        Of this model.
    result : Result
        Where it begins, and the weights of the clients.
    choices : Choices
        With the engine.
    names : list of str, optional
        Of the coefficients, for sentences.
    """
    require_curved(problem.loss)
    engine = "serial" if choices.engine is None else choices.engine
    with Inquiry(problem, list(table.clients(target)), engine) as inquiry:
        return inquiry.estimate(result.coef, result.intercept, result.weights, names)


def with_confidence(
    choices: Choices, table: ClientTable, targets: Callable[[Array], list[Array]], solver: Solver
) -> Choices:
    """The choices with the radius in place of the word; the largest of several models."""
    require_curved(choices.loss)
    if choices.multiclass == AT_ONCE:
        raise ValueError(ONE_SCORE)
    still = replace(choices, radius=0.0, shared_ball=False)
    problem = still.problem(table.names.tolist(), table.totals, table.X.shape[1])
    merged = table.canonical()
    radii = []
    for target, whole in zip(targets(merged.y), targets(table.y), strict=True):
        result = find_model(problem, list(merged.clients(target)), still, solver)
        estimate = estimate_of(problem, table, whole, result, still)
        radii.append(confidence_radius(estimate, problem.loss, problem.norm, table.X.shape[1]))
    return replace(choices, radius=max(radii))
