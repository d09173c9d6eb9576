"""`drfl train --select`: the radius by what clients report of rows they held out."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from drfl.training.training import Training


def chosen_radius(training: Training) -> float:
    """The radius that a rule chooses; the table goes into the records."""
    known = training.folder.remembered("selection")
    if known is None:
        known = _selection(training)
        training.folder.remember("selection", known)
    training._record("selection", **known)
    training.voice.say("", *known["text"].splitlines(), "")
    return float(known["radius"])


def _selection(training: Training) -> dict[str, Any]:
    from drfl.estimators import ScaleWarning
    from drfl.selection import select

    settings = training.settings
    clients = training.clients(training.targets[0])
    X = np.vstack([client.rows.take(slice(None)) for client in clients])
    y = np.concatenate([desk.rows(training.agreement)[1] for desk in training.desks])
    names = np.repeat([c.name for c in clients], [c.rows.n_rows for c in clients])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScaleWarning)  # the scaling was chosen in the settings
        found = select(
            _estimator(training),
            X,
            y,
            names,
            rule=settings["select"],
            folds=settings["folds"],
            noise_scale=settings["noise_scale"],
            random_state=settings["seed"],
            verbose=int(training.voice.live),
        )
    table = [
        {
            "params": point.params,
            "mean": point.mean,
            "standard_error": point.standard_error,
            "client_scores": point.client_scores,
            "worst_client": point.worst_client,
            "worst_score": point.worst_score,
            "rounds": point.rounds,
            "note": point.note,
        }
        for point in found.table
    ]
    radius = found.best_params.get("radius", 0.0)
    return {
        "rule": settings["select"],
        "radius": radius,
        "reason": found.reason,
        "table": table,
        "text": str(found),
    }


def _estimator(training: Training) -> Any:
    from drfl.estimators import DRFLClassifier, DRFLRegressor

    problem = training.problem
    kind = DRFLRegressor if training.agreement.target.classes is None else DRFLClassifier
    ball = problem.ball_of(next(iter(training.agreement.rows)))
    return kind(
        problem.loss,
        label_cost=ball.label_cost,
        norm=ball.norm.name,
        support=ball.support if ball.support.name != "whole space" else None,
        mixture_radius=problem.mixture.radius,
        mixture_norm=problem.mixture.p,
        mixture_center=problem.mixture.center,
        fit_intercept=problem.fit_intercept,
        tol=training.settings["tol"],
        max_rounds=training.settings["max_rounds"],
    )
