"""Standard errors of a model file's coefficients, from what a run wrote down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drfl.arrays import Array
from drfl.curves import Curves
from drfl.inference import Estimate, Inference, InferenceError, file_units
from drfl.inference.classes import base_of, class_table
from drfl.models.document import Model


@dataclass(frozen=True)
class Inferred:
    """One linear model, looked at per unit of the files and per standard deviation of a column.

    There are no units where every client scaled by itself. The label is the class it is for, where
    there are several models; what others are against, in one.
    """

    label: str
    units: Inference | None
    scaled: Inference


def inferred(
    model: Model,
    records: Sequence[Mapping[str, Any]],
    *,
    kind: str = "robust",
    level: float = 0.95,
    against: str | None = None,
) -> list[Inferred]:
    """From the records of a run; InferenceError with a sentence where there is nothing.

    Of several classes in one problem all others are compared with ``against``, by default the
    first.
    """
    told = [record for record in records if record.get("kind") == "inference"]
    refused = [str(record["refused"]) for record in told if "refused" in record]
    if refused:
        raise InferenceError(refused[0])
    if len(told) != model.n_problems:
        raise InferenceError("no standard errors: the run wrote none down; train it again")
    if against is not None and not model.joint:
        raise ValueError("--against is for several classes in one problem: leave it out")
    classes = [str(label) for label in model.target.classes or ()]
    base = base_of(classes, against)
    found = enumerate(map(_estimate, told))
    return [_inferred(model, k, estimate, base, kind, level) for k, estimate in found]


def _inferred(
    model: Model, k: int, estimate: Estimate, base: int, kind: str, level: float
) -> Inferred:
    target, d = model.target, len(estimate.point) // max(1, (model.problem.classes or 2) - 1)
    classes, label = [str(label) for label in target.classes or ()], ""
    if len(model.coef) > 1:
        label = f"against {classes[base]}" if model.joint else classes[k]
    odds = model.probabilistic
    n = len(model.features)
    shared: dict[str, Any] = {"kind": kind, "level": level, "odds": odds}

    def looked_at(shift: Array, scale: Array) -> Inference:
        curves = Curves(((),) * n) if model.problem.curves is None else model.problem.curves
        names, factors = _named(model, curves, shift, scale)
        # Where a column has a curve the intercept is that of its first knot, in all units.
        straight, of = curves.sizes[curves.column] == 1, curves.column
        moved = np.where(straight, shift[of], 0.0)
        units = file_units(moved, scale[of], target.shift, target.scale, d)
        more = {"units": units, "factors": factors, **shared}
        if model.joint:
            return class_table(estimate, model.problem, names, classes, base, **more)
        return Inference.of(estimate, names, **more)

    scaled = looked_at(np.zeros(n), np.ones(n))
    per_unit = None if model.scale == "per-client" else looked_at(*model.scaling(None))
    return Inferred(label, per_unit, scaled)


def _named(
    model: Model, curves: Curves, shift: Array, scale: Array
) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """The coefficients' names, with knots in these units, and those of every column."""
    knots = [
        tuple(scale[j] * knot + shift[j] for knot in own) for j, own in enumerate(curves.knots)
    ]
    names = Curves(tuple(knots)).names(model.features)
    pieces = {name: tuple(names[curves.of(j)]) for j, name in enumerate(model.features)}
    factors = {
        column.name: tuple(piece for feature in column.features for piece in pieces[feature])
        for column in model.columns
    }
    return names, factors


def _estimate(record: Mapping[str, Any]) -> Estimate:
    try:
        covariances = {k: np.array(c, dtype=float) for k, c in record["covariances"].items()}
        point = np.array(record["point"], dtype=float)
        robust = np.array(record["robust"], dtype=float)
        if not all(c.shape == (len(point),) * 2 for c in covariances.values()):
            raise ValueError
        empty = np.zeros((0, 0))
        return Estimate(
            robust=robust,
            point=point,
            covariances=covariances,
            refusals=record["refusals"],
            hessian=empty,
            score_covariance=empty,
            weights=record["weights"],
            rows=record["rows"],
            log_likelihood=record["log_likelihood"],
            steps=int(record["steps"]),
            used=np.array(record["used"], dtype=bool),
        )
    except (KeyError, ValueError, TypeError, AttributeError):
        raise InferenceError("no standard errors: their record is damaged") from None


def csv_records(found: Sequence[Inferred]) -> list[dict[str, Any]]:
    """One object per model and coefficient, in both units, with the Wald test of its column."""
    lines = []
    for entry in found:
        first = entry.units or entry.scaled
        tests = first.tests()
        column_of = {name: column for column, own in first.factors.items() for name in own}
        for unit, sd in zip(first.records(), entry.scaled.records(), strict=True):
            own = {"model": entry.label} if entry.label else {}
            per_sd = {f"{key}_per_sd": sd[key] for key in ("robust", "coef", "se", "low", "high")}
            test = tests.get(column_of.get(unit["name"], ""))
            wald: dict[str, Any] = {"wald_chi2": None, "wald_degrees": None, "wald_p": None}
            if test is not None:
                wald = {"wald_chi2": test.statistic, "wald_degrees": test.degrees, "wald_p": test.p}
            lines.append({**own, **unit, **per_sd, **wald})
    return lines
