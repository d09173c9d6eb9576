"""Standard errors at the end of a training, and a radius that is a statement of confidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drfl.inference import (
    Estimate,
    InferenceError,
    Inquiry,
    confidence_radius,
    require_curved,
)
from drfl.inference.classes import parameter_names
from drfl.run import Result, solve
from drfl.training.train import Training
from drfl.wire import Sent, Tally

MOST = 500  # coefficients: beyond, the matrices would cost more than the training


def standard_errors(
    training: Training, results: Sequence[Result]
) -> tuple[tuple[Sent, ...], dict[int, Estimate]]:
    """Ask for standard errors, and write them down; what the clients sent for it, and what came.

    Where there are none the sentence that says why is written down instead.
    """
    tally, found = Tally(), dict[int, Estimate]()
    try:
        _require_possible(training)
        for k, result in enumerate(results):
            with _inquiry(training, k) as inquiry:
                found[k] = estimate = _estimate(training, inquiry, result)
                tally.extend(inquiry.tally.sent)
                training.record("inference", model=k, **estimate.to_dict(), **_costs(inquiry))
    except InferenceError as error:
        training.record("inference", refused=str(error))
    return tally.sent, found


def confidence_radii(training: Training) -> float:
    """The radius; the largest of several models."""
    known = training.folder.remembered("confidence")
    if known is None:
        require_curved(training.problem.loss)
        known = max(_confidence(training, k) for k in range(len(training.targets)))
        training.folder.remember("confidence", known)
    training.listener.say(f"radius {known:.4g}: the quantile of the score at 95 % confidence")
    return float(known)


def _confidence(training: Training, k: int) -> float:
    problem, settings = training.problem, training.settings
    result = solve(
        problem,
        training.federation.place(training.agreement, training.targets[k]),
        engine=training.federation.engine,
        tol=settings["tol"],
        max_rounds=settings["max_rounds"],
    )
    with _inquiry(training, k) as inquiry:
        estimate = _estimate(training, inquiry, result)
    return confidence_radius(estimate, problem.loss, problem.norm, len(result.coef))


def _inquiry(training: Training, k: int) -> Inquiry:
    clients = training.federation.place(training.agreement, training.targets[k])
    return Inquiry(training.problem, clients, training.federation.engine)


def _estimate(training: Training, inquiry: Inquiry, result: Result) -> Estimate:
    names, problem = training.agreement.features, training.problem
    names = names if problem.curves is None else problem.curves.names(names)
    names = parameter_names(problem, names, training.agreement.target.classes)
    return inquiry.estimate(result.coef, result.intercept, result.weights, names)


def _require_possible(training: Training) -> None:
    """Refuse before anybody is asked."""
    settings, agreement = training.settings, training.agreement
    if not settings["inference"]:
        raise InferenceError("no standard errors: the run was told inference = false")
    if training.problem.network is not None:
        raise InferenceError("no standard errors: a network has no coefficients of columns")
    require_curved(training.problem.loss)
    guarded = [name for name, k in agreement.guards.items() if k]
    if guarded or settings.private:
        who = f"of {guarded[0]!r} " if guarded else ""
        raise InferenceError(
            f"no standard errors: the guard {who}lets out no matrices H and J, from which rows "
            "could be worked out; docs/inference.md says what is possible instead"
        )
    numbers = training.problem.coefficients(len(agreement.features))
    if numbers > MOST:
        raise InferenceError(
            f"no standard errors: {numbers} coefficients are more than {MOST}, and clients would "
            "send as many numbers squared"
        )


def _costs(inquiry: Inquiry) -> dict[str, Any]:
    sent = sum(entry.bytes for entry in inquiry.tally.sent)
    return {"rounds": inquiry.rounds, "kilobytes": (sent + inquiry.bytes_down) / 1000}
