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
from drfl.problem import Json, Problem, from_json, to_json
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


def fields_of(what: str, data: Any, **readers: Callable[[str, Any], Any]) -> dict[str, Any]:
    """An object with exactly these fields, each as its reader wants it."""
    keys(what, data, list(readers))
    return {name: read(name, data[name]) for name, read in readers.items()}


def list_of(name: str, value: Any) -> list[Any]:
    """A list."""
    if not isinstance(value, list):
        raise ModelError(f"{name!r} must be a list")
    return value


def each(read: Callable[[str, Any], Any]) -> Callable[[str, Any], tuple[Any, ...]]:
    """A list whose entries are as a reader wants them."""
    return lambda name, value: tuple(read(name, entry) for entry in list_of(name, value))


def flag(name: str, value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ModelError(f"{name!r} must be true or false")
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


def one_of(*known: str) -> Callable[[str, Any], str]:
    """One of these texts."""

    def read(name: str, value: Any) -> str:
        if value not in known:
            raise ModelError(f"{name!r} must be one of {', '.join(known)}")
        return str(value)

    return read


def distinct(name: str, values: Sequence[str]) -> None:
    """Refuse a list with an entry twice."""
    if len(set(values)) < len(values):
        raise ModelError(f"{name!r} has an entry twice")


FORMAT, SCHEMA = "drfl-model", 1
FORM = ("target", "columns", "scale", "missing")
FIELDS = ("format", "schema", "drfl", *FORM, "coefficients", "problem", "certificate", "clients")


def to_plain(model: Model) -> Json:
    """Write a model down; what JSON lacks becomes "inf", "-inf" or "nan"."""
    return {
        "format": FORMAT,
        "schema": SCHEMA,
        "drfl": model.version,
        **encoding_to_plain(model),
        "coefficients": [
            {"coef": to_json(coef), "intercept": float(intercept)}
            for coef, intercept in zip(model.coef, model.intercept, strict=True)
        ],
        "problem": model.problem.to_dict(),
        "certificate": to_json(model.certificates),
        "clients": to_json(model.clients),
        **({"calibrations": to_json(model.calibrations)} if model.calibrations else {}),
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
        "columns": [
            {
                "name": c.name,
                "kind": "number" if isinstance(c, Number) else "category",
                **to_json(c),
            }
            for c in encoding.columns
        ],
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
        one_of(*SCALES)("scale", data["scale"]),
        one_of(*MISSING)("missing", data["missing"]),
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
    return Target(**fields_of("target", data, name=text, shift=finite, scale=positive))


def _column(k: int, data: Any) -> Column:
    what = f"columns[{k}]"
    kind = data.get("kind") if isinstance(data, dict) else None
    if kind == "number":
        data = {"indicator": False, **data}  # models of before gaps could be marked
        units = {"shift": finite, "scale": positive, "fill": _fill}
        found = fields_of(what, data, name=text, kind=text, **units, indicator=flag)
        del found["kind"]
        if found["indicator"] and found["fill"] is None:
            raise ModelError(f"'indicator' of {what} needs a 'fill'")
        return Number(**found)
    if kind != "category":
        raise ModelError(f"the kind of {what} must be 'number' or 'category'")
    data = {"shares": [], **data}  # models of before an unknown value had a meaning
    named = {"name": text, "kind": text, "reference": text, "levels": each(text)}
    found = fields_of(what, data, **named, other=flag, shares=each(finite))
    del found["kind"]
    levels, other, shares = found["levels"], found["other"], found["shares"]
    distinct("levels", [found["reference"], *levels])
    if not levels or other != (levels[-1] == OTHER):
        raise ModelError(f"'other' of {what} must say whether its last level is {OTHER!r}")
    if shares and (other or len(shares) != len(levels)):
        raise ModelError(f"'shares' of {what} must be one for each level, and none with 'other'")
    if min(shares, default=0.0) < 0.0 or sum(shares) > 1.0 + 1e-9:
        raise ModelError(f"'shares' of {what} must be at least 0, and at most 1 together")
    return Category(**found)


def _fill(name: str, value: Any) -> float | None:
    return None if value is None else finite(name, value)


def _linear(data: Any, expected: int, width: int) -> tuple[Any, Any]:
    models = list_of("coefficients", data)
    if len(models) != expected:
        raise ModelError(f"'coefficients' must have {expected} entries, got {len(models)}")
    if width == 0:
        raise ModelError("'columns' must name at least one column")
    form: Any = {"coef": each(finite), "intercept": finite}
    read = [fields_of(f"coefficients[{k}]", entry, **form) for k, entry in enumerate(models)]
    for entry in read:
        if len(entry["coef"]) != width:
            raise ModelError(f"'coef' must have {width} numbers, got {len(entry['coef'])}")
    return np.array([e["coef"] for e in read]), np.array([e["intercept"] for e in read])


def _calibrations(data: Any, models: int) -> dict[str, Calibration]:
    if not isinstance(data, dict):
        raise ModelError("'calibrations' must be an object")
    found = {}
    for name, entry in data.items():
        form: Any = {
            "kind": one_of(*CALIBRATIONS),
            "slope": each(finite),
            "intercept": each(finite),
        }
        made = Calibration(**fields_of("a calibration", entry, **form))
        if not len(made.slope) == len(made.intercept) == models:
            raise ModelError("a calibration must have a slope and an intercept for each model")
        found[text("client", name)] = made
    return found


def _certificate(data: Any) -> ProofRecord:
    proved = {"objective": number, "lower_bound": number, "gap": number}
    return ProofRecord(**fields_of("certificate", data, **proved, status=_status, rounds=whole))


def _status(name: str, data: Any) -> Status:
    return Status(**fields_of(name, data, kind=one_of(*StatusKind), message=text))


def _client(data: Any, models: int) -> ClientPart:
    told = {"weights": each(number), "losses": each(number)}
    part = ClientPart(**fields_of("a client", data, name=text, rows=whole, **told))
    if not len(part.weights) == len(part.losses) == models:
        raise ModelError("'weights' and 'losses' of a client must have a number for each model")
    return part
