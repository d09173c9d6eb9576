"""What a training tells: its model, and objects for the records."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from drfl.arrays import Array
from drfl.models import Certificate, ClientPart, Model
from drfl.preflight.agreement import Agreement
from drfl.problem import Problem
from drfl.result import Record, Result


def make_model(agreement: Agreement, results: Sequence[Result], problem: Problem) -> Model:
    """A model from what was agreed upon and what was found."""
    names = list(agreement.rows)
    return Model(
        target=agreement.target,
        columns=agreement.columns,
        scale=agreement.scale,
        missing=agreement.missing,
        coef=np.array([result.coef for result in results]),
        intercept=np.array([result.intercept for result in results]),
        problem=problem,
        certificates=tuple(
            Certificate(r.objective, r.lower_bound, r.gap, r.status, r.rounds) for r in results
        ),
        clients=tuple(
            ClientPart(
                name,
                agreement.rows[name],
                tuple(r.weights[name] for r in results),
                tuple(r.client_losses[name] for r in results),
            )
            for name in names
        ),
        version=version("drfl"),
    )


def own_units(model: Model, scores: Array, y: Array) -> tuple[Array, Array]:
    """Scores and numeric targets in the units of the file; classes stay as they are."""
    if model.target.classes is not None:
        return scores, y
    shift, scale = model.target.shift, model.target.scale
    return shift + scale * scores, shift + scale * y


def preflight_facts(agreement: Agreement) -> dict[str, Any]:
    """What the preflight found, for the records."""
    classes = agreement.target.classes
    return {
        "target": agreement.target.name,
        "task": agreement.target.task,
        "classes": None if classes is None else list(classes),
        "features": agreement.features,
        "scale": agreement.scale,
        "missing": agreement.missing,
        "rows": agreement.rows,
        "dropped": agreement.dropped,
        "class_counts": agreement.class_counts,
        "warnings": list(agreement.warnings),
        "bytes_up": agreement.bytes_up,
        "bytes_down": agreement.bytes_down,
    }


def round_facts(record: Record) -> dict[str, Any]:
    """A round, for the records."""
    return {
        "round": record.round,
        "objective": record.objective,
        "lower_bound": record.lower_bound,
        "gap": record.gap,
        "worst_client": record.worst_client,
        "bytes_up": record.bytes_up,
        "bytes_down": record.bytes_down,
        "seconds_clients": record.seconds_clients,
        "seconds_server": record.seconds_server,
        "failures": record.failures,
    }


def result_facts(model: Model, results: Sequence[Result]) -> dict[str, Any]:
    """The end, for the records."""
    return {
        "features": model.features,
        "models": [
            {
                "coef": result.coef,
                "intercept": result.intercept,
                "objective": result.objective,
                "lower_bound": result.lower_bound,
                "gap": result.gap,
                "status": {"kind": str(result.status.kind), "message": result.status.message},
                "weights": result.weights,
                "losses": result.client_losses,
                "multipliers": result.client_multipliers,
            }
            for result in results
        ],
    }


def costs(results: Sequence[Result]) -> dict[str, Any]:
    """What a method proved, and what it cost, over all linear models."""
    worst = max(results, key=lambda result: result.gap)
    sent = [sum(r.bytes_up.values()) + sum(r.bytes_down.values()) for r in results]
    return {
        "gap": worst.gap,
        "status": str(worst.status.kind),
        "rounds": sum(result.rounds for result in results),
        "kilobytes": sum(sent) / 1000,
        "seconds": sum(result.seconds_clients + result.seconds_server for result in results),
    }
