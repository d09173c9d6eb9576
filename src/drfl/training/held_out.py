"""What clients report of rows they held out: the choice of radii, and validation, by groups too."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from drfl._registry import lookup
from drfl.curves import Curves
from drfl.models.judgement import between, lines, read_by
from drfl.problem import to_json
from drfl.selection.choice import Choice
from drfl.selection.client_half.probabilities import Group, Wanted
from drfl.selection.clients import SelectionClients
from drfl.selection.cross_validation import choose
from drfl.selection.curves import choose_curves
from drfl.selection.validation import Validation, validate_clients
from drfl.tables import Category, Number
from drfl.tables.encoding import Encoding
from drfl.training.settings import Settings
from drfl.training.train import Training


def wanted_groups(settings: Settings, encoding: Encoding) -> tuple[Group, ...]:
    """The groups of the setting ``by``: levels of a category, or numbers between cuts.

    Rows are divided by what the model knows of them, so that only its own columns can divide them.
    """
    first, found = 0, list[Group]()
    places = {}
    for column in encoding.columns:
        places[column.name] = (column, first)
        first += len(column.features)
    for text in settings["by"]:
        name, cuts = read_by(text)
        column, j = lookup("column of the model", name, places)
        found += _levels(column, j) if isinstance(column, Category) else _cut(column, j, cuts)
    return tuple(found)


def _levels(column: Category, first: int) -> list[Group]:
    marks = range(first, first + len(column.levels))
    at = {level: ((j, 0.5, math.inf),) for level, j in zip(column.levels, marks, strict=True)}
    none = tuple((j, -math.inf, 0.5) for j in marks)
    return [
        Group(f"{column.name} = {level}", bounds)
        for level, bounds in {column.reference: none, **at}.items()
    ]


def _cut(column: Number, j: int, cuts: list[float]) -> list[Group]:
    if not cuts:
        raise ValueError(
            f"by: column {column.name!r} holds numbers, so say where to divide them, like "
            f"{column.name}:50,65"
        )
    there = ((j + 1, -math.inf, 0.5),) if column.indicator else ()
    ends = pairwise([-math.inf, *cuts, math.inf])
    found = [Group(between(column.name, *end), ((j, *end), *there)) for end in ends]
    gaps = [Group(f"{column.name} missing", ((j + 1, 0.5, math.inf),))] if column.indicator else []
    return found + gaps


NEEDS = "judge the model with `drfl evaluate` on rows that were not there"


def chosen_radii(training: Training) -> tuple[dict[str, float], Curves | None]:
    """The radius, and for a new client the mixture radius, that a rule chooses; by setting.

    Where curves were asked for, also whether they are taken. The table goes into the records.
    """
    known = training.folder.remembered("selection")
    if known is None:
        known = _selection(training)
        training.folder.remember("selection", known)
    training.record("selection", **known)
    training.listener.say("", *known["text"].splitlines(), "")
    names = ("radius", "mixture_radius")
    curves = training.curves
    if curves is not None and not known["curves"]:
        curves = curves.straight()
    return {name: float(known[name]) for name in names if name in known}, curves


def validated(training: Training) -> None:
    """Say how good the model is on rows and at clients it has not seen, and write it down.

    A model that cannot be validated is a model all the same: the reason is a warning.
    """
    known = training.folder.remembered("validation")
    if known is None:
        why = _no_folds(training)
        known = {"failure": why} if why else _validation(training)
        training.folder.remember("validation", known)
    training.record("validation", **known)
    if "failure" in known:
        training.listener.warn(f"not validated: {known['failure']}; {NEEDS}")


def _validation(training: Training) -> dict[str, Any]:
    settings = training.settings
    try:
        found = validate_clients(
            _estimator(training),
            _clients(training),
            folds=settings["folds"],
            seed=settings["seed"],
            wanted=Wanted(settings["threshold"], wanted_groups(settings, training.agreement)),
        )
    except (ValueError, RuntimeError) as error:
        return {"failure": str(error)}
    remarks = []
    if settings["select"]:
        remarks.append(
            "The radii were chosen on the same held-out rows, so that these figures flatter the "
            "model a little."
        )
    text = "\n".join([str(found), *_asked_for(training, found)])
    return {**found.facts(), "remarks": [*found.sentences(), *remarks], "text": text}


def _asked_for(training: Training, found: Validation) -> list[str]:
    """The table of probabilities, if thresholds or groups were named."""
    named = "threshold" in training.settings.values or training.settings["by"]
    told = {n: f for n, f in {**found.probabilities, **found.groups}.items() if f["rows"]}
    return ["", "probabilities on held-out rows", *lines(told)] if named and told else []


def _no_folds(training: Training) -> str:
    """Why no client will hold out rows; empty if all would."""
    if training.problem.network is not None:
        return "a network would be trained again for every fold"
    if training.settings.private:
        return "every answer would cost a part of the privacy budget"
    if any(training.agreement.guards.values()):
        return (
            "under a guard every fold would need answers of its own out of the ledger, and folds "
            "that differ in few rows would give those away"
        )
    return ""


def _clients(training: Training) -> SelectionClients:
    """The clients of every linear model, who will divide their rows."""
    agreement, targets = training.agreement, training.targets
    copies: Sequence[int | None] = [None] if len(targets) == 1 else range(len(targets))
    rows = list(agreement.rows.values())
    groups = [
        training.federation.place(agreement, positive, folds=True, copy=copy)
        for positive, copy in zip(targets, copies, strict=True)
    ]
    return SelectionClients(
        training.federation.names,
        rows,
        np.array(rows, dtype=np.float64),
        len(agreement.features),
        groups,
        curves=training.problem.curves,
        classes=None if agreement.target.classes is None else len(agreement.target.classes),
        class_names=[str(label) for label in agreement.target.classes or ()],
    )


def _selection(training: Training) -> dict[str, Any]:
    settings = training.settings
    how: dict[str, Any] = {
        "rule": settings["select"],
        "folds": settings["folds"],
        "noise_scale": settings["noise_scale"],
        "random_state": settings["seed"],
        "verbose": int(training.listener.live),
    }
    estimator, clients = _estimator(training), _clients(training)
    if training.curves is None:
        found = choose(estimator, clients, **how)
        return {"rule": settings["select"], **_facts(found), "text": str(found)}
    both = choose_curves(estimator, clients, **how)
    tables = {"lines": _facts(both.lines)["table"], "curves": _facts(both.curves)["table"]}
    named = [
        point | {"params": {"model": name, **point["params"]}}
        for name, table in tables.items()
        for point in table
    ]
    return {
        "rule": settings["select"],
        **_facts(both.choice),
        "curves": both.taken,
        "reason": f"{both.reason}; {both.choice.reason}",
        "table": named,
        "text": str(both),
    }


def _facts(found: Choice) -> dict[str, Any]:
    """A choice for the records."""
    points: list[dict[str, Any]] = to_json(found.table)
    table = [{key: told for key, told in p.items() if key != "scores"} for p in points]
    return {"radius": 0.0, **found.best_params, "reason": found.reason, "table": table}


def _estimator(training: Training) -> Any:
    from drfl.estimators import DRFLClassifier, DRFLRegressor

    problem, names = training.problem, list(training.agreement.rows)
    classes = training.agreement.target.classes
    kind = DRFLRegressor if classes is None else DRFLClassifier
    ball = problem.ball_of(names[0])
    return kind(
        problem.loss,
        radius={name: problem.ball_of(name).radius for name in names},
        label_cost=ball.label_cost,
        norm=ball.norm.name,
        support=ball.support if ball.support.name != "whole space" else None,
        mixture_radius=problem.mixture.radius,
        mixture_norm=problem.mixture.p,
        mixture_center=problem.mixture.center,
        max_weight=problem.mixture.max_weight,
        intercept=problem.intercept,
        engine=training.federation.engine,
        tol=training.settings["tol"],
        max_rounds=training.settings["max_rounds"],
    )
