"""The parts of a problem as what JSON can hold, and back with every field checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any, TypeVar, cast

import numpy as np

from drfl._registry import listed, lookup
from drfl.differentiable import ROW_LOSSES, RowLoss, row_loss
from drfl.losses import LOSSES, Loss
from drfl.norms import NORMS
from drfl.supports import Box, Polyhedron, Support, WholeSpace
from drfl.uncertainty import Ball, Mixture

Json = dict[str, Any]
T = TypeVar("T")

# What describes a support: the names are those of its attributes and of its constructor.
SUPPORTS: dict[str, tuple[type[Support], tuple[str, ...]]] = {
    "whole_space": (WholeSpace, ()),
    "box": (Box, ("low", "high", "y_low", "y_high")),
    "polyhedron": (Polyhedron, ("C", "d")),
}


def to_json(value: Any) -> Any:
    """Turn what JSON lacks into what it has.

    Arrays and tuples become lists, dataclasses objects, and other numbers "inf", "-inf", "nan".
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if is_dataclass(value):
        value = {f.name: getattr(value, f.name) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(entry) for entry in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def from_json(value: Any) -> Any:
    """Undo `to_json`, except that lists stay lists."""
    if isinstance(value, dict):
        return {key: from_json(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [from_json(entry) for entry in value]
    return float(value) if value in ("inf", "-inf", "nan") else value


def loss_to_dict(loss: Loss | RowLoss) -> Json:
    """Name and parameters of a registered loss."""
    if isinstance(loss, RowLoss):
        return {"name": loss.name, **loss.to_dict()}
    if LOSSES.get(loss.name) is not type(loss):
        raise ValueError(f"the loss {loss.name!r} cannot be written down: add it to drfl's LOSSES")
    return {"name": loss.name, **to_json(asdict(loss))}  # type: ignore[call-overload]


def loss_from_dict(data: Any) -> Loss:
    """Read a loss."""
    name = _field("a loss", data, "name")
    if name in ROW_LOSSES:
        return cast(Loss, row_loss(name, {key: data[key] for key in data if key != "name"}))
    kind = lookup("loss", name, LOSSES)
    require_keys("a loss", data, ["name", *kind.__dataclass_fields__])  # type: ignore[attr-defined]
    return _built("a loss", kind, {key: data[key] for key in data if key != "name"})


def ball_to_dict(ball: Ball) -> Json:
    """Radius, norm by name, label cost, support by its arrays."""
    if NORMS.get(ball.norm.name) != ball.norm:
        raise ValueError(f"the norm {ball.norm.name!r} cannot be written down: add it to NORMS")
    return {
        "radius": ball.radius,
        "norm": ball.norm.name,
        "label_cost": to_json(ball.label_cost),
        "support": _support_to_dict(ball.support),
        **({} if ball.order == 1.0 else {"order": to_json(ball.order)}),
    }


def _support_to_dict(support: Support) -> Json:
    for name, (kind, parts) in SUPPORTS.items():
        if type(support) is kind:
            return {"name": name} | {part: to_json(getattr(support, part)) for part in parts}
    raise ValueError(f"the support {support.name!r} cannot be written down")


def ball_from_dict(data: Any) -> Ball:
    """Read a ball."""
    own = ["radius", "norm", "label_cost", "support"]
    if isinstance(data, dict) and "order" in data:
        own.append("order")
    require_keys("a ball", data, own)
    kind, fields = lookup("support", _field("a support", data["support"], "name"), SUPPORTS)
    require_keys("a support", data["support"], ["name", *fields])
    return _built(
        "a ball",
        Ball,
        {
            "radius": data["radius"],
            "norm": lookup("norm", data["norm"], NORMS),
            "label_cost": data["label_cost"],
            "support": _built("a support", kind, {f: data["support"][f] for f in fields}),
            "order": data.get("order", 1),
        },
    )


def balls_from_dict(data: Any) -> dict[str, Ball]:
    """Read balls by client name."""
    if not isinstance(data, dict):
        raise ValueError("the balls of a problem must be an object from client names to balls")
    return {name: ball_from_dict(ball) for name, ball in data.items()}


def mixture_to_dict(mixture: Mixture) -> Json:
    """Write a mixture; a largest weight only where there is one."""
    data: Json = to_json(asdict(mixture))
    if math.isinf(mixture.max_weight):
        del data["max_weight"]
    return data


def mixture_from_dict(data: Any) -> Mixture:
    """Read a mixture."""
    capped = ["max_weight"] if isinstance(data, dict) and "max_weight" in data else []
    require_keys("a mixture", data, ["center", "radius", "p", *capped])
    return _built("a mixture", Mixture, data)


def require_keys(what: str, data: Any, keys: Iterable[str]) -> None:
    """Refuse anything but an object with exactly these fields."""
    if not (isinstance(data, dict) and set(data) == set(keys)):
        raise ValueError(f"{what} must be an object with exactly the fields {listed(keys)}")


def _field(what: str, data: Any, key: str) -> Any:
    if not (isinstance(data, dict) and key in data):
        raise ValueError(f"{what} must be an object with the field {key!r}")
    return data[key]


def _built(what: str, kind: Callable[..., T], fields: Json) -> T:
    """Call the constructor; a field of the wrong type is the file's fault, not the program's."""
    for key, value in fields.items():
        if isinstance(value, bool):
            raise ValueError(f"the field {key!r} of {what} must not be true or false")
    try:
        return kind(**from_json(fields))
    except TypeError as error:
        raise ValueError(f"{what} has a field of the wrong type: {error}") from None
