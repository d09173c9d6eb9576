"""A model as what JSON can hold, and back with every field checked.

One field of a model file at a time: what it may be, and the sentence if it is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from drfl import checks
from drfl.models.document import (
    CALIBRATIONS,
    Calibration,
    ClientPart,
    Model,
    ModelError,
    ProofRecord,
)
from drfl.one_vs_rest import positives
from drfl.problem import Problem, from_json, to_json
from drfl.solvers.base import Status, StatusKind
from drfl.tables import OTHER, Category, Column, Number
from drfl.tables.encoding import MISSING, SCALES, Encoding, Target


def keys(what: str, data: Any, keys: Sequence[str]) -> None:
    """Refuse anything but an object with exactly these fields."""
    if not isinstance(data, dict):
        raise ModelError(f"{what} must be an object")
    for key in keys:
        if key not in data:
            raise ModelError(f"{what} lacks the field {key!r}")
    for key in data:
        if key not in keys:
            raise ModelError(f"{what} has an unknown field {key[:40]!r}")


def list_of(name: str, value: Any) -> list[Any]:
    """A list."""
    if not isinstance(value, list):
        raise ModelError(f"{name!r} must be a list")
    return value


def text(name: str, value: Any) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ModelError(f"{name!r} must be a text that is not empty")
    return value


def number(name: str, value: Any) -> float:
    """A number, also one that JSON lacks."""
    value = from_json(value) if isinstance(value, str) else value
    if isinstance(value, float) and math.isnan(value):
        return value
    return float(_checked(checks.number, name, value, infinite=True))


def finite(name: str, value: Any, **bounds: float) -> float:
    """A finite number."""
    value = from_json(value) if isinstance(value, str) else value
    return float(_checked(checks.number, name, value, **bounds))


def positive(name: str, value: Any) -> float:
    """A finite number > 0."""
    return finite(name, value, above=0.0)


def whole(name: str, value: Any) -> int:
    """A whole number >= 0."""
    return int(_checked(checks.whole, name, value, least=0))


def _checked(check: Callable[..., Any], name: str, value: Any, **bounds: Any) -> Any:
    """What a check lets pass; what it is instead is not repeated: it may be anything."""
    try:
        return check(repr(name), value, **bounds)
    except (TypeError, ValueError) as error:
        raise ModelError(str(error).partition(", got ")[0]) from None


def one_of(name: str, value: Any, known: Sequence[str]) -> str:
    """One of these texts."""
    if value not in known:
        raise ModelError(f"{name!r} must be one of {', '.join(known)}")
    return str(value)


def distinct(name: str, values: Sequence[str]) -> None:
    """Refuse a list with an entry twice."""
    if len(set(values)) < len(values):
        raise ModelError(f"{name!r} has an entry twice")


Json = dict[str, Any]

FORMAT, SCHEMA = "drfl-model", 1
FORM = ("target", "columns", "scale", "missing")
FIELDS = (
    "format",
    "schema",
    "drfl",
    *FORM,
    "coefficients",
    "problem",
    "certificate",
    "clients",
)


def to_plain(model: Model) -> Json:
    """Write a model down; what JSON lacks becomes "inf", "-inf" or "nan"."""
    return {
        "format": FORMAT,
        "schema": SCHEMA,
        "drfl": model.version,
        **encoding_to_plain(model.encoding),
        "coefficients": [
            {"coef": to_json(coef), "intercept": float(intercept)}
            for coef, intercept in zip(model.coef, model.intercept, strict=True)
        ],
        "problem": model.problem.to_dict(),
        "certificate": [
            {
                "objective": to_json(c.objective),
                "lower_bound": to_json(c.lower_bound),
                "gap": to_json(c.gap),
                "status": {"kind": str(c.status.kind), "message": c.status.message},
                "rounds": c.rounds,
            }
            for c in model.certificates
        ],
        "clients": [
            {
                "name": part.name,
                "rows": part.rows,
                "weights": to_json(part.weights),
                "losses": to_json(part.losses),
            }
            for part in model.clients
        ],
        **({"calibrations": _calibrations_to_plain(model)} if model.calibrations else {}),
    }


def _calibrations_to_plain(model: Model) -> Json:
    return {
        name: {"kind": c.kind, "slope": list(c.slope), "intercept": list(c.intercept)}
        for name, c in model.calibrations.items()
    }


def from_plain(data: Any) -> Model:
    """Read what `to_plain` wrote; anything else is a ModelError."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ModelError("it is not a model file of drfl")
    if data.get("schema") != SCHEMA:
        raise ModelError(
            f"its schema is {data.get('schema')!r:.20}, but this drfl reads {SCHEMA}: use the "
            "version of drfl that wrote it"
        )
    calibrated = ("calibrations",) if "calibrations" in data else ()
    keys("the model", data, (*FIELDS, *calibrated))
    encoding = encoding_from_plain({name: data[name] for name in FORM})
    target, columns = encoding.target, encoding.columns
    try:
        problem = Problem.from_dict(data["problem"])
        width = problem.coefficients(sum(len(column.features) for column in columns))
        width //= problem.classes or 1
    except (ValueError, TypeError, ImportError) as error:
        raise ModelError(f"its problem is wrong: {error}") from None
    expected = 1 if target.classes is None else len(positives(len(target.classes)))
    expected = problem.classes or expected
    if problem.network is not None:
        width, expected = problem.network.dimension, 1
        if calibrated:
            raise ModelError("'calibrations' are for linear models, and this is a network")
    coef, intercept = _linear(data["coefficients"], expected, width)
    if problem.loss.task != target.task:
        raise ModelError(f"its loss {problem.loss.name!r} does not fit its target")
    certificates = [_certificate(c) for c in list_of("certificate", data["certificate"])]
    if problem.classes is not None and problem.classes != len(target.classes or ()):
        raise ModelError(f"its problem has {problem.classes} classes, but its target has others")
    problems = 1 if problem.classes is not None else len(coef)
    clients = [_client(c, problems) for c in list_of("clients", data["clients"])]
    distinct("clients", [client.name for client in clients])
    if len(certificates) != problems:
        each = "each of 'coefficients'" if problems > 1 else "the problem"
        raise ModelError(f"'certificate' must have an entry for {each}")
    return Model(
        target=target,
        columns=columns,
        scale=encoding.scale,
        missing=encoding.missing,
        coef=coef,
        intercept=intercept,
        problem=problem,
        certificates=tuple(certificates),
        clients=tuple(clients),
        calibrations=_calibrations(data.get("calibrations", {}), len(coef)),
        version=text("drfl", data["drfl"]),
    )


def encoding_to_plain(encoding: Encoding) -> Json:
    """Write down how files become rows."""
    return {
        "target": _target_to_plain(encoding.target),
        "columns": [_column_to_plain(column) for column in encoding.columns],
        "scale": encoding.scale,
        "missing": encoding.missing,
    }


def encoding_from_plain(data: Any) -> Encoding:
    """Read what `encoding_to_plain` wrote; anything else is a ModelError."""
    keys("the encoding", data, FORM)
    columns = tuple(
        _column(k, entry) for k, entry in enumerate(list_of("columns", data["columns"]))
    )
    distinct("columns", [column.name for column in columns])
    return Encoding(
        _target(data["target"]),
        columns,
        one_of("scale", data["scale"], SCALES),
        one_of("missing", data["missing"], MISSING),
    )


def _target_to_plain(target: Target) -> Json:
    if target.classes is None:
        return {"name": target.name, "shift": target.shift, "scale": target.scale}
    return {"name": target.name, "classes": list(target.classes)}


def _target(data: Any) -> Target:
    if isinstance(data, dict) and "classes" in data:
        keys("target", data, ("name", "classes"))
        classes = list_of("classes", data["classes"])
        if len(classes) < 2 or not all(isinstance(c, str | int | float) for c in classes):
            raise ModelError("'classes' must be a list of at least two labels")
        if any(isinstance(c, float) and not math.isfinite(c) for c in classes):
            raise ModelError("'classes' must hold finite numbers or text")
        if len({type(c) is str for c in classes}) > 1 or len(set(classes)) < len(classes):
            raise ModelError("'classes' must be different, and all text or all numbers")
        return Target(text("name", data["name"]), tuple(classes))
    keys("target", data, ("name", "shift", "scale"))
    scale = positive("scale", data["scale"])
    return Target(text("name", data["name"]), None, finite("shift", data["shift"]), scale)


def _column_to_plain(column: Column) -> Json:
    if isinstance(column, Number):
        numbers = {"shift": column.shift, "scale": column.scale, "fill": column.fill}
        return {"name": column.name, "kind": "number", **numbers, "indicator": column.indicator}
    levels = {"reference": column.reference, "levels": list(column.levels), "other": column.other}
    shares = {"shares": list(column.shares)}
    return {"name": column.name, "kind": "category", **levels, **shares}


def _column(k: int, data: Any) -> Column:
    what = f"columns[{k}]"
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind == "number":
        data = {"indicator": False, **data}  # models of before gaps could be marked
        keys(what, data, ("name", "kind", "shift", "scale", "fill", "indicator"))
        fill = None if data["fill"] is None else finite("fill", data["fill"])
        shift, scale = finite("shift", data["shift"]), positive("scale", data["scale"])
        if not isinstance(data["indicator"], bool) or (data["indicator"] and fill is None):
            raise ModelError(f"'indicator' of {what} must be true or false, and needs a 'fill'")
        return Number(text("name", data["name"]), shift, scale, fill, data["indicator"])
    if kind != "category":
        raise ModelError(f"the kind of {what} must be 'number' or 'category'")
    data = {"shares": [], **data}  # models of before an unknown value had a meaning
    keys(what, data, ("name", "kind", "reference", "levels", "other", "shares"))
    levels = [text("a level", level) for level in list_of("levels", data["levels"])]
    reference, other = text("reference", data["reference"]), data["other"]
    distinct("levels", [reference, *levels])
    if not isinstance(other, bool) or not levels or other != (levels[-1] == OTHER):
        raise ModelError(f"'other' of {what} must say whether its last level is {OTHER!r}")
    shares = tuple(finite("shares", share) for share in list_of("shares", data["shares"]))
    if shares and (other or len(shares) != len(levels)):
        raise ModelError(f"'shares' of {what} must be one for each level, and none with 'other'")
    if min(shares, default=0.0) < 0.0 or sum(shares) > 1.0 + 1e-9:
        raise ModelError(f"'shares' of {what} must be at least 0, and at most 1 together")
    return Category(text("name", data["name"]), reference, tuple(levels), other, shares)


def _linear(data: Any, expected: int, width: int) -> tuple[Any, Any]:
    models = list_of("coefficients", data)
    if len(models) != expected:
        raise ModelError(f"'coefficients' must have {expected} entries, got {len(models)}")
    if width == 0:
        raise ModelError("'columns' must name at least one column")
    coef = []
    for k, entry in enumerate(models):
        keys(f"coefficients[{k}]", entry, ("coef", "intercept"))
        row = [finite("coef", value) for value in list_of("coef", entry["coef"])]
        if len(row) != width:
            raise ModelError(f"'coef' must have {width} numbers, got {len(row)}")
        coef.append(row)
    return np.array(coef), np.array([finite("intercept", entry["intercept"]) for entry in models])


def _calibrations(data: Any, models: int) -> dict[str, Calibration]:
    if not isinstance(data, dict):
        raise ModelError("'calibrations' must be an object")
    found = {}
    for name, entry in data.items():
        keys("a calibration", entry, ("kind", "slope", "intercept"))
        slope, intercept = (
            tuple(finite(key, value) for value in list_of(key, entry[key]))
            for key in ("slope", "intercept")
        )
        if not len(slope) == len(intercept) == models:
            raise ModelError("a calibration must have a slope and an intercept for each model")
        kind = one_of("kind", entry["kind"], CALIBRATIONS)
        found[text("client", name)] = Calibration(kind, slope, intercept)
    return found


def _certificate(data: Any) -> ProofRecord:
    keys("certificate", data, ("objective", "lower_bound", "gap", "status", "rounds"))
    keys("status", data["status"], ("kind", "message"))
    kind = one_of("kind", data["status"]["kind"], [str(k) for k in StatusKind])
    status = Status(StatusKind(kind), text("message", data["status"]["message"]))
    names = ("objective", "lower_bound", "gap")
    objective, lower_bound, gap = (number(name, data[name]) for name in names)
    return ProofRecord(objective, lower_bound, gap, status, whole("rounds", data["rounds"]))


def _client(data: Any, models: int) -> ClientPart:
    keys("a client", data, ("name", "rows", "weights", "losses"))
    rows = whole("rows", data["rows"])
    weights, losses = (
        tuple(number(name, value) for value in list_of(name, data[name]))
        for name in ("weights", "losses")
    )
    if not len(weights) == len(losses) == models:
        raise ModelError("'weights' and 'losses' of a client must have a number for each model")
    return ClientPart(text("name", data["name"]), rows, weights, losses)
