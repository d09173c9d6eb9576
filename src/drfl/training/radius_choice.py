"""`drfl train --select`: radii by what clients report of rows they held out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drfl.selection.clients import SelectionClients
from drfl.selection.cross_validation import choose
from drfl.training.train import Training


def chosen_radii(training: Training) -> dict[str, float]:
    """The radius, and for a new client the mixture radius, that a rule chooses; by setting.

    The table goes into the records.
    """
    known = training.folder.remembered("selection")
    if known is None:
        known = _selection(training)
        training.folder.remember("selection", known)
    training.record("selection", **known)
    training.listener.say("", *known["text"].splitlines(), "")
    names = ("radius", "mixture_radius")
    return {name: float(known[name]) for name in names if name in known}


def _selection(training: Training) -> dict[str, Any]:
    settings, agreement = training.settings, training.agreement
    targets = training.targets
    copies: Sequence[int | None] = [None] if len(targets) == 1 else range(len(targets))
    rows = list(agreement.rows.values())
    groups = [
        training.federation.place(agreement, positive, folds=True, copy=copy)
        for positive, copy in zip(targets, copies, strict=True)
    ]
    clients = SelectionClients(
        training.federation.names,
        rows,
        np.array(rows, dtype=np.float64),
        len(agreement.features),
        groups,
    )
    found = choose(
        _estimator(training),
        clients,
        rule=settings["select"],
        folds=settings["folds"],
        noise_scale=settings["noise_scale"],
        random_state=settings["seed"],
        verbose=int(training.listener.live),
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
    return {
        "rule": settings["select"],
        **{"radius": 0.0, **found.best_params},
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
        max_weight=problem.mixture.max_weight,
        fit_intercept=problem.fit_intercept,
        engine=training.federation.engine,
        tol=training.settings["tol"],
        max_rounds=training.settings["max_rounds"],
    )
