"""Constructors made of a list of parameters, for estimators that differ in little else."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any


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
