"""One parameter of an estimator at a time: what it may be; constructors made of a list of them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from drfl._registry import listed, lookup
from drfl.checks import is_number, number, whole
from drfl.defaults import Purpose
from drfl.engines import ENGINES, Engine
from drfl.losses import LOSSES, Loss, Task, make_loss
from drfl.supports import Support
from drfl.uncertainty import Mixture

Radius = str | float | dict[Any, float] | tuple[float, ...]
"""Checked: "auto" or "confidence", one number, one by client name, or one per client in order."""


def loss_of(params: Mapping[str, Any], task: Task) -> Loss:
    """The loss for a task, from its name and the parameters it has."""
    loss, known = params["loss"], {n: kind for n, kind in LOSSES.items() if kind.task == task}
    if not isinstance(loss, Loss):
        lookup("loss", loss, known)
    elif loss.task != task:
        raise ValueError(f"{loss.name} is not a loss for {task}: known are {listed(known)}")
    given = {name: params.get(name) for name in ("epsilon", "quantile")}
    own = {name: number(name, value) for name, value in given.items() if value is not None}
    return make_loss(loss, **own)


def radius_of(radius: Any) -> Radius:
    """The radius: "auto", "confidence", a number, or one per client."""
    if isinstance(radius, str) and radius in ("auto", "confidence"):
        return radius
    if isinstance(radius, Mapping):
        return {name: _distance(f"the radius of {name!r}", radius[name]) for name in radius}
    if isinstance(radius, list | tuple) or (isinstance(radius, np.ndarray) and radius.ndim == 1):
        return tuple(_distance(f"entry {k} of radius", value) for k, value in enumerate(radius))
    if is_number(radius):
        return _distance("radius", radius)
    raise TypeError(
        f"radius must be 'auto', 'confidence', a number, or one number per client, got {radius!r}"
    )


def mixture_of(params: Mapping[str, Any], purpose: Purpose) -> Mixture:
    """The set of the clients' weights."""
    radius = purpose.mixture_radius
    if params["mixture_radius"] != "auto":
        radius = number("mixture_radius", params["mixture_radius"], least=0.0, infinite=True)
    p = number("mixture_norm", params["mixture_norm"], infinite=True)
    if p not in (1.0, 2.0, math.inf):
        raise ValueError(f"mixture_norm must be 1, 2 or math.inf, got {p!r}")
    most = number("max_weight", params.get("max_weight", math.inf), above=0.0, infinite=True)
    return Mixture(params["mixture_center"], radius, p, most)


def support_of(support: Any) -> Support | None:
    """A support or None."""
    if support is not None and not isinstance(support, Support):
        raise TypeError(f"support must be None, a Box or a Polyhedron, got {support!r}")
    return support


def engine_of(engine: Any) -> str | Engine | None:
    """An engine, its name or None."""
    if engine is None or isinstance(engine, Engine):
        return engine
    return lookup("engine", engine, {name: name for name in ENGINES})


def curvature_of(curvature: Any) -> str:
    """Whether clients are asked for second-order information."""
    if curvature not in ("auto", "never"):
        raise ValueError(f"curvature must be 'auto' or 'never', got {curvature!r}")
    return str(curvature)


def seed_of(random_state: Any) -> int:
    """A seed; None is 0, for nothing here depends on the global state of a generator."""
    if random_state is None or isinstance(random_state, Integral):
        check_random_state(random_state)
        return int(random_state or 0)
    return int(check_random_state(random_state).randint(2**31 - 1))


def verbose_of(verbose: Any) -> int:
    """How much is said; True and False are 1 and 0."""
    return whole("verbose", int(verbose) if isinstance(verbose, bool | np.bool_) else verbose)


def _distance(name: str, value: Any) -> float:
    return number(name, value, least=0.0)


def parameters_of(kind: type[Any]) -> dict[str, Any]:
    """The parameters of an estimator's constructor, with their defaults."""
    signature = inspect.signature(kind.__init__)
    return {name: p.default for name, p in signature.parameters.items() if name != "self"}


def constructor(parameters: Mapping[str, Any]) -> Callable[..., None]:
    """A constructor that stores its parameters; all but the loss are given by name."""
    kinds = inspect.Parameter
    signature = inspect.Signature(
        [
            kinds("self", kinds.POSITIONAL_OR_KEYWORD),
            *(
                kinds(
                    name,
                    kinds.POSITIONAL_OR_KEYWORD if name == "loss" else kinds.KEYWORD_ONLY,
                    default=default,
                )
                for name, default in parameters.items()
            ),
        ]
    )

    def __init__(*args: Any, **kwargs: Any) -> None:  # noqa: N807
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        self = given.arguments.pop("self")
        for name, value in given.arguments.items():
            setattr(self, name, value)

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__
